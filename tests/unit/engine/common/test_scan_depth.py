"""How deep a look goes: the deeper the rarer, and the rarer the more it costs."""

from __future__ import annotations

from datetime import timedelta

from mainspring.engine.common.pacing import SHARE
from mainspring.engine.common.scan_depth import LONGEST, Depth, ScanDepth

NEAR, MIDDLE, ALL = 0, 1, 2
DEPTHS = (Depth(timedelta(seconds=2)), Depth(timedelta(seconds=30), period=5), Depth(None, period=30))


def look(looks: ScanDepth, at: float, *, cost: float = 0.0) -> int:
    """Choose and carry out a look that takes so many seconds."""
    number = looks.choose(at)
    looks.note(number, begun=at, ended=at + cost)
    return number


def test_first_look_goes_to_the_beginning() -> None:
    looks = ScanDepth(DEPTHS)
    assert look(looks, 0) == ALL
    assert looks.lag(ALL) is None


def test_deeper_looks_come_at_their_periods_and_stand_for_the_shallower_ones() -> None:
    looks = ScanDepth(DEPTHS)
    found = {at: look(looks, at) for at in range(41)}
    assert [at for at, number in found.items() if number == ALL] == [0, 30]
    assert [at for at, number in found.items() if number == MIDDLE] == [5, 10, 15, 20, 25, 35, 40]


def test_look_that_costs_much_waits_until_it_is_a_small_share_of_the_time() -> None:
    looks = ScanDepth(DEPTHS)
    cost = 2.0
    assert look(looks, 0, cost=cost) == ALL
    assert look(looks, 30, cost=cost) == ALL
    free = 30 + cost + cost / SHARE
    assert looks.choose(free - 0.1) == MIDDLE
    assert looks.choose(free) == ALL


def test_looks_that_cost_very_much_come_all_the_same() -> None:
    looks = ScanDepth(DEPTHS)
    assert look(looks, 0, cost=50) == ALL
    assert look(looks, 100, cost=50) == ALL
    assert looks.choose(150 + LONGEST) == ALL


def test_one_look_that_stalled_is_no_reason_to_wait() -> None:
    looks = ScanDepth(DEPTHS)
    assert look(looks, 0, cost=0.01) == ALL
    assert look(looks, 30, cost=7) == ALL
    looks.demand()
    assert looks.choose(38) == ALL


def test_demanded_look_comes_at_once_where_it_is_cheap() -> None:
    looks = ScanDepth(DEPTHS)
    look(looks, 0, cost=0.01)
    look(looks, 30, cost=0.01)
    looks.demand()
    assert looks.choose(30.2) == NEAR
    assert looks.choose(30.22) == ALL


def test_demand_that_comes_during_a_look_is_for_the_next_one() -> None:
    looks = ScanDepth(DEPTHS)
    number = looks.choose(0)
    looks.demand()
    looks.note(number, begun=0, ended=0.01)
    assert number == ALL
    assert looks.choose(0.22) == ALL
    looks.note(ALL, begun=0.22, ended=0.23)
    assert looks.choose(10) == MIDDLE
