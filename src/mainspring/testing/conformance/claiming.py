"""Lanes and claims: who gets which runs, in which order, and each run only once."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from mainspring.core import outcomes
from mainspring.core.ids import LaneId, RunId, SessionId
from mainspring.core.model import Job, Lane, LaneKey, Priority
from mainspring.core.states import RunState
from mainspring.ports.store import Store
from mainspring.ports.store.claims import ApplyResult, ClaimedRun, ClaimResult
from mainspring.testing.factories import (
    START,
    add_job,
    add_session,
    all_lanes,
    at,
    claim,
    facts_of,
    lane_of,
    make_claim,
    make_spec,
    read_held,
    running_run,
    submit,
)

UNKNOWN_LANE = LaneId(10**12)
UNKNOWN_SESSION = SessionId(10**12)


def ids_of(runs: tuple[ClaimedRun, ...]) -> list[RunId]:
    """Return the claimed runs' ids in order."""
    return [run.run_id for run in runs]


async def lane_id_of(store: Store, job: Job) -> LaneId:
    """Return the id of the lane of a job that has live runs."""
    [lane] = [lane for lane in await store.read_lanes([]) if lane.key == lane_of(job)]
    return lane.id


async def hand_back(store: Store, *runs: ClaimedRun, now: float) -> None:
    """Hand leases back unfinished."""
    for run in runs:
        held = await read_held(store, run.run_id)
        ending = outcomes.handed_back(facts_of(held), make_spec(), now=at(now), was_started=False)
        assert await store.apply([ending], now=at(now)) == [ApplyResult.APPLIED]


async def crashed_run(store: Store, job: Job) -> RunId:
    """Submit a run, and let it be lost with its worker."""
    held = await running_run(store, job)
    ending = outcomes.lost(facts_of(held), make_spec(), now=START)
    assert await store.apply([ending], now=START) == [ApplyResult.APPLIED]
    return held.run_id


class Lanes:
    """Lanes exist while they have live runs, and show when the first of them may start."""

    __test__ = False

    async def test_read_lanes_tells_the_earliest_ready_at(self, store: Store) -> None:
        job, other = await add_job(store), await add_job(store, make_spec(queue="mail"))
        for second in (30, 10, 20):
            await submit(store, job, due_at=at(second))
        await submit(store, other, due_at=at(5))
        lanes = {lane.key: lane for lane in await store.read_lanes([])}
        assert lanes.keys() == {lane_of(job), lane_of(other)}
        lane = lanes[lane_of(job)]
        assert (lane.earliest_ready_at, lane.earliest_quarantined_at) == (at(10), None)
        assert [lane.key.queue for lane in await store.read_lanes(["mail", "none"])] == ["mail"]
        assert await store.read_lanes(["none"]) == []

    async def test_read_lanes_finds_what_is_ready_at_the_lower_bound_or_later(self, store: Store) -> None:
        job, other = await add_job(store), await add_job(store, make_spec(queue="mail"))
        for second in (10, 20):
            await submit(store, job, due_at=at(second))
        await submit(store, other, due_at=at(5))
        lane_id = await lane_id_of(store, job)
        for low in (at(10), at(0)):
            lanes = {lane.key: lane for lane in await store.read_lanes([], lows={lane_id: low})}
            assert lanes[lane_of(job)].earliest_ready_at == at(10)
            assert lanes[lane_of(other)].earliest_ready_at == at(5)

    async def test_read_lanes_by_slices_finds_each_lane_once(self, store: Store) -> None:
        jobs = [await add_job(store, make_spec(queue=f"q{number}")) for number in range(5)]
        for number, job in enumerate(jobs):
            await submit(store, job, due_at=at(number))
        whole = sorted(await store.read_lanes([]), key=lambda lane: lane.id)
        found: list[Lane] = []
        while part := await store.read_lanes([], after=found[-1].id if found else None, limit=2):
            assert len(part) <= 2
            found += part
        assert found == whole
        assert await store.read_lanes(["q1", "q3", "q4"], after=whole[1].id, limit=1) == [whole[3]]

    async def test_read_some_lanes_tells_the_same_of_those_that_are_named(self, store: Store) -> None:
        jobs = [await add_job(store, make_spec(queue=f"q{number}")) for number in range(3)]
        await crashed_run(store, jobs[2])
        for number, job in enumerate(jobs):
            await submit(store, job, due_at=at(number))
            await submit(store, job, due_at=at(number + 10))
        whole = {lane.id: lane for lane in await store.read_lanes([])}
        first, _, last = sorted(whole)
        found = await store.read_some_lanes([last, first, LaneId(last + 100)], lows={first: at(0)})
        assert {lane.id: lane for lane in found} == {first: whole[first], last: whole[last]}
        assert await store.read_some_lanes([], lows={}) == []

    async def test_read_ready_instants_tells_what_a_claim_would_take(self, store: Store) -> None:
        job, other = await add_job(store), await add_job(store, make_spec(queue="mail"))
        for second in (-10, -30, -20, 5):
            await submit(store, job, due_at=at(second), now=at(-60))
        await submit(store, other, due_at=at(-5), now=at(-60))
        await submit(store, other, due_at=at(-6), expires_at=at(-1), now=at(-60))
        lane_id, mail = await lane_id_of(store, job), await lane_id_of(store, other)
        found = await store.read_ready_instants([lane_id, mail], lows={}, now=START, limit=2)
        assert found == {lane_id: [at(-30), at(-20)], mail: [at(-5)]}
        found = await store.read_ready_instants([lane_id], lows={lane_id: at(-20)}, now=START, limit=9)
        assert found == {lane_id: [at(-20), at(-10)]}
        gone = LaneId(max(lane_id, mail) + 100)
        assert await store.read_ready_instants([gone], lows={}, now=START, limit=1) == {gone: []}
        assert await store.read_ready_instants([], lows={}, now=START, limit=1) == {}

    async def test_running_runs_are_not_ready(self, store: Store) -> None:
        await running_run(store)
        [lane] = await store.read_lanes([])
        assert (lane.earliest_ready_at, lane.earliest_quarantined_at) == (None, None)

    async def test_runs_that_crashed_a_worker_are_told_apart(self, store: Store) -> None:
        job = await add_job(store)
        await crashed_run(store, job)
        [lane] = await store.read_lanes([])
        assert (lane.earliest_ready_at, lane.earliest_quarantined_at) == (None, START)
        await submit(store, job, due_at=at(9))
        [lane] = await store.read_lanes([])
        assert (lane.earliest_ready_at, lane.earliest_quarantined_at) == (at(9), START)

    async def test_each_part_of_the_key_makes_a_lane(self, store: Store) -> None:
        job, foreign = await add_job(store), await add_job(store, tenant="other")
        base = lane_of(job)
        keys = [
            base,
            LaneKey("mail", base.route, base.tenant, base.priority),
            LaneKey(base.queue, "http", base.tenant, base.priority),
            LaneKey(base.queue, base.route, base.tenant, Priority.HIGH),
        ]
        for key in keys:
            await submit(store, job, lane=key)
        await submit(store, foreign)
        assert {lane.key for lane in await store.read_lanes([])} == {*keys, lane_of(foreign)}


class Claiming:
    """A claim takes ready runs of the given lanes in order, up to its limit."""

    __test__ = False

    async def test_claim_gives_a_lease(self, store: Store) -> None:
        job = await add_job(store, make_spec(timeout=timedelta(seconds=90)))
        [run_id] = await submit(store, job, payload=b"[1]", due_at=at(-1), target_key="key")
        session_id = await add_session(store)
        [leased] = await claim(store, session_id, now=at(5))
        assert leased == ClaimedRun(
            run_id,
            1,
            job.id,
            1,
            1,
            None,
            at(-1),
            b"[1]",
            "key",
            is_quarantined=False,
            trace=None,
            is_cancel_requested=False,
            tenant=job.tenant,
        )
        [run] = await store.get_runs([run_id])
        assert run is not None
        assert (run.state, run.token, run.session_id, run.started_at) == (
            RunState.RUNNING,
            1,
            session_id,
            at(5),
        )
        held = await read_held(store, run_id)
        assert (held.token, held.attempt, held.session_id) == (1, 1, session_id)
        assert (held.started_at, held.deadline_at) == (at(5), at(95))
        assert (held.is_quarantined, held.quarantined_crashes, held.is_cancel_requested) == (False, 0, False)

    async def test_claim_is_ordered_by_ready_at_within_a_lane(self, store: Store) -> None:
        job = await add_job(store)
        due = {second: (await submit(store, job, due_at=at(second)))[0] for second in (30, 10, 20)}
        leased = await claim(store, await add_session(store), now=at(30), limit=10)
        assert ids_of(leased) == [due[10], due[20], due[30]]

    async def test_ties_are_all_given_and_once(self, store: Store) -> None:
        job = await add_job(store)
        run_ids = await submit(store, job, 7)
        session_id = await add_session(store)
        taken = [run_id for _ in range(4) for run_id in ids_of(await claim(store, session_id, limit=2))]
        assert sorted(taken) == run_ids

    async def test_claim_follows_the_order_of_lanes(self, store: Store) -> None:
        early, late = (
            await add_job(store, make_spec(queue="early")),
            await add_job(store, make_spec(queue="late")),
        )
        [first], [second] = await submit(store, early, due_at=at(1)), await submit(store, late, due_at=at(2))
        lanes = [await lane_id_of(store, job) for job in (late, early)]
        leased = await claim(store, await add_session(store), now=at(9), lanes=lanes, limit=10)
        assert ids_of(leased) == [second, first]

    async def test_claim_takes_from_the_next_lane_what_the_first_lacks(self, store: Store) -> None:
        one, two = await add_job(store, make_spec(queue="one")), await add_job(store, make_spec(queue="two"))
        first, second = await submit(store, one, 2), await submit(store, two, 3)
        lanes = [await lane_id_of(store, job) for job in (one, two)]
        leased = await claim(store, await add_session(store), lanes=lanes, limit=4)
        assert set(ids_of(leased)[:2]) == set(first)
        assert set(ids_of(leased)[2:]) < set(second)
        assert len(leased) == 4

    async def test_claim_leaves_other_lanes_alone(self, store: Store) -> None:
        one, two = await add_job(store, make_spec(queue="one")), await add_job(store, make_spec(queue="two"))
        await submit(store, one)
        [run_id] = await submit(store, two)
        lanes = [UNKNOWN_LANE, await lane_id_of(store, two)]
        session_id = await add_session(store)
        assert ids_of(await claim(store, session_id, lanes=lanes, limit=9)) == [run_id]
        assert await claim(store, session_id, lanes=[], limit=9) == ()

    async def test_claim_waits_for_the_ready_at(self, store: Store) -> None:
        job = await add_job(store)
        [run_id] = await submit(store, job, due_at=at(10))
        session_id = await add_session(store)
        assert await claim(store, session_id, now=at(9.999999)) == ()
        assert ids_of(await claim(store, session_id, now=at(10))) == [run_id]

    async def test_lower_bound_hides_older_runs_until_a_full_sweep(self, store: Store) -> None:
        job = await add_job(store)
        [old], [edge] = await submit(store, job, due_at=at(1)), await submit(store, job, due_at=at(5))
        session_id = await add_session(store)
        assert ids_of(await claim(store, session_id, now=at(9), low=at(5), limit=9)) == [edge]
        assert ids_of(await claim(store, session_id, now=at(9), limit=9)) == [old]

    async def test_each_lane_has_its_own_lower_bound(self, store: Store) -> None:
        job, other = await add_job(store), await add_job(store, make_spec(queue="mail"))
        for each in (job, other):
            await submit(store, each, due_at=at(1))
        [edge] = await submit(store, job, due_at=at(5))
        bounded, free = await lane_id_of(store, job), await lane_id_of(store, other)
        lows = {bounded: at(5), UNKNOWN_LANE: at(9)}
        session_id = await add_session(store)
        lanes = (bounded, free)
        found = await claim(store, session_id, now=at(9), lanes=lanes, lows=lows, limit=9)
        assert [(run.run_id == edge, run.due_at) for run in found] == [(True, at(5)), (False, at(1))]

    async def test_expired_runs_are_passed_over(self, store: Store) -> None:
        job = await add_job(store)
        await submit(store, job, expires_at=at(5))
        [fresh] = await submit(store, job, expires_at=at(50))
        assert ids_of(await claim(store, await add_session(store), now=at(9), limit=9)) == [fresh]

    async def test_run_is_claimed_before_it_expires_and_not_at_that_instant(self, store: Store) -> None:
        job, session_id = await add_job(store), await add_session(store)
        [run_id] = await submit(store, job, expires_at=at(5))
        assert await claim(store, session_id, now=at(5)) == ()
        assert ids_of(await claim(store, session_id, now=at(4))) == [run_id]

    async def test_limit_zero_takes_nothing(self, store: Store) -> None:
        await submit(store, await add_job(store))
        assert await claim(store, await add_session(store), limit=0) == ()

    async def test_claim_is_refused_without_a_live_session(self, store: Store) -> None:
        await submit(store, await add_job(store), 5)
        closed, dead = await add_session(store), await add_session(store)
        await store.close_sessions([closed], now=START)
        assert await store.expire_sessions([(dead, 0)], now=START) == [True]
        lanes = await all_lanes(store)
        requests = [make_claim(session_id, lanes) for session_id in (closed, dead, UNKNOWN_SESSION)]
        refused = ClaimResult((), is_session_live=False)
        assert await store.claim_runs(requests, now=at(1)) == [refused] * 3
        assert await store.count_runs("default") == {RunState.PENDING: 5}

    async def test_requests_of_a_call_are_served_in_order(self, store: Store) -> None:
        job = await add_job(store)
        run_ids = [(await submit(store, job, due_at=at(second)))[0] for second in range(5)]
        lanes = await all_lanes(store)
        sessions = [await add_session(store) for _ in range(3)]
        requests = [make_claim(session_id, lanes, limit=2) for session_id in sessions]
        requests.insert(1, make_claim(UNKNOWN_SESSION, lanes))
        results = await store.claim_runs(requests, now=at(9))
        assert [result.is_session_live for result in results] == [True, False, True, True]
        given = [ids_of(result.runs) for result in results]
        assert given == [run_ids[:2], [], run_ids[2:4], run_ids[4:]]

    async def test_no_more_than_its_quota_is_taken_of_a_lane(self, store: Store) -> None:
        jobs = [await add_job(store, make_spec(queue=queue)) for queue in ("a", "b", "c")]
        first, second, third = [await submit(store, job, 5) for job in jobs]
        lanes = [await lane_id_of(store, job) for job in jobs]
        session_id = await add_session(store)
        request = make_claim(session_id, lanes, limit=9, quotas={lanes[0]: 3, lanes[1]: 0})
        [result] = await store.claim_runs([request], now=at(1))
        assert ids_of(result.runs) == first[:3] + third
        assert result.taken == {lanes[0]: 3, lanes[2]: 5}
        request = make_claim(session_id, lanes, limit=3, quotas={lanes[0]: 1, lanes[1]: 9})
        [result] = await store.claim_runs([request], now=at(1))
        assert ids_of(result.runs) == [first[3], *second[:2]]

    async def test_expired_and_later_runs_do_not_count_for_the_quota(self, store: Store) -> None:
        job = await add_job(store)
        await submit(store, job, expires_at=at(2))
        [fresh] = await submit(store, job)
        [lane_id] = await all_lanes(store)
        request = make_claim(await add_session(store), [lane_id], limit=9, quotas={lane_id: 1})
        [result] = await store.claim_runs([request], now=at(5))
        assert ids_of(result.runs) == [fresh]

    async def test_requests_of_a_call_share_their_quotas(self, store: Store) -> None:
        jobs = [await add_job(store, make_spec(queue=queue)) for queue in ("a", "b")]
        first, second = [await submit(store, job, 9) for job in jobs]
        lanes = [await lane_id_of(store, job) for job in jobs]
        sessions = [await add_session(store) for _ in range(3)]
        quotas = {lanes[0]: 3, lanes[1]: 2}
        requests = [make_claim(session_id, lanes, limit=2, quotas=quotas) for session_id in sessions]
        given = [ids_of(result.runs) for result in await store.claim_runs(requests, now=at(1))]
        assert sorted(run_id for run_ids in given for run_id in run_ids) == sorted(first[:3] + second[:2])
        one = sessions[0]  # its claims cannot be answered by one statement
        requests = [make_claim(one, lanes, limit=2, quotas=quotas) for _ in range(3)]
        given = [ids_of(result.runs) for result in await store.claim_runs(requests, now=at(1))]
        assert given == [first[3:5], [first[5], second[2]], [second[3]]]

    async def test_run_of_a_deleted_or_paused_job_is_still_given(self, store: Store) -> None:
        job = await add_job(store)
        run_ids = await submit(store, job, 2)
        assert len(await claim(store, await add_session(store), limit=5)) == len(run_ids)


class NoDoubleClaim:
    """However many sessions claim at once, each run goes to only one of them."""

    __test__ = False

    async def test_concurrent_claimers_share_the_runs(self, store: Store) -> None:
        run_ids = await submit(store, await add_job(store), 100)
        sessions = [await add_session(store) for _ in range(10)]
        lanes = await all_lanes(store)
        taken: list[RunId] = []

        async def claim_all(session_id: SessionId) -> None:
            while runs := await claim(store, session_id, lanes=lanes, limit=3):
                taken.extend(ids_of(runs))

        await asyncio.gather(*(claim_all(session_id) for session_id in sessions))
        assert len(taken) == len(set(taken))
        # A claimer may find the last rows locked by another one and leave. The next one gets them.
        taken += ids_of(await claim(store, sessions[0], lanes=lanes, limit=100))
        assert sorted(taken) == run_ids

    async def test_concurrent_claims_of_one_session_share_the_runs(self, store: Store) -> None:
        await submit(store, await add_job(store), 20)
        session_id = await add_session(store)
        lanes = await all_lanes(store)
        answers = await asyncio.gather(*(claim(store, session_id, lanes=lanes, limit=2) for _ in range(12)))
        taken = [run_id for runs in answers for run_id in ids_of(runs)]
        assert len(taken) == len(set(taken))

    async def test_claimed_run_is_not_given_again_while_it_runs(self, store: Store) -> None:
        await running_run(store)
        assert await claim(store, await add_session(store), now=at(10**6), limit=9) == ()

    async def test_token_grows_with_every_claim_and_every_loss(self, store: Store) -> None:
        [run_id] = await submit(store, await add_job(store))
        session_id = await add_session(store)
        tokens = []
        for second in range(3):
            [leased] = await claim(store, session_id, now=at(second))
            tokens.append(leased.token)
            await hand_back(store, leased, now=second)
            [run] = await store.get_runs([run_id])
            assert run is not None
            tokens.append(run.token)
        assert tokens == sorted(set(tokens))

    async def test_claim_and_session_death_at_once_leave_no_hidden_lease(self, store: Store) -> None:
        await submit(store, await add_job(store), 5)
        session_id = await add_session(store)
        request = make_claim(session_id, await all_lanes(store), limit=5)
        [[result], _] = await asyncio.gather(
            store.claim_runs([request], now=START), store.close_sessions([session_id], now=START)
        )
        orphans = [held.run_id for held in await store.list_orphans(limit=10)]
        assert orphans == sorted(ids_of(result.runs))
