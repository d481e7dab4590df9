"""Lanes that the same workers serve in the same tier, in the order in which their tenants are to be served."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count

from mainspring.core.ids import LaneId
from mainspring.core.model import Priority
from mainspring.core.queues import Queue, QueueOrder
from mainspring.core.shares import Shares
from mainspring.core.slot_times import SlotTimes
from mainspring.core.values import value

_SPARE = 64
_WIDE = 16
"""From so many routes on, a queue keeps its lanes by tenant, too, so that not all routes have to be compared."""

_Ages = list[tuple[datetime, int, "Head"]]


@dataclass(eq=False, slots=True)
class Head:
    """The earliest run of a lane, as far as it is known.

    Attributes:
        pool: where the lane waits.
        is_awake: it is ready.
        is_lined: it has an entry among those that are ordered by share.
        is_deep: the lane gave all that the last claim asked of it, so it may have many more.
        is_dry: it gave less than it was asked for, so it has no more, whatever its head says (it may have expired).
    """

    lane_id: LaneId
    tenant: str
    ready_at: datetime
    pool: Pool
    is_awake: bool = False
    is_lined: bool = False
    is_deep: bool = False
    is_dry: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it is ready, and nothing stops its pool."""
        return self.is_awake and not self.pool.is_stopped


@value()
class Peek:
    """What is ready in the lanes of a queue that serves the oldest run first.

    Attributes:
        instants: since when each of these runs has been ready, and its lane, the oldest first.
        until: up to here nothing is missing.
    """

    instants: tuple[tuple[datetime, LaneId], ...]
    until: datetime


@dataclass(eq=False, slots=True)
class QueueTier:
    """One tier of a queue.

    Attributes:
        rules: what is set for the queue.
        tenants: their shares of it.
        pools: by route.
        lanes: how many lanes of each tenant have something to run, now or later.
        waiting: how many lanes of each tenant have something that is ready.
        awake: how many lanes have something ready.
        peek: what was seen of its runs, where the oldest of them goes first.
        is_fifo: the oldest run goes first, whoever it belongs to.
    """

    name: str
    priority: Priority
    rules: Queue
    tenants: Shares
    pools: dict[str, Pool] = field(default_factory=dict)
    lanes: Counter[str] = field(default_factory=Counter)
    waiting: Counter[str] = field(default_factory=Counter)
    awake: int = 0
    peek: Peek | None = None
    is_fifo: bool = field(init=False)
    _front: list[tuple[float, str]] = field(default_factory=list)
    _lined: set[str] = field(default_factory=set)
    _ages: dict[str, _Ages] | None = None
    _numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.is_fifo = goes_by_age(self.rules)

    @property
    def queue(self) -> QueueTier:
        """Itself: workers that serve all its routes take from it as from one pool."""
        return self

    @property
    def is_wide(self) -> bool:
        """Whether its lanes are kept by tenant, too."""
        return self._ages is not None

    def unit(self, tenant: str, times: SlotTimes) -> float:
        """Return what a run of a tenant counts: its time, or a turn."""
        return 1.0 if self.rules.order is QueueOrder.ROUND_ROBIN else times.mean(tenant)

    def rule(self, rules: Queue, weights: dict[str, float]) -> None:
        """Follow other settings. In another order, what tenants got before does not count."""
        if rules.order is not self.rules.order:
            self.tenants = shares_for(rules, weights)
            self._front = [(self.tenants.time(tenant), tenant) for tenant in self.waiting]
            self._lined = set(self.waiting)
            for pool in self.pools.values():
                pool.line_up()
        self.rules = rules
        self.is_fifo = goes_by_age(rules)

    def note_pools(self) -> None:
        """Keep lanes by tenant if there are many routes, and else not."""
        if self._ages is not None and len(self.pools) < _WIDE // 2:
            self._ages = None
        elif self._ages is None and len(self.pools) >= _WIDE:
            self._ages = {}
            for pool in self.pools.values():
                for head in pool.heads.values():
                    if head.is_awake:
                        self.age(head)

    def age(self, head: Head) -> None:
        """Note since when a ready head has been ready."""
        if self._ages is None:
            return
        ages = self._ages.setdefault(head.tenant, [])
        heappush(ages, (head.ready_at, next(self._numbers), head))
        if len(ages) > 2 * self.lanes[head.tenant] + _SPARE:
            ages[:] = [entry for entry in ages if _is_aged(entry)]
            heapify(ages)

    def first(self, most: int) -> list[Head]:
        """Return ready heads of the tenants that are furthest behind, the oldest ones of each."""
        taken: list[tuple[float, str]] = []
        while len(taken) < most:
            self.least()
            if not self._front:
                break
            taken.append(heappop(self._front))
        for entry in taken:
            heappush(self._front, entry)
        return [head for _, tenant in taken for head in self.oldest(tenant, max(most // len(taken), 1))]

    def oldest(self, tenant: str, most: int) -> list[Head]:
        """Return the oldest ready heads of a tenant that has some, if lanes are kept by tenant."""
        assert self._ages is not None, "it is wide"
        return _first_ages(self._ages[tenant], None, most)

    def urgency(self) -> tuple[float, datetime]:
        """Return by what it is compared with pools, if something is ready: the least goes first."""
        least = self.least()
        [head] = self.oldest(self._front[0][1], 1)
        return least, head.ready_at

    def rouse(self, tenant: str) -> None:
        """Note that one more lane of a tenant has something ready."""
        self.awake += 1
        self.waiting[tenant] += 1
        if tenant not in self._lined:
            self._lined.add(tenant)
            heappush(self._front, (self.tenants.time(tenant), tenant))

    def rest(self, tenant: str) -> None:
        """Note that one lane less has."""
        self.awake -= 1
        self.waiting[tenant] -= 1
        if not self.waiting[tenant]:
            del self.waiting[tenant]
            if self._ages is not None:
                self._ages.pop(tenant, None)

    def least(self) -> float:
        """Return the virtual time of the tenant that is furthest behind of those that have something ready."""
        front = self._front
        while front:
            time, tenant = front[0]
            if tenant not in self.waiting:
                self._lined.discard(tenant)
                heappop(front)
            elif (at := self.tenants.time(tenant)) > time:
                heapreplace(front, (at, tenant))
            else:
                return at
        return 0.0

    def advance(self) -> None:
        """Let the tenants' shares know who is furthest behind of those that wait.

        Those who wait for other workers count, too. Or what a worker of its own does for one tenant would seem to be
        what everybody has got, and newcomers would start there.
        """
        if self.waiting:
            self.tenants.advance(self.least())


def goes_by_age(rules: Queue) -> bool:
    """Return whether the oldest run of a queue goes first."""
    return rules.order is QueueOrder.FIFO


def shares_for(rules: Queue, weights: dict[str, float]) -> Shares:
    """Return shares by these weights, or by equal ones where weights do not count."""
    return Shares(weights) if rules.order is QueueOrder.FAIR else Shares()


class Pool:
    """The lanes of one queue, route and tier. Each is of another tenant.

    Entries of the heaps may be outdated. They are dropped or moved when they come to the front.

    Attributes:
        queue: the tier of the queue.
        heads: by tenant.
        awake: how many lanes have something ready.
        is_stopped: nothing is to be taken from it for the time being.
    """

    __slots__ = ("_by_age", "_by_share", "_numbers", "awake", "heads", "is_stopped", "queue", "route")

    def __init__(self, queue: QueueTier, route: str) -> None:
        self.queue: QueueTier = queue
        self.route: str = route
        self.heads: dict[str, Head] = {}
        self.awake: int = 0
        self.is_stopped: bool = False
        self._numbers = count()  # entries of equal keys keep their order of arrival
        self._by_share: list[tuple[float, int, Head]] = []
        self._by_age: _Ages = []

    def rouse(self, head: Head) -> None:
        """Note that a lane has something ready."""
        head.is_awake = True
        self.awake += 1
        self.queue.rouse(head.tenant)
        self.age(head)
        if not head.is_lined:
            head.is_lined = True
            heappush(self._by_share, (self.queue.tenants.time(head.tenant), next(self._numbers), head))

    def rest(self, head: Head) -> None:
        """Note that a lane has nothing ready."""
        head.is_awake = False
        self.awake -= 1
        self.queue.rest(head.tenant)

    def age(self, head: Head) -> None:
        """Note since when a ready head has been ready."""
        self.queue.age(head)
        heappush(self._by_age, (head.ready_at, next(self._numbers), head))
        if len(self._by_age) > 2 * len(self.heads) + _SPARE:
            self._by_age = [entry for entry in self._by_age if _is_aged(entry)]
            heapify(self._by_age)

    def line_up(self) -> None:
        """Put the heads in order by shares that were made anew."""
        time = self.queue.tenants.time
        heads = [head for _, _, head in self._by_share]
        self._by_share = [(time(head.tenant), next(self._numbers), head) for head in heads]
        heapify(self._by_share)

    def least(self) -> Head | None:
        """Return the ready head of the tenant that is furthest behind."""
        entries, of = self._by_share, self.queue.tenants.time
        while entries:
            time, number, head = entries[0]
            if not head.is_awake:
                head.is_lined = False
                heappop(entries)
            elif (at := of(head.tenant)) > time:
                heapreplace(entries, (at, number, head))
            else:
                return head
        return None

    def first(self, most: int) -> list[Head]:
        """Return the ready heads that are to be served first, in this order."""
        if self.queue.is_fifo:
            return self.ready_since(None, most)
        if most == 1:
            least = self.least()
            return [] if least is None else [least]
        taken: list[tuple[float, int, Head]] = []
        while len(taken) < most and self.least() is not None:
            taken.append(heappop(self._by_share))
        for entry in taken:
            heappush(self._by_share, entry)
        return [head for _, _, head in taken]

    def urgency(self) -> tuple[float, datetime]:
        """Return by what pools of a queue are compared, if something is ready: the least goes first."""
        while not _is_aged(self._by_age[0]):
            heappop(self._by_age)
        since = self._by_age[0][0]
        if self.queue.is_fifo:
            return 0.0, since
        self.least()
        return self._by_share[0][0], since

    def ready_since(self, until: datetime | None, most: int) -> list[Head]:
        """Return the heads that have been ready since then or longer, the oldest first."""
        return _first_ages(self._by_age, until, most)


def _first_ages(ages: _Ages, until: datetime | None, most: int) -> list[Head]:
    """Return the oldest heads, up to those that have been ready since an instant."""
    taken: _Ages = []
    while len(taken) < most and ages:
        if not _is_aged(ages[0]):
            heappop(ages)
        elif until is None or ages[0][0] <= until:
            taken.append(heappop(ages))
        else:
            break
    for entry in taken:
        heappush(ages, entry)
    return list(dict.fromkeys(head for _, _, head in taken))


def _is_aged(entry: tuple[datetime, int, Head]) -> bool:
    return entry[2].is_awake and entry[2].ready_at == entry[0]


def by_age(head: Head) -> datetime:
    """Return since when a head has been ready, as the key of an order."""
    return head.ready_at


def rules_of(queues: Mapping[str, Queue], name: str) -> Queue:
    """Return what is set for a queue, or the defaults."""
    return queues.get(name) or Queue(name=name)
