"""Claims of several sessions in one call: a busy server answers all that wait for the same lanes at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from mainspring.core.ids import LaneId, RunId, SessionId
from mainspring.core.states import RunState
from mainspring.ports.store import Store
from mainspring.ports.store.claims import ClaimRequest
from mainspring.testing.conformance.claiming import UNKNOWN_SESSION, crashed_run, ids_of, lane_id_of
from mainspring.testing.factories import (
    START,
    add_job,
    add_session,
    all_lanes,
    at,
    claim,
    make_claim,
    make_spec,
    read_held,
    submit,
)


async def claim_together(
    store: Store, requests: Sequence[ClaimRequest], *, now: float = 60
) -> list[list[RunId]]:
    """Claim in one call, and return each session's runs in order."""
    return [ids_of(result.runs) for result in await store.claim_runs(requests, now=at(now))]


def ask(
    sessions: Mapping[SessionId, int],
    lanes: Sequence[LaneId],
    *,
    lows: Mapping[LaneId, datetime] | None = None,
) -> list[ClaimRequest]:
    """Make the sessions' requests for so many runs each, all with one mapping of lower bounds, as a server does."""
    shared = lows or {}
    return [make_claim(session_id, lanes, limit=limit, lows=shared) for session_id, limit in sessions.items()]


class ClaimingTogether:
    """The requests of a call are answered as if they came one after the other."""

    __test__ = False

    async def test_runs_go_out_in_order_to_the_sessions_in_the_order_of_the_call(self, store: Store) -> None:
        job = await add_job(store)
        due = {second: (await submit(store, job, due_at=at(second)))[0] for second in (40, 10, 50, 30, 20)}
        one, two, three = [await add_session(store) for _ in range(3)]
        requests = ask({two: 2, three: 1, one: 9}, await all_lanes(store))
        given = await claim_together(store, requests)
        assert given == [[due[10], due[20]], [due[30]], [due[40], due[50]]]
        for session_id, run_ids in zip((two, three, one), given, strict=True):
            assert {(await read_held(store, run_id)).session_id for run_id in run_ids} == {session_id}

    async def test_each_request_may_be_repeated_and_answers_the_same_leases(self, store: Store) -> None:
        await submit(store, await add_job(store), 5)
        one, two, three = [await add_session(store) for _ in range(3)]
        requests = ask({two: 1, one: 2, three: 1}, await all_lanes(store))
        first = await store.claim_runs(requests, now=at(1))
        assert [len(result.runs) for result in first] == [1, 2, 1]
        assert await store.claim_runs(requests, now=at(2)) == first
        assert [await store.claim_runs([request], now=at(3)) for request in requests] == [
            [result] for result in first
        ]
        late = [replace(request, number=request.number - 10) for request in requests]
        assert await claim_together(store, late) == [[], [], []]

    async def test_leases_are_as_of_a_single_claim(self, store: Store) -> None:
        job = await add_job(store, make_spec(timeout=timedelta(seconds=90)))
        run_ids = await submit(store, job, 2)
        sessions = [await add_session(store) for _ in range(2)]
        results = await store.claim_runs(ask(dict.fromkeys(sessions, 1), await all_lanes(store)), now=at(5))
        for result, session_id in zip(results, sessions, strict=True):
            [leased] = result.runs
            assert (leased.token, leased.is_quarantined, leased.is_cancel_requested) == (1, False, False)
            held = await read_held(store, leased.run_id)
            assert (held.token, held.session_id, held.is_quarantined) == (1, session_id, False)
            assert (held.started_at, held.deadline_at) == (at(5), at(95))
        assert {leased.run_id for result in results for leased in result.runs} == set(run_ids)

    async def test_lanes_are_emptied_in_turn_and_no_more_is_taken_than_was_asked_for(
        self, store: Store
    ) -> None:
        job, other = await add_job(store), await add_job(store, make_spec(queue="mail"))
        first, second = await submit(store, job, 2), await submit(store, other, 3)
        lanes = [await lane_id_of(store, job), await lane_id_of(store, other)]
        one, two = [await add_session(store) for _ in range(2)]
        given = await claim_together(store, ask({one: 1, two: 1}, lanes))
        assert [len(run_ids) for run_ids in given] == [1, 1]
        assert {*given[0], *given[1]} == set(first)
        assert await store.count_runs("default") == {RunState.RUNNING: 2, RunState.PENDING: 3}
        [mine, others] = await claim_together(store, ask({two: 2, one: 2}, lanes))
        assert (len(mine), len(others)) == (2, 1)
        assert {*mine, *others} == set(second)

    async def test_only_what_is_ready_and_not_below_the_bound_goes_out(self, store: Store) -> None:
        job = await add_job(store)
        await crashed_run(store, job)
        [_, at_bound, at_now, _, _, living] = [
            (await submit(store, job, due_at=at(due), expires_at=None if end is None else at(end)))[0]
            for due, end in ((19, None), (20, None), (60, None), (61, None), (30, 60), (40, 61))
        ]
        one, two = [await add_session(store) for _ in range(2)]
        lane_id = await lane_id_of(store, job)
        given = await claim_together(store, ask({one: 2, two: 9}, [lane_id], lows={lane_id: at(20)}))
        assert given == [[at_bound, living], [at_now]]

    async def test_session_that_is_not_live_and_one_that_runs_something_alone_get_nothing(
        self, store: Store
    ) -> None:
        job = await add_job(store)
        for _ in range(2):
            await crashed_run(store, job)
        alone, gone, free = [await add_session(store) for _ in range(3)]
        assert len(await claim(store, alone, now=at(1), is_quarantined=True)) == 1
        await store.close_sessions([gone], now=at(1))
        run_ids = await submit(store, job, 3)
        sessions = dict.fromkeys((alone, gone, UNKNOWN_SESSION, free), 9)
        results = await store.claim_runs(ask(sessions, await all_lanes(store)), now=at(60))
        assert [result.is_session_live for result in results] == [True, False, False, True]
        assert [len(result.runs) for result in results] == [0, 0, 0, 3]
        assert set(ids_of(results[3].runs)) == set(run_ids)

    async def test_session_that_runs_something_gets_more(self, store: Store) -> None:
        await submit(store, await add_job(store), 4)
        one, two = [await add_session(store) for _ in range(2)]
        lanes = await all_lanes(store)
        for _ in range(2):
            given = await claim_together(store, ask({one: 1, two: 1}, lanes), now=1)
            assert [len(run_ids) for run_ids in given] == [1, 1]

    async def test_repeated_answer_tells_of_a_cancel_that_was_asked_for_meanwhile(self, store: Store) -> None:
        await submit(store, await add_job(store), 2)
        one, two = [await add_session(store) for _ in range(2)]
        requests = ask({one: 1, two: 1}, await all_lanes(store))
        results = await store.claim_runs(requests, now=START)
        cancelled = results[1].runs[0]
        await store.cancel_runs([cancelled.run_id], reason="operator", now=at(1))
        repeated = await store.claim_runs(requests, now=at(2))
        told = [result.runs[0].is_cancel_requested for result in repeated]
        assert told == [False, True]
