"""How many slots tenants have: what decides who gets the next free seats."""

from __future__ import annotations

from mainspring.core import outcomes
from mainspring.ports.store import Store
from mainspring.testing.factories import (
    add_job,
    add_session,
    at,
    claim,
    facts_of,
    make_spec,
    read_held,
    submit,
)


class RunningRuns:
    """What is RUNNING is counted by tenant, whoever holds it."""

    __test__ = False

    async def test_nothing_runs_in_a_new_store(self, store: Store) -> None:
        assert await store.count_running([]) == {}
        assert await store.count_running(["acme"]) == {"acme": 0}

    async def test_tenants_are_told_apart_and_others_are_left_out(self, store: Store) -> None:
        for tenant, runs in (("acme", 3), ("shop", 2), ("mill", 1)):
            for queue in ("a", "b"):
                job = await add_job(store, tenant=tenant, spec=make_spec(name=queue, queue=queue))
                await submit(store, job, runs)
        first, second = await add_session(store), await add_session(store)
        assert len(await claim(store, first, limit=5)) + len(await claim(store, second, limit=7)) == 12
        assert await store.count_running(["acme", "mill", "none"]) == {"acme": 6, "mill": 2, "none": 0}

    async def test_what_waits_or_has_ended_does_not_count(self, store: Store) -> None:
        await submit(store, await add_job(store, tenant="acme"), 4)
        session_id = await add_session(store)
        first, second, _ = await claim(store, session_id, limit=3)
        assert await store.count_running(["acme"]) == {"acme": 3}
        await store.apply([outcomes.succeeded(first.run_id, first.token, session_id)], now=at(1))
        later = outcomes.snoozed(facts_of(await read_held(store, second.run_id)), until=at(20))
        await store.apply([later], now=at(1))
        assert await store.count_running(["acme"]) == {"acme": 1}

    async def test_runs_of_a_session_that_has_ended_count_until_they_are_taken_back(
        self, store: Store
    ) -> None:
        await submit(store, await add_job(store, tenant="acme"), 2)
        session_id = await add_session(store)
        await claim(store, session_id, limit=2)
        await store.close_sessions([session_id], now=at(1))
        assert await store.count_running(["acme"]) == {"acme": 2}
