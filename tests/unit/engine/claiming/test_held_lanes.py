"""Which lanes are held changes together with the policy epoch, and where a pause ends by itself."""

from __future__ import annotations

from datetime import datetime
from random import Random
from typing import NoReturn

import pytest

from mainspring.core.ids import LaneId
from mainspring.core.limits import LINED_UP
from mainspring.core.model import Lane, LaneKey, Priority
from mainspring.core.pauses import LanePauses, Pause, PauseScope
from mainspring.engine.claiming.held_lanes import HeldLanes
from mainspring.engine.claiming.known_lanes import KnownLanes
from mainspring.engine.claiming.lane_cache import LaneCache
from mainspring.engine.common.calendars import CalendarReader
from mainspring.engine.common.restrictions import RestrictionReader
from mainspring.errors import StoreUnavailable
from mainspring.ports.store.restrictions import Restrictions
from mainspring.stores.memory import MemoryStore
from mainspring.testing.clock import FakeClock
from mainspring.testing.factories import at

MAIL, BULK = LaneId(1), LaneId(2)


def lane(lane_id: LaneId, queue: str) -> Lane:
    return Lane(lane_id, LaneKey(queue, "function", "default", Priority.LOW), at(0), None)


LANES = (lane(MAIL, "mail"), lane(BULK, "bulk"))


def known() -> KnownLanes:
    lanes = KnownLanes()
    lanes.keep(LANES, (), at(0))
    return lanes


def paused(epoch: int, until: datetime | None = None) -> Restrictions:
    pause = Pause(scope=PauseScope.QUEUE, name="mail", made_by="ann", since=at(0), until=until)
    return Restrictions(epoch, LanePauses([pause]))


def test_epoch_and_lanes_change_together() -> None:
    held, lanes = HeldLanes(), known()
    held.follow(paused(5))
    assert (held.epoch, MAIL in held, held.is_new) == (0, False, True)
    assert held.settle(lanes, at(1)) == ({MAIL}, set())
    assert (held.epoch, MAIL in held, held.is_new) == (5, True, False)
    held.follow(Restrictions(6))
    assert (held.epoch, held.take(LANES, at(1))) == (5, [LANES[1]])
    assert held.settle(lanes, at(1)) == (set(), {MAIL})
    assert (held.epoch, bool(held)) == (6, False)


def test_lanes_that_are_found_later_are_held_too() -> None:
    held, lanes = HeldLanes(), KnownLanes()
    held.follow(paused(5))
    held.settle(lanes, at(1))
    before = held.changes
    assert held.take(LANES, at(1)) == [LANES[1]]
    assert (MAIL in held, held.changes) == (True, before + 1)
    held.drop(MAIL)
    assert MAIL not in held


async def test_paused_lane_of_runs_with_limits_is_held_before_its_lines_are_read() -> None:
    """A quarantined run of it was given out by a server that had just started."""

    class Broken(MemoryStore):
        """Reads lanes, and no lines."""

        async def read_lanes(self, *_: object, **__: object) -> list[Lane]:
            return [Lane(MAIL, LaneKey("mail", f"function+{LINED_UP}", "default", Priority.LOW), None, at(0))]

        async def read_lines(self, *_: object, **__: object) -> NoReturn:
            raise StoreUnavailable("no lines")

    lanes, store, clock = LaneCache(), Broken(time=lambda: at(1)), FakeClock()
    lanes.held.follow(paused(5))
    await lanes.settle(RestrictionReader(store, CalendarReader(store)), at(1))
    with pytest.raises(StoreUnavailable):
        await lanes.read(store, clock, Random(1), at(1))
    assert MAIL in lanes.held
    assert not lanes.chooser.has_quarantined(at(1))


def test_a_pause_ends_by_itself() -> None:
    held, lanes = HeldLanes(), known()
    held.follow(paused(5, until=at(9)))
    held.settle(lanes, at(1))
    assert held.changes_in(at(1)) == 8
    assert held.settle(lanes, at(8.999)) == (set(), set())
    assert held.settle(lanes, at(9)) == (set(), {MAIL})
    assert (held.changes_in(at(9)), held.epoch) == (None, 5)


def test_restrictions_that_are_known_already_are_no_news() -> None:
    held, lanes = HeldLanes(), known()
    held.follow(paused(5))
    held.settle(lanes, at(1))
    held.is_outdated = True
    held.follow(paused(5))
    assert not held.is_new
