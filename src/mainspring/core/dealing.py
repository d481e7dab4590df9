"""Deals the seats of one claim among lanes of the same tier."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from heapq import heapify, heapreplace, nsmallest

from mainspring.core.ids import LaneId
from mainspring.core.pools import Head, Pool
from mainspring.core.shares import Shares
from mainspring.core.slot_times import SlotTimes

PORTIONS = 64
"""Into how many portions the seats of a claim are dealt, about. They are equally large."""


@dataclass(slots=True)
class _Turns:
    """The tenants of one queue in a deal, in the order of their virtual times, each with its lanes, the oldest first.

    Attributes:
        order: them by their virtual times, as these would be after the portions dealt so far.
        waiting: how many lanes wait in the queue, in the deal or not.
    """

    tenants: Shares
    lanes: dict[str, deque[Head]] = field(default_factory=dict)
    order: list[tuple[float, int, str]] = field(default_factory=list)
    waiting: int = 0

    def line_up(self) -> None:
        """Put the tenants in order."""
        self.order = [(self.tenants.time(tenant), place, tenant) for place, tenant in enumerate(self.lanes)]
        heapify(self.order)

    def next(self, portion: int, times: SlotTimes) -> Head:
        """Return the lane that gets the next portion."""
        time, place, tenant = self.order[0]
        cost = portion * times.mean(tenant) / self.tenants.weight(tenant)
        heapreplace(self.order, (time + cost, place, tenant))
        lanes = self.lanes[tenant]
        lanes.rotate(-1)
        return lanes[-1]


def deal(
    queues: Shares, pools: Sequence[Pool], seats: int, most: int, *, times: SlotTimes
) -> dict[LaneId, int]:
    """Return the lanes that get portions of the seats, and further ones for what they leave over, each with its quota.

    Args:
        queues: the shares of the queues. Their weights are set here.
        pools: those with something ready; at least one.
        most: the most lanes to return.
        times: how long attempts take.
    """
    turns = _gather(queues, pools, most)
    heads = [head for turn in turns.values() for lanes in turn.lanes.values() for head in lanes]
    if len(heads) == 1:
        return {heads[0].lane_id: seats}
    _weigh(queues, turns)
    for name, turn in turns.items():
        queues.keep_up(name, times.mean(next(iter(turn.lanes))))
    queues.advance(min(map(queues.time, turns)))
    queues.prune(turns)
    order = [(queues.time(name), name) for name in turns]
    heapify(order)
    portion = -(-seats // PORTIONS)
    dealt: dict[Head, int] = {}
    for start in range(0, seats, portion):
        time, name = order[0]
        count = min(portion, seats - start)
        head = turns[name].next(count, times)
        dealt[head] = dealt.get(head, 0) + count
        heapreplace(order, (time + count * times.mean(head.tenant) / queues.weight(name), name))
    return _fill_up(dealt, heads, seats)


def _gather(queues: Shares, pools: Sequence[Pool], most: int) -> dict[str, _Turns]:
    """Return by queue the lanes that are to be served first."""
    if len(pools) > PORTIONS:
        pools = nsmallest(most, pools, key=lambda pool: (queues.time(pool.queue), *_urgency(pool)))
    each = max(min(most, PORTIONS) // len(pools), 1)
    turns: dict[str, _Turns] = {}
    for pool in pools:
        turn = turns.get(pool.queue) or turns.setdefault(pool.queue, _Turns(pool.tenants))
        turn.waiting += pool.awake
        for head in pool.first(each):
            turn.lanes.setdefault(head.tenant, deque()).append(head)
    for turn in turns.values():
        for tenant, lanes in turn.lanes.items():
            if len(lanes) > 1:
                turn.lanes[tenant] = deque(sorted(lanes, key=_age))
        turn.line_up()
    return turns


def _urgency(pool: Pool) -> tuple[float, datetime]:
    least, oldest = pool.least(), pool.oldest()
    assert least is not None, "something is ready there"
    assert oldest is not None, "likewise"
    return pool.tenants.time(least.tenant), _age(oldest)


def _age(head: Head) -> datetime:
    return head.ready_at


def _weigh(queues: Shares, turns: Mapping[str, _Turns]) -> None:
    """Have each queue weigh as much as the tenants that wait in it, each of which divides its weight among its queues.

    So nobody gets more by using more queues. Of those that are not in the deal, this assumes that they weigh the same.
    """
    counts = Counter(tenant for turn in turns.values() for tenant in turn.lanes)
    queues.weights = {}
    for name, turn in turns.items():
        weight = sum(turn.tenants.weight(tenant) / counts[tenant] for tenant in turn.lanes)
        lanes = sum(map(len, turn.lanes.values()))
        queues.weights[name] = weight * turn.waiting / lanes


def _fill_up(dealt: Mapping[Head, int], heads: Iterable[Head], seats: int) -> dict[LaneId, int]:
    """Return the quotas of all lanes, so that somebody gets the seats that others leave.

    The one that is furthest behind stays first. The seats that are left go to the lanes that got no portion. If all
    have one, they go to the last lane. That is one that gave all that the claim before asked of it, or else the one
    whose head has waited for the longest time.
    """
    first, *rest = dealt
    ordered = [first, *sorted(sorted(rest, key=_age, reverse=True), key=lambda head: head.is_deep)]
    quotas = {head.lane_id: dealt[head] for head in ordered}
    others = [head.lane_id for head in heads if head not in dealt] or [next(reversed(quotas))]
    return quotas | dict.fromkeys(others, seats)
