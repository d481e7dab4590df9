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
TIERS = tuple(sorted(Priority))


class Reach:
    """What workers that offer the same can get runs from, and how much they have taken of each queue.

    Args:
        serves: whether they can execute runs of a queue and a route.
    """

    __slots__ = ("_changes", "_pools", "_serves", "queues")

    def __init__(self, serves: Callable[[str, str], bool]) -> None:
        self.queues = {priority: Shares() for priority in TIERS}
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
        self._credit = 0.0

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
                queue.tenants.welcome(key.tenant)
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
        chosen = self._choose_aged([pool for _, found in tiers[1:] for pool in found], seats, now)
        for priority, found in tiers:
            self._advance(priority, found, now)
            quotas = deal(reach.queues[priority], found, seats, MOST_LANES - len(chosen), times=self.times)
            chosen = chosen | quotas | chosen
            # Lower tiers get nothing while a lane may have more than its quota.
            if len(chosen) >= MOST_LANES or any(chosen[lane_id] < seats for lane_id in quotas):
                break
        return chosen

    def _choose_aged(self, pools: Sequence[Pool], seats: int, now: datetime) -> dict[LaneId, int]:
        """Return lanes of lower tiers that get a part of the seats, because their heads have waited for long."""
        heads = [head for pool in pools if (head := pool.oldest()) and head.ready_at <= now - AGING]
        if not heads:
            self._credit = 0.0
            return {}
        self._credit += AGING_SHARE * seats  # claims for one seat each save up for it
        count = int(self._credit + 1e-9)
        self._credit -= count
        heads.sort(key=lambda head: head.ready_at)
        return dict.fromkeys([head.lane_id for head in heads[:count]], -(-count // len(heads)))

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

    def charge(self, reach: Reach, taken: Mapping[LaneId, int], quotas: Mapping[LaneId, int]) -> bool:
        """Note how many runs a claim took of each lane, and how many it could have taken.

        Return whether a lane gave all that it could have given, so that it may have more.
        """
        may_have_more = False
        for lane_id, count in taken.items():
            key = self._keys.get(lane_id)
            if key is None:
                continue  # nothing was known of it, so it competed with nobody
            self.charge_lane(reach, key, count)
            is_deep = count >= quotas.get(lane_id, count + 1)
            self._queues[key.queue, key.priority].pools[key.route].heads[key.tenant].is_deep = is_deep
            may_have_more = may_have_more or is_deep
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
