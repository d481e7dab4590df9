"""Slots that tenants are promised while they have work: who has fewer, since when, and who gets the next free seats."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from heapq import heapify, heappop, heapreplace, nsmallest

from mainspring.core.ids import LaneId
from mainspring.core.pools import Head, by_age
from mainspring.core.values import value

MOST_RESERVED = 100_000
"""Slots that can be reserved for a tenant, at most."""
MOST_LANES = 64
"""Lanes of one claim that are chosen because of a reserve, at most."""
Serves = Callable[[str, str], bool]


@value(kw_only=True)
class UnmetReserve:
    """A lane of a tenant that has fewer slots than are reserved for it, though something is ready there.

    Attributes:
        missing: how many slots its tenant is short of, in all its lanes together.
        since: since when the tenant has been short of slots and this lane has had something ready.
    """

    lane_id: LaneId
    tenant: str
    missing: int
    since: datetime


@value()
class ReservedSeats:
    """The lanes of a claim, if tenants have fewer slots than are reserved for them.

    Attributes:
        quotas: how many seats each of these lanes gets, in order.
        is_open: there is more to run than these lanes may have. If they leave seats over, another claim is to follow.
    """

    quotas: Mapping[LaneId, int]
    is_open: bool = False


class Reserves:
    """How many slots are reserved for tenants, and how many they have, as far as this process knows.

    A count from the store holds until the next one. In between, it is corrected by what this process gives out and by
    the ends that it hears of. So it may be off by what other processes have done since, and by no more.
    """

    def __init__(self) -> None:
        self._reserved: dict[str, int] = {}
        self._running: dict[str, int] = {}
        self._short_since: dict[str, datetime] = {}
        self._heads: dict[str, dict[LaneId, Head]] = {}

    def __bool__(self) -> bool:
        return bool(self._reserved)

    def __contains__(self, tenant: object) -> bool:
        return tenant in self._reserved

    def follow(self, reserved: Mapping[str, int], heads: Iterable[Head], now: datetime) -> None:
        """Reserve so many slots for tenants from now on; none for others.

        Args:
            heads: all lanes that have something to run.
        """
        self._reserved = {tenant: slots for tenant, slots in reserved.items() if slots > 0}
        self._running = {tenant: self._running.get(tenant, 0) for tenant in self._reserved}
        self._heads = {tenant: {} for tenant in self._reserved}
        for head in heads:
            self.add(head)
        for tenant in [tenant for tenant in self._short_since if tenant not in self._reserved]:
            del self._short_since[tenant]
        for tenant in self._reserved:
            self._note(tenant, now)

    # -- lanes ---------------------------------------------------------------------------------------------------------

    def add(self, head: Head) -> None:
        """Take in a lane that has something to run."""
        heads = self._heads.get(head.tenant)
        if heads is not None:
            heads[head.lane_id] = head

    def remove(self, head: Head) -> None:
        """Forget a lane."""
        heads = self._heads.get(head.tenant)
        if heads is not None:
            heads.pop(head.lane_id, None)

    def ready_tenants(self) -> list[str]:
        """Return the tenants with a reserve that have something ready."""
        return [
            tenant
            for tenant, heads in self._heads.items()
            if heads and any(head.is_open for head in heads.values())
        ]

    # -- slots ---------------------------------------------------------------------------------------------------------

    def reserved(self, tenant: str) -> int:
        """Return how many slots are reserved for a tenant."""
        return self._reserved.get(tenant, 0)

    def running(self, tenant: str) -> int:
        """Return how many slots a tenant with a reserve has, as far as is known."""
        return self._running.get(tenant, 0)

    def missing(self, tenant: str) -> int:
        """Return how many slots a tenant is short of."""
        return max(self.reserved(tenant) - self.running(tenant), 0)

    def count(self, running: Mapping[str, int], now: datetime) -> None:
        """Take over how many slots tenants have, as the store has counted them."""
        for tenant, slots in running.items():
            self._set(tenant, slots, now)

    def add_running(self, tenant: str, slots: int, now: datetime) -> None:
        """Note that a tenant got slots; less than 0: that it gave them back."""
        self._set(tenant, self.running(tenant) + slots, now)

    def _set(self, tenant: str, slots: int, now: datetime) -> None:
        if tenant in self._reserved:
            self._running[tenant] = max(slots, 0)
            self._note(tenant, now)

    def _note(self, tenant: str, now: datetime) -> None:
        if self.missing(tenant):
            self._short_since.setdefault(tenant, now)
        else:
            self._short_since.pop(tenant, None)

    # -- what follows --------------------------------------------------------------------------------------------------

    def unmet(self) -> list[UnmetReserve]:
        """Return the lanes whose tenants have fewer slots than are reserved for them, the longest waiting first.

        They are those that had something ready when the order of the lanes was last woken.
        """
        found = [
            UnmetReserve(
                lane_id=head.lane_id,
                tenant=tenant,
                missing=self.missing(tenant),
                since=max(since, head.ready_at),
            )
            for tenant, since in self._short_since.items()
            for head in self._heads[tenant].values()
            if head.is_open
        ]
        return sorted(found, key=lambda one: (one.since, one.lane_id))

    def choose(self, serves: Serves, seats: int, *, tenant: str | None = None) -> ReservedSeats:
        """Return which lanes get the next seats because of their tenants' reserves: no more than is missing.

        If it is open, a lane may have less than its quota while such a tenant has more to run elsewhere, and nobody
        else may get seats of this claim.

        Args:
            serves: whether the seats are of workers that can execute runs of a queue and a route.
            seats: at least 1.
            tenant: the only one whose runs the workers get; None means all.
        """
        if not self._short_since:
            return _NOTHING
        ready: dict[str, list[Head]] = {}
        for short in self._short_since:
            if tenant not in {None, short}:
                continue
            heads = [
                head
                for head in self._heads[short].values()
                if head.is_open and serves(head.pool.queue.name, head.pool.route)
            ]
            if heads:
                ready[short] = heads
        if not ready:
            return _NOTHING
        wanted = {tenant: (self.running(tenant), self.reserved(tenant)) for tenant in ready}
        chosen = spread(divide(wanted, seats), ready)
        is_short = len(ready) > 1 and sum(map(self.missing, ready)) > seats
        # One may have less than its part, and then the others are to get more than theirs.
        return replace(chosen, is_open=True) if is_short and max(chosen.quotas.values()) > 1 else chosen


_NOTHING = ReservedSeats({})


def divide(wanted: Mapping[str, tuple[int, int]], seats: int) -> dict[str, int]:
    """Divide seats among tenants so that each gets no more than it is short of.

    One seat after the other goes to the tenant that has the smallest part of its reserve.

    Args:
        wanted: the slots that each tenant has, and those that are reserved for it, which are more.

    Returns:
        The seats by tenant, the one that is furthest below its reserve first. Tenants that get none are left out.
    """
    order = [
        (has / reserved, place, tenant) for place, (tenant, (has, reserved)) in enumerate(wanted.items())
    ]
    heapify(order)
    given: dict[str, int] = {}
    missing = sum(reserved - has for has, reserved in wanted.values())
    if missing <= seats:
        return {tenant: wanted[tenant][1] - wanted[tenant][0] for _, _, tenant in sorted(order)}
    for _ in range(seats):
        _, place, tenant = order[0]
        has, reserved = wanted[tenant]
        given[tenant] = given.get(tenant, 0) + 1
        if has + given[tenant] < reserved:
            heapreplace(order, ((has + given[tenant]) / reserved, place, tenant))
        else:
            heappop(order)
    return given


def spread(seats: Mapping[str, int], ready: Mapping[str, Collection[Head]]) -> ReservedSeats:
    """Spread the seats of each tenant over its lanes: those of its most urgent tier, the oldest first.

    Of each lane it is known that one run is ready, and no more. So where one lane may have less than its part while
    another has more, the seats that are left belong to the next claim, not to other tenants.

    Args:
        seats: by tenant, at least 1.
        ready: the lanes of each of them with something ready; at least one.
    """
    quotas: dict[LaneId, int] = {}
    is_open = False
    for tenant, count in seats.items():
        heads = ready[tenant]
        top = min(map(_tier, heads))
        room = min(count, MOST_LANES - len(quotas))
        chosen = nsmallest(room, (head for head in heads if _tier(head) == top), key=by_age)
        if not chosen:
            return ReservedSeats(quotas, is_open=True)
        part, more = divmod(count, len(chosen))
        for place, head in enumerate(chosen):
            quotas[head.lane_id] = part + (place < more)
        # What gave less than it was asked for has no more, as far as is known, and is not waited for.
        is_sure = all(quotas[head.lane_id] == 1 or head.is_dry for head in chosen)
        is_open = is_open or not (is_sure or len(heads) == 1)
    return ReservedSeats(quotas, is_open)


def put_first(reserved: Mapping[LaneId, int], chosen: Mapping[LaneId, int], seats: int) -> ReservedSeats:
    """Return the lanes with reserved seats, and behind them those that get the other seats.

    A lane in both gets what the other seats give it, too, as far as no reserved seat is lost to it by that.

    Args:
        reserved: the reserved seats of each lane.
        chosen: the quotas of the other seats, of any lanes. One that gets what others leave over has all of them.
        seats: of the claim.
    """
    if chosen.keys() <= reserved.keys() and len(reserved) == 1:
        return ReservedSeats(dict.fromkeys(reserved, seats))
    quotas = dict(reserved)
    spare = seats - sum(reserved.values())
    is_open = False
    for lane_id, quota in chosen.items():
        if lane_id not in reserved:
            quotas[lane_id] = quota
        elif quota <= spare and quota < seats - len(reserved):
            quotas[lane_id] += quota
            spare -= quota
        else:
            is_open = True
    return ReservedSeats(quotas, is_open)


def _tier(head: Head) -> tuple[bool, int]:
    return head.is_dry, head.pool.queue.priority
