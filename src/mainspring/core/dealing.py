"""Deals the seats of one claim among lanes of the same tier."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace
from operator import itemgetter

from mainspring.core.ids import LaneId
from mainspring.core.pools import Head, QueueTier, by_age
from mainspring.core.reach import Source
from mainspring.core.shares import Shares
from mainspring.core.slot_times import SlotTimes

PORTIONS = 64
"""Into how many portions the seats of a claim are dealt, about. They are equally large."""
_Portions = list[tuple[Head, int]]
_place = itemgetter(0)


@dataclass(slots=True)
class _Turns:
    """The tenants of one queue in a deal, in the order of their virtual times, each with its lanes, the oldest first.

    Attributes:
        order: them by their virtual times, as these would be after the portions dealt so far.
        waiting: how many lanes wait in the queue, in the deal or not.
    """

    queue: QueueTier
    lanes: dict[str, deque[Head]] = field(default_factory=dict)
    order: list[tuple[float, int, str]] = field(default_factory=list)
    waiting: int = 0

    def add(self, pool: Source, most: int) -> None:
        """Take the lanes of a pool that are to be served first into the deal."""
        self.waiting += pool.awake
        for head in pool.first(most):
            lanes = self.lanes.get(head.tenant)
            if lanes is None:
                self.lanes[head.tenant] = deque((head,))
            else:
                lanes.append(head)

    def line_up(self) -> None:
        """Put the tenants in order."""
        tenants = self.queue.tenants
        for tenant, lanes in self.lanes.items():
            if len(lanes) > 1:
                self.lanes[tenant] = deque(sorted(lanes, key=by_age))
        self.order = [(tenants.time(tenant), place, tenant) for place, tenant in enumerate(self.lanes)]
        heapify(self.order)

    def take(self, portion: int, times: SlotTimes) -> _Portions:
        """Return the lane that gets the next portion."""
        time, place, tenant = self.order[0]
        cost = portion * self.queue.unit(tenant, times) / self.queue.tenants.weight(tenant)
        heapreplace(self.order, (time + cost, place, tenant))
        lanes = self.lanes[tenant]
        lanes.rotate(-1)
        return [(lanes[-1], portion)]

    def heads(self) -> list[Head]:
        """Return all lanes of the deal."""
        return [head for lanes in self.lanes.values() for head in lanes]


class _Line(_Turns):
    """A queue in a deal that serves the oldest run first.

    A lane gives no further than the next one's head. How many runs that is was seen before (`Peek`). Of a lane whose
    runs were not seen, only the head is known.
    """

    __slots__ = ("_runs",)

    def line_up(self) -> None:
        """Put the runs in order, as far as nothing is missing between them."""
        _Turns.line_up(self)
        heads = {head.lane_id: head for head in self.heads()}
        peek = self.queue.peek
        seen = [] if peek is None else [(at, heads[key]) for at, key in peek.instants if key in heads]
        known = {head.lane_id for _, head in seen}
        unseen = min((head for key, head in heads.items() if key not in known), key=by_age, default=None)
        runs = seen if unseen is None else sorted([*seen, (unseen.ready_at, unseen)], key=_place)
        bounds = [] if unseen is None else [unseen.ready_at]
        if peek is not None and seen:
            bounds.append(peek.until)
        until = min(bounds)
        self._runs = deque(head for at, head in runs if at <= until)

    def take(self, portion: int, times: SlotTimes) -> _Portions:
        """Return whose runs come next, and how many of each; less than the portion if more is not known."""
        del times
        if len(self.lanes) == 1 and self.waiting == 1:
            return [(head, portion) for head in self.heads()]
        count = min(portion, len(self._runs))
        return list(Counter(self._runs.popleft() for _ in range(count)).items())


def deal(
    queues: Shares, pools: Sequence[Source], seats: int, most: int, *, times: SlotTimes
) -> dict[LaneId, int]:
    """Return the lanes that get portions of the seats, and further ones for what they leave over, each with its quota.

    Args:
        queues: the shares of the queues. Their weights are set here.
        pools: those with something ready; at least one. A queue may stand for all its pools.
        most: the most lanes to return.
        times: how long attempts take.
    """
    turns = _gather(queues, pools, min(most, max(seats, PORTIONS)))
    for turn in turns.values():
        turn.queue.advance()
    heads = [head for turn in turns.values() for head in turn.heads()]
    if len(heads) == 1:
        return {heads[0].lane_id: seats}
    _weigh(queues, turns)
    for name, turn in turns.items():
        queues.keep_up(name, times.mean(next(iter(turn.lanes))))
    queues.advance(min(map(queues.time, turns)))
    queues.prune(turns)
    dealt = _deal(queues, turns, seats, times)
    return _fill_up(dealt, [head for head in heads if not head.pool.queue.is_fifo], seats)


def _deal(queues: Shares, turns: Mapping[str, _Turns], seats: int, times: SlotTimes) -> dict[Head, int]:
    """Return how many of the seats each lane gets."""
    order = [(queues.time(name), name) for name in turns]
    heapify(order)
    portion = -(-seats // PORTIONS)
    dealt: dict[Head, int] = {}
    left = seats
    while left and order:
        time, name = order[0]
        taken = turns[name].take(min(portion, left), times)
        if not taken:
            heappop(order)
            continue
        for head, count in taken:
            dealt[head] = dealt.get(head, 0) + count
            left -= count
            time += count * times.mean(head.tenant) / queues.weight(name)
        heapreplace(order, (time, name))
    return dealt


def _gather(queues: Shares, pools: Sequence[Source], most: int) -> dict[str, _Turns]:
    """Return by queue the lanes that are to be served first."""
    # Where the oldest run goes first, all pools have to be compared.
    fifo = [pool for pool in pools if pool.queue.is_fifo]
    if len(pools) - len(fifo) > PORTIONS:
        others = [pool for pool in pools if not pool.queue.is_fifo] if fifo else pools
        pools = [*fifo, *_nearest(queues, others, most)]
    each = max(min(most, PORTIONS) // len(pools), 1)
    of_queue = max(most // len(pools), 1)
    turns: dict[str, _Turns] = {}
    for pool in pools:
        name = pool.queue.name
        turn = turns.get(name)
        if turn is None:
            turn = turns[name] = (_Line if pool.queue.is_fifo else _Turns)(pool.queue)
        if turn.queue.is_fifo:
            turn.add(pool, PORTIONS)
        else:
            turn.add(pool, of_queue if pool is pool.queue else each)
    for turn in turns.values():
        turn.line_up()
    return turns


def _nearest(queues: Shares, pools: Sequence[Source], most: int) -> list[Source]:
    """Return the pools that are to be served first: by the shares of queues, then of tenants, then by age."""
    at = {pool.queue.name: 0.0 for pool in pools}
    for name in at:
        at[name] = queues.time(name)
    keys = [(at[pool.queue.name], *pool.urgency(), place) for place, pool in enumerate(pools)]
    keys.sort()
    return [pools[key[3]] for key in keys[:most]]


def _weigh(queues: Shares, turns: Mapping[str, _Turns]) -> None:
    """Have each queue weigh as much as the tenants that wait in it, each of which divides its weight among its queues.

    So nobody gets more by using more queues. Of those that are not in the deal, this assumes that they weigh the same.
    """
    counts = Counter(tenant for turn in turns.values() for tenant in turn.lanes)
    queues.weights = {}
    for name, turn in turns.items():
        tenants = turn.queue.tenants
        weight = sum(tenants.weight(tenant) / counts[tenant] for tenant in turn.lanes)
        lanes = sum(map(len, turn.lanes.values()))
        queues.weights[name] = weight * turn.waiting / lanes


def _fill_up(dealt: Mapping[Head, int], heads: Iterable[Head], seats: int) -> dict[LaneId, int]:
    """Return the quotas of all lanes, so that somebody gets the seats that others leave.

    The one that is furthest behind stays first. The seats that are left go to the lanes that got no portion. If all
    have one, they go to the last lane. That is one that gave all that the claim before asked of it, or else the one
    whose head has waited for the longest time. Where the oldest run goes first, a lane gets its portion and no more.

    Args:
        heads: the lanes that may get more than their portions.
    """
    first, *rest = dealt
    lines = [head for head in rest if head.pool.queue.is_fifo]
    others = [head for head in rest if not head.pool.queue.is_fifo]
    others = sorted(sorted(others, key=by_age, reverse=True), key=lambda head: head.is_deep)
    quotas = {head.lane_id: dealt[head] for head in [first, *lines, *others]}
    last = others or ([] if first.pool.queue.is_fifo else [first])
    spare = [head for head in heads if head not in dealt] or last[-1:]
    return quotas | dict.fromkeys((head.lane_id for head in spare), seats)
