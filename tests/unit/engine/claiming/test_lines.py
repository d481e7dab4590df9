"""What is known of lines: a lane is named whenever there may be something else to claim of it than before."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mainspring.core.holding import LineStop
from mainspring.core.ids import KeyId, LaneId, SessionId
from mainspring.engine.claiming.lines import LONGEST, LinesInView
from mainspring.ports.store import Store
from mainspring.ports.store.limits import PLAIN, Line, LineClaim, LineClaimResult, LineKey, LineQuota
from mainspring.testing.clock import FakeClock
from mainspring.testing.factories import START, at

LANES = [LaneId(number) for number in range(1, 5)]
KEYS = [LineKey(KeyId(number), lane_id) for lane_id in LANES for number in (10, 11)]
INSTANTS = st.integers(0, 30).map(at)
STOPS = st.builds(
    LineStop,
    key_id=st.sampled_from([KeyId(10), KeyId(11), KeyId(99)]),
    is_busy=st.booleans(),
    until=st.none() | INSTANTS,
)


class Waiting:
    """The lines in which runs wait, as a store tells of them."""

    def __init__(self) -> None:
        self.lines: dict[LineKey, Line] = {}
        self.clock: FakeClock | None = None
        """Goes on by 2 ms with each look at all lines."""

    async def read_lines(self, *, after: LineKey | None, limit: int) -> list[Line]:
        if self.clock is not None:
            self.clock.advance(0.002)
        found = sorted(self.lines.values(), key=lambda line: line.key)
        return [line for line in found if after is None or line.key > after][:limit]

    async def read_some_lines(self, keys: Sequence[LineKey]) -> list[Line]:
        return [self.lines[key] for key in keys if key in self.lines]


class HeadsMachine(RuleBasedStateMachine):
    """Looks, claims, ends and time in any order. Nobody who goes by what is named misses a change."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = LinesInView()
        self.waiting = Waiting()
        self.clock = FakeClock(START)
        self.seen: dict[LaneId, Any] = {}

    @rule(lines=st.dictionaries(st.sampled_from(KEYS), INSTANTS))
    def look(self, lines: Any) -> None:
        self.waiting.lines = {key: Line(key, ready_at) for key, ready_at in lines.items()}
        asyncio.run(self.lines.read(cast("Store", self.waiting), self.clock, self.clock.now()))

    @rule(data=st.data(), stop=STOPS, lane_id=st.sampled_from(LANES))
    def claim(self, data: st.DataObject, stop: LineStop, lane_id: LaneId) -> None:
        lines = self.lines.pick({lane_id: 5}, self.clock.now())
        stopped = [line.key for line in lines if data.draw(st.booleans())]
        self.lines.note_claim(
            LineClaim(session_id=SessionId(1), number=1, limit=5, lines=lines),
            LineClaimResult(runs=(), stops=dict.fromkeys(stopped, stop)),
            self.clock.now(),
            is_cap=lambda key_id: key_id == KeyId(99),
        )

    @rule(key_ids=st.none() | st.sets(st.sampled_from([KeyId(10), KeyId(11)])))
    def end(self, key_ids: set[KeyId] | None) -> None:
        self.lines.open(key_ids)

    @rule(seconds=st.floats(0, 8))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @invariant()
    def follow_the_news(self) -> None:
        now = self.clock.now()
        for lane_id in self.lines.take_news(now):
            self.seen[lane_id] = self.lines.head(lane_id, now)
        assert {lane_id: self.seen.get(lane_id) for lane_id in LANES} == {
            lane_id: self.lines.head(lane_id, now) for lane_id in LANES
        }


TestHeads = HeadsMachine.TestCase
TestHeads.settings = settings(max_examples=300, stateful_step_count=30, deadline=None)


def test_runs_without_keys_are_no_news() -> None:
    lines = LinesInView()
    lines.note_plain(LaneId(1), START)
    assert lines.head(LaneId(1), START) == START
    assert lines.take_news(START) == set()
    lines.note_lane(LaneId(1))
    assert lines.take_news(START) == {LaneId(1)}
    assert PLAIN not in {key.key_id for key in KEYS}


class TestLinesWithoutRoom:
    """Looks at lines that cannot give anything find only new ones, so they must not cost much."""

    def setup_method(self) -> None:
        self.clock = FakeClock(START)
        self.waiting = Waiting()
        self.waiting.clock = self.clock
        self.lines = LinesInView()
        for key in KEYS[:2]:
            self.waiting.lines[key] = Line(key, at(0))
        self.look()
        self.look()
        self.claim(KEYS[:2])

    def look(self, *, has_news: bool = True) -> None:
        store = cast("Store", self.waiting)
        asyncio.run(self.lines.read(store, self.clock, self.clock.now(), has_news=has_news))

    def claim(self, stopped: Sequence[LineKey]) -> None:
        stop = LineStop(key_id=KeyId(10), is_busy=False, until=at(3600))
        self.lines.note_claim(
            LineClaim(session_id=SessionId(1), number=1, limit=5, lines=self.pick()),
            LineClaimResult(runs=(), stops=dict.fromkeys(stopped, stop)),
            self.clock.now(),
            is_cap=lambda key_id: False,
        )

    def pick(self) -> tuple[LineQuota, ...]:
        return self.lines.pick({LANES[0]: 5}, self.clock.now())

    def sees(self, key: LineKey) -> bool:
        return self.lines.head(key.lane_id, self.clock.now()) is not None

    def test_new_line_is_found_after_a_rest(self) -> None:
        self.waiting.lines[KEYS[2]] = Line(KEYS[2], at(0))
        self.look(has_news=False)
        assert not self.sees(KEYS[2])
        rest = self.lines.due_in(self.clock.monotonic())
        assert rest is not None
        assert 0.1 < rest <= LONGEST
        self.clock.advance(rest)
        self.look(has_news=False)
        assert self.sees(KEYS[2])
        assert self.lines.due_in(self.clock.monotonic()) is None, "nothing was put off"

    def test_new_line_that_was_heard_of_is_found_at_once(self) -> None:
        self.waiting.lines[KEYS[2]] = Line(KEYS[2], at(0))
        self.look(has_news=True)
        assert self.sees(KEYS[2])

    def test_line_that_was_claimed_from_is_read_all_the_same(self) -> None:
        self.waiting.lines.clear()
        self.look(has_news=False)
        assert not self.sees(KEYS[0])

    def test_all_lines_are_read_as_soon_as_one_has_room(self) -> None:
        self.look(has_news=False)
        self.waiting.lines[KEYS[2]] = Line(KEYS[2], at(0))
        self.lines.open([KeyId(10)])
        self.look(has_news=False)
        assert self.sees(KEYS[2])
