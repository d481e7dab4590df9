"""Submitting straight to a session: `submit_claimed` does what `submit_runs` and a claim would, or nothing at all."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from mainspring.core import outcomes
from mainspring.core.applying import CancelVerdict
from mainspring.core.ids import LaneId, SessionId
from mainspring.core.model import Job, LaneKey
from mainspring.core.states import RunState
from mainspring.ports.store import Store
from mainspring.ports.store.claims import ApplyResult, ClaimedRun, ClaimRequest, ClaimResult
from mainspring.ports.store.runs import IdempotencyKey
from mainspring.ports.store.sessions import Beat
from mainspring.testing.conformance.claiming import crashed_run
from mainspring.testing.factories import (
    START,
    add_job,
    add_session,
    all_lanes,
    at,
    claim,
    facts_of,
    lane_of,
    make_change,
    make_claim,
    make_edit,
    make_new_run,
    make_spec,
    own_shards,
    read_held,
    read_job,
    submit,
)


async def known_job(store: Store, **facts: Any) -> Job:
    """Add a job whose lane is interned, and in which nothing is ready."""
    job = await add_job(store, make_spec(**facts))
    await store.cancel_runs(await submit(store, job), reason="test", now=START)
    return job


async def submit_claimed(
    store: Store, job: Job, session_id: SessionId, *, claim: dict[str, Any] | None = None, **run: Any
) -> ClaimedRun | None:
    """Submit a run of a job, due a second after `START`, straight to a session, by default from all lanes."""
    request = await _request_of(store, session_id, claim or {})
    return await store.submit_claimed(
        make_new_run(job, **{"due_at": at(1)} | run), request=request, now=at(1)
    )


async def _request_of(store: Store, session_id: SessionId, facts: dict[str, Any]) -> ClaimRequest:
    others = dict(facts)
    lanes = others.pop("lanes", None)
    return make_claim(session_id, await all_lanes(store) if lanes is None else lanes, **others)


async def given(store: Store, job: Job, session_id: SessionId, **run: Any) -> ClaimedRun:
    """The same where nothing stands in the way."""
    claimed = await submit_claimed(store, job, session_id, **run)
    assert claimed is not None
    return claimed


class SubmitClaimed:
    """The run is there as if it had been submitted, and then claimed for the first time."""

    __test__ = False

    async def test_run_is_running_from_the_beginning(self, store: Store) -> None:
        job = await known_job(store, timeout=timedelta(seconds=30))
        session = await add_session(store)
        claimed = await given(store, job, session, payload=b'{"n":1}', target_key="key", expires_at=at(9))
        assert claimed == ClaimedRun(
            *(claimed.run_id, 1, job.id, job.version, 1, None, at(1), b'{"n":1}', "key"),
            *(False, None, False, job.tenant),
        )
        [run] = await store.get_runs([claimed.run_id])
        assert run is not None
        assert (run.state, run.token, run.attempt, run.crashes) == (RunState.RUNNING, 1, 1, 0)
        assert (run.session_id, run.created_at, run.started_at) == (session, at(1), at(1))
        assert (run.ready_at, run.due_at, run.lane) == (at(1), at(1), lane_of(job))
        assert (run.payload, run.idempotency_key) == (b'{"n":1}', "key")
        held = await read_held(store, claimed.run_id)
        assert (held.token, held.session_id, held.deadline_at) == (1, session, at(31))
        assert not held.is_quarantined

    async def test_one_that_was_due_earlier_is_ready_only_from_now_on(self, store: Store) -> None:
        job = await known_job(store)
        claimed = await given(store, job, await add_session(store), due_at=at(-5))
        [run] = await store.get_runs([claimed.run_id])
        assert run is not None
        assert (run.due_at, run.ready_at) == (at(-5), at(1))

    async def test_its_answer_can_be_repeated(self, store: Store) -> None:
        job = await known_job(store)
        session = await add_session(store)
        claimed = await given(store, job, session, claim={"number": 5}, payload=b"1")
        lanes = await all_lanes(store)
        [again] = await store.claim_runs([make_claim(session, lanes, number=5)], now=at(2))
        assert again == ClaimResult((claimed,))
        [late] = await store.claim_runs([make_claim(session, lanes, number=4)], now=at(2))
        assert late == ClaimResult(())

    async def test_nobody_else_gets_it(self, store: Store) -> None:
        job = await known_job(store)
        await given(store, job, await add_session(store))
        other = await add_session(store)
        assert await claim(store, other, now=at(2)) == ()
        assert await store.try_claim(make_claim(other, await all_lanes(store)), now=at(2)) is None
        assert all(lane.earliest_ready_at is None for lane in await store.read_lanes([]))

    async def test_session_that_runs_something_gets_more(self, store: Store) -> None:
        job = await known_job(store)
        session = await add_session(store)
        runs = [await given(store, job, session) for _ in range(3)]
        assert len({run.run_id for run in runs}) == 3
        [result] = await store.beat_sessions([Beat(session_id=session, held=())], now=at(2))
        assert result.is_session_live
        assert result.unknown == (), "only what is missing twice is unknown"
        [result] = await store.beat_sessions([Beat(session_id=session, held=())], now=at(3))
        assert {run.run_id for run in result.unknown} == {run.run_id for run in runs}

    async def test_lease_whose_answer_is_on_its_way_is_not_unknown(self, store: Store) -> None:
        job = await known_job(store)
        session = await add_session(store)
        await given(store, job, session, claim={"number": 7})
        for second in range(2, 5):
            beat = Beat(session_id=session, held=(), answered=6)
            [result] = await store.beat_sessions([beat], now=at(second))
            assert result.unknown == ()

    async def test_it_ends_like_any_other(self, store: Store) -> None:
        job = await known_job(store)
        session = await add_session(store)
        done = await given(store, job, session)
        end = outcomes.succeeded(done.run_id, 1, session, b"1", "out")
        stale = outcomes.succeeded(done.run_id, 0, session, b"1", "out")
        assert await store.apply([stale, end, end], now=at(2)) == [
            ApplyResult.STALE,
            ApplyResult.APPLIED,
            ApplyResult.APPLIED,
        ]
        [run] = await store.get_runs([done.run_id])
        assert run is not None
        assert (run.state, run.result, run.started_at, run.finished_at) == (
            RunState.SUCCEEDED,
            b"1",
            at(1),
            at(2),
        )

    async def test_lost_with_its_session_it_is_claimed_again(self, store: Store) -> None:
        job = await known_job(store)
        session = await add_session(store)
        claimed = await given(store, job, session)
        await store.close_sessions([session], now=at(2))
        [orphan] = await store.list_orphans(limit=10)
        assert (orphan.run_id, orphan.token) == (claimed.run_id, 1)
        assert await store.apply([outcomes.lost(facts_of(orphan), job.spec, now=at(3))], now=at(3)) == [
            ApplyResult.APPLIED
        ]
        [run] = await store.get_runs([claimed.run_id])
        assert run is not None
        assert (run.state, run.token, run.crashes) == (RunState.PENDING, 2, 1)

    async def test_it_has_a_deadline_and_can_be_cancelled(self, store: Store) -> None:
        job = await known_job(store, timeout=timedelta(seconds=30))
        claimed = await given(store, job, await add_session(store))
        assert await store.list_overdue(now=at(30.9), limit=10) == []
        assert [run.run_id for run in await store.list_overdue(now=at(31), limit=10)] == [claimed.run_id]
        assert await store.cancel_runs([claimed.run_id], reason="test", now=at(2)) == [
            CancelVerdict.REQUESTED
        ]
        assert (await read_held(store, claimed.run_id)).is_cancel_requested

    async def test_it_is_found_as_the_newest_of_its_job(self, store: Store) -> None:
        job = await known_job(store)
        claimed = await given(store, job, await add_session(store))
        [newest] = await store.newest_runs([job.id], now=at(1))
        assert newest is not None
        assert newest.id == claimed.run_id
        runs = await store.list_runs(job.tenant, limit=1)
        assert [run.id for run in runs] == [claimed.run_id]

    async def test_of_two_at_once_under_one_number_one_goes_straight(self, store: Store) -> None:
        job = await known_job(store)
        session = await add_session(store)
        request = make_claim(session, await all_lanes(store))
        results = await asyncio.gather(
            *(store.submit_claimed(make_new_run(job), request=request, now=at(1)) for _ in range(8))
        )
        [claimed] = [result for result in results if result is not None]
        [again] = await store.claim_runs([request], now=at(2))
        assert again == ClaimResult((claimed,))

    async def test_many_sessions_at_once_get_a_run_each(self, store: Store) -> None:
        job = await known_job(store)
        sessions = [await add_session(store) for _ in range(8)]
        results = await asyncio.gather(*(submit_claimed(store, job, session) for session in sessions))
        given = [result for result in results if result is not None]
        assert len(given) == len({run.run_id for run in given}) == 8


class SubmitClaimedIsRefused:
    """Where something stands in the way, nothing is written: no run, and the request's number is unused."""

    __test__ = False

    async def refused(
        self,
        store: Store,
        job: Job,
        session_id: SessionId,
        *,
        claim: dict[str, Any] | None = None,
        **run: Any,
    ) -> None:
        """Check that the submission is refused, and has left nothing."""
        before = await store.list_runs(job.tenant, limit=100)
        lanes = await store.read_lanes([])
        request = await _request_of(store, session_id, {"number": 1_000_000} | (claim or {}))
        new = make_new_run(job, **{"due_at": at(1)} | run)
        assert await store.submit_claimed(new, request=request, now=at(1)) is None
        assert await store.list_runs(job.tenant, limit=100) == before
        assert await store.read_lanes([]) == lanes

    async def test_nothing_stands_in_the_way(self, store: Store) -> None:
        """A check of the tests below: what they have in common is not what is refused."""
        await given(store, await known_job(store), await add_session(store), claim={"number": 1_000_000})

    async def test_number_is_unused_after_a_refusal(self, store: Store) -> None:
        job = await known_job(store)
        session = await add_session(store)
        await self.refused(store, job, session, claim={"number": 5}, due_at=at(2))
        assert await submit_claimed(store, job, session, claim={"number": 5}) is not None

    async def test_run_that_is_not_due_or_has_expired(self, store: Store) -> None:
        job = await known_job(store)
        session = await add_session(store)
        await self.refused(store, job, session, due_at=at(1.000001))
        await self.refused(store, job, session, expires_at=at(1))

    async def test_run_that_is_not_plain(self, store: Store) -> None:
        job = await known_job(store)
        session = await add_session(store)
        key = IdempotencyKey(key="key", request_hash=b"hash", expires_at=at(100))
        await self.refused(store, job, session, submit_key=key)
        await self.refused(store, job, session, skip_reason="test")

    async def test_job_that_is_gone_or_has_changed(self, store: Store) -> None:
        await own_shards(store)
        job = await known_job(store)
        session = await add_session(store)
        await store.edit_jobs([make_edit(job)], now=START)
        await self.refused(store, job, session, must_be_newest=True)
        claimed = await given(store, job, session)
        assert claimed.version == 1, "any version will do unless it must be the newest"
        newest = await read_job(store, job.id)
        assert (await given(store, newest, session, must_be_newest=True)).version == 2
        await store.delete_jobs([make_change(newest)], now=START)
        await self.refused(store, newest, session)

    async def test_lane_that_does_not_exist_or_is_not_asked_for(self, store: Store) -> None:
        job = await known_job(store)
        session = await add_session(store)
        lane = lane_of(job)
        await self.refused(
            store, job, session, lane=LaneKey("elsewhere", lane.route, lane.tenant, lane.priority)
        )
        [lane_id] = await all_lanes(store)
        await self.refused(store, job, session, claim={"lanes": ()})
        await self.refused(store, job, session, claim={"lanes": (LaneId(lane_id + 1),)})

    async def test_lane_that_was_pruned(self, store: Store) -> None:
        job = await known_job(store)
        session = await add_session(store)
        lanes = await all_lanes(store)
        await store.prune_lanes(limit=10)
        await self.refused(store, job, session, claim={"lanes": lanes})
        assert await store.read_lanes([]) == []

    @pytest.mark.parametrize("queue", ["default", "other"])
    async def test_something_is_ready_in_one_of_the_lanes(self, store: Store, queue: str) -> None:
        """Be it in the run's own lane or in another one."""
        job = await known_job(store)
        ready = await known_job(store, queue=queue)
        session = await add_session(store)
        [first] = await submit(store, ready)
        await self.refused(store, job, session)
        assert [run.run_id for run in await claim(store, session, now=at(1))] == [first]
        await given(store, job, session)

    async def test_what_is_ready_elsewhere_or_later_does_not_matter(self, store: Store) -> None:
        job = await known_job(store)
        mine = await all_lanes(store)
        elsewhere = await known_job(store, queue="elsewhere")
        await submit(store, elsewhere)
        await submit(store, job, due_at=at(5))
        await submit(store, job, expires_at=at(0.5))
        session = await add_session(store)
        await given(store, job, session, claim={"lanes": mine})

    async def test_lower_bounds_hold(self, store: Store) -> None:
        job = await known_job(store)
        await submit(store, job)
        session = await add_session(store)
        await given(store, job, session, claim={"low": at(0.5)})
        await self.refused(store, job, session, claim={"low": START, "number": 2_000_000})

    async def test_session_that_is_not_live(self, store: Store) -> None:
        job = await known_job(store)
        left, dead = await add_session(store), await add_session(store)
        await store.close_sessions([left], now=START)
        await store.expire_sessions([(dead, 0)], now=START)
        for session in (left, dead, SessionId(dead + 1)):
            await self.refused(store, job, session)

    async def test_number_that_was_used(self, store: Store) -> None:
        job = await known_job(store)
        session = await add_session(store)
        lanes = await all_lanes(store)
        [result] = await store.claim_runs([make_claim(session, lanes, number=5)], now=at(1))
        assert result == ClaimResult(())
        for number in (4, 5):
            await self.refused(store, job, session, claim={"number": number})
        assert await submit_claimed(store, job, session, claim={"number": 6}) is not None

    async def test_session_that_runs_a_quarantined_run(self, store: Store) -> None:
        job = await known_job(store)
        await crashed_run(store, job)
        session = await add_session(store)
        assert len(await claim(store, session, now=at(1), is_quarantined=True)) == 1
        await self.refused(store, job, session)
