"""Submissions to what is full are refused, and those to anything else pay nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from mainspring.core.ids import JobId
from mainspring.core.intake import WaitingCount
from mainspring.core.states import RunState
from mainspring.engine.usecases.intake import LONGEST
from mainspring.engine.usecases.submissions import Submission
from mainspring.errors import Conflict, StoreUnavailable, TookTooLong, TooMany
from mainspring.testing.manual import TENANT, ManualRuntime
from tests.unit.engine.conftest import Bench


async def put_queue(runtime: ManualRuntime, name: str = "default", **body: Any) -> None:
    """Set what holds for a queue, and have every part know it."""
    await runtime.client.queues.put(name, body)
    await runtime.tick("policies")


async def put_tenant(runtime: ManualRuntime, name: str = TENANT, **body: Any) -> None:
    await runtime.client.tenants.put(name, body)
    await runtime.tick("policies")


async def submit(runtime: ManualRuntime, job_id: JobId, count: int = 1, tenant: str = TENANT) -> None:
    """Submit runs one by one."""
    for _ in range(count):
        await runtime.client.runs.submit(tenant, Submission(job_id=job_id))


async def submit_many(runtime: ManualRuntime, job_id: JobId, count: int) -> None:
    await runtime.client.runs.submit_many(TENANT, [Submission(job_id=job_id)] * count)


@pytest.fixture
def counts(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> list[Sequence[WaitingCount]]:
    """What was counted, call by call."""
    store, made = bench.runtime.store, list[Sequence[WaitingCount]]()
    count_waiting = store.count_waiting

    async def count(wanted: Sequence[WaitingCount]) -> list[int]:
        made.append(wanted)
        return await count_waiting(wanted)

    monkeypatch.setattr(store, "count_waiting", count)
    return made


async def test_a_full_queue_refuses_until_something_has_started(bench: Bench) -> None:
    runtime, job_id = bench.runtime, await bench.add()
    await put_queue(runtime, max_queued=3)
    await submit_many(runtime, job_id, 3)
    runtime.clock.advance(1)
    with pytest.raises(TooMany, match="3 runs of queue 'default' wait, and its max_queued is 3") as caught:
        await submit(runtime, job_id)
    assert 1 <= caught.value.retry_after <= 60
    assert len(await bench.runs(job_id)) == 3
    await (await runtime.worker()).claim(limit=1)
    runtime.clock.advance(1)
    await submit(runtime, job_id)
    assert len(await bench.runs(job_id)) == 4


async def test_a_full_tenant_is_refused_in_every_queue_and_others_are_not(bench: Bench) -> None:
    runtime, mail = bench.runtime, await bench.add(queue="mail")
    await put_tenant(runtime, max_queued=1)
    await submit(runtime, mail)
    runtime.clock.advance(1)
    with pytest.raises(TooMany, match="1 run of tenant 'default' waits"):
        await submit(runtime, await bench.add(name="other"))
    shop = await runtime.client.jobs.create("shop", {"name": "job", "function": "work", "queue": "mail"})
    await submit(runtime, shop.id, tenant="shop")


async def test_a_bulk_is_refused_whole(bench: Bench) -> None:
    runtime, job_id = bench.runtime, await bench.add()
    await put_queue(runtime, max_queued=5)
    await submit_many(runtime, job_id, 3)
    runtime.clock.advance(1)
    with pytest.raises(TooMany, match="3 more do not fit"):
        await submit_many(runtime, job_id, 3)
    assert len(await bench.runs(job_id)) == 3
    await submit_many(runtime, job_id, 2)


async def test_what_has_no_cap_is_not_counted(bench: Bench, counts: list[Sequence[WaitingCount]]) -> None:
    runtime, job_id = bench.runtime, await bench.add()
    await submit(runtime, job_id, 3)
    await put_queue(runtime, "mail", max_queued=1)
    await submit(runtime, job_id, 3)
    assert counts == []


async def test_a_count_is_good_for_a_second_and_shared(
    bench: Bench, counts: list[Sequence[WaitingCount]]
) -> None:
    runtime, job_id = bench.runtime, await bench.add()
    await put_queue(runtime, max_queued=2)
    await asyncio.gather(*(submit(runtime, job_id) for _ in range(5)))
    await submit(runtime, job_id)
    assert len(counts) == 1, "it may be passed by what comes in a second"
    runtime.clock.advance(1)
    with pytest.raises(TooMany):
        await submit(runtime, job_id)
    assert len(counts) == 2


async def test_one_count_that_stalls_is_not_good_for_long(
    bench: Bench, counts: list[Sequence[WaitingCount]], monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, job_id = bench.runtime, await bench.add()
    await put_queue(runtime, max_queued=2)
    await submit(runtime, job_id)
    count_waiting = runtime.store.count_waiting
    stall = 7.0

    async def count(wanted: Sequence[WaitingCount]) -> list[int]:
        runtime.clock.advance(stall)
        return await count_waiting(wanted)

    monkeypatch.setattr(runtime.store, "count_waiting", count)
    runtime.clock.advance(1)
    await submit(runtime, job_id)
    assert len(counts) == 2
    with pytest.raises(TooMany):
        await submit(runtime, job_id)
    assert len(counts) == 3, (
        "the last one began seven seconds ago, and says nothing of what counts usually take"
    )
    runtime.clock.advance(LONGEST - 1)
    with pytest.raises(TooMany):
        await submit(runtime, job_id)
    assert len(counts) == 3, "now they take long"
    runtime.clock.advance(1)
    with pytest.raises(TooMany):
        await submit(runtime, job_id)
    assert len(counts) == 4, "but they come all the same"


async def test_the_wait_follows_from_how_fast_the_queue_drains(bench: Bench) -> None:
    runtime, job_id = bench.runtime, await bench.add()
    await put_queue(runtime, max_queued=10)
    await submit_many(runtime, job_id, 10)
    runtime.clock.advance(1)
    with pytest.raises(TooMany):
        await submit(runtime, job_id)
    await (await runtime.worker()).claim(limit=1)
    runtime.clock.advance(1)
    with pytest.raises(TooMany) as caught:
        await submit_many(runtime, job_id, 5)
    assert caught.value.retry_after == 4, "9 wait, 4 of 5 do not fit, and one leaves in a second"


async def test_fires_are_never_refused(bench: Bench) -> None:
    runtime, job_id = bench.runtime, await bench.add(every="1s")
    await put_queue(runtime, max_queued=1)
    await put_tenant(runtime, submit_rate="1/d")
    await runtime.advance(5)
    assert len(await bench.runs(job_id)) == 5
    with pytest.raises(TooMany):
        await submit(runtime, job_id)


async def test_a_cap_that_is_lifted_refuses_nobody(bench: Bench) -> None:
    runtime, job_id = bench.runtime, await bench.add()
    await put_queue(runtime, max_queued=1)
    await submit(runtime, job_id)
    runtime.clock.advance(1)
    with pytest.raises(TooMany):
        await submit(runtime, job_id)
    await put_queue(runtime)
    await submit(runtime, job_id)


async def test_a_raised_cap_is_counted_anew(bench: Bench) -> None:
    runtime, job_id = bench.runtime, await bench.add()
    await put_queue(runtime, max_queued=2)
    await submit_many(runtime, job_id, 2)
    runtime.clock.advance(1)
    with pytest.raises(TooMany):
        await submit(runtime, job_id)
    await put_queue(runtime, max_queued=3)
    await submit(runtime, job_id)


async def test_a_count_that_takes_too_long_refuses_nobody(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, job_id = bench.runtime, await bench.add()
    await put_queue(runtime, max_queued=1)
    await submit(runtime, job_id)

    tries = []

    async def give_up(counts: Sequence[WaitingCount]) -> list[int]:
        tries.append(counts)
        runtime.clock.advance(2)
        raise TookTooLong("too many")

    monkeypatch.setattr(runtime.store, "count_waiting", give_up)
    runtime.clock.advance(1)
    await submit(runtime, job_id, 3)
    assert len(await bench.runs(job_id)) == 4
    assert len(tries) == 1, "it is not tried again before twenty times as long"
    runtime.clock.advance(40)
    await submit(runtime, job_id)
    assert len(tries) == 2


async def test_a_cap_that_changes_while_it_is_counted_is_counted_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, job_id = bench.runtime, await bench.add()
    await put_queue(runtime, max_queued=1)
    await submit_many(runtime, job_id, 1)
    caps: list[dict[str, Any]] = [{}, {"max_queued": 2}]
    count_waiting = runtime.store.count_waiting

    async def change(counts: Sequence[WaitingCount]) -> list[int]:
        await put_queue(runtime, **caps.pop(0))
        return await count_waiting(counts)

    for _ in range(2):
        runtime.clock.advance(1)
        with monkeypatch.context() as patched:
            patched.setattr(runtime.store, "count_waiting", change)
            await submit(runtime, job_id)
        await put_queue(runtime, max_queued=3)
    with pytest.raises(TooMany, match="3 runs of queue 'default' wait, and its max_queued is 3"):
        await submit(runtime, job_id)


async def test_a_tenant_submits_no_more_than_its_rate_allows(bench: Bench) -> None:
    runtime, job_id = bench.runtime, await bench.add()
    await put_tenant(runtime, submit_rate="2/s")
    await submit(runtime, job_id, 2)
    for _ in range(2):
        with pytest.raises(
            TooMany, match="tenant 'default' submits more than its submit_rate, 2/s"
        ) as caught:
            await submit(runtime, job_id)
        assert (caught.value.field, caught.value.retry_after) == ("submit_rate", 1)
    runtime.clock.advance(0.5)
    await submit(runtime, job_id)
    assert len(await bench.runs(job_id)) == 3


async def test_a_rate_holds_for_all_processes_together(bench: Bench) -> None:
    runtime, job_id = bench.runtime, await bench.add()
    await put_tenant(runtime, submit_rate="2/s")
    async with ManualRuntime(runtime.registry, store=runtime.store, clock=runtime.clock) as other:
        await other.tick("policies")
        await submit(runtime, job_id)
        await submit(other, job_id)
        with pytest.raises(TooMany):
            await submit(other, job_id)


async def test_a_full_queue_takes_no_permits(bench: Bench) -> None:
    runtime, job_id = bench.runtime, await bench.add()
    await put_tenant(runtime, submit_rate="2/s")
    await put_queue(runtime, max_queued=1)
    await submit(runtime, job_id)
    runtime.clock.advance(1)
    with pytest.raises(TooMany, match="max_queued"):
        await submit(runtime, job_id)
    await put_queue(runtime)
    await submit(runtime, job_id, 2)
    with pytest.raises(TooMany, match="submit_rate"):
        await submit(runtime, job_id)


async def test_refusals_are_counted(bench: Bench) -> None:
    runtime, job_id = bench.runtime, await bench.add()
    await put_queue(runtime, max_queued=1)
    with pytest.raises(TooMany):
        await submit_many(runtime, job_id, 2)
    assert runtime.telemetry.figures()["submissions_refused_total.queue_full"] == 2


async def test_a_tenant_has_no_more_jobs_than_it_may(bench: Bench) -> None:
    runtime, jobs = bench.runtime, bench.runtime.client.jobs
    await bench.add()
    await put_tenant(runtime, max_jobs=2)
    await jobs.upsert(TENANT, {"name": "second", "function": "work"})
    third = {"name": "third", "function": "work"}
    message = "tenant 'default' has 2 of at most 2 jobs, so one more does not fit"
    with pytest.raises(Conflict, match=message) as caught:
        await jobs.create(TENANT, third)
    assert caught.value.field == "max_jobs"
    with pytest.raises(Conflict, match=message):
        await jobs.upsert(TENANT, third)
    with pytest.raises(Conflict, match="2 more do not fit"):
        await jobs.create_many(TENANT, [third, {"name": "fourth", "function": "work"}])
    assert len(await jobs.list_page(TENANT, after=None, limit=10)) == 2
    _, is_new = await jobs.upsert(TENANT, {"name": "second", "function": "work", "priority": "HIGH"})
    assert not is_new
    await jobs.delete(TENANT, (await jobs.find(TENANT, "second")).id)
    await jobs.create(TENANT, third)


@pytest.mark.parametrize(
    ("options", "after"),
    [
        ({}, 30),
        ({"expires_after": "5s"}, 5),
        ({"queue": "other"}, None),
        ({"run_at": "soon"}, 30),
        ({"every": "1h"}, 30),
        ({"every": "1h", "overlap": "skip"}, 30),
    ],
)
async def test_runs_expire_as_their_queue_says_unless_their_job_says_so(
    bench: Bench, options: dict[str, Any], after: float | None
) -> None:
    runtime = bench.runtime
    await put_queue(runtime, expires_after="30s")
    if options.get("run_at") == "soon":
        options = {"run_at": (runtime.clock.now() + timedelta(seconds=5)).isoformat()}
    job_id = await bench.add(**options)
    if "every" in options or "run_at" in options:
        await runtime.advance(3605, step=35)
    else:
        await submit(runtime, job_id)
    [run] = await bench.runs(job_id)
    assert run.due_at is not None
    held = expiry(runtime, run.id)
    assert held == (None if after is None else run.due_at + timedelta(seconds=after))


def expiry(runtime: ManualRuntime, run_id: int) -> Any:
    """Return when a run of the memory store expires."""
    return runtime.store._tables.runs[run_id].expires_at  # type: ignore[attr-defined]  # no port shows it


async def test_an_expired_run_is_skipped(bench: Bench) -> None:
    runtime, job_id = bench.runtime, await bench.add()
    await put_queue(runtime, expires_after="30s")
    await submit(runtime, job_id)
    await runtime.advance(40)
    [run] = await bench.runs(job_id)
    assert (run.state, run.reason) == (RunState.SKIPPED, "expired")


async def test_an_expiry_is_set_when_a_run_is_made(bench: Bench) -> None:
    runtime, job_id = bench.runtime, await bench.add()
    await submit(runtime, job_id)
    await put_queue(runtime, expires_after="30s")
    await runtime.advance(40)
    assert await bench.states(job_id) == [RunState.PENDING]


@pytest.mark.parametrize("is_scheduler", [True, False])
async def test_a_server_that_has_just_started_knows_what_is_set(is_scheduler: bool) -> None:
    async with ManualRuntime() as runtime:
        await runtime.client.queues.put("default", {"max_queued": 1})
        engine = runtime._engine
        if not is_scheduler:
            engine.shards = None
        assert runtime.client.intake.is_open
        await engine.start()
        assert not runtime.client.intake.is_open
        await engine.stop()


async def test_a_process_without_a_scheduler_starts_without_what_is_set_if_it_has_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ManualRuntime() as runtime:

        async def fail(**_: Any) -> None:
            raise StoreUnavailable("away")

        engine = runtime._engine
        engine.shards = None
        monkeypatch.setattr(runtime.store, "read_policies", fail)
        await engine.start()
        assert runtime.client.intake.is_open
        await engine.stop()
