"""Which lanes a claim takes runs from, and how many of each: by tier, queue, and the weights of tenants (design 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from heapq import heapify, heappop, heappush
from itertools import count

from mainspring.core.dealing import deal
from mainspring.core.ids import LaneId
from mainspring.core.model import Lane, LaneKey, Priority
from mainspring.core.pools import Head, Pool, QueueTier, by_age, rules_of, shares_for
from mainspring.core.queues import Queue, QueueOrder
from mainspring.core.reach import TIERS, AnyPool, Place, Reach, Source, open_sources
from mainspring.core.reserves import Reserves, put_first
from mainspring.core.served import Given
from mainspring.core.slot_times import SlotTimes

MOST_LANES = 256
"""Lanes of one claim, at most."""
MOST_AGED = 64
"""Lanes of one claim from which runs are taken that have waited for long, at most."""
_MOST_GIVEN = 10_000
_SPARE = 64


class LaneOrder:
    """Keeps the lanes in the order in which they are to be served, so that a claim need not look at all of them.

    A claim gets runs of the most urgent tier first. Within a tier, queues get shares, and within a queue tenants do. A
    queue weighs as much as the tenants that wait in it. The seats of a claim are dealt in portions, so that they do not
    all go to one tenant with a large backlog.

    Attributes:
        changes: grows when a pool is made or dropped.
        times: how long attempts of each tenant hold their slots. Shares are of that time, not of the number of runs.
        awake: how many lanes had something ready at the last `wake`, but for those that are stopped.
        given: what each tenant has been given since this was last emptied; None: nobody wants to know.
        reserves: the slots that are reserved for tenants.
    """

    def __init__(self) -> None:
        self.changes: int = 0
        self.times: SlotTimes = SlotTimes()
        self.awake: int = 0
        self.given: dict[Given, float] | None = None
        self.reserves: Reserves = Reserves()
        self._weights: dict[str, float] = {}
        self._rules: dict[str, Queue] = {}
        self._queues: dict[tuple[str, Priority], QueueTier] = {}
        self._heads: dict[LaneId, Head] = {}
        self._numbers = count()
        self._later: list[tuple[datetime, int, Head]] = []
        self._now: datetime | None = None
        self._stops: dict[Place, datetime] = {}
        self._stops_end: datetime | None = None

    def weigh(self, weights: Mapping[str, float]) -> None:
        """Let tenants have these weights from now on; 1 where none is given."""
        self._weights.clear()
        self._weights.update(weights)

    def rule(self, queues: Mapping[str, Queue]) -> None:
        """Let queues have these settings from now on; the defaults where none are given."""
        self._rules = dict(queues)
        for (name, _), queue in self._queues.items():
            queue.rule(rules_of(self._rules, name), self._weights)
        self.changes += 1

    def reserve(self, reserved: Mapping[str, int], now: datetime) -> None:
        """Reserve so many slots for tenants from now on; none where none are given."""
        self.reserves.follow(reserved, self._heads.values(), now)

    # -- what is known of the lanes ------------------------------------------------------------------------------------

    def keep(self, lanes: Iterable[Lane], among: Iterable[LaneId] | None = None) -> None:
        """Take over what a read of lanes has found. Those of `among` (None: of all) that are not found are gone."""
        found = set()
        for lane in lanes:
            self.put(lane)
            found.add(lane.id)
        for lane_id in list(self._heads) if among is None else among:
            if lane_id not in found:
                self.remove(lane_id)

    def put(self, lane: Lane) -> None:
        """Take over from when on a lane has something to run; None: it has nothing."""
        if lane.earliest_ready_at is None:
            self.remove(lane.id)
            return
        head = self._heads.get(lane.id)
        if head is not None:
            if head.ready_at != lane.earliest_ready_at:
                self._move(head, lane.earliest_ready_at)
            return
        key = lane.key
        pool = self._pool(key)
        other = pool.heads.get(key.tenant)
        if other is not None:  # it was deleted, and made anew under another id
            self.remove(other.lane_id)
            pool = self._pool(key)
        head = self._heads[lane.id] = pool.heads[key.tenant] = Head(
            lane.id, key.tenant, lane.earliest_ready_at, pool
        )
        heappush(self._later, (head.ready_at, next(self._numbers), head))
        self.reserves.add(head)
        queue = pool.queue
        if not queue.lanes[key.tenant]:
            queue.tenants.welcome(key.tenant, queue.unit(key.tenant, self.times))
        queue.lanes[key.tenant] += 1

    def _pool(self, key: LaneKey) -> Pool:
        queue = self._queues.get((key.queue, key.priority))
        if queue is None:
            rules = rules_of(self._rules, key.queue)
            queue = QueueTier(key.queue, key.priority, rules, shares_for(rules, self._weights))
            self._queues[key.queue, key.priority] = queue
        pool = queue.pools.get(key.route)
        if pool is None:
            pool = queue.pools[key.route] = Pool(queue, key.route)
            pool.is_stopped = (key.queue, key.route) in self._stops
            queue.note_pools()
            self.changes += 1
        return pool

    def _move(self, head: Head, ready_at: datetime) -> None:
        head.ready_at = ready_at
        head.is_dry = False
        if head.is_awake and self._now is not None and ready_at <= self._now:
            head.pool.age(head)
            return
        self._rest(head)
        heappush(self._later, (ready_at, next(self._numbers), head))
        if len(self._later) > 2 * len(self._heads) + _SPARE:
            self._later = [entry for entry in self._later if self._is_later(entry)]
            heapify(self._later)

    def _rest(self, head: Head) -> None:
        if head.is_awake:
            head.pool.rest(head)
            self.awake -= not head.pool.is_stopped

    def remove(self, lane_id: LaneId) -> None:
        """Note that a lane has nothing to run."""
        head = self._heads.pop(lane_id, None)
        if head is None:
            return
        self._rest(head)
        self.reserves.remove(head)
        pool, queue = head.pool, head.pool.queue
        del pool.heads[head.tenant]
        queue.lanes[head.tenant] -= 1
        if not queue.lanes[head.tenant]:
            del queue.lanes[head.tenant]
            queue.tenants.prune(queue.lanes)
        if pool.heads:
            return
        del queue.pools[pool.route]
        queue.note_pools()
        self.changes += 1
        if not queue.pools:
            del self._queues[queue.name, queue.priority]

    def priority_of(self, lane_id: LaneId) -> Priority:
        """Return the tier of a lane that has something to run."""
        return self._heads[lane_id].pool.queue.priority

    def is_fifo(self, lane_id: LaneId) -> bool:
        """Say whether the queue of a lane that has something to run serves the oldest run first."""
        return self._heads[lane_id].pool.queue.is_fifo

    def find_pools(self, priority: Priority, serves: Callable[[str, str], bool]) -> list[Pool]:
        """Return the pools of one tier that a worker serves."""
        return [
            pool
            for (name, tier), queue in self._queues.items()
            if tier is priority
            for route, pool in queue.pools.items()
            if serves(name, route)
        ]

    # -- what is ready -------------------------------------------------------------------------------------------------

    def wake(self, now: datetime) -> bool:
        """Note what has become ready. Return whether anything is."""
        self._now = now
        if self._stops_end is not None and self._stops_end <= now:
            self.stop({place: until for place, until in self._stops.items() if until > now})
        while self._later and self._later[0][0] <= now:
            entry = heappop(self._later)
            if self._is_later(entry):
                entry[2].pool.rouse(entry[2])
                self.awake += not entry[2].pool.is_stopped
        return self.awake > 0

    def stop(self, stops: Mapping[Place, datetime]) -> None:
        """Take nothing of these queues and routes, each until an instant, and again of all others.

        So what a full cap closes costs no more where it closes many lanes.
        """
        turned = self._stops.keys() ^ stops.keys()
        self._stops = dict(stops)
        self._stops_end = min(stops.values(), default=None)
        for name, route in turned:
            for priority in TIERS:
                queue = self._queues.get((name, priority))
                pool = None if queue is None else queue.pools.get(route)
                if pool is not None:
                    pool.is_stopped = (name, route) in stops
                    self.awake += -pool.awake if pool.is_stopped else pool.awake

    def next_ready_at(self) -> datetime | None:
        """Return when the next lane has something ready, of those that had nothing at the last `wake`."""
        while self._later and not self._is_later(self._later[0]):
            heappop(self._later)
        instants = [self._later[0][0]] if self._later else []
        return min(instants if self._stops_end is None else [*instants, self._stops_end], default=None)

    def _is_later(self, entry: tuple[datetime, int, Head]) -> bool:
        ready_at, _, head = entry
        return not head.is_awake and head.ready_at == ready_at and self._heads.get(head.lane_id) is head

    def fifo_queues(self) -> Iterator[QueueTier]:
        """Yield the queues that serve the oldest run first, and in which several lanes have something ready."""
        for name, rules in self._rules.items():
            if rules.order is QueueOrder.FIFO:
                for priority in TIERS:
                    queue = self._queues.get((name, priority))
                    if queue is not None and queue.waiting.total() > 1:
                        yield queue

    # -- the choice ----------------------------------------------------------------------------------------------------

    def choose(self, reach: Reach, seats: int, now: datetime) -> dict[LaneId, int]:
        """Return the lanes to fill so many seats from, the first one first, and the most runs to take of each.

        Together these are more than the seats. If a lane has fewer runs than its portion, the seats that are left go
        to the lanes behind it. As far as is known, each lane has a run that is ready.

        Args:
            reach: what the seats can be filled from.
            seats: at least 1.
            now: the store's time.
        """
        self.wake(now)
        first = self.reserves.choose(reach.serves, seats, tenant=reach.tenant)
        reach.reserved, reach.aged, reach.is_cut = first.quotas, {}, first.is_open
        if not first.quotas:
            return self._choose_by_share(reach, seats, now)
        if first.is_open:
            return dict(first.quotas)
        left = max(seats - len(first.quotas), 1)  # each of these lanes has one run, and may have no more
        chosen = put_first(first.quotas, self._choose_by_share(reach, left, now), seats)
        reach.is_cut = reach.is_cut or chosen.is_open
        return dict(chosen.quotas)

    def _choose_by_share(self, reach: Reach, seats: int, now: datetime) -> dict[LaneId, int]:
        tiers = [
            (priority, pools, found)
            for priority, pools, sources in reach.sources(self)
            if (found := self._open([source for source in sources if source.awake]))
        ]
        lower = [pool for _, pools, _ in tiers[1:] for pool in pools if pool.awake and not pool.is_stopped]
        reach.aged = self._choose_aged(reach, lower, seats, now)
        chosen = dict(reach.aged)
        for place, (priority, _, found) in enumerate(tiers):
            quotas = deal(reach.queues[priority], found, seats, MOST_LANES - len(chosen), times=self.times)
            chosen = chosen | quotas | chosen
            # Lower tiers get nothing while a lane may have more than its quota.
            if len(chosen) >= MOST_LANES or any(self._may_have_more(key, seats, chosen) for key in quotas):
                reach.is_cut = place < len(tiers) - 1
                break
        return chosen

    def _open(self, sources: Sequence[Source]) -> Sequence[Source]:
        return open_sources(sources) if self._stops else sources

    def _may_have_more(self, lane_id: LaneId, seats: int, quotas: Mapping[LaneId, int]) -> bool:
        return quotas[lane_id] < seats and not self._heads[lane_id].is_dry

    def _choose_aged(
        self, reach: Reach, pools: Sequence[AnyPool], seats: int, now: datetime
    ) -> dict[LaneId, int]:
        """Return lanes of lower tiers that get a part of the seats, because their heads have waited for long.

        If those of several queues have, they get the largest of the queues' shares together.
        """
        heads: list[Head] = []
        reach.aging_share = 0.0
        for pool in pools:
            rules = pool.queue.rules
            if rules.aging_share and (found := pool.ready_since(now - rules.aging, MOST_AGED)):
                heads += found
                reach.aging_share = max(reach.aging_share, rules.aging_share)
        if not heads:
            reach.credit = 0.0
            return {}
        # Claims for one seat each save up for it.
        most = min(int(reach.credit + reach.aging_share * seats + 1e-9), seats)
        heads = sorted(heads, key=by_age)[: min(most, MOST_AGED)]
        return {head.lane_id: -(-most // len(heads)) for head in heads}

    # -- what was given ------------------------------------------------------------------------------------------------

    def charge(
        self, reach: Reach, taken: Mapping[LaneId, int], quotas: Mapping[LaneId, int], seats: int
    ) -> bool:
        """Note how many runs a claim for so many seats took of each lane, and how many it could have taken.

        Return whether there may be more: a lane gave all that it could have given, or lower tiers were left out.
        """
        total = sum(taken.values())
        aged = sum(max(taken.get(key, 0) - reach.reserved.get(key, 0), 0) for key in reach.aged)
        reach.credit = min(max(reach.credit + reach.aging_share * total - aged, 0.0), float(MOST_AGED))
        may_have_more = reach.is_cut and total < seats
        for lane_id in taken.keys() | quotas.keys() if total < seats else taken.keys():
            head, got = self._heads.get(lane_id), taken.get(lane_id, 0)
            if head is None:
                continue  # nothing was known of it, so it competed with nobody
            if got:
                self._charge(reach, head.pool.queue, head.tenant, got)
            head.is_deep = 0 < quotas.get(lane_id, got + 1) <= got
            head.is_dry = not head.is_deep and total < seats
            may_have_more = may_have_more or head.is_deep
        return may_have_more

    def charge_lane(self, reach: Reach, key: LaneKey, runs: int) -> None:
        """Note that workers got runs of a lane, if anybody waits in its queue."""
        queue = self._queues.get((key.queue, key.priority))
        if queue is not None:
            self._charge(reach, queue, key.tenant, runs)

    def _charge(self, reach: Reach, queue: QueueTier, tenant: str, runs: int) -> None:
        unit = queue.unit(tenant, self.times)
        queue.tenants.charge(tenant, runs, unit)
        reach.queues[queue.priority].charge(queue.name, runs, self.times.mean(tenant))
        if self.given is not None and len(self.given) < _MOST_GIVEN:
            key = queue.name, queue.priority, tenant
            self.given[key] = self.given.get(key, 0.0) + runs * unit

    def charge_elsewhere(self, given: Given, amount: float) -> None:
        """Note what a tenant has been given by another server, if anybody waits in that queue here."""
        name, priority, tenant = given
        queue = self._queues.get((name, priority))
        if queue is not None:
            queue.tenants.charge(tenant, 1.0, amount)
