"""Lanes that the same workers serve in the same tier, in the order in which their tenants are to be served."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count

from mainspring.core.ids import LaneId
from mainspring.core.shares import Shares

_SPARE = 64


@dataclass(eq=False, slots=True)
class Head:
    """The earliest run of a lane, as far as it is known.

    Attributes:
        is_awake: it is ready.
        is_lined: it has an entry among those that are ordered by share.
        is_deep: the lane gave all that the last claim asked of it, so it may have many more.
        is_dry: it gave less than it was asked for, so it has no more, whatever its head says (it may have expired).
    """

    lane_id: LaneId
    tenant: str
    ready_at: datetime
    is_awake: bool = False
    is_lined: bool = False
    is_deep: bool = False
    is_dry: bool = False


class Pool:
    """The lanes of one queue, route and tier. Each is of another tenant.

    Entries of the heaps may be outdated. They are dropped or moved when they come to the front.

    Attributes:
        queue: its name.
        tenants: their shares of the queue.
        heads: by tenant.
    """

    __slots__ = ("_awake", "_by_age", "_by_share", "_later", "_now", "_numbers", "heads", "queue", "tenants")

    def __init__(self, queue: str, tenants: Shares) -> None:
        self.queue = queue
        self.tenants = tenants
        self.heads: dict[str, Head] = {}
        self._numbers = count()  # entries of equal keys keep their order of arrival
        self._awake = 0
        self._now: datetime | None = None
        self._later: list[tuple[datetime, int, Head]] = []
        self._by_share: list[tuple[float, int, Head]] = []
        self._by_age: list[tuple[datetime, int, Head]] = []

    def put(self, tenant: str, lane_id: LaneId, ready_at: datetime) -> bool:
        """Note when a tenant's lane has something to run. Return whether nothing was known of that lane."""
        head = self.heads.get(tenant)
        if head is not None and head.lane_id == lane_id:
            if head.ready_at != ready_at:
                self._move(head, ready_at)
            return False
        head = self.heads[tenant] = Head(lane_id, tenant, ready_at)
        heappush(self._later, (ready_at, next(self._numbers), head))
        return True

    def _move(self, head: Head, ready_at: datetime) -> None:
        head.ready_at = ready_at
        head.is_dry = False
        if head.is_awake and self._now is not None and ready_at <= self._now:
            self._age(head)
            return
        self._awake -= head.is_awake
        head.is_awake = False
        heappush(self._later, (ready_at, next(self._numbers), head))
        if len(self._later) > 2 * len(self.heads) + _SPARE:
            self._later = [entry for entry in self._later if self._is_later(entry)]
            heapify(self._later)

    def remove(self, tenant: str) -> None:
        """Note that a tenant's lane has nothing to run."""
        head = self.heads.pop(tenant)
        self._awake -= head.is_awake
        head.is_awake = False

    @property
    def awake(self) -> int:
        """How many lanes have something that was ready when `wake` was last called."""
        return self._awake

    def wake(self, now: datetime) -> bool:
        """Move what has become ready to the others that are. Return whether anything is ready."""
        self._now = now
        while self._later and self._later[0][0] <= now:
            entry = heappop(self._later)
            head = entry[2]
            if not self._is_later(entry):
                continue
            head.is_awake = True
            self._awake += 1
            self._age(head)
            if not head.is_lined:
                head.is_lined = True
                heappush(self._by_share, (self.tenants.time(head.tenant), next(self._numbers), head))
        return self._awake > 0

    def _is_later(self, entry: tuple[datetime, int, Head]) -> bool:
        ready_at, _, head = entry
        return self.heads.get(head.tenant) is head and head.ready_at == ready_at and not head.is_awake

    def _age(self, head: Head) -> None:
        heappush(self._by_age, (head.ready_at, next(self._numbers), head))
        if len(self._by_age) > 2 * len(self.heads) + _SPARE:
            self._by_age = [entry for entry in self._by_age if _is_aged(entry)]
            heapify(self._by_age)

    def least(self) -> Head | None:
        """Return the ready head of the tenant that is furthest behind."""
        entries = self._by_share
        while entries:
            time, number, head = entries[0]
            if not head.is_awake:
                head.is_lined = False
                heappop(entries)
            elif (at := self.tenants.time(head.tenant)) > time:
                heapreplace(entries, (at, number, head))
            else:
                return head
        return None

    def first(self, most: int) -> list[Head]:
        """Return the ready heads of the tenants that are furthest behind, in this order."""
        taken: list[tuple[float, int, Head]] = []
        while len(taken) < most and self.least() is not None:
            taken.append(heappop(self._by_share))
        for entry in taken:
            heappush(self._by_share, entry)
        return [head for _, _, head in taken]

    def oldest(self) -> Head | None:
        """Return the head that has been ready for the longest time."""
        while self._by_age and not _is_aged(self._by_age[0]):
            heappop(self._by_age)
        return self._by_age[0][2] if self._by_age else None

    def ready_since(self, until: datetime, most: int) -> list[Head]:
        """Return the heads that have been ready since then or longer, the oldest first."""
        taken: list[tuple[datetime, int, Head]] = []
        while len(taken) < most and (head := self.oldest()) is not None and head.ready_at <= until:
            taken.append(heappop(self._by_age))
        for entry in taken:
            heappush(self._by_age, entry)
        return list(dict.fromkeys(head for _, _, head in taken))


def _is_aged(entry: tuple[datetime, int, Head]) -> bool:
    return entry[2].is_awake and entry[2].ready_at == entry[0]
