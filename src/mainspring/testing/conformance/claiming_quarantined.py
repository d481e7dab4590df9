"""Runs that crashed a worker: who gets them, and how the crashes are counted."""

from __future__ import annotations

import asyncio

from mainspring.core import outcomes
from mainspring.core.states import RunState
from mainspring.ports.store import Store
from mainspring.testing.conformance.claiming import crashed_run, ids_of
from mainspring.testing.factories import (
    add_job,
    add_session,
    all_lanes,
    at,
    claim,
    facts_of,
    lane_of,
    make_new_run,
    make_spec,
    read_held,
    running_run,
    submit,
)


class RunsThatCrashedAreQuarantined:
    """A run that was lost with its worker goes only to a worker that has nothing else."""

    __test__ = False

    async def test_only_a_quarantined_claim_takes_it(self, store: Store) -> None:
        run_id = await crashed_run(store, await add_job(store))
        session_id = await add_session(store)
        assert await claim(store, session_id, now=at(1), limit=9) == ()
        [leased] = await claim(store, session_id, now=at(1), limit=9, is_quarantined=True)
        assert (leased.run_id, leased.is_quarantined) == (run_id, True)
        assert leased.attempt == 1, "a loss counts as a crash, not as an attempt"
        held = await read_held(store, run_id)
        assert (held.is_quarantined, held.quarantined_crashes) == (True, 0)

    async def test_quarantined_claim_takes_one_and_no_other_kind(self, store: Store) -> None:
        job = await add_job(store)
        crashed = [await crashed_run(store, job) for _ in range(2)]
        await submit(store, job)
        session_id = await add_session(store)
        first = await claim(store, session_id, now=at(1), limit=9, is_quarantined=True)
        assert len(first) == 1
        assert set(ids_of(first)) < set(crashed)

    async def test_quarantined_claim_waits_for_the_instant_and_keeps_to_the_lower_bound(
        self, store: Store
    ) -> None:
        run_id = await crashed_run(store, await add_job(store))
        session_id = await add_session(store)
        await claim(store, session_id, now=at(1), is_quarantined=True)
        snoozed = outcomes.snoozed(facts_of(await read_held(store, run_id)), until=at(20))
        await store.apply([snoozed], now=at(1))
        assert await claim(store, session_id, now=at(19), is_quarantined=True) == ()
        assert await claim(store, session_id, now=at(20), low=at(21), is_quarantined=True) == ()
        assert ids_of(await claim(store, session_id, now=at(20), low=at(20), is_quarantined=True)) == [run_id]

    async def test_quarantined_claim_passes_over_what_has_expired(self, store: Store) -> None:
        job, session_id = await add_job(store), await add_session(store)
        held = await running_run(store, job, expires_at=at(5))
        await store.apply([outcomes.lost(facts_of(held), make_spec(), now=at(1))], now=at(1))
        assert await claim(store, session_id, now=at(5), is_quarantined=True) == ()
        assert ids_of(await claim(store, session_id, now=at(4), is_quarantined=True)) == [held.run_id]

    async def test_quarantined_claim_gets_nothing_while_the_session_runs_something(
        self, store: Store
    ) -> None:
        job = await add_job(store)
        await crashed_run(store, job)
        session_id = await add_session(store)
        await submit(store, job)
        assert len(await claim(store, session_id, now=at(1))) == 1
        assert await claim(store, session_id, now=at(1), is_quarantined=True) == ()

    async def test_session_that_runs_a_quarantined_run_gets_nothing_else(self, store: Store) -> None:
        job = await add_job(store)
        crashed = [await crashed_run(store, job) for _ in range(2)]
        await submit(store, job)
        session_id = await add_session(store)
        [leased] = await claim(store, session_id, now=at(1), is_quarantined=True)
        assert leased.run_id in crashed
        assert await claim(store, session_id, now=at(1), limit=9) == ()
        assert await claim(store, session_id, now=at(1), limit=9, is_quarantined=True) == ()
        await store.apply([outcomes.succeeded(leased.run_id, leased.token, session_id)], now=at(2))
        assert len(await claim(store, session_id, now=at(3), limit=9)) == 1

    async def test_what_another_session_runs_does_not_count(self, store: Store) -> None:
        job = await add_job(store)
        crashed = [await crashed_run(store, job) for _ in range(2)]
        await submit(store, job, 2)
        busy, alone, idle = [await add_session(store) for _ in range(3)]
        assert len(await claim(store, busy, now=at(1))) == 1
        [first] = await claim(store, alone, now=at(1), is_quarantined=True)
        [second] = await claim(store, idle, now=at(1), is_quarantined=True)
        assert {first.run_id, second.run_id} == set(crashed)
        assert len(await claim(store, busy, now=at(1))) == 1

    async def test_crashes_in_quarantine_are_counted_apart(self, store: Store) -> None:
        run_id = await crashed_run(store, await add_job(store))
        for crashes in (1, 2):
            session_id = await add_session(store)
            [leased] = await claim(store, session_id, now=at(crashes), is_quarantined=True)
            held = await read_held(store, leased.run_id)
            assert (held.is_quarantined, held.quarantined_crashes) == (True, crashes - 1)
            ending = outcomes.lost(facts_of(held), make_spec(), now=at(crashes))
            await store.apply([ending], now=at(crashes))
            [run] = await store.get_runs([run_id])
            assert run is not None
            assert run.crashes == crashes + 1

    async def test_poison_limit_ends_it(self, store: Store) -> None:
        spec = make_spec(poison_limit=1)
        run_id = await crashed_run(store, await add_job(store, spec))
        [leased] = await claim(store, await add_session(store), now=at(1), is_quarantined=True)
        held = await read_held(store, leased.run_id)
        await store.apply([outcomes.lost(facts_of(held), spec, now=at(1))], now=at(1))
        [run] = await store.get_runs([run_id])
        assert run is not None
        assert (run.state, run.reason, run.crashes) == (RunState.FAILED, "poison", 2)

    async def test_quarantined_claims_at_once_of_one_session_give_one_run(self, store: Store) -> None:
        job = await add_job(store)
        for _ in range(3):
            await crashed_run(store, job)
        session_id = await add_session(store)
        lanes = await all_lanes(store)
        answers = await asyncio.gather(
            *(claim(store, session_id, now=at(1), lanes=lanes, is_quarantined=True) for _ in range(4))
        )
        assert sum(len(runs) for runs in answers) == 1

    async def test_snoozed_and_failed_runs_are_not_quarantined(self, store: Store) -> None:
        job = await add_job(store)
        held = await running_run(store, job)
        await store.apply([outcomes.snoozed(facts_of(held), until=at(5))], now=at(1))
        leased = await claim(store, await add_session(store), now=at(5))
        assert ids_of(leased) == [held.run_id]
        assert make_new_run(job).lane == lane_of(job)
