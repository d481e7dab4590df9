"""No more runs of a queue, of a tenant or with a label are given out than its cap says, and others do not wait."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from mainspring.core import outcomes
from mainspring.core.ids import JobId, KeyId, LaneId, RunId
from mainspring.core.lane_caps import CapKey, CapScope, LaneCap
from mainspring.core.model import LaneKey, Priority
from mainspring.core.pauses import PauseScope
from mainspring.engine.claiming import lane_rounds
from mainspring.engine.claiming.lane_choices import LaneChoice
from mainspring.engine.claiming.requests import divide
from mainspring.engine.common.wakeups import RunsNews, Wakeups
from mainspring.engine.usecases.caps import CapSwitch
from mainspring.engine.usecases.submissions import Submission
from mainspring.errors import Conflict
from mainspring.ports.executor import Success
from mainspring.ports.gateway import ClaimCall, FunctionLimit, Lease, Report
from mainspring.ports.hints import Hint
from mainspring.stores.memory.limits import MemoryLimitStore
from mainspring.testing.factories import START
from mainspring.testing.manual import TENANT, ManualWorker
from tests.unit.engine.conftest import Bench

MAIL = CapKey(CapScope.QUEUE, "mail")


async def add(bench: Bench, queue: str = "mail", tenant: str = TENANT, **more: Any) -> JobId:
    body = {"name": f"job {queue} {sorted(more)}", "function": "work", "queue": queue, **more}
    return (await bench.runtime.client.jobs.create(tenant, body)).id


async def submit(
    bench: Bench, job_id: JobId, count: int = 1, tenant: str = TENANT, **facts: Any
) -> list[RunId]:
    submissions = [Submission(job_id=job_id, **facts) for _ in range(count)]
    results = await bench.runtime.client.runs.submit_many(tenant, submissions)
    return [result.run_id for result in results if result.run_id is not None]


async def cap(bench: Bench, most: int | None, key: CapKey = MAIL) -> None:
    await bench.runtime.client.caps.set(LaneCap(key, most))
    await bench.runtime.tick("restrictions")


async def end(worker: ManualWorker, *leases: Lease) -> None:
    await worker.report(*[Report(run_id=one.run_id, token=one.token, ending=Success()) for one in leases])


def jobs_of(leases: list[Lease]) -> list[JobId]:
    return [lease.job_id for lease in leases]


@pytest.mark.parametrize(
    ("key", "more"),
    [
        (MAIL, {}),
        (CapKey(CapScope.TENANT, TENANT), {}),
        (CapKey(CapScope.LABEL, "gpu"), {"labels": ["gpu"]}),
        (MAIL, {"concurrency": [{"key": "$.a", "limit": 9}], "payload": {"a": 1}}),
    ],
)
async def test_a_cap_is_kept_and_each_end_makes_room_at_once(
    bench: Bench, key: CapKey, more: dict[str, Any]
) -> None:
    job_id = await add(bench, **more)
    worker = await bench.runtime.worker(labels=("gpu",))
    await cap(bench, 2, key)
    await submit(bench, job_id, 5)
    first = await worker.claim()
    assert len(first) == 2
    assert await worker.claim() == []
    await end(worker, first[0])
    assert len(await worker.claim()) == 1
    assert await worker.claim() == []
    await cap(bench, None, key)
    assert len([*await worker.claim(), *await worker.claim()]) == 2


async def test_a_full_queue_does_not_hold_others_up(bench: Bench) -> None:
    full, other = await add(bench, priority="HIGH"), await add(bench, "bulk", priority="LOW")
    worker = await bench.runtime.worker()
    await cap(bench, 1)
    await submit(bench, full, 20)
    await submit(bench, other, 3)
    given = []
    for _ in range(4):
        given += jobs_of(await worker.claim())
    assert given.count(full) == 1
    assert given.count(other) == 3


async def test_a_full_queue_is_left_alone_until_something_ends(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await add(bench)
    worker = await bench.runtime.worker()
    await cap(bench, 1)
    await submit(bench, job_id, 5)
    [lease] = await worker.claim()
    await worker.claim()
    asked = 0
    claim_lined_up = bench.runtime.store.claim_lined_up

    async def count(*args: Any, **more: Any) -> Any:
        nonlocal asked
        asked += 1
        return await claim_lined_up(*args, **more)

    monkeypatch.setattr(bench.runtime.store, "claim_lined_up", count)
    for _ in range(3):
        assert await worker.claim() == []
    assert asked == 0
    await end(worker, lease)
    assert len(await worker.claim()) == 1
    assert asked == 1


async def test_tenants_take_turns_under_a_shared_cap(bench: Bench) -> None:
    a, b = await add(bench, tenant="a"), await add(bench, tenant="b")
    worker = await bench.runtime.worker()
    await cap(bench, 2)
    await submit(bench, a, 30, tenant="a")
    await submit(bench, b, 30, tenant="b")
    given: list[JobId] = []
    leases: list[Lease] = []
    for _ in range(20):
        leases += await worker.claim()
        given += jobs_of(leases)
        await end(worker, *leases)
        leases = []
    assert len(given) == 40
    assert 15 <= given.count(a) <= 25


async def test_a_cap_that_is_set_elsewhere_is_kept_before_it_was_heard(bench: Bench) -> None:
    job_id = await add(bench)
    worker = await bench.runtime.worker()
    await submit(bench, job_id, 4)
    assert len(await worker.claim(limit=1)) == 1
    elsewhere = CapSwitch(bench.runtime.store, clock=bench.runtime.clock, wakeups=Wakeups())
    await elsewhere.set(LaneCap(MAIL, 2))
    assert len(await worker.claim()) == 1
    assert await worker.claim() == []


async def test_what_waits_in_a_full_queue_is_tried_again_after_a_while(bench: Bench) -> None:
    job_id = await add(bench)
    worker = await bench.runtime.worker()
    await cap(bench, 1)
    await submit(bench, job_id, 2)
    [lease] = await worker.claim()
    assert await worker.claim() == []
    ending = outcomes.succeeded(lease.run_id, lease.token, worker.session_id)
    await bench.runtime.store.apply([ending], now=bench.runtime.clock.now())  # and this process hears nothing
    assert await worker.claim() == []
    bench.runtime.clock.advance(6)
    assert len(await worker.claim()) == 1


async def test_batches_are_cut_to_the_room_there_is(bench: Bench) -> None:
    job_id = await add(bench, batch={"size": 4, "wait": "1s"})
    worker = await bench.runtime.worker()
    await cap(bench, 6)
    await submit(bench, job_id, 12)
    first = await worker.claim()
    assert sorted(Counter(lease.batch for lease in first).values()) == [2, 4]
    assert await worker.claim() == []
    await end(worker, *first)
    assert len(await worker.claim()) == 4  # the rest fills no batch yet


async def test_quarantined_runs_keep_to_the_cap(bench: Bench) -> None:
    job_id = await add(bench)
    lost = await bench.runtime.worker()
    [quarantined] = await submit(bench, job_id)
    await lost.claim()
    await bench.runtime.store.close_sessions([lost.session_id], now=bench.runtime.clock.now())
    await bench.runtime.tick("reaper")
    busy, idle = await bench.runtime.worker(), await bench.runtime.worker()
    await cap(bench, 1)
    [other] = await submit(bench, job_id)
    while not busy.held:  # whichever of the two goes first
        await busy.claim(1)
    [first] = busy.held
    assert first.run_id in {quarantined, other}
    bench.runtime.clock.advance(60)
    assert await idle.claim() == []
    await end(busy, first)
    bench.runtime.clock.advance(6)
    [second] = await idle.claim()
    assert {first.run_id, second.run_id} == {quarantined, other}


async def test_runs_are_not_passed_straight_to_a_worker_beyond_the_cap(bench: Bench) -> None:
    job_id = await add(bench)
    worker = await bench.runtime.worker()
    await cap(bench, 1)
    waits = ClaimCall(
        session_id=worker.session_id, number=1, limit=5, wait=timedelta(seconds=60), is_idle=True
    )
    task = asyncio.create_task(bench.runtime.gateway.claim(waits))
    await asyncio.sleep(0)
    for _ in range(3):
        await bench.runtime.tick("claims")
    for _ in range(3):
        await bench.runtime.client.runs.submit(TENANT, Submission(job_id=job_id))
    for _ in range(3):
        await bench.runtime.tick("claims")
    assert len((await task).leases) == 1


async def test_a_worker_gets_no_more_of_a_capped_queue_than_it_has_slots(bench: Bench) -> None:
    job_id = await add(bench)
    worker = await bench.runtime.worker(slots=3)
    await cap(bench, 9)
    await submit(bench, job_id, 9)
    for limit in (9, 9, 9):
        assert len(await worker.claim(limit)) <= 3


async def test_a_cap_that_is_lifted_and_set_anew_moves_lanes_to_and_fro(bench: Bench) -> None:
    job_id = await add(bench)
    worker = await bench.runtime.worker()
    await submit(bench, job_id, 6)
    given = []
    for most, expected in ((1, 1), (None, 2), (4, 1), (None, 2)):
        await cap(bench, most)
        leases = await worker.claim(2)
        given.append(len(leases))
        assert len(leases) == expected, (most, given)


async def test_a_pause_and_its_end_leave_the_cap_as_it_is(bench: Bench) -> None:
    job_id = await add(bench)
    worker = await bench.runtime.worker()
    await cap(bench, 1)
    await submit(bench, job_id, 3)
    pauses = bench.runtime.client.pauses
    await pauses.pause(PauseScope.QUEUE, "mail", {}, made_by="ann")
    await bench.runtime.tick("restrictions")
    assert await worker.claim() == []
    await pauses.resume(PauseScope.QUEUE, "mail")
    await bench.runtime.tick("restrictions")
    assert len(await worker.claim()) == 1
    assert await worker.claim() == []


async def test_among_many_lanes_those_with_a_cap_are_found_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_rounds, "FEW", 1)
    jobs = [await add(bench, queue) for queue in ("mail", "bulk", "slow")]
    worker = await bench.runtime.worker()
    await cap(bench, 1)
    for job_id in jobs:
        await submit(bench, job_id, 4)
    given: list[JobId] = []
    for _ in range(8):
        leases = await worker.claim()
        given += jobs_of(leases)
        await end(worker, *leases)
    assert Counter(given) == dict.fromkeys(jobs, 4)


async def test_the_oldest_run_goes_first_in_a_capped_queue_too(bench: Bench) -> None:
    await bench.runtime.client.queues.put("mail", {"order": "fifo", "max_running": 3})
    a, b = await add(bench, tenant="a"), await add(bench, tenant="b")
    await bench.runtime.tick("policies", "restrictions")
    worker = await bench.runtime.worker()
    order = []
    for place in range(12):
        tenant, job_id = ("a", a) if place % 3 else ("b", b)
        order += await submit(bench, job_id, tenant=tenant)
        bench.runtime.clock.advance(0.01)
    given: list[RunId] = []
    for _ in range(40):
        leases = await worker.claim()
        given += [lease.run_id for lease in leases]
        await end(worker, *leases)
    assert given == order


async def test_queues_without_a_cap_are_claimed_from_as_ever(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await add(bench, "bulk")
    worker = await bench.runtime.worker()
    await cap(bench, 1)
    await submit(bench, job_id, 3)
    monkeypatch.delattr(MemoryLimitStore, "claim_lined_up")
    monkeypatch.delattr(MemoryLimitStore, "read_lines")
    assert len(await worker.claim()) == 3


async def test_room_that_another_server_makes_is_heard(bench: Bench) -> None:
    job_id = await add(bench)
    worker = await bench.runtime.worker()
    await cap(bench, 1)
    await submit(bench, job_id, 2)
    [lease] = await worker.claim()
    assert await worker.claim() == []
    ending = outcomes.succeeded(lease.run_id, lease.token, worker.session_id)
    await bench.runtime.store.apply([ending], now=bench.runtime.clock.now())
    found = await bench.runtime.store.read_restrictions()
    assert found is not None
    lane = LaneKey("mail", "function:work", TENANT, Priority.MEDIUM)
    bench.runtime.wakeups.hear(Hint.RUNS, RunsNews(marks=(), keys=found.caps.keys_of(lane)))
    assert len(await worker.claim()) == 1


async def test_an_older_release_refuses_a_cap_but_not_its_end(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(caps: list[LaneCap], **_: Any) -> list[str]:
        return ["worker old (host a, pid 1)"] if caps[0].max_running else []

    monkeypatch.setattr(bench.runtime.store, "write_caps", refuse)
    with pytest.raises(Conflict, match="worker old"):
        await bench.runtime.client.queues.put("mail", {"max_running": 3})
    assert await bench.runtime.client.queues.list_page() == []


def test_a_claim_that_is_bound_by_its_functions_keeps_the_caps_of_quarantined_runs() -> None:
    low, keys = {LaneId(1): START, LaneId(2): START}, {LaneId(3): (KeyId(7),)}
    choice = LaneChoice((LaneId(1), LaneId(2)), low, (LaneId(3),), caps=keys)
    others = LaneChoice((LaneId(1),), low, ())
    bound = FunctionLimit(limit=1, functions=frozenset({"work"}))
    kept, _ = divide(choice, others, bound, 5)
    assert (kept.quarantined, kept.caps) == ((LaneId(3),), keys)
    kept, _ = divide(choice, LaneChoice((), {}, ()), bound, 5)
    assert (kept.quarantined, kept.caps) == ((LaneId(3),), keys)


@pytest.mark.parametrize("more", [{}, {"concurrency": 1}])
async def test_room_that_is_made_while_a_claim_is_under_way_is_not_missed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    job_id = await add(bench, **more)
    worker = await bench.runtime.worker()
    await cap(bench, 1 if not more else None)
    await submit(bench, job_id, 2)
    [lease] = await worker.claim(1)
    claim_lined_up = bench.runtime.store.claim_lined_up

    async def claim_and_end(*args: Any, **given: Any) -> Any:
        """Let the run end after the claim has counted it, and before its answer is there."""
        monkeypatch.undo()
        answer = await claim_lined_up(*args, **given)
        await end(worker, lease)
        return answer

    monkeypatch.setattr(bench.runtime.store, "claim_lined_up", claim_and_end)
    assert await worker.claim() == []
    assert len(await worker.claim()) == 1
