"""What operators set: it is read as of one instant, and only when it has changed."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from mainspring.core.queues import Queue, QueueOrder
from mainspring.core.rates import Rate
from mainspring.core.tenants import Tenant
from mainspring.ports.store import Store


async def revision_of(store: Store) -> int:
    """Return the number of what is set now."""
    policies = await store.read_policies()
    assert policies is not None
    return policies.revision


class Policies:
    """Every process sees a change by a number that grows with it."""

    __test__ = False

    async def test_nothing_is_set_in_a_new_store(self, store: Store) -> None:
        policies = await store.read_policies()
        assert policies is not None
        assert policies.tenants == {}
        assert policies.queues == {}

    async def test_what_was_set_is_read_again(self, store: Store) -> None:
        rate = Rate(30, timedelta(minutes=1))
        acme = Tenant(name="acme", weight=7, reserved=12, max_queued=50, max_jobs=9, submit_rate=rate)
        shop = Tenant(name="shop")
        assert await store.write_tenants([acme, shop]) == [True, True]
        heavier = Tenant(name="shop", weight=2)
        assert await store.write_tenants([heavier]) == [False]
        policies = await store.read_policies()
        assert policies is not None
        assert policies.tenants == {"acme": acme, "shop": heavier}

    async def test_what_was_set_for_queues_is_read_again(self, store: Store) -> None:
        mail = Queue(name="mail", order=QueueOrder.FIFO, max_queued=100_000, expires_after=timedelta(days=1))
        bulk = Queue(
            name="bulk", order=QueueOrder.ROUND_ROBIN, aging=timedelta(milliseconds=1500), aging_share=0.0
        )
        await store.write_tenants([Tenant(name="acme", weight=7)])
        assert await store.write_queues([mail, bulk]) == [True, True]
        known = await revision_of(store)
        other = Queue(name="mail", aging_share=0.25)
        assert await store.write_queues([other, Queue(name="new")]) == [False, True]
        policies = await store.read_policies(known=known)
        assert policies is not None
        assert policies.revision > known
        assert policies.queues == {"mail": other, "bulk": bulk, "new": Queue(name="new")}
        assert policies.tenants == {"acme": Tenant(name="acme", weight=7)}
        assert await store.write_queues([]) == []
        assert await store.read_policies(known=policies.revision) is None

    async def test_it_is_read_only_if_it_has_changed(self, store: Store) -> None:
        known = await revision_of(store)
        assert await store.read_policies(known=known) is None
        await store.write_tenants([Tenant(name="acme", weight=7)])
        changed = await store.read_policies(known=known)
        assert changed is not None
        assert changed.revision > known
        assert await store.read_policies(known=changed.revision) is None
        assert await store.read_policies(known=known) == changed

    async def test_the_last_word_on_a_tenant_counts(self, store: Store) -> None:
        first, last = Tenant(name="acme", weight=1), Tenant(name="acme", weight=9)
        assert await store.write_tenants([first, last]) == [True, True]
        policies = await store.read_policies()
        assert policies is not None
        assert policies.tenants == {"acme": last}

    async def test_nothing_written_changes_nothing(self, store: Store) -> None:
        known = await revision_of(store)
        assert await store.write_tenants([]) == []
        assert await store.read_policies(known=known) is None

    async def test_each_of_many_writers_at_once_is_counted(self, store: Store) -> None:
        known = await revision_of(store)
        tenants = [Tenant(name=f"tenant-{number}", weight=number + 1) for number in range(10)]
        found = await asyncio.gather(*(store.write_tenants([tenant]) for tenant in tenants))
        assert found == [[True]] * 10
        policies = await store.read_policies()
        assert policies is not None
        assert policies.revision == known + 10
        assert policies.tenants == {tenant.name: tenant for tenant in tenants}
