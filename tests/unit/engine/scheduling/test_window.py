"""The planner's window: who fires first, and what becomes of it when it is read anew meanwhile."""

from __future__ import annotations

from copy import deepcopy
from datetime import UTC, datetime
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mainspring.core.ids import JobId
from mainspring.core.model import Priority
from mainspring.engine.scheduling.window import Window
from mainspring.ports.store.schedule import DueClock
from mainspring.testing.factories import at

JOBS = [JobId(UUID(int=number)) for number in range(6)]


def clock_of(job_id: JobId, second: float, priority: Priority = Priority.MEDIUM) -> DueClock:
    return DueClock(
        job_id=job_id,
        tenant="default",
        version=1,
        priority=priority,
        revision=1,
        fire_at=at(second),
        due_at=at(second),
        fired_through=None,
    )


def window_of(*due: tuple[float, Priority]) -> Window:
    """Make a window of clocks that are due in so many seconds."""
    window = Window()
    for number, (second, priority) in enumerate(due):
        window.push(clock_of(JobId(UUID(int=number)), second, priority))
    return window


def seconds(clocks: list[DueClock]) -> list[tuple[float, Priority]]:
    return [((clock.due_at - at(0)).total_seconds(), clock.priority) for clock in clocks]


HIGH, MEDIUM, LOW = Priority


@given(
    seconds=st.lists(st.integers(0, 20), max_size=len(JOBS)), limit=st.integers(1, 9), by=st.integers(0, 20)
)
def test_what_is_due_is_taken_and_no_more_than_asked_for(seconds: list[int], limit: int, by: int) -> None:
    window = Window()
    for job_id, second in zip(JOBS, seconds, strict=False):
        window.push(clock_of(job_id, second))
    assert window.first_at() == (at(min(seconds)) if seconds else None)
    due = window.pop_due(at(by), limit)
    assert len(due) == min(limit, sum(second <= by for second in seconds))
    assert all(clock.due_at <= at(by) for clock in due)
    left = sorted(seconds)
    for clock in due:
        left.remove(int((clock.due_at - at(0)).total_seconds()))
    assert window.first_at() == (at(left[0]) if left else None)
    assert len(window) == window.count(MEDIUM) == len(left)


def test_those_on_time_come_high_before_medium_before_low_and_then_by_instant() -> None:
    window = window_of((9.2, LOW), (9.6, MEDIUM), (9.4, MEDIUM), (9.9, HIGH), (9.8, HIGH), (10.1, HIGH))
    assert seconds(window.pop_due(at(10), 9)) == [
        (9.8, HIGH),
        (9.9, HIGH),
        (9.4, MEDIUM),
        (9.6, MEDIUM),
        (9.2, LOW),
    ]


def test_those_on_time_and_those_late_take_turns() -> None:
    late = [(number / 100, HIGH) for number in range(10)]
    on_time = [(9.5 + number / 100, LOW) for number in range(10)]
    window = window_of(*late, *on_time)
    for turn in range(5):
        start = 2 * turn
        assert seconds(window.pop_due(at(10), 4)) == on_time[start : start + 2] + late[start : start + 2]
    assert len(window) == 0


def test_what_the_others_leave_of_a_batch_is_not_wasted() -> None:
    late = [(number / 100, MEDIUM) for number in range(5)]
    assert seconds(window_of(*late, (9.5, MEDIUM)).pop_due(at(10), 4)) == [(9.5, MEDIUM), *late[:3]]
    on_time = [(9 + number / 100, MEDIUM) for number in range(5)]
    assert seconds(window_of((1, MEDIUM), *on_time).pop_due(at(10), 4)) == [*on_time[:3], (1, MEDIUM)]


def test_fire_is_late_when_it_is_overdue_by_more_than_a_second() -> None:
    window = window_of((8.999999, HIGH), (9, LOW))
    assert seconds(window.pop_due(at(10), 1)) == [(9, LOW)]


def test_late_fire_of_a_low_priority_gets_its_turn() -> None:
    """Each tier counts for ten seconds of waiting, so a lasting overload starves nobody."""
    window = window_of((11, HIGH), (0.5, MEDIUM), (1.5, MEDIUM), (30, HIGH), (9, LOW), (11.5, LOW))
    assert seconds(window.pop_due(at(60), 9)) == [
        (0.5, MEDIUM),
        (11, HIGH),
        (1.5, MEDIUM),
        (9, LOW),
        (30, HIGH),
        (11.5, LOW),
    ]


def test_counts_follow_what_comes_and_goes() -> None:
    window = window_of((1, HIGH), (2, LOW), (3, LOW))
    assert [window.count(priority) for priority in Priority] == [1, 0, 2]
    window.pop_due(at(2), 9)
    assert [window.count(priority) for priority in Priority] == [0, 0, 1]
    window.begin_read()
    window.end_read([clock_of(JOBS[5], 4)])
    assert [window.count(priority) for priority in Priority] == [0, 1, 0]
    window.clear()
    assert len(window) == 0
    assert window.first_at() is None


class Reads(RuleBasedStateMachine):
    """Jobs fire and move on while reads begin, look and end: the window stands where the store's clocks do."""

    def __init__(self) -> None:
        super().__init__()
        self.window = Window()
        self.store = {job_id: number for number, job_id in enumerate(JOBS)}
        self.seen: dict[JobId, int] | None = None
        self.is_reading = False
        self.under_way: list[DueClock] = []
        for job_id, second in self.store.items():
            self.window.push(clock_of(job_id, second))

    @precondition(lambda self: not self.is_reading and not self.under_way)
    @rule()
    def begin(self) -> None:
        self.window.begin_read()
        self.is_reading = True

    @precondition(lambda self: self.is_reading and self.seen is None)
    @rule()
    def look(self) -> None:
        self.seen = dict(self.store)

    @precondition(lambda self: self.seen is not None)
    @rule()
    def end(self) -> None:
        assert self.seen is not None
        self.window.end_read([clock_of(job_id, second) for job_id, second in self.seen.items()])
        self.seen, self.is_reading = None, False

    @precondition(lambda self: self.is_reading)
    @rule()
    def give_up(self) -> None:
        self.window.give_up_read()
        self.seen, self.is_reading = None, False

    @rule(by=st.integers(0, 40), limit=st.integers(1, 3))
    def take(self, by: int, limit: int) -> None:
        self.under_way += self.window.pop_due(at(by), limit)

    @precondition(lambda self: self.under_way)
    @rule(step=st.integers(1, 9))
    def fire(self, step: int) -> None:
        job_id = self.under_way.pop(0).job_id
        self.store[job_id] += step
        self.window.push(clock_of(job_id, self.store[job_id]))

    @precondition(lambda self: self.under_way)
    @rule()
    def fail(self) -> None:
        self.window.push(self.under_way.pop())

    @invariant()
    def stands_as_the_store_does(self) -> None:
        away = {clock.job_id for clock in self.under_way}
        there = {job_id: at(second) for job_id, second in self.store.items() if job_id not in away}
        assert len(self.window) == len(there)
        clocks = deepcopy(self.window).pop_due(datetime.max.replace(tzinfo=UTC), len(JOBS))
        assert {clock.job_id: clock.due_at for clock in clocks} == there


TestReads = Reads.TestCase
