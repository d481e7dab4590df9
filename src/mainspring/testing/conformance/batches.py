"""Batches: a line gives many runs for one slot, when so many are ready or the first of them has waited."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import datetime, timedelta

from mainspring.core import outcomes
from mainspring.core.batching import BatchRule
from mainspring.core.ids import RunId, SessionId
from mainspring.core.model import Job
from mainspring.core.retry import RetryPolicy
from mainspring.core.states import RunState
from mainspring.core.why import BatchFacts
from mainspring.ports.store import Store
from mainspring.ports.store.limits import LineClaim, LineClaimResult, LineQuota
from mainspring.testing.conformance.limits import end, fail, ids, payload
from mainspring.testing.factories import (
    START,
    add_job,
    add_session,
    at,
    claim,
    facts_of,
    make_edit,
    make_spec,
    read_held,
    submit,
)

WAIT = timedelta(seconds=2)


async def batched(store: Store, size: int = 3, *, key: str | None = None, wait: timedelta = WAIT) -> Job:
    """Insert a job whose runs are taken in batches."""
    rule = BatchRule(size=size, wait=wait, key=key)
    return await add_job(store, make_spec(batch=rule, retry=RetryPolicy(max_retries=3)))


async def submit_in_turn(store: Store, job: Job, number: int) -> list[RunId]:
    """Submit runs that get ready one millisecond after the other: those of one instant are given in any order."""
    return [run_id for ms in range(number) for run_id in await submit(store, job, due_at=at(ms / 1000 - 1))]


async def claim_batches(
    store: Store, session_id: SessionId, *, now: datetime = START, limit: int = 1, **overrides: object
) -> LineClaimResult:
    """Claim batches of any line, by default one."""
    keys = [line.key for line in await store.read_lines(limit=1000)]
    lines = tuple(
        LineQuota(line.key, line.head_at, limit) for line in await store.read_batches(keys, now=now)
    )
    values = {"session_id": session_id, "number": 1, "limit": limit, "lines": lines, "are_batches": True}
    [result] = await store.claim_lined_up([LineClaim(**values | overrides)], now=now)  # type: ignore[arg-type]
    return result


class Batches:
    """A batch is given when it is full, or when its first run has waited."""

    __test__ = False

    async def test_a_line_has_a_batch_when_its_first_run_has_waited(self, store: Store) -> None:
        job = await batched(store)
        await submit(store, job, due_at=at(1))
        await submit(store, job, due_at=at(2))
        [line] = await store.read_lines(limit=9)
        [found] = await store.read_batches([line.key], now=at(0))
        assert (found.key, found.head_at, found.ready_at) == (line.key, at(1), at(3))

    async def test_a_line_has_a_batch_when_enough_runs_are_ready(self, store: Store) -> None:
        job = await batched(store)
        for seconds in (0.1, 0.2, 0.3, 0.4):
            await submit(store, job, due_at=at(seconds))
        [line] = await store.read_lines(limit=9)
        [found] = await store.read_batches([line.key], now=at(0))
        assert (found.head_at, found.ready_at) == (at(0.1), at(0.3))
        [late] = await store.read_batches([line.key], now=at(9))
        assert late.ready_at <= at(9)

    async def test_a_line_without_runs_has_none(self, store: Store) -> None:
        job = await batched(store)
        await submit(store, job, expires_at=at(5))
        [line] = await store.read_lines(limit=9)
        assert await store.read_batches([line.key], now=at(5)) == []
        assert await store.read_batches([], now=at(5)) == []

    async def test_what_is_not_full_waits(self, store: Store) -> None:
        job, session_id = await batched(store), await add_session(store)
        runs = await submit(store, job, 2)
        early = await claim_batches(store, session_id, now=at(1.9))
        assert early.runs == ()
        assert [stop.is_busy for stop in early.stops.values()] == [True]
        result = await claim_batches(store, session_id, number=2, now=at(2))
        assert ids(result.runs) == runs
        assert list(result.taken.values()) == [1]
        assert result.keys == {}

    async def test_one_slot_gets_no_more_than_a_batch(self, store: Store) -> None:
        job, session_id = await batched(store), await add_session(store)
        runs = await submit_in_turn(store, job, 7)
        first = await claim_batches(store, session_id)
        assert ids(first.runs) == runs[:3]
        second = await claim_batches(store, session_id, number=2, limit=9)
        assert ids(second.runs) == runs[3:6]
        third = await claim_batches(store, session_id, number=3, now=at(2))
        assert ids(third.runs) == runs[6:]

    async def test_several_slots_get_several_batches(self, store: Store) -> None:
        job, session_id = await batched(store), await add_session(store)
        runs = await submit_in_turn(store, job, 8)
        result = await claim_batches(store, session_id, limit=2)
        assert ids(result.runs) == runs[:6]
        assert list(result.taken.values()) == [2]

    async def test_the_rest_goes_with_full_batches_once_it_has_waited(self, store: Store) -> None:
        job, session_id = await batched(store), await add_session(store)
        runs = await submit_in_turn(store, job, 5)
        result = await claim_batches(store, session_id, limit=2, now=at(2))
        assert ids(result.runs) == runs
        assert list(result.taken.values()) == [2]

    async def test_each_key_has_batches_of_its_own(self, store: Store) -> None:
        job, session_id = await batched(store, key="$.customer"), await add_session(store)
        for customer in "ababab":
            await submit(store, job, payload=payload(customer))
        result = await claim_batches(store, session_id, limit=2)
        assert [run.payload for run in result.runs] == [payload("a")] * 3 + [payload("b")] * 3
        assert list(result.taken.values()) == [1, 1]

    async def test_claims_of_lanes_leave_them_alone(self, store: Store) -> None:
        job, session_id = await batched(store), await add_session(store)
        await submit(store, job, 9)
        assert await claim(store, session_id, limit=9, now=at(9)) == ()

    async def test_expired_runs_do_not_start(self, store: Store) -> None:
        job, session_id = await batched(store), await add_session(store)
        await submit(store, job, 2, expires_at=at(5))
        runs = await submit(store, job, 3, now=at(1), due_at=at(1))
        assert ids((await claim_batches(store, session_id, now=at(5))).runs) == runs

    async def test_a_repeat_gets_the_same(self, store: Store) -> None:
        job, session_id = await batched(store), await add_session(store)
        await submit(store, job, 7)
        first = await claim_batches(store, session_id, limit=2)
        again = await claim_batches(store, session_id, limit=0, lines=())
        assert sorted(ids(again.runs)) == sorted(ids(first.runs))

    async def test_each_run_ends_for_itself(self, store: Store) -> None:
        job, session_id = await batched(store), await add_session(store)
        runs = await submit(store, job, 3)
        result = await claim_batches(store, session_id)
        await end(store, result.runs[:2], session_id)
        await fail(store, job, runs[2], seconds=1)
        [_, _, failed] = await store.get_runs(runs)
        assert failed is not None
        assert (failed.state, failed.attempt) == (RunState.RETRYING, 2)
        # It stands in its line again, for which its time has come anew.
        [line] = await store.read_lines(limit=9)
        [found] = await store.read_batches([line.key], now=at(1))
        assert (found.head_at, found.ready_at) == (failed.ready_at, failed.ready_at + WAIT)
        retried = await claim_batches(store, session_id, number=2, now=found.ready_at)
        assert ids(retried.runs) == [runs[2]]

    async def test_a_run_that_crashed_a_worker_is_alone(self, store: Store) -> None:
        job, session_id = await batched(store), await add_session(store)
        runs = await submit(store, job, 3)
        await claim_batches(store, session_id)
        held = await read_held(store, runs[0])
        await store.apply([outcomes.lost(facts_of(held), job.spec, now=at(1))], now=at(1))
        other = await add_session(store)
        [alone] = await claim(store, other, now=at(1), is_quarantined=True)
        assert alone.run_id == runs[0]

    async def test_keys_stay_while_their_runs_are_under_way(self, store: Store) -> None:
        job, session_id = await batched(store), await add_session(store)
        [run_id] = await submit(store, job)
        await claim_batches(store, session_id, now=at(2))
        await store.prune_limits(now=at(3), limit=9)
        await fail(store, job, run_id, seconds=4)
        await store.prune_limits(now=at(5), limit=9)
        result = await claim_batches(store, session_id, number=2, now=at(9000))
        assert ids(result.runs) == [run_id]
        await end(store, result.runs, session_id, seconds=9001)
        while await store.prune_limits(now=at(9002), limit=9):
            pass
        await submit(store, job, 2, now=at(9003), due_at=at(9003))
        assert (await claim_batches(store, session_id, number=3, now=at(9004))).runs == ()

    async def test_the_newest_numbers_hold_for_runs_that_wait(self, store: Store) -> None:
        job, session_id = await batched(store), await add_session(store)
        runs = await submit_in_turn(store, job, 9)
        smaller = make_spec(name=job.spec.name, batch=BatchRule(size=2, wait=WAIT))
        await store.edit_jobs([make_edit(job, smaller)], now=at(0))
        assert ids((await claim_batches(store, session_id)).runs) == runs[:2]

    async def test_without_a_batch_waiting_runs_go_one_by_one(self, store: Store) -> None:
        job, session_id = await batched(store), await add_session(store)
        runs = await submit_in_turn(store, job, 4)
        await store.edit_jobs([make_edit(job, make_spec(name=job.spec.name))], now=at(0))
        result = await claim_batches(store, session_id, limit=2)
        assert ids(result.runs) == runs[:2]
        assert list(result.taken.values()) == [2]

    async def test_a_run_tells_for_which_batch_it_waits(self, store: Store) -> None:
        job, session_id = await batched(store), await add_session(store)
        runs = await submit(store, job, 2)
        [later] = await submit(store, job, due_at=at(9))
        for run_id, ahead in zip((*runs, later), range(3), strict=True):
            wait = await store.read_wait(run_id, now=at(1))
            assert wait is not None
            assert (wait.batch, wait.ahead) == (BatchFacts(size=3, ready=2, until=at(2)), ahead)
        await claim_batches(store, session_id, now=at(2))
        held = await read_held(store, runs[0])
        await store.apply([outcomes.lost(facts_of(held), job.spec, now=at(3))], now=at(3))
        wait = await store.read_wait(runs[0], now=at(3))
        assert wait is not None
        assert wait.batch is None

    async def test_sessions_of_one_call_get_batches_of_their_own(self, store: Store) -> None:
        job = await batched(store)
        await submit(store, job, 8)
        [line] = await store.read_lines(limit=9)
        lines = (LineQuota(line.key, line.ready_at, 3),)
        requests = [
            LineClaim(session_id=await add_session(store), number=1, limit=1, lines=lines, are_batches=True)
            for _ in range(3)
        ]
        results = await store.claim_lined_up(requests, now=at(0))
        assert sorted(len(result.runs) for result in results) == [0, 3, 3]
        assert sorted(sum(result.taken.values()) for result in results) == [0, 1, 1]

    async def test_many_claimers_at_once_split_no_batch(self, store: Store) -> None:
        job = await batched(store, 5, wait=timedelta(hours=1))
        sessions = [await add_session(store) for _ in range(6)]
        for _ in range(4):
            await submit(store, job, 5)
        seen: Counter[int] = Counter()
        for number in range(1, 30):
            results = await asyncio.gather(
                *(claim_batches(store, session_id, number=number) for session_id in sessions)
            )
            seen.update(len(result.runs) for result in results)
            if seen[5] == 4:
                break
        assert seen.keys() <= {0, 5}
        assert seen[5] == 4
