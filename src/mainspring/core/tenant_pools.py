"""What workers that are bound to one tenant see of lanes that stand together with those of others."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from mainspring.core.pools import Head, Pool, QueueTier


class TenantPool:
    """One tenant's lane of a pool, in the place of the pool: there is at most one.

    Attributes:
        pool: where the lane stands.
        queue: the tier of its queue.
        tenant: whose it is.
    """

    __slots__ = ("pool", "queue", "tenant")

    def __init__(self, pool: Pool, tenant: str) -> None:
        self.pool: Pool = pool
        self.queue: QueueTier = pool.queue
        self.tenant: str = tenant

    @property
    def awake(self) -> int:
        """How many lanes have something ready: one or none."""
        return int(self._head() is not None)

    @property
    def is_stopped(self) -> bool:
        """Nothing is to be taken from it for the time being."""
        return self.pool.is_stopped

    def first(self, most: int) -> list[Head]:
        """Return the ready head."""
        return self.ready_since(None, most)

    def urgency(self) -> tuple[float, datetime]:
        """Return by what pools of a queue are compared, if something is ready: the least goes first."""
        head = self.pool.heads[self.tenant]
        return 0.0 if self.queue.is_fifo else self.queue.tenants.time(self.tenant), head.ready_at

    def ready_since(self, until: datetime | None, most: int) -> list[Head]:
        """Return the head, if it has been ready since then or longer."""
        head = self._head() if most else None
        return [] if head is None or (until is not None and head.ready_at > until) else [head]

    def _head(self) -> Head | None:
        head = self.pool.heads.get(self.tenant)
        return head if head is not None and head.is_awake else None


class TenantQueue:
    """One tenant's lanes of a queue with many routes, in the place of the queue.

    Attributes:
        queue: the tier of the queue.
        tenant: whose lanes they are.
    """

    __slots__ = ("queue", "tenant")

    def __init__(self, queue: QueueTier, tenant: str) -> None:
        self.queue: QueueTier = queue
        self.tenant: str = tenant

    @property
    def awake(self) -> int:
        """How many lanes have something ready."""
        return self.queue.waiting[self.tenant]

    @property
    def pools(self) -> Mapping[str, TenantPool]:
        """The lanes by route."""
        return {route: TenantPool(pool, self.tenant) for route, pool in self.queue.pools.items()}

    def first(self, most: int) -> list[Head]:
        """Return ready heads, the oldest ones."""
        return self.queue.oldest(self.tenant, most) if self.awake else []

    def urgency(self) -> tuple[float, datetime]:
        """Return by what it is compared with pools, if something is ready: the least goes first."""
        [head] = self.queue.oldest(self.tenant, 1)
        return self.queue.tenants.time(self.tenant), head.ready_at
