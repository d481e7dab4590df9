"""Cancel and expiry: a run ends once, by the first to end it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mainspring.core import outcomes
from mainspring.core.applying import CancelVerdict
from mainspring.core.outcomes import Transition
from mainspring.core.states import RunState
from mainspring.ports.store import Store
from mainspring.ports.store.claims import ApplyResult, HeldRun
from mainspring.testing.conformance.completion import (
    APPLIED,
    STALE,
    UNKNOWN_RUN,
    fail,
    give_back,
    lose,
    read_run,
    snooze,
    succeed,
)
from mainspring.testing.factories import (
    START,
    add_job,
    add_session,
    at,
    claim,
    facts_of,
    read_held,
    running_run,
    submit,
)

CANCELLED, REQUESTED, FINISHED = CancelVerdict.CANCELLED, CancelVerdict.REQUESTED, CancelVerdict.FINISHED


class Cancel:
    """Waiting runs end at once. A running one is asked to stop, and ends SUCCEEDED or CANCELLED."""

    __test__ = False

    async def test_waiting_runs_end_at_once(self, store: Store) -> None:
        job = await add_job(store)
        held = await running_run(store, job)
        await store.apply([fail(held, now=1)], now=at(1))
        [pending] = await submit(store, job, due_at=at(100))
        run_ids = [pending, held.run_id]
        assert await store.cancel_runs(run_ids, reason="operator", now=at(2)) == [CANCELLED] * 2
        for run_id in run_ids:
            run = await read_run(store, run_id)
            assert (run.state, run.reason, run.finished_at) == (RunState.CANCELLED, "operator", at(2))
        assert await claim(store, await add_session(store), now=at(10**6), limit=9) == ()

    async def test_running_run_is_asked(self, store: Store) -> None:
        held = await running_run(store)
        for second in (1, 2):
            results = await store.cancel_runs([held.run_id], reason="operator", now=at(second))
            assert results == [REQUESTED]
        run = await read_run(store, held.run_id)
        assert (run.state, run.is_cancel_requested) == (RunState.RUNNING, True)
        assert (await read_held(store, held.run_id)).is_cancel_requested

    async def test_ended_and_unknown_runs(self, store: Store) -> None:
        job = await add_job(store)
        ended = [await running_run(store, job) for _ in range(2)]
        await store.apply([succeed(ended[0]), fail(ended[1], now=1, retry=False)], now=at(1))
        [skipped] = await submit(store, job, skip_reason="misfire")
        [cancelled] = await submit(store, job)
        await store.cancel_runs([cancelled], reason="operator", now=at(2))
        run_ids = [ended[0].run_id, UNKNOWN_RUN, ended[1].run_id, skipped, cancelled]
        results = await store.cancel_runs(run_ids, reason="again", now=at(3))
        assert results == [FINISHED, CancelVerdict.MISSING, FINISHED, FINISHED, FINISHED]
        assert (await read_run(store, cancelled)).reason == "operator"

    async def test_completion_wins_over_a_request(self, store: Store) -> None:
        held = await running_run(store)
        await store.cancel_runs([held.run_id], reason="operator", now=at(1))
        assert await store.apply([succeed(held)], now=at(2)) == APPLIED
        assert (await read_run(store, held.run_id)).state is RunState.SUCCEEDED

    async def test_cancel_after_completion_is_finished(self, store: Store) -> None:
        held = await running_run(store)
        await store.apply([succeed(held)], now=at(1))
        assert await store.cancel_runs([held.run_id], reason="operator", now=at(2)) == [FINISHED]
        assert (await read_run(store, held.run_id)).state is RunState.SUCCEEDED

    async def test_every_other_end_after_a_request_is_cancelled(self, store: Store) -> None:
        # These were decided before the request was known. The store sees the newest fact, so it decides.
        ends: list[Callable[[HeldRun], Transition]] = [
            lambda held: fail(held, now=2),
            lambda held: fail(held, now=2, retry=False),
            lambda held: lose(held, now=2),
            lambda held: give_back(held, now=2),
            lambda held: snooze(held, until=50),
        ]
        for end in ends:
            held = await running_run(store)
            await store.cancel_runs([held.run_id], reason="operator", now=at(1))
            assert await store.apply([end(held)], now=at(2)) == APPLIED
            run = await read_run(store, held.run_id)
            assert (run.state, run.finished_at) == (RunState.CANCELLED, at(2))
            assert run.reason is not None
            [attempt] = await store.list_attempts(held.run_id)
            assert attempt.outcome == end(held).outcome
            assert await store.apply([end(held)], now=at(3)) == APPLIED

    async def test_obeyed_request_is_cancelled(self, store: Store) -> None:
        held = await running_run(store)
        await store.cancel_runs([held.run_id], reason="operator", now=at(1))
        obeyed = outcomes.cancelled(facts_of(await read_held(store, held.run_id)), error="stopped")
        assert await store.apply([obeyed], now=at(2)) == APPLIED
        run = await read_run(store, held.run_id)
        assert (run.state, run.error) == (RunState.CANCELLED, "stopped")
        assert [row.outcome for row in await store.list_attempts(held.run_id)] == ["cancelled"]

    async def test_cancel_and_completion_at_once_have_one_winner(self, store: Store) -> None:
        job = await add_job(store)
        for _ in range(5):
            held = await running_run(store, job)
            [[cancel], [end]] = await asyncio.gather(
                store.cancel_runs([held.run_id], reason="operator", now=at(1)),
                store.apply([succeed(held)], now=at(1)),
            )
            assert cancel in {REQUESTED, FINISHED}
            assert end is ApplyResult.APPLIED
            assert (await read_run(store, held.run_id)).state is RunState.SUCCEEDED

    async def test_cancel_and_claim_at_once_have_one_winner(self, store: Store) -> None:
        job = await add_job(store)
        session_id = await add_session(store)
        for _ in range(5):
            [run_id] = await submit(store, job)
            [[cancel], leased] = await asyncio.gather(
                store.cancel_runs([run_id], reason="operator", now=START), claim(store, session_id)
            )
            run = await read_run(store, run_id)
            if leased:
                assert cancel is REQUESTED
                assert (run.state, run.is_cancel_requested) == (RunState.RUNNING, True)
                await store.apply([outcomes.succeeded(run_id, leased[0].token, session_id)], now=START)
            else:
                assert cancel is CANCELLED
                assert run.state is RunState.CANCELLED


class Expiry:
    """Waiting runs whose time has passed are skipped; running ones are left alone."""

    __test__ = False

    async def test_expired_waiting_runs_are_skipped(self, store: Store) -> None:
        job = await add_job(store)
        [early], [late], _ = [
            await submit(store, job, expires_at=instant) for instant in (at(5), at(50), None)
        ]
        assert await store.expire_runs(now=at(10), limit=10) == [early]
        run = await read_run(store, early)
        assert (run.state, run.reason, run.finished_at) == (RunState.SKIPPED, "expired", at(10))
        assert (await read_run(store, late)).state is RunState.PENDING
        assert await store.expire_runs(now=at(10), limit=10) == []

    async def test_retrying_run_expires(self, store: Store) -> None:
        held = await running_run(store, expires_at=at(20))
        await store.apply([snooze(held, until=100)], now=at(5))
        assert await store.expire_runs(now=at(30), limit=10) == [held.run_id]
        assert await store.apply([succeed(held)], now=at(31)) == STALE

    async def test_running_run_does_not_expire(self, store: Store) -> None:
        held = await running_run(store, expires_at=at(5))
        assert await store.expire_runs(now=at(10), limit=10) == []
        assert await store.apply([succeed(held)], now=at(11)) == APPLIED

    async def test_expiry_keeps_to_its_limit(self, store: Store) -> None:
        run_ids = await submit(store, await add_job(store), 5, expires_at=at(5))
        batches = [await store.expire_runs(now=at(10), limit=2) for _ in range(4)]
        assert [len(batch) for batch in batches] == [2, 2, 1, 0]
        assert sorted(run_id for batch in batches for run_id in batch) == run_ids
