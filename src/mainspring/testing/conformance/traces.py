"""Trace contexts: what a run was submitted or fired with is on each of its leases, and on its record."""

from __future__ import annotations

from dataclasses import replace

from mainspring.core import outcomes
from mainspring.core.dead_letters import DeadFilter
from mainspring.core.ids import RunId
from mainspring.core.limits import JobLimit
from mainspring.core.outcomes import Failure
from mainspring.core.tracing import make_trace
from mainspring.ports.store import Store
from mainspring.testing.conformance.claiming_straight import given, known_job
from mainspring.testing.conformance.firing_outlined import add_once, fired_run, read_clocks
from mainspring.testing.conformance.limits import limited
from mainspring.testing.factories import (
    add_job,
    add_session,
    at,
    claim,
    claim_lined_up,
    facts_of,
    make_fire,
    make_new_run,
    make_scheduled_run,
    own_shards,
    read_held,
    submit,
)

TRACE = make_trace(bytes(range(16)), bytes(range(8, 16)))
OTHER = make_trace(bytes(range(1, 17)), bytes(range(9, 17)))


async def trace_of(store: Store, run_id: RunId) -> bytes | None:
    """Return the trace context on a run's record."""
    [run] = await store.get_runs([run_id])
    assert run is not None
    return run.trace


class Traces:
    """A run keeps its trace context from its submission to its history."""

    __test__ = False

    async def test_runs_of_one_call_have_their_own(self, store: Store) -> None:
        job = await add_job(store)
        traces = [TRACE, None, OTHER]
        results = await store.submit_runs([make_new_run(job, trace=trace) for trace in traces], now=at(0))
        ids = [result.run_id for result in results if result.run_id is not None]
        assert [await trace_of(store, run_id) for run_id in ids] == traces
        leases = await claim(store, await add_session(store), limit=9, now=at(1))
        assert {lease.run_id: lease.trace for lease in leases} == dict(zip(ids, traces, strict=True))

    async def test_one_alone_is_on_its_lease_and_in_lists(self, store: Store) -> None:
        job = await add_job(store)
        [run_id] = await submit(store, job, trace=TRACE)
        [listed] = await store.list_runs(job.tenant, limit=9)
        assert listed.trace == TRACE
        session_id = await add_session(store)
        [lease] = await claim(store, session_id, now=at(1))
        assert lease.trace == TRACE
        assert (await read_held(store, run_id)).trace == TRACE

    async def test_a_success_keeps_it(self, store: Store) -> None:
        job, session_id = await add_job(store), await add_session(store)
        [run_id] = await submit(store, job, trace=TRACE)
        [lease] = await claim(store, session_id, now=at(1))
        end = outcomes.succeeded(run_id, lease.token, session_id, None, None)
        await store.apply([end], now=at(2))
        assert await trace_of(store, run_id) == TRACE

    async def test_a_retry_has_it_again_and_a_dead_letter_keeps_it(self, store: Store) -> None:
        job, session_id = await add_job(store), await add_session(store)
        [run_id] = await submit(store, job, trace=TRACE)
        [lease] = await claim(store, session_id, now=at(1))
        facts = facts_of(await read_held(store, run_id))
        await store.apply([outcomes.handed_back(facts, job.spec, now=at(2), was_started=True)], now=at(2))
        [lease] = await claim(store, session_id, now=at(1000))
        assert (lease.token > 1, lease.trace) == (True, TRACE)
        facts = facts_of(await read_held(store, run_id))
        failure = Failure(error="boom", is_retryable=False)
        end = outcomes.failed(facts, job.spec, failure, now=at(1001), random=lambda: 0.5)
        await store.apply([end], now=at(1001))
        assert await trace_of(store, run_id) == TRACE
        [letter] = await store.list_dead(job.tenant, DeadFilter(), limit=9)
        assert letter.run.trace == TRACE

    async def test_a_cancelled_and_a_skipped_run_keep_it(self, store: Store) -> None:
        job = await add_job(store)
        [waiting] = await submit(store, job, trace=TRACE)
        await store.cancel_runs([waiting], reason="test", now=at(1))
        assert await trace_of(store, waiting) == TRACE
        [skipped] = await submit(store, job, trace=OTHER, skip_reason="test")
        assert await trace_of(store, skipped) == OTHER

    async def test_a_run_in_a_line_has_it(self, store: Store) -> None:
        job, session_id = await limited(store, JobLimit(limit=1)), await add_session(store)
        await submit(store, job, trace=TRACE)
        [lease] = (await claim_lined_up(store, session_id)).runs
        assert lease.trace == TRACE

    async def test_one_that_is_submitted_straight_to_a_session_has_it(self, store: Store) -> None:
        job = await known_job(store)
        claimed = await given(store, job, await add_session(store), trace=TRACE)
        assert claimed.trace == TRACE
        assert await trace_of(store, claimed.run_id) == TRACE

    async def test_a_planned_fire_gives_it_to_its_run(self, store: Store) -> None:
        job = await add_once(store)
        run = make_scheduled_run(job, at(60), trace=TRACE)
        [result] = await store.record_fires(
            [make_fire(job, runs=(run,))], epochs=await own_shards(store), now=at(60)
        )
        assert await trace_of(store, result.run_ids[0]) == TRACE

    async def test_of_fires_in_a_set_each_gives_its_own(self, store: Store) -> None:
        jobs = [await add_once(store) for _ in range(3)]
        clocks = await read_clocks(store, *jobs)
        assert all(clock.trace is None for clock in clocks)
        traces = [None, TRACE, OTHER]
        sampled = [replace(clock, trace=trace) for clock, trace in zip(clocks, traces, strict=True)]
        results = await store.fire_outlined(sampled, epochs=await own_shards(store), now=at(60))
        found = [await trace_of(store, run_id) for result in results for run_id in result.run_ids]
        assert found == traces

    async def test_a_fire_alone_in_its_set_may_have_none(self, store: Store) -> None:
        [clock] = await read_clocks(store, await add_once(store))
        assert (await fired_run(store, clock)).trace is None
