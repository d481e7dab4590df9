"""A workflow that failed goes on where it failed, on the whole engine and every store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mainspring.core.dead_letters import DeadFilter
from mainspring.core.definition.workflows import plain_from_workflow
from mainspring.core.ids import JobId, RunId, format_run_id
from mainspring.core.model import RunKind, Target
from mainspring.core.states import RunState
from mainspring.core.workflows.maps import StepMap
from mainspring.core.workflows.model import Workflow, WorkflowStep
from mainspring.core.workflows.state import StepStatus
from mainspring.errors import Conflict, InvalidInput
from mainspring.testing.clock import FakeClock
from mainspring.testing.factories import add_job, make_spec
from mainspring.testing.manual import TENANT, ManualRuntime
from tests.support.workflows import STORES, TWICE, Deeds, Flows, job_step, make_store, step

SUCCEEDED, FAILED, CANCELLED = RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED


@pytest.fixture(params=STORES)
async def flows(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Flows]:
    clock, deeds = FakeClock(), Deeds()
    store = make_store(request, tmp_path, clock)
    async with ManualRuntime(deeds.registry(), store=store, clock=clock) as runtime:
        yield await Flows.begin(runtime, deeds)


async def redrive(flows: Flows, run_id: RunId, **fields: Any) -> RunId:
    """Run a run again, and return the new one once it has ended. What was called before is forgotten."""
    flows.deeds.calls.clear()
    result = await flows.runtime.client.redriving.redrive(TENANT, run_id, **fields)
    assert result.run_id is not None
    await flows.work()
    return result.run_id


async def reasons(flows: Flows, run_id: RunId) -> dict[str, str | None]:
    page = await flows.runtime.client.workflows.steps(TENANT, run_id, after=None, limit=100)
    return {page.plan.workflow.steps[one.place].name: one.reason for one in page.steps}


async def change(flows: Flows, job_id: JobId, *steps: WorkflowStep) -> None:
    """Give a workflow other steps."""
    whole = {"workflow": plain_from_workflow(Workflow(steps))}
    await flows.runtime.client.jobs.edit(TENANT, job_id, whole)


CHAIN = (step("a"), step("b", "a"), step("c", "b"), step("d", "a"))


async def test_the_failed_step_and_what_follows_run_again(flows: Flows) -> None:
    flows.deeds.failures = {"b": 1}
    first = await flows.start(*CHAIN)
    await flows.work()
    assert await flows.state(first) is FAILED
    second = await redrive(flows, first)
    assert flows.deeds.order == ["b", "c"]
    run = await flows.run(second)
    assert (run.state, run.kind, run.redrive_of) == (SUCCEEDED, RunKind.REDRIVE, first)
    taken = f"taken over from {format_run_id(first)}"
    assert await reasons(flows, second) == {"a": taken, "b": None, "c": None, "d": taken}
    assert [one.idempotency_key for one in await flows.runs(second)] == [
        f"{format_run_id(first)}.b",
        f"{format_run_id(first)}.c",
    ]
    await flows.check(second)
    assert await flows.runtime.store.read_flow_seeds([second]) == [None]


async def test_a_redrive_of_a_redrive_goes_on_from_both(flows: Flows) -> None:
    flows.deeds.failures = {"b": 1, "c": 1}
    first = await flows.start(*CHAIN)
    await flows.work()
    second = await redrive(flows, first)
    assert (flows.deeds.order, await flows.state(second)) == (["b", "c"], FAILED)
    third = await redrive(flows, second)
    assert (flows.deeds.order, await flows.state(third)) == (["c"], SUCCEEDED)
    one, two = (f"taken over from {format_run_id(run)}" for run in (first, second))
    assert await reasons(flows, third) == {"a": one, "b": two, "c": None, "d": one}
    assert (await flows.runs(third))[0].idempotency_key == f"{format_run_id(first)}.c"
    await flows.check(third)


async def test_steps_that_are_named_run_again_or_all_do(flows: Flows) -> None:
    flows.deeds.failures = {"c": 9}
    runs = [await flows.start(*CHAIN, name=f"flow-{number}") for number in range(4)]
    await flows.work()
    flows.deeds.failures = {}
    await redrive(flows, runs[0], begin=("b",))
    assert flows.deeds.order == ["b", "c"]
    await redrive(flows, runs[1], begin="start")
    assert sorted(flows.deeds.order) == ["a", "b", "c", "d"]
    await redrive(flows, runs[2], payload=b"{}")
    assert sorted(flows.deeds.order) == ["a", "b", "c", "d"], "with another payload it is other work"
    with pytest.raises(InvalidInput, match=r"from\[1\]: there is no step 'bb'; did you mean 'b'"):
        await redrive(flows, runs[3], begin=("a", "bb"))
    with pytest.raises(InvalidInput, match="from: goes with 'start' only when a payload is given"):
        await redrive(flows, runs[3], begin=("a",), payload=b"{}")
    again = await redrive(flows, runs[3])
    assert flows.deeds.order == ["c"]
    same = await flows.runtime.client.redriving.redrive(TENANT, runs[3], begin="failed")
    assert same.run_id == again
    with pytest.raises(Conflict, match="from elsewhere; redrive that run"):
        await flows.runtime.client.redriving.redrive(TENANT, runs[3], begin="start")


async def test_only_workflows_have_steps_to_begin_with(flows: Flows) -> None:
    flows.deeds.failures = {"plain": 1}
    target = Target("function", {"function": "act"})
    fields = step("plain")
    spec = make_spec(target=target, payload=fields.payload, retry=fields.retry, name="plain")
    job = await add_job(flows.runtime.store, spec)
    run_id = await flows.submit(job.id)
    await flows.work()
    with pytest.raises(InvalidInput, match="from: is for workflows"):
        await redrive(flows, run_id, begin="failed")
    again = await redrive(flows, run_id)
    assert await flows.state(again) is SUCCEEDED


async def test_the_dead_run_of_a_step_names_its_workflow(flows: Flows) -> None:
    flows.deeds.failures = {"b": 1}
    first = await flows.start(*CHAIN)
    await flows.work()
    [dead] = [run for run in await flows.runs(first) if run.state is FAILED]
    with pytest.raises(Conflict, match=f"is of a step of {format_run_id(first)}; redrive that run"):
        await flows.runtime.client.redriving.redrive(TENANT, dead.id)


async def test_many_dead_letters_of_workflows_go_on_where_they_failed(flows: Flows) -> None:
    flows.deeds.failures = {"b": 2}
    job_id = await flows.add(*CHAIN)
    runs = [await flows.submit(job_id) for _ in range(2)]
    await flows.work()
    letters = await flows.runtime.store.list_dead(TENANT, DeadFilter(), limit=10)
    assert {letter.run.id for letter in letters} == set(runs), "those of steps are no letters of their own"
    flows.deeds.calls.clear()
    await flows.runtime.client.redriving.redrive_many(TENANT, runs, is_newest=False)
    await flows.work()
    assert sorted(flows.deeds.order) == ["b", "b", "c", "c"]


async def test_items_that_succeeded_are_taken_over(flows: Flows) -> None:
    items = tuple(f'{{"step": "item_{number}"}}'.encode() for number in range(8))
    flows.deeds.failures = {"item_2": 1, "item_5": 1}
    whole = (
        step("begin"),
        step("clean", "begin", map=StepMap(over=items, max_parallel=2), payload=None),
        step("last", "clean"),
    )
    first = await flows.start(*whole)
    await flows.work()
    calls = list(flows.deeds.order)
    second = await redrive(flows, first)
    calls += flows.deeds.order
    third = await redrive(flows, second)
    calls += flows.deeds.order
    assert [await flows.state(run) for run in (first, second, third)] == [FAILED, FAILED, SUCCEEDED]
    assert len(flows.deeds.order) < 9
    twice = {"item_2", "item_5"}
    assert {one: calls.count(one) for one in set(calls)} == {
        one: 2 if one in twice else 1 for one in ["begin", "last", *(f"item_{number}" for number in range(8))]
    }
    page = await flows.runtime.client.workflows.steps(TENANT, third, after=None, limit=10)
    counts = page.steps[1].items
    assert counts is not None
    assert (counts.count, counts.succeeded, counts.failed) == (8, 8, 0)
    await flows.check(third)


async def test_a_second_redrive_with_more_items_runs_only_these(flows: Flows) -> None:
    items = tuple(f'{{"step": "item_{number}"}}'.encode() for number in range(3))

    def steps(count: int) -> tuple[WorkflowStep, ...]:
        return step("each", map=StepMap(over=items[:count]), payload=None), step("last", "each")

    flows.deeds.failures = {"last": 2}
    job_id = await flows.add(*steps(2))
    first = await flows.submit(job_id)
    await flows.work()
    second = await redrive(flows, first)
    assert flows.deeds.order == ["last"]
    await change(flows, job_id, *steps(3))
    third = await redrive(flows, second)
    assert flows.deeds.order == ["item_2", "last"]
    assert await flows.state(third) is SUCCEEDED
    await flows.check(third)


async def test_a_cancelled_workflow_goes_on(flows: Flows) -> None:
    first = await flows.start(*CHAIN)
    await flows.turn()
    await flows.worker.work()
    await flows.runtime.client.runs.cancel(TENANT, first)
    await flows.work()
    assert await flows.state(first) is CANCELLED
    second = await redrive(flows, first)
    assert sorted(flows.deeds.order) == ["b", "c", "d"]
    assert await flows.state(second) is SUCCEEDED


async def test_a_workflow_that_never_began_begins(flows: Flows) -> None:
    first = await flows.start(*CHAIN)
    await flows.runtime.client.runs.cancel(TENANT, first)
    second = await redrive(flows, first)
    assert sorted(flows.deeds.order) == ["a", "b", "c", "d"]
    assert await flows.state(second) is SUCCEEDED


async def test_the_newest_definition_takes_over_what_it_has(flows: Flows) -> None:
    flows.deeds.failures = {"b": 1}
    job_id = await flows.add(*CHAIN)
    first = await flows.submit(job_id)
    await flows.work()
    await change(flows, job_id, step("new", "a"), step("a"), step("b", "a", retry=TWICE), step("d", "new"))
    second = await redrive(flows, first)
    assert sorted(flows.deeds.order) == ["b", "d", "new"]
    assert await flows.steps(second) == [StepStatus.SUCCEEDED] * 4


async def test_results_are_passed_on_from_the_run_before(flows: Flows) -> None:
    def uses(name: str, after: str) -> WorkflowStep:
        given = f'{{"step": "{name}", "got": {{"cel": "steps.{after}.result"}}}}'
        return step(name, after, given=given.encode(), payload=None)

    flows.deeds.failures = {"b": 1}
    first = await flows.start(step("a"), uses("b", "a"), step("c", "b"), uses("e", "a c"[:1]))
    await flows.work()
    second = await redrive(flows, first)
    assert ("b", {"got": "a done by 1"}) in flows.deeds.calls
    assert await flows.state(second) is SUCCEEDED


async def test_a_result_that_is_gone_is_told(flows: Flows) -> None:
    given = b'{"step": "b", "got": {"cel": "steps.a.result"}}'
    flows.deeds.failures = {"b": 1}
    first = await flows.start(step("a"), step("b", "a", given=given, payload=None))
    await flows.work()
    store = flows.runtime.store
    read, gone = store.read_step_ends, [None]

    async def forget(places: Any) -> Any:
        return gone * len(places)

    store.read_step_ends = forget  # type: ignore[method-assign]  # as if the history had been dropped
    with pytest.raises(Conflict, match=r"what step a has returned in run_\w+ is not kept any more; run all"):
        await redrive(flows, first)
    store.read_step_ends = read  # type: ignore[method-assign]
    result = await flows.runtime.client.redriving.redrive(TENANT, first)
    assert result.run_id is not None
    store.read_step_ends = forget  # type: ignore[method-assign]
    await flows.work()
    run = await flows.run(result.run_id)
    assert (run.state, run.error) == (
        FAILED,
        f"what step a has returned in {format_run_id(first)} is not kept any more",
    )
    with pytest.raises(Conflict, match="is not kept any more; run all of it again, from 'start'"):
        await redrive(flows, result.run_id)
    store.read_step_ends = read  # type: ignore[method-assign]
    third = await redrive(flows, result.run_id)
    assert (flows.deeds.order, await flows.state(third)) == (["b"], SUCCEEDED)


async def test_another_payload_takes_nothing_over(flows: Flows) -> None:
    given = b'{"step": "b", "got": {"cel": "steps.a.result"}}'
    flows.deeds.failures = {"b": 1}
    first = await flows.start(step("a"), step("b", "a", given=given, payload=None))
    await flows.work()
    store, redriving = flows.runtime.store, flows.runtime.client.redriving

    async def forget(places: Any) -> Any:
        return [None] * len(places)

    read, store.read_step_ends = store.read_step_ends, forget  # type: ignore[method-assign]
    result = await redriving.redrive(TENANT, first, payload=b"{}")  # needs nothing of the old results
    store.read_step_ends = read  # type: ignore[method-assign]
    assert result.run_id is not None
    assert await store.read_flow_seeds([result.run_id]) == [None]
    same = await redriving.redrive(TENANT, first, payload=b"{}", begin="start")
    assert same.run_id == result.run_id, "it means the same"
    flows.deeds.calls.clear()
    await flows.work()
    assert flows.deeds.order == ["a", "b"]
    assert await flows.state(result.run_id) is SUCCEEDED


async def test_a_redrive_that_never_began_loses_nothing(flows: Flows) -> None:
    flows.deeds.failures = {"b": 1}
    first = await flows.start(*CHAIN)
    await flows.work()
    result = await flows.runtime.client.redriving.redrive(TENANT, first)
    second = result.run_id
    assert second is not None
    await flows.runtime.client.runs.cancel(TENANT, second)
    assert await flows.state(second) is CANCELLED
    taken, not_begun = f"taken over from {format_run_id(first)}", "the workflow ended before it began"
    assert await reasons(flows, second) == {"a": taken, "b": not_begun, "c": not_begun, "d": taken}
    page = await flows.runtime.client.workflows.steps(TENANT, second, after=None, limit=100)
    assert [one.status for one in page.steps] == [
        StepStatus.SUCCEEDED,
        StepStatus.CANCELLED,
        StepStatus.SUCCEEDED,
        StepStatus.CANCELLED,
    ]
    await flows.check(second)
    third = await redrive(flows, second)
    assert flows.deeds.order == ["b", "c"], "what had succeeded in the first run"
    assert await reasons(flows, third) == {"a": taken, "b": None, "c": None, "d": taken}
    await flows.check(third)


async def test_items_of_a_redrive_that_never_began_are_not_lost(flows: Flows) -> None:
    items = tuple(f'{{"step": "item_{number}"}}'.encode() for number in range(4))
    flows.deeds.failures = {"item_2": 1}
    first = await flows.start(step("begin"), step("clean", "begin", map=StepMap(over=items), payload=None))
    await flows.work()
    result = await flows.runtime.client.redriving.redrive(TENANT, first)
    assert result.run_id is not None
    await flows.runtime.client.runs.cancel(TENANT, result.run_id)
    third = await redrive(flows, result.run_id)
    assert flows.deeds.order == ["item_2"]
    assert await flows.state(third) is SUCCEEDED
    await flows.check(third)


async def test_a_workflow_within_another_runs_as_a_whole(flows: Flows) -> None:
    flows.deeds.failures = {"y": 1}
    await flows.add(step("x"), step("y", "x"), name="inner")
    first = await flows.start(step("a"), job_step("in", "inner", "a"), name="outer")
    await flows.work()
    second = await redrive(flows, first)
    assert flows.deeds.order == ["x", "y"], "it is one step, which had failed"
    assert await flows.state(second) is SUCCEEDED


async def test_items_that_an_expression_made_are_taken_over(flows: Flows) -> None:
    whole = (
        step("begin"),
        step(
            "clean",
            "begin",
            map=StepMap(over='["x", "y", "z"].map(n, {"step": n, "of": steps.begin.result})', max_parallel=1),
            payload=None,
        ),
        step("last", "clean"),
    )
    flows.deeds.failures = {"y": 1}
    first = await flows.start(*whole)
    await flows.work()
    assert flows.deeds.order == ["begin", "x", "y"]
    second = await redrive(flows, first)
    assert flows.deeds.order == ["y", "z", "last"]
    assert flows.deeds.calls[0] == ("y", {"of": "begin done by 1"})
    assert await flows.state(second) is SUCCEEDED
    await flows.check(second)
