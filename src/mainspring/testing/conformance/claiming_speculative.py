"""Speculative claims: `try_claim` gives what `claim_runs` would give, or does nothing at all."""

from __future__ import annotations

import asyncio

from mainspring.core.states import RunState
from mainspring.ports.store import Store
from mainspring.ports.store.claims import ClaimResult
from mainspring.testing.conformance.claiming import crashed_run
from mainspring.testing.factories import (
    START,
    add_job,
    add_session,
    all_lanes,
    at,
    make_claim,
    make_spec,
    submit,
)


class SpeculativeClaims:
    """A claim that finds nothing writes nothing, so the number of its request is still unused."""

    __test__ = False

    async def test_it_gives_what_is_ready(self, store: Store) -> None:
        job = await add_job(store)
        first, second, _ = await submit(store, job, 3)
        session = await add_session(store)
        request = make_claim(session, await all_lanes(store), limit=2)
        result = await store.try_claim(request, now=at(1))
        assert result is not None
        assert result.is_session_live
        assert [run.run_id for run in result.runs] == [first, second]
        runs = await store.get_runs([first, second])
        assert [(run.state, run.token, run.started_at) for run in runs if run] == [
            (RunState.RUNNING, 1, at(1)),
            (RunState.RUNNING, 1, at(1)),
        ]

    async def test_no_more_than_its_quota_is_taken_of_a_lane(self, store: Store) -> None:
        first, *_ = await submit(store, await add_job(store), 3)
        [lane_id] = await all_lanes(store)
        request = make_claim(await add_session(store), [lane_id], limit=9, quotas={lane_id: 1})
        result = await store.try_claim(request, now=at(1))
        assert result is not None
        assert [run.run_id for run in result.runs] == [first]
        assert result.taken == {lane_id: 1}

    async def test_its_answer_can_be_repeated(self, store: Store) -> None:
        [run_id] = await submit(store, await add_job(store))
        session = await add_session(store)
        request = make_claim(session, await all_lanes(store), limit=1)
        given = await store.try_claim(request, now=at(1))
        assert given is not None
        [again] = await store.claim_runs([request], now=at(2))
        assert again == given
        assert [run.run_id for run in again.runs] == [run_id]
        assert await store.try_claim(request, now=at(2)) is None

    async def test_in_vain_it_leaves_the_number_unused(self, store: Store) -> None:
        job = await add_job(store)
        [run_id] = await submit(store, job, due_at=at(10))
        session = await add_session(store)
        request = make_claim(session, await all_lanes(store), limit=1)
        assert await store.try_claim(request, now=at(9)) is None
        result = await store.try_claim(request, now=at(10))
        assert result is not None
        assert [run.run_id for run in result.runs] == [run_id]

    async def test_it_keeps_to_its_lanes_and_their_bounds(self, store: Store) -> None:
        lanes = {}
        for queue in ("a", "b"):
            job = await add_job(store, make_spec(queue=queue))
            await submit(store, job)
            lanes[queue] = [lane.id for lane in await store.read_lanes([queue])]
        session = await add_session(store)
        [lane] = lanes["b"]
        nowhere = make_claim(session, (), limit=9)
        assert await store.try_claim(nowhere, now=at(1)) is None
        too_late = make_claim(session, (lane,), limit=9, lows={lane: at(1)})
        assert await store.try_claim(too_late, now=at(1)) is None
        result = await store.try_claim(make_claim(session, (lane,), limit=9), now=at(1))
        assert result is not None
        assert len(result.runs) == 1

    async def test_session_that_is_not_live_gets_nothing(self, store: Store) -> None:
        [run_id] = await submit(store, await add_job(store))
        session = await add_session(store)
        await store.close_sessions([session], now=START)
        request = make_claim(session, await all_lanes(store), limit=1)
        assert await store.try_claim(request, now=at(1)) is None
        assert await store.claim_runs([request], now=at(1)) == [ClaimResult((), is_session_live=False)]
        [run] = await store.get_runs([run_id])
        assert run is not None
        assert run.state is RunState.PENDING

    async def test_number_that_was_used_gives_nothing(self, store: Store) -> None:
        job = await add_job(store)
        await submit(store, job)
        session = await add_session(store)
        lanes = await all_lanes(store)
        request = make_claim(session, lanes, limit=1)
        await store.claim_runs([request], now=at(1))
        await submit(store, job)
        assert await store.try_claim(request, now=at(2)) is None

    async def test_expired_and_crashed_runs_are_left_alone(self, store: Store) -> None:
        job = await add_job(store)
        await crashed_run(store, job)
        await submit(store, job, expires_at=at(5))
        session = await add_session(store)
        request = make_claim(session, await all_lanes(store), limit=9)
        assert await store.try_claim(request, now=at(6)) is None

    async def test_of_many_at_once_each_run_goes_to_one(self, store: Store) -> None:
        job = await add_job(store)
        run_ids = await submit(store, job, 3)
        lanes = await all_lanes(store)
        sessions = [await add_session(store) for _ in range(8)]
        results = await asyncio.gather(
            *(store.try_claim(make_claim(session, lanes, limit=1), now=at(1)) for session in sessions)
        )
        given = [run.run_id for result in results if result is not None for run in result.runs]
        assert sorted(given) == sorted(run_ids)
        assert all(result is None or result.runs for result in results)

    async def test_nothing_ready_is_nothing_written(self, store: Store) -> None:
        session = await add_session(store)
        assert await store.try_claim(make_claim(session, (), limit=1), now=START) is None
