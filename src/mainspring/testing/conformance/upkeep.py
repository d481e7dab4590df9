"""The janitor's verbs: they remove what has expired, and nothing else."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from mainspring.core.model import FireRangeKind
from mainspring.core.states import RunState
from mainspring.ports.store import Store
from mainspring.ports.store.claims import HeldRun
from mainspring.ports.store.runs import IdempotencyKey
from mainspring.testing.conformance.claiming import ids_of
from mainspring.testing.conformance.completion import APPLIED, fail, read_run, snooze, succeed
from mainspring.testing.factories import (
    START,
    add_job,
    add_session,
    all_lanes,
    at,
    claim,
    make_claim,
    make_fire_range,
    make_new_run,
    read_held,
    running_run,
    submit,
)

DAY = timedelta(days=1)


async def prune_all(store: Store, before: datetime) -> int:
    """Prune the history in steps until nothing is left to prune."""
    total = 0
    while removed := await store.prune_history(before=before, limit=100):
        total += removed
    return total


async def run_again(store: Store, now: datetime) -> HeldRun:
    """Claim the only run."""
    [leased] = await claim(store, await add_session(store, now=now), now=now)
    return await read_held(store, leased.run_id)


class Upkeep:
    """History, keys, sessions and lanes are pruned. Live and dead runs stay."""

    __test__ = False

    async def test_prune_history_removes_what_ended_before(self, store: Store) -> None:
        await store.prepare_history(now=START)
        job = await add_job(store)
        held = [await running_run(store, job) for _ in range(2)]
        await store.apply([succeed(run) for run in held], now=at(1))
        assert await prune_all(store, START - 2 * DAY) == 0
        assert all(await store.get_runs([run.run_id for run in held]))
        assert await prune_all(store, START + 3 * DAY) >= 1
        assert await store.get_runs([run.run_id for run in held]) == [None, None]
        assert await store.list_runs("default") == []
        assert not any((await store.count_runs("default")).values())

    async def test_prune_history_keeps_dead_and_live_runs(self, store: Store) -> None:
        await store.prepare_history(now=START)
        job = await add_job(store)
        dead, waiting, running = [await running_run(store, job) for _ in range(3)]
        await store.apply([fail(dead, now=1, retry=False), snooze(waiting, until=5)], now=at(1))
        await prune_all(store, START + 300 * DAY)
        run = await read_run(store, dead.run_id)
        assert (run.state, run.error) == (RunState.FAILED, "boom")
        assert (await read_run(store, waiting.run_id)).state is RunState.RETRYING
        assert await store.apply([succeed(running)], now=at(2)) == APPLIED

    async def test_prune_history_removes_attempts_of_removed_runs(self, store: Store) -> None:
        await store.prepare_history(now=START)
        held = await running_run(store)
        await store.cancel_runs([held.run_id], reason="operator", now=START)
        await store.apply([fail(held, now=1)], now=at(1))
        assert len(await store.list_attempts(held.run_id)) == 1
        await prune_all(store, START + 3 * DAY)
        assert await store.list_attempts(held.run_id) == []

    async def test_prune_history_keeps_attempts_of_a_live_run_until_it_has_ended(self, store: Store) -> None:
        await store.prepare_history(now=START)
        job = await add_job(store)
        waiting = await running_run(store, job)
        await store.apply([fail(waiting, now=1)], now=at(1))
        await prune_all(store, START + 3 * DAY)
        assert [attempt.error for attempt in await store.list_attempts(waiting.run_id)] == ["boom"]
        again = await run_again(store, START + 3 * DAY)
        await store.apply([fail(again, now=3 * 86_400, retry=False)], now=START + 3 * DAY)
        await prune_all(store, START + 9 * DAY)
        assert [attempt.token for attempt in await store.list_attempts(waiting.run_id)] == [
            waiting.token,
            again.token,
        ]

    async def test_prune_history_lets_attempts_go_that_were_kept_for_a_run_that_succeeded(
        self, store: Store
    ) -> None:
        await store.prepare_history(now=START)
        job = await add_job(store)
        waiting = await running_run(store, job)
        await store.apply([fail(waiting, now=1)], now=at(1))
        await prune_all(store, START + 3 * DAY)
        again = await run_again(store, START + 3 * DAY)
        assert await store.apply([succeed(again)], now=START + 3 * DAY) == APPLIED
        await prune_all(store, START + 9 * DAY)
        assert await store.list_attempts(waiting.run_id) == []

    async def test_prune_history_removes_closed_fire_ranges_only(self, store: Store) -> None:
        job = await add_job(store)
        closed = make_fire_range(job, kind=FireRangeKind.GAP, reason="misfire")
        await store.add_fire_ranges([closed, make_fire_range(job)], now=START)
        assert await prune_all(store, START - 2 * DAY) == 0
        assert len(await store.list_fire_ranges(job.id)) == 2
        await prune_all(store, START + 3 * DAY)
        assert [fire_range.kind for fire_range in await store.list_fire_ranges(job.id)] == [
            FireRangeKind.CATCH_UP
        ]

    async def test_prune_history_takes_its_limit_of_each_kind_and_returns_the_largest_count(
        self, store: Store
    ) -> None:
        job = await add_job(store)
        closed = make_fire_range(job, kind=FireRangeKind.GAP, reason="misfire")
        await store.add_fire_ranges([closed], now=START)
        held = [await running_run(store, job) for _ in range(3)]
        await store.cancel_runs([run.run_id for run in held[:2]], reason="operator", now=START)
        ends = [fail(run, now=1) for run in held[:2]] + [succeed(held[2])]
        assert await store.apply(ends, now=at(1)) == APPLIED * 3
        removed = [await store.prune_history(before=START + DAY, limit=2) for _ in range(3)]
        assert removed == [2, 1, 0]
        assert await store.prune_history(before=START + DAY, limit=2) == 0
        assert await store.get_runs([run.run_id for run in held]) == [None] * 3
        assert [await store.list_attempts(run.run_id) for run in held] == [[]] * 3
        assert await store.list_fire_ranges(job.id) == []

    async def test_prune_history_counts_runs_and_attempts_apart(self, store: Store) -> None:
        job = await add_job(store)
        held = [await running_run(store, job) for _ in range(3)]
        await store.cancel_runs([run.run_id for run in held], reason="operator", now=START)
        await store.apply([fail(run, now=1) for run in held], now=at(1))
        assert await store.prune_history(before=START + DAY, limit=100) == 3

    async def test_prepare_history_may_be_repeated(self, store: Store) -> None:
        for day in (0, 0, 1, 40):
            await store.prepare_history(now=START + day * DAY)
        held = await running_run(store)
        assert await store.apply([succeed(held)], now=START + 40 * DAY) == APPLIED

    async def test_prune_sessions_removes_ended_ones_that_hold_nothing(self, store: Store) -> None:
        holder = await running_run(store)
        idle, live = await add_session(store), await add_session(store)
        await store.close_sessions([holder.session_id, idle], now=at(1))
        assert await store.prune_sessions(before=START, limit=10) == 0
        assert await store.prune_sessions(before=START + DAY, limit=10) == 1
        assert [run.run_id for run in await store.list_orphans(limit=10)] == [holder.run_id]
        await store.apply([succeed(holder)], now=at(2))
        assert await store.prune_sessions(before=START + DAY, limit=10) == 1
        assert [session.id for session in await store.list_sessions()] == [live]

    async def test_prune_sessions_keeps_to_its_limit(self, store: Store) -> None:
        sessions = [await add_session(store) for _ in range(5)]
        await store.close_sessions(sessions, now=at(1))
        removed = [await store.prune_sessions(before=START + DAY, limit=2) for _ in range(4)]
        assert removed == [2, 2, 1, 0]

    async def test_prune_lanes_removes_those_without_live_runs(self, store: Store) -> None:
        job = await add_job(store)
        held = await running_run(store, job)
        assert await store.prune_lanes(limit=10) == 0
        await store.apply([snooze(held, until=50)], now=at(1))
        assert await store.prune_lanes(limit=10) == 0
        await store.cancel_runs([held.run_id], reason="operator", now=at(2))
        assert await store.prune_lanes(limit=10) == 1
        assert await store.read_lanes([]) == []
        assert (await read_run(store, held.run_id)).lane == make_new_run(job).lane

    async def test_pruned_lane_is_interned_again(self, store: Store) -> None:
        job = await add_job(store)
        [cancelled] = await submit(store, job)
        await store.cancel_runs([cancelled], reason="operator", now=START)
        old = await all_lanes(store)
        await store.prune_lanes(limit=10)
        session_id = await add_session(store)
        assert await claim(store, session_id, lanes=old, limit=9) == ()
        [run_id] = await submit(store, job)
        assert ids_of(await claim(store, session_id, limit=9)) == [run_id]

    async def test_prune_lanes_and_submit_at_once_lose_no_run(self, store: Store) -> None:
        job = await add_job(store)
        session_id = await add_session(store)
        for _ in range(10):
            [run_ids, _] = await asyncio.gather(submit(store, job), store.prune_lanes(limit=10))
            leased = await claim(store, session_id)
            assert ids_of(leased) == run_ids
            await store.cancel_runs(run_ids, reason="operator", now=START)
            request = make_claim(session_id, await all_lanes(store))
            await store.claim_runs([request], now=START)

    async def test_prune_keys_keeps_to_its_limit(self, store: Store) -> None:
        job = await add_job(store)
        for number in range(5):
            key = IdempotencyKey(key=f"k{number}", request_hash=b"", expires_at=at(5))
            await submit(store, job, submit_key=key)
        removed = [await store.prune_keys(now=at(10), limit=2) for _ in range(4)]
        assert removed == [2, 2, 1, 0]
