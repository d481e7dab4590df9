"""What workers that offer the same can get runs from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from mainspring.core.ids import LaneId
from mainspring.core.model import Priority
from mainspring.core.pools import Pool, QueueTier
from mainspring.core.shares import Shares
from mainspring.core.tenant_pools import TenantPool, TenantQueue

if TYPE_CHECKING:
    from mainspring.core.fairness import LaneOrder

TIERS = tuple(sorted(Priority))
Place = tuple[str, str]
"""A queue and a route."""
AnyPool = Pool | TenantPool
"""A pool, or what of it is one tenant's."""
Source = AnyPool | QueueTier | TenantQueue
"""What a worker serves: the lanes of one route, or those of all routes of a queue."""


class Reach:
    """What workers that offer the same can get runs from, and how much they have taken of each queue.

    Args:
        serves: whether they can execute runs of a queue and a route.
        tenant: the only one whose runs they get; None means all.

    Attributes:
        serves, tenant: the same.
        queues: the shares of the queues, by tier.
        credit: the seats that are due to runs that have waited for long.
        aging_share: the share of the seats that such runs get.
        aged: the lanes of which the last choice wanted such runs.
        reserved: the lanes that the last choice put first because of reserves, and how many seats they got for that.
        is_cut: the last choice left lower tiers out, because lanes of higher ones may have more than their quotas.
    """

    __slots__ = (
        "_changes",
        "_sources",
        "aged",
        "aging_share",
        "credit",
        "is_cut",
        "queues",
        "reserved",
        "serves",
        "tenant",
    )

    def __init__(self, serves: Callable[[str, str], bool], *, tenant: str | None = None) -> None:
        self.queues: dict[Priority, Shares] = {priority: Shares() for priority in TIERS}
        self.credit: float = 0.0
        self.aging_share: float = 0.0
        self.aged: dict[LaneId, int] = {}
        self.reserved: Mapping[LaneId, int] = {}
        self.is_cut: bool = False
        self.serves: Callable[[str, str], bool] = serves
        self.tenant: str | None = tenant
        self._changes = -1
        self._sources: list[tuple[Priority, Sequence[AnyPool], Sequence[Source]]] = []

    def sources(self, order: LaneOrder) -> list[tuple[Priority, Sequence[AnyPool], Sequence[Source]]]:
        """Return the pools that they serve, tier by tier, and the same where whole queues stand for many pools."""
        if self._changes != order.changes:
            self._changes = order.changes
            found = [(priority, order.find_pools(priority, self.serves)) for priority in TIERS]
            self._sources = [(priority, *self._view(pools)) for priority, pools in found]
        return self._sources

    def _view(self, pools: Sequence[Pool]) -> tuple[Sequence[AnyPool], Sequence[Source]]:
        """Return what the workers see of pools, and the same where whole queues stand for many."""
        queues, rest = _merge(pools)
        if self.tenant is None:
            return pools, [*queues, *rest]
        own = {pool: TenantPool(pool, self.tenant) for pool in pools}
        return list(own.values()), [
            *(TenantQueue(queue, self.tenant) for queue in queues),
            *(own[pool] for pool in rest),
        ]


def _merge(pools: Sequence[Pool]) -> tuple[Sequence[QueueTier], Sequence[Pool]]:
    """Return the queues of which all of many routes are served, and all other pools."""
    counts = Counter(pool.queue for pool in pools)
    whole = {
        queue: None
        for queue, number in counts.items()
        if queue.is_wide and number == len(queue.pools) and not queue.is_fifo
    }
    return list(whole), [pool for pool in pools if pool.queue not in whole]


def open_sources(sources: Iterable[Source]) -> list[Source]:
    """Return the sources that are not stopped. Of a queue that is stopped in part, its open pools stand for it."""
    found: list[Source] = []
    for source in sources:
        if isinstance(source, Pool | TenantPool):
            if not source.is_stopped:
                found.append(source)
        elif any(pool.is_stopped for pool in source.pools.values()):
            found += (pool for pool in source.pools.values() if pool.awake and not pool.is_stopped)
        else:
            found.append(source)
    return found
