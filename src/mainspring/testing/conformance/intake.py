"""How much waits, and how often tenants submit: what refusals of submissions are decided by."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from mainspring.core import outcomes
from mainspring.core.intake import WaitingCount, WaitingScope
from mainspring.core.limits import JobLimit
from mainspring.core.rates import Rate
from mainspring.core.tenants import Tenant
from mainspring.ports.store import Store
from mainspring.ports.store.policies import PermitRequest
from mainspring.testing.conformance.claiming import crashed_run
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

TEN_A_SECOND = Rate(10, timedelta(seconds=1))
ONE = PermitRequest("acme", 1)


async def count(store: Store, owner: str, name: str, most: int = 100) -> int:
    """Return how many runs wait in a queue, or of a tenant."""
    [found] = await store.count_waiting([WaitingCount(WaitingScope(owner, name), most)])
    return found


class WaitingRuns:
    """What waits is counted, whatever it waits for, and no further than asked."""

    __test__ = False

    async def test_nothing_waits_in_a_new_store(self, store: Store) -> None:
        assert await store.count_waiting([]) == []
        assert await count(store, "queue", "mail") == 0
        assert await count(store, "tenant", "acme") == 0

    async def test_queues_and_tenants_are_told_apart(self, store: Store) -> None:
        await submit(store, await add_job(store, tenant="acme", spec=make_spec(name="a", queue="mail")), 3)
        await submit(store, await add_job(store, tenant="shop", spec=make_spec(name="b", queue="mail")), 2)
        await submit(store, await add_job(store, tenant="shop", spec=make_spec(name="c", queue="acme")), 1)
        wanted = [
            ("queue", "mail"),
            ("tenant", "acme"),
            ("tenant", "shop"),
            ("queue", "acme"),
            ("queue", "none"),
        ]
        counts = [WaitingCount(WaitingScope(*scope), 100) for scope in wanted]
        assert await store.count_waiting(counts) == [5, 3, 3, 1, 0]

    async def test_a_count_stops_at_its_bound(self, store: Store) -> None:
        await submit(store, await add_job(store, spec=make_spec(queue="mail")), 5)
        scope = WaitingScope("queue", "mail")
        assert await store.count_waiting([WaitingCount(scope, 4), WaitingCount(scope, 6)]) == [4, 5]

    async def test_everything_that_has_not_started_counts(self, store: Store) -> None:
        plain = await add_job(store, spec=make_spec(name="plain", queue="mail"))
        await submit(store, plain, due_at=at(60))
        await crashed_run(store, plain)
        limited = await add_job(
            store, spec=make_spec(name="limited", queue="mail", concurrency=(JobLimit(limit=1),))
        )
        await submit(store, limited)
        assert await count(store, "queue", "mail") == 3

    async def test_what_runs_or_has_ended_does_not_count_and_what_retries_does(self, store: Store) -> None:
        job = await add_job(store, spec=make_spec(queue="mail"))
        await submit(store, job, 3)
        session_id = await add_session(store)
        first, second = await claim(store, session_id, limit=2)
        assert await count(store, "queue", "mail") == 1
        await store.apply([outcomes.succeeded(first.run_id, first.token, session_id)], now=at(1))
        assert await count(store, "queue", "mail") == 1
        later = outcomes.snoozed(facts_of(await read_held(store, second.run_id)), until=at(20))
        await store.apply([later], now=at(1))
        assert await count(store, "queue", "mail") == 2


class SubmitPermits:
    """A tenant submits no more than its rate allows, whichever process it asks."""

    __test__ = False

    async def test_without_a_rate_there_is_no_end_of_permits(self, store: Store) -> None:
        assert await store.take_permits([], now=at(0)) == []
        assert await store.take_permits([PermitRequest("acme", 10_000)], now=at(0)) == [None]
        await store.write_tenants([Tenant(name="acme", weight=2)])
        assert await store.take_permits([PermitRequest("acme", 10_000)], now=at(0)) == [None]

    async def test_a_rate_gives_what_one_second_allows_and_then_bit_by_bit(self, store: Store) -> None:
        await store.write_tenants([Tenant(name="acme", submit_rate=TEN_A_SECOND)])
        assert await store.take_permits([ONE] * 11, now=at(0)) == [None] * 10 + [at(0.1)]
        assert await store.take_permits([ONE] * 2, now=at(0.1)) == [None, at(0.2)]
        assert await store.take_permits([PermitRequest("acme", 5)], now=at(0.5)) == [at(0.6)]
        assert await store.take_permits([PermitRequest("acme", 4), ONE], now=at(0.5)) == [None, at(0.6)]

    async def test_more_than_ever_fit_leave_a_debt(self, store: Store) -> None:
        await store.write_tenants([Tenant(name="acme", submit_rate=TEN_A_SECOND)])
        assert await store.take_permits([PermitRequest("acme", 30), ONE], now=at(0)) == [None, at(2.1)]

    async def test_tenants_do_not_share_and_a_rate_set_again_is_no_gift(self, store: Store) -> None:
        rate = Rate(1, timedelta(hours=1))
        await store.write_tenants([Tenant(name=name, submit_rate=rate) for name in ("acme", "shop")])
        assert await store.take_permits([ONE, PermitRequest("shop", 1), ONE], now=at(0)) == [
            None,
            None,
            at(3600),
        ]
        await store.write_tenants([Tenant(name="acme", submit_rate=rate, weight=3)])
        assert await store.take_permits([ONE], now=at(1)) == [at(3600)]

    async def test_many_who_ask_at_once_get_no_more(self, store: Store) -> None:
        await store.write_tenants([Tenant(name="acme", submit_rate=TEN_A_SECOND)])
        found = await asyncio.gather(*(store.take_permits([ONE] * 5, now=at(0)) for _ in range(5)))
        assert sum(answer is None for answers in found for answer in answers) == 10
