"""Steps that run once for each of many items, on every store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mainspring.core.model import Target
from mainspring.core.states import RunState
from mainspring.core.workflows.maps import StepMap
from mainspring.core.workflows.state import StepStatus
from mainspring.testing.clock import FakeClock
from mainspring.testing.factories import add_job, make_spec
from mainspring.testing.manual import TENANT, ManualRuntime
from tests.support.workflows import ONCE, STORES, Deeds, Flows, job_step, make_store, step, workflow_of

SUCCEEDED, FAILED, CANCELLED = RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED


@pytest.fixture(params=STORES)
async def flows(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Flows]:
    clock, deeds = FakeClock(), Deeds()
    store = make_store(request, tmp_path, clock)
    async with ManualRuntime(deeds.registry(), store=store, clock=clock) as runtime:
        yield await Flows.begin(runtime, deeds)


def over(*names: str, max_parallel: int | None = None, tolerate: float = 0) -> StepMap:
    """Return a map whose items say what the function does."""
    items = tuple(f'{{"step": "{name}"}}'.encode() for name in names)
    return StepMap(over=items, max_parallel=max_parallel, tolerate=tolerate)


def names(count: int) -> list[str]:
    return [f"item_{place}" for place in range(count)]


async def counters(flows: Flows, run_id: int, place: int = 0) -> tuple[int, ...]:
    page = await flows.runtime.client.workflows.steps(TENANT, run_id, after=None, limit=10)  # type: ignore[arg-type]
    items = next(one.items for one in page.steps if one.place == place)
    assert items is not None
    return items.count, items.started, items.succeeded, items.failed, items.skipped


async def test_a_step_runs_for_each_item(flows: Flows) -> None:
    run_id = await flows.start(
        step("begin"), step("clean", "begin", map=over(*names(30)), payload=None), step("last", "clean")
    )
    await flows.work()
    assert flows.deeds.order[0] == "begin"
    assert sorted(flows.deeds.order[1:-1]) == sorted(names(30))
    assert flows.deeds.order[-1] == "last"
    runs = [run for run in await flows.runs(run_id) if run.place is not None and run.place.step == 1]
    assert [run.place.item for run in runs if run.place is not None] == list(range(30))
    assert await counters(flows, run_id, 1) == (30, 30, 30, 0, 0)
    assert await flows.state(run_id) is SUCCEEDED
    await flows.check(run_id)


@pytest.mark.parametrize("most", [1, None])
async def test_a_payload_that_is_too_large_with_its_item_fails_the_step(
    flows: Flows, most: int | None
) -> None:
    half = "x" * 40_000
    items = (b'{"step": "item_0"}', f'{{"note": "{half}"}}'.encode())
    own = f'{{"step": "clean", "text": "{half}"}}'.encode()
    run_id = await flows.start(step("clean", map=StepMap(over=items, max_parallel=most), payload=own))
    await flows.work()
    page = await flows.runtime.client.workflows.steps(TENANT, run_id, after=None, limit=10)
    [report] = page.steps
    assert (report.status, report.reason) == (StepStatus.FAILED, "it cannot start")
    assert report.error is not None
    assert report.error.startswith("its payload has 80")
    assert report.error.endswith("bytes; at most 65536 fit")
    assert await flows.state(run_id) is FAILED
    assert all(len(run.payload or b"") <= 65_536 for run in await flows.runs(run_id))


async def test_at_most_max_parallel_are_live_at_once(flows: Flows) -> None:
    run_id = await flows.start(step("clean", map=over(*names(20), max_parallel=3)))
    await flows.turn()
    most = 0
    while True:
        live = [run for run in await flows.runs(run_id) if run.state in {RunState.PENDING, RunState.RUNNING}]
        most = max(most, len(live))
        if not await flows.worker.work():
            break
        await flows.turn()
    assert most == 3
    assert await counters(flows, run_id) == (20, 20, 20, 0, 0)
    assert await flows.state(run_id) is SUCCEEDED
    await flows.check(run_id)


async def test_no_item_is_a_success(flows: Flows) -> None:
    first = await flows.start(step("clean", map=over()))
    second = await flows.start(step("begin"), step("clean", "begin", map=over()), step("last", "clean"))
    await flows.work()
    assert [await flows.state(first), await flows.state(second)] == [SUCCEEDED, SUCCEEDED]
    assert flows.deeds.order == ["begin", "last"]
    assert await counters(flows, first) == (0, 0, 0, 0, 0)


async def test_more_failures_than_are_tolerated_fail_the_step(flows: Flows) -> None:
    flows.deeds.failures = {"item_1": 1, "item_2": 1}
    run_id = await flows.start(
        step("clean", map=over(*names(9), max_parallel=1, tolerate=1)), step("last", "clean")
    )
    await flows.work()
    assert flows.deeds.order == ["item_0", "item_1", "item_2"], "no further items start"
    assert await flows.steps(run_id) == [StepStatus.FAILED, StepStatus.UPSTREAM_FAILED]
    page = await flows.runtime.client.workflows.steps(TENANT, run_id, after=None, limit=10)
    assert page.steps[0].reason == "2 of 9 items failed"
    assert await flows.state(run_id) is FAILED
    await flows.check(run_id)


@pytest.mark.parametrize(
    ("tolerate", "state"), [(2, SUCCEEDED), (0.2, SUCCEEDED), (0.19, FAILED), (1.0, SUCCEEDED)]
)
async def test_as_many_as_are_tolerated_do_not(flows: Flows, tolerate: float, state: RunState) -> None:
    flows.deeds.failures = {"item_1": 1, "item_2": 1}
    run_id = await flows.start(step("clean", map=over(*names(10), tolerate=tolerate)))
    await flows.work()
    assert await flows.state(run_id) is state
    assert await counters(flows, run_id) == (10, 10, 8, 2, 0)


async def test_a_cancel_stops_the_items(flows: Flows) -> None:
    run_id = await flows.start(step("clean", map=over(*names(10), max_parallel=4)), step("last", "clean"))
    await flows.turn()
    await flows.runtime.client.runs.cancel(TENANT, run_id)
    await flows.work()
    assert [run.state for run in await flows.runs(run_id)] == [CANCELLED] * 4
    assert await flows.steps(run_id) == [StepStatus.CANCELLED, StepStatus.UPSTREAM_FAILED]
    assert await flows.state(run_id) is CANCELLED
    await flows.check(run_id)


async def test_items_go_over_the_payload_of_a_job(flows: Flows) -> None:
    target = Target("function", {"function": "act"})
    spec = make_spec(name="clean", target=target, payload=b'{"mode": "fast", "kept": 1}', retry=ONCE)
    await add_job(flows.runtime.store, spec=spec)
    await flows.start(job_step("all", "clean", payload=b'{"mode": "slow"}', map=over("a", "b")))
    await flows.work()
    assert sorted(flows.deeds.calls) == [
        ("a", {"mode": "slow", "kept": 1}),
        ("b", {"mode": "slow", "kept": 1}),
    ]


async def test_a_workflow_runs_for_each_item(flows: Flows) -> None:
    inner = await add_job(flows.runtime.store, spec=workflow_of(step("own", payload=None), name="inner"))
    run_id = await flows.start(job_step("all", "inner", map=over("a", "b", "c", max_parallel=2)))
    await flows.work()
    assert sorted(flows.deeds.order) == ["a", "b", "c"]
    assert {run.job_id for run in await flows.runs(run_id)} == {inner.id}
    assert await flows.state(run_id) is SUCCEEDED
    await flows.check(run_id)


async def test_a_job_that_goes_away_fails_the_map(flows: Flows) -> None:
    spec = make_spec(name="clean", target=Target("function", {"function": "act"}), retry=ONCE)
    job = await add_job(flows.runtime.store, spec=spec)
    run_id = await flows.start(job_step("all", "clean", map=over(*names(5), max_parallel=2)))
    await flows.turn()
    await flows.runtime.client.jobs.delete(TENANT, job.id)
    await flows.work()
    assert await flows.steps(run_id) == [StepStatus.FAILED]
    await flows.check(run_id)


async def test_mail_that_comes_again_counts_once(flows: Flows) -> None:
    run_id = await flows.start(step("clean", map=over(*names(6), max_parallel=2)))
    await flows.turn()
    await flows.worker.work()
    await flows.turn()
    before = await counters(flows, run_id)
    await flows.runtime.store.reconcile_flows(range(256), now=flows.runtime.clock.now(), limit=10)
    await flows.turn()
    assert await counters(flows, run_id) == before
    await flows.work()
    assert await counters(flows, run_id) == (6, 6, 6, 0, 0)
    await flows.check(run_id)


async def test_many_items_start_in_bounded_turns(flows: Flows) -> None:
    run_id = await flows.start(step("clean", map=over(*names(1200))))
    await flows.runtime.tick("flow_starts")
    assert len(await flows.runs(run_id)) == 500
    await flows.work()
    assert await counters(flows, run_id) == (1200, 1200, 1200, 0, 0)
    assert await flows.state(run_id) is SUCCEEDED
