"""Limits: what waits in lines starts only where all its keys have room, and nothing leaks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from mainspring.core import outcomes
from mainspring.core.ids import RunId, SessionId
from mainspring.core.limits import Hold, JobLimit, LimitRule
from mainspring.core.model import Job
from mainspring.core.outcomes import Failure
from mainspring.core.rates import Rate
from mainspring.core.retry import RetryPolicy
from mainspring.core.states import RunState
from mainspring.ports.store import Store
from mainspring.ports.store.claims import ApplyResult, ClaimedRun
from mainspring.ports.store.limits import LineQuota
from mainspring.testing.factories import (
    add_job,
    add_session,
    at,
    claim,
    claim_lined_up,
    facts_of,
    make_spec,
    read_held,
    submit,
)

TEN_A_SECOND = Rate(10, timedelta(seconds=1))


def by_customer(**limit: Any) -> JobLimit:
    """Return a limit with a line for each customer."""
    return JobLimit(key="$.customer", **limit)


def payload(customer: str) -> bytes:
    """Return the payload of a customer's run."""
    return b'{"customer":"%s"}' % customer.encode()


async def limited(store: Store, *limits: JobLimit, **options: Any) -> Job:
    """Insert a job with limits."""
    return await add_job(store, make_spec(concurrency=limits, **options))


async def end(store: Store, runs: Sequence[ClaimedRun], session_id: SessionId, *, seconds: float = 1) -> None:
    """Let runs succeed."""
    ends = [outcomes.succeeded(run.run_id, run.token, session_id) for run in runs]
    assert set(await store.apply(ends, now=at(seconds))) <= {ApplyResult.APPLIED}


async def fail(store: Store, job: Job, run_id: RunId, *, seconds: float) -> None:
    """Let an attempt of a run fail, with a retry to come."""
    held = await read_held(store, run_id)
    failure = outcomes.failed(
        facts_of(held), job.spec, Failure(error="no"), now=at(seconds), random=lambda: 0.5
    )
    assert await store.apply([failure], now=at(seconds)) == [ApplyResult.APPLIED]


def ids(runs: Sequence[ClaimedRun]) -> list[RunId]:
    """Return the ids of runs."""
    return [run.run_id for run in runs]


class Caps:
    """No more runs of a key are under way than its limit says, and each end makes room."""

    __test__ = False

    async def test_only_claims_of_lines_start_them(self, store: Store) -> None:
        job, session_id = await limited(store, JobLimit(limit=1)), await add_session(store)
        [run_id] = await submit(store, job)
        assert await claim(store, session_id, limit=9) == ()
        result = await claim_lined_up(store, session_id, limit=9)
        assert ids(result.runs) == [run_id]
        [run] = await store.get_runs([run_id])
        assert run is not None
        assert (run.state, run.token, run.session_id) == (RunState.RUNNING, 1, session_id)

    async def test_a_cap_is_kept_and_an_end_makes_room(self, store: Store) -> None:
        job, session_id = await limited(store, JobLimit(limit=2)), await add_session(store)
        runs = await submit(store, job, 5)
        first = await claim_lined_up(store, session_id, limit=9)
        assert ids(first.runs) == runs[:2]
        assert (await claim_lined_up(store, session_id, limit=9)).runs == ()
        await end(store, first.runs[:1], session_id)
        second = await claim_lined_up(store, session_id, limit=9, now=at(1))
        assert ids(second.runs) == runs[2:3]

    async def test_each_key_has_its_own_room(self, store: Store) -> None:
        job, session_id = await limited(store, by_customer(limit=1)), await add_session(store)
        for customer in ("a", "a", "b"):
            await submit(store, job, payload=payload(customer))
        result = await claim_lined_up(store, session_id, limit=9)
        assert Counter(run.payload for run in result.runs) == {payload("a"): 1, payload("b"): 1}
        assert len(set(result.keys.values())) == 2
        assert sum(result.taken.values()) == 2

    async def test_a_stop_names_the_key_that_has_no_room(self, store: Store) -> None:
        job, session_id = await limited(store, JobLimit(limit=1)), await add_session(store)
        await submit(store, job, 2)
        first = await claim_lined_up(store, session_id, limit=9)
        second = await claim_lined_up(store, session_id, limit=9)
        [keys] = first.keys.values()
        [(line, stop)] = second.stops.items()
        assert (line.key_id, stop.key_id, stop.is_busy, stop.until) == (keys[0], keys[0], False, None)

    async def test_a_run_needs_room_under_all_its_keys(self, store: Store) -> None:
        await store.write_limits("default", [LimitRule(name="crm", max_running=2)])
        job = await limited(store, by_customer(limit=5), JobLimit(use="crm"))
        session_id = await add_session(store)
        for customer in "abc":
            await submit(store, job, payload=payload(customer))
        result = await claim_lined_up(store, session_id, limit=9)
        assert len(result.runs) == 2
        [stop] = result.stops.values()
        assert all(stop.key_id == keys[1] for keys in result.keys.values())
        await end(store, result.runs[:1], session_id)
        assert len((await claim_lined_up(store, session_id, limit=9, now=at(1))).runs) == 1

    async def test_jobs_share_a_limit(self, store: Store) -> None:
        await store.write_limits("default", [LimitRule(name="crm", max_running=1)])
        jobs = [await limited(store, JobLimit(use="crm")) for _ in range(2)]
        session_id = await add_session(store)
        for job in jobs:
            await submit(store, job)
        assert len((await claim_lined_up(store, session_id, limit=9)).runs) == 1
        assert (await claim_lined_up(store, session_id, limit=9)).runs == ()

    async def test_tenants_do_not_share_limits(self, store: Store) -> None:
        await store.write_limits("default", [LimitRule(name="crm", max_running=1)])
        await store.write_limits("acme", [LimitRule(name="crm", max_running=9)])
        spec = make_spec(concurrency=(JobLimit(use="crm"),))
        for tenant in ("default", "acme", "acme"):
            job = await add_job(store, make_spec(concurrency=spec.concurrency), tenant=tenant)
            await submit(store, job)
        result = await claim_lined_up(store, await add_session(store), limit=9)
        assert Counter(run.tenant for run in result.runs) == {"default": 1, "acme": 2}

    async def test_what_a_lost_worker_held_is_free_again(self, store: Store) -> None:
        job = await limited(store, JobLimit(limit=1))
        await submit(store, job)
        session_id = await add_session(store)
        [run] = (await claim_lined_up(store, session_id)).runs
        await submit(store, job)
        held = await read_held(store, run.run_id)
        await store.apply([outcomes.lost(facts_of(held), job.spec, now=at(1))], now=at(1))
        [other] = (await claim_lined_up(store, await add_session(store), now=at(1))).runs
        assert other.run_id != run.run_id

    async def test_late_report_of_a_lost_lease_frees_nothing(self, store: Store) -> None:
        job = await limited(store, JobLimit(limit=1))
        await submit(store, job, 3)
        session_id, other_id = await add_session(store), await add_session(store)
        [run] = (await claim_lined_up(store, session_id)).runs
        held = await read_held(store, run.run_id)
        await store.apply(
            [outcomes.handed_back(facts_of(held), job.spec, now=at(1), was_started=False)], now=at(1)
        )
        [next_run] = (await claim_lined_up(store, other_id, now=at(1))).runs
        late = outcomes.succeeded(run.run_id, run.token, session_id)
        for _ in range(2):
            assert await store.apply([late], now=at(2)) == [ApplyResult.STALE]
        assert (await claim_lined_up(store, session_id, limit=9, now=at(2))).runs == ()
        await end(store, [next_run], other_id, seconds=3)
        assert len((await claim_lined_up(store, session_id, limit=9, now=at(3))).runs) == 1

    async def test_cancelled_runs_leave_the_line(self, store: Store) -> None:
        job, session_id = await limited(store, JobLimit(limit=1)), await add_session(store)
        runs = await submit(store, job, 3)
        await store.cancel_runs(runs[:2], reason="cancelled", now=at(0))
        result = await claim_lined_up(store, session_id, limit=9)
        assert ids(result.runs) == runs[2:]

    async def test_quarantined_run_keeps_to_its_limits(self, store: Store) -> None:
        job = await limited(store, JobLimit(limit=1))
        [run_id] = await submit(store, job)
        [run] = (await claim_lined_up(store, await add_session(store))).runs
        held = await read_held(store, run.run_id)
        await store.apply([outcomes.lost(facts_of(held), job.spec, now=at(1))], now=at(1))
        assert await store.read_lines(limit=9) == []
        [other_id] = await submit(store, job)
        busy, idle = await add_session(store), await add_session(store)
        other = (await claim_lined_up(store, busy, now=at(1))).runs
        assert ids(other) == [other_id]
        assert await claim(store, idle, now=at(1), is_quarantined=True) == ()
        await end(store, other, busy, seconds=2)
        [again] = await claim(store, idle, now=at(2), is_quarantined=True)
        assert (again.run_id, again.is_quarantined) == (run_id, True)
        await submit(store, job)
        assert (await claim_lined_up(store, busy, now=at(2))).runs == ()


class Holds:
    """With `hold: run`, a run keeps its place between its attempts."""

    __test__ = False

    async def test_a_retry_keeps_its_place_and_goes_first(self, store: Store) -> None:
        limit = JobLimit(limit=1, hold=Hold.RUN)
        job = await limited(store, limit, retry=RetryPolicy(jitter=0.0))
        session_id = await add_session(store)
        first, second = await submit(store, job, 2)
        [run] = (await claim_lined_up(store, session_id)).runs
        held = await read_held(store, run.run_id)
        failure = outcomes.failed(
            facts_of(held), job.spec, Failure(error="no"), now=at(1), random=lambda: 0.5
        )
        assert failure.ready_at == at(6)
        await store.apply([failure], now=at(1))
        waiting = await claim_lined_up(store, session_id, limit=9, now=at(2))
        assert waiting.runs == ()
        [stop] = waiting.stops.values()
        assert stop.until == at(6)
        [retry] = (await claim_lined_up(store, session_id, limit=9, now=at(6))).runs
        assert (retry.run_id, retry.attempt) == (first, 2)
        await end(store, [retry], session_id, seconds=7)
        assert ids((await claim_lined_up(store, session_id, limit=9, now=at(7))).runs) == [second]

    async def test_by_attempt_a_retry_gives_its_place_up(self, store: Store) -> None:
        job = await limited(store, JobLimit(limit=1), retry=RetryPolicy(jitter=0.0))
        session_id = await add_session(store)
        _, second = await submit(store, job, 2)
        [run] = (await claim_lined_up(store, session_id)).runs
        await fail(store, job, run.run_id, seconds=1)
        assert ids((await claim_lined_up(store, session_id, limit=9, now=at(2))).runs) == [second]

    async def test_a_kept_place_counts_for_the_attempt_under_way(self, store: Store) -> None:
        """Else the run would have none once the limit is changed to `hold: attempt`, and its key would be removed."""
        rule = LimitRule(name="crm", max_running=1, hold=Hold.RUN)
        await store.write_limits("default", [rule])
        job = await limited(store, JobLimit(use="crm"), retry=RetryPolicy(jitter=0.0))
        session_id = await add_session(store)
        [run_id] = await submit(store, job)
        await claim_lined_up(store, session_id)
        await fail(store, job, run_id, seconds=1)
        assert ids((await claim_lined_up(store, session_id, now=at(6))).runs) == [run_id]
        await store.write_limits("default", [replace(rule, hold=Hold.ATTEMPT)])
        assert await store.prune_limits(now=at(7), limit=9) == 0
        [other] = await submit(store, job, now=at(7))
        assert (await claim_lined_up(store, session_id, limit=9, now=at(7))).runs == ()
        await store.cancel_runs([other], reason="cancelled", now=at(7))
        await fail(store, job, run_id, seconds=8)
        await store.prune_limits(now=at(9), limit=9)
        assert ids((await claim_lined_up(store, session_id, limit=9, now=at(60))).runs) == [run_id]

    async def test_no_more_of_the_holders_are_under_way_than_a_lower_cap_allows(self, store: Store) -> None:
        rule = LimitRule(name="crm", max_running=3, hold=Hold.RUN)
        await store.write_limits("default", [rule])
        job = await limited(store, JobLimit(use="crm"), retry=RetryPolicy(jitter=0.0))
        session_id = await add_session(store)
        run_ids = await submit(store, job, 3)
        assert len((await claim_lined_up(store, session_id, limit=9)).runs) == 3
        for run_id in run_ids[1:]:
            await fail(store, job, run_id, seconds=1)
        await store.write_limits("default", [replace(rule, max_running=1)])
        assert (await claim_lined_up(store, session_id, limit=9, now=at(60))).runs == ()
        await fail(store, job, run_ids[0], seconds=61)
        [retry] = (await claim_lined_up(store, session_id, limit=9, now=at(120))).runs
        await end(store, [retry], session_id, seconds=121)
        assert len((await claim_lined_up(store, session_id, limit=9, now=at(122))).runs) == 1

    async def test_entries_of_earlier_attempts_are_one_place(self, store: Store) -> None:
        """Without a cap nobody compares entries with their runs; then the limit gets one, and `hold: run`."""
        await store.write_limits("default", [LimitRule(name="crm", rate=TEN_A_SECOND, burst=9)])
        job = await limited(store, JobLimit(use="crm"), retry=RetryPolicy(jitter=0.0))
        session_id = await add_session(store)
        [run_id] = await submit(store, job)
        await claim_lined_up(store, session_id)
        await fail(store, job, run_id, seconds=1)
        assert ids((await claim_lined_up(store, session_id, now=at(10))).runs) == [run_id]
        await store.write_limits("default", [LimitRule(name="crm", max_running=2, hold=Hold.RUN)])
        [other] = await submit(store, job, now=at(10))
        assert ids((await claim_lined_up(store, session_id, limit=9, now=at(10))).runs) == [other]


class Rates:
    """No more runs start than permits have come in."""

    __test__ = False

    async def test_a_burst_and_then_one_by_one(self, store: Store) -> None:
        job = await limited(store, JobLimit(rate=TEN_A_SECOND, burst=2))
        session_id = await add_session(store)
        await submit(store, job, 9)
        first = await claim_lined_up(store, session_id, limit=9)
        assert len(first.runs) == 2
        [stop] = first.stops.values()
        assert stop.until is not None
        assert at(0.1) <= stop.until <= at(0.101)
        assert (await claim_lined_up(store, session_id, limit=9, now=at(0.09))).runs == ()
        assert len((await claim_lined_up(store, session_id, limit=9, now=at(0.1))).runs) == 1
        assert len((await claim_lined_up(store, session_id, limit=9, now=at(60))).runs) == 2

    async def test_a_clock_that_is_behind_brings_no_permits(self, store: Store) -> None:
        job = await limited(store, JobLimit(rate=TEN_A_SECOND, burst=1))
        session_id = await add_session(store)
        await submit(store, job, 3)
        low = at(-9)
        lines = tuple(LineQuota(line.key, low, 9) for line in await store.read_lines(limit=9))
        assert len((await claim_lined_up(store, session_id, now=at(1), lines=lines)).runs) == 1
        assert (await claim_lined_up(store, session_id, now=at(0.5), lines=lines)).runs == ()
        assert (await claim_lined_up(store, session_id, now=at(1.05), lines=lines)).runs == ()
        assert len((await claim_lined_up(store, session_id, now=at(1.1), lines=lines)).runs) == 1

    async def test_each_attempt_takes_a_permit(self, store: Store) -> None:
        job = await limited(store, JobLimit(rate=Rate(1, timedelta(hours=1))))
        session_id = await add_session(store)
        [run_id] = await submit(store, job)
        [run] = (await claim_lined_up(store, session_id)).runs
        held = await read_held(store, run_id)
        back = outcomes.handed_back(facts_of(held), job.spec, now=at(1), was_started=False)
        await store.apply([back], now=at(1))
        assert (await claim_lined_up(store, session_id, now=at(2))).runs == ()
        assert ids((await claim_lined_up(store, session_id, now=at(3600))).runs) == [run.run_id]
