"""Which lanes a claim takes runs from, and how many of each: by tier, queue, and the weights of tenants (design 6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from mainspring.core.dealing import deal
from mainspring.core.ids import LaneId
from mainspring.core.model import Lane, LaneKey, Priority
from mainspring.core.pools import Pool
from mainspring.core.shares import Shares
from mainspring.core.slot_times import SlotTimes

MOST_LANES = 256
"""Lanes of one claim, at most."""
AGING = timedelta(minutes=5)
"""A run that has waited for so long need not wait until the tiers above its own are empty."""
AGING_SHARE = 0.1
"""The share of the seats that such runs get while more urgent work waits, the oldest first."""
MOST_AGED = 64
"""Lanes of one claim from which such runs are taken, at most."""
TIERS = tuple(sorted(Priority))


class Reach:
    """What workers that offer the same can get runs from, and how much they have taken of each queue.

    Args:
        serves: whether they can execute runs of a queue and a route.

    Attributes:
        queues: the shares of the queues, by tier.
        credit: the seats that are due to runs that have waited for long.
        aged: the lanes of which the last choice wanted such runs.
        is_cut: the last choice left lower tiers out, because lanes of higher ones may have more than their quotas.
    """

    __slots__ = ("_changes", "_pools", "_serves", "aged", "credit", "is_cut", "queues")

    def __init__(self, serves: Callable[[str, str], bool]) -> None:
        self.queues = {priority: Shares() for priority in TIERS}
        self.credit = 0.0
        self.aged: dict[LaneId, int] = {}
        self.is_cut = False
        self._serves = serves
        self._changes = -1
        self._pools: list[tuple[Priority, list[Pool]]] = []

    def pools(self, order: LaneOrder) -> list[tuple[Priority, list[Pool]]]:
        """Return the pools that they serve, tier by tier."""
        if self._changes != order.changes:
            self._changes = order.changes
            self._pools = [(priority, order.find_pools(priority, self._serves)) for priority in TIERS]
        return self._pools


@dataclass(slots=True)
class _Queue:
    """One tier of a queue.

    Attributes:
        tenants: their shares of it.
        pools: by route.
        lanes: how many lanes of each tenant have something to run.
    """

    tenants: Shares = field(default_factory=Shares)
    pools: dict[str, Pool] = field(default_factory=dict)
    lanes: Counter[str] = field(default_factory=Counter)


class LaneOrder:
    """Keeps the lanes in the order in which they are to be served, so that a claim need not look at all of them.

    A claim gets runs of the most urgent tier first. Within a tier, queues get shares, and within a queue tenants do. A
    queue weighs as much as the tenants that wait in it. The seats of a claim are dealt in portions, so that they do not
    all go to one tenant with a large backlog.

    Attributes:
        changes: grows when a pool is made or dropped.
        times: how long attempts of each tenant hold their slots. Shares are of that time, not of the number of runs.
    """

    def __init__(self) -> None:
        self.changes = 0
        self.times = SlotTimes()
        self._weights: dict[str, float] = {}
        self._queues: dict[tuple[str, Priority], _Queue] = {}
        self._keys: dict[LaneId, LaneKey] = {}

    def weigh(self, weights: Mapping[str, float]) -> None:
        """Let tenants have these weights from now on; 1 where none is given."""
        self._weights.clear()
        self._weights.update(weights)

    # -- what is known of the lanes ------------------------------------------------------------------------------------

    def keep(self, lanes: Iterable[Lane]) -> None:
        """Take over what a read of all lanes has found. Lanes that are not among them are gone."""
        found = set()
        for lane in lanes:
            self.put(lane)
            found.add(lane.id)
        for lane_id in self._keys.keys() - found:
            self._remove(lane_id, self._keys[lane_id])

    def put(self, lane: Lane) -> None:
        """Take over from when on a lane has something to run; None: it has nothing."""
        key = lane.key
        if lane.earliest_ready_at is None:
            self._remove(lane.id, key)
            return
        queue = self._queues.get((key.queue, key.priority))
        if queue is None:
            queue = self._queues[key.queue, key.priority] = _Queue(Shares(self._weights))
        pool = queue.pools.get(key.route)
        if pool is None:
            pool = queue.pools[key.route] = Pool(key.queue, queue.tenants)
            self.changes += 1
        head = pool.heads.get(key.tenant)
        if head is not None and head.lane_id != lane.id:  # it was deleted, and made anew under another id
            self._remove(head.lane_id, key)
            self.put(lane)
        elif pool.put(key.tenant, lane.id, lane.earliest_ready_at):
            self._keys[lane.id] = key
            if not queue.lanes[key.tenant]:
                queue.tenants.welcome(key.tenant, self.times.mean(key.tenant))
            queue.lanes[key.tenant] += 1

    def _remove(self, lane_id: LaneId, key: LaneKey) -> None:
        if self._keys.pop(lane_id, None) is None:
            return
        queue = self._queues[key.queue, key.priority]
        pool = queue.pools[key.route]
        pool.remove(key.tenant)
        queue.lanes[key.tenant] -= 1
        if not queue.lanes[key.tenant]:
            del queue.lanes[key.tenant]
            queue.tenants.prune(queue.lanes)
        if pool.heads:
            return
        del queue.pools[key.route]
        self.changes += 1
        if not queue.pools:
            del self._queues[key.queue, key.priority]

    def priority_of(self, lane_id: LaneId) -> Priority:
        """Return the tier of a lane that has something to run."""
        return self._keys[lane_id].priority

    def find_pools(self, priority: Priority, serves: Callable[[str, str], bool]) -> list[Pool]:
        """Return the pools of one tier that a worker serves."""
        return [
            pool
            for (name, tier), queue in self._queues.items()
            if tier is priority
            for route, pool in queue.pools.items()
            if serves(name, route)
        ]

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
        tiers = [(priority, found) for priority, pools in reach.pools(self) if (found := _wake(pools, now))]
        reach.aged = self._choose_aged(reach, [pool for _, found in tiers[1:] for pool in found], seats, now)
        reach.is_cut = False
        chosen = dict(reach.aged)
        for place, (priority, found) in enumerate(tiers):
            self._advance(priority, found, now)
            quotas = deal(reach.queues[priority], found, seats, MOST_LANES - len(chosen), times=self.times)
            chosen = chosen | quotas | chosen
            # Lower tiers get nothing while a lane may have more than its quota.
            if len(chosen) >= MOST_LANES or any(self._may_have_more(key, seats, chosen) for key in quotas):
                reach.is_cut = place < len(tiers) - 1
                break
        return chosen

    def _may_have_more(self, lane_id: LaneId, seats: int, quotas: Mapping[LaneId, int]) -> bool:
        key = self._keys[lane_id]
        head = self._queues[key.queue, key.priority].pools[key.route].heads[key.tenant]
        return quotas[lane_id] < seats and not head.is_dry

    def _choose_aged(
        self, reach: Reach, pools: Sequence[Pool], seats: int, now: datetime
    ) -> dict[LaneId, int]:
        """Return lanes of lower tiers that get a part of the seats, because their heads have waited for long."""
        heads = [head for pool in pools for head in pool.ready_since(now - AGING, MOST_AGED)]
        if not heads:
            reach.credit = 0.0
            return {}
        # Claims for one seat each save up for it.
        count = min(int(reach.credit + AGING_SHARE * seats + 1e-9), seats)
        heads = sorted(heads, key=lambda head: head.ready_at)[: min(count, MOST_AGED)]
        return {head.lane_id: -(-count // len(heads)) for head in heads}

    def _advance(self, priority: Priority, pools: Sequence[Pool], now: datetime) -> None:
        """Let the tenants' shares in the queues of these pools know who is furthest behind.

        Those who wait for other workers count, too. Or what a worker of its own does for one tenant would seem to be
        what everybody has got, and newcomers would start there.
        """
        for name in {pool.queue for pool in pools}:
            queue = self._queues[name, priority]
            waiting = [head for pool in _wake(queue.pools.values(), now) if (head := pool.least())]
            queue.tenants.advance(min(queue.tenants.time(head.tenant) for head in waiting))

    # -- what was given ------------------------------------------------------------------------------------------------

    def charge(
        self, reach: Reach, taken: Mapping[LaneId, int], quotas: Mapping[LaneId, int], seats: int
    ) -> bool:
        """Note how many runs a claim for so many seats took of each lane, and how many it could have taken.

        Return whether there may be more: a lane gave all that it could have given, or lower tiers were left out.
        """
        total = sum(taken.values())
        aged = sum(taken.get(lane_id, 0) for lane_id in reach.aged)
        reach.credit = min(max(reach.credit + AGING_SHARE * total - aged, 0.0), float(MOST_AGED))
        may_have_more = reach.is_cut and total < seats
        for lane_id in taken.keys() | quotas.keys() if total < seats else taken.keys():
            key, count = self._keys.get(lane_id), taken.get(lane_id, 0)
            if key is None:
                continue  # nothing was known of it, so it competed with nobody
            if count:
                self.charge_lane(reach, key, count)
            head = self._queues[key.queue, key.priority].pools[key.route].heads[key.tenant]
            head.is_deep = 0 < quotas.get(lane_id, count + 1) <= count
            head.is_dry = not head.is_deep and total < seats
            may_have_more = may_have_more or head.is_deep
        return may_have_more

    def charge_lane(self, reach: Reach, key: LaneKey, count: int) -> None:
        """Note that workers got runs of a lane, if anybody waits in its queue."""
        queue = self._queues.get((key.queue, key.priority))
        if queue is not None:
            unit = self.times.mean(key.tenant)
            queue.tenants.charge(key.tenant, count, unit)
            reach.queues[key.priority].charge(key.queue, count, unit)


def _wake(pools: Iterable[Pool], now: datetime) -> list[Pool]:
    """Return the pools that have something ready."""
    return [pool for pool in pools if pool.wake(now)]
