"""The planner's window: a heap that may be read anew while it is worked off."""

from __future__ import annotations

from copy import deepcopy
from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mainspring.core.ids import JobId
from mainspring.engine.scheduling.window import Entry, Window, entry_of
from mainspring.ports.store.schedule import DueClock
from mainspring.testing.factories import at, make_spec

JOBS = [JobId(UUID(int=number)) for number in range(6)]


def entry(job_id: JobId, second: float) -> Entry:
    clock = DueClock(
        job_id=job_id, tenant="default", version=1, revision=1, fire_at=at(second), fired_through=None
    )
    return entry_of(clock, None)


@given(
    seconds=st.lists(st.integers(0, 20), max_size=len(JOBS)), limit=st.integers(1, 9), by=st.integers(0, 20)
)
def test_what_is_due_comes_in_order_and_no_more_than_asked_for(
    seconds: list[int], limit: int, by: int
) -> None:
    window = Window()
    for job_id, second in zip(JOBS, seconds, strict=False):
        window.push(entry(job_id, second))
    assert window.first_at() == (at(min(seconds)) if seconds else None)
    due = [entry[0] for entry in window.pop_due(at(by), limit)]
    assert due == [at(second) for second in sorted(seconds) if second <= by][:limit]
    assert len(window) == len(seconds) - len(due)


def test_of_those_that_fire_together_the_one_that_starts_first_comes_first() -> None:
    spec = make_spec(jitter=timedelta(seconds=9))
    entries = [entry_of(entry(job_id, 1)[3], spec) for job_id in JOBS]
    window = Window()
    for one in entries:
        window.push(one)
    assert window.pop_due(at(1), len(JOBS)) == sorted(entries, key=lambda one: one[1])


class Reads(RuleBasedStateMachine):
    """Jobs fire and move on while reads begin, look and end: the window stands where the store's clocks do."""

    def __init__(self) -> None:
        super().__init__()
        self.window = Window()
        self.store = {job_id: number for number, job_id in enumerate(JOBS)}
        self.seen: dict[JobId, int] | None = None
        self.is_reading = False
        self.under_way: list[Entry] = []
        for job_id, second in self.store.items():
            self.window.push(entry(job_id, second))

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
        self.window.end_read([entry(job_id, second) for job_id, second in self.seen.items()])
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
        job_id = self.under_way.pop(0)[3].job_id
        self.store[job_id] += step
        self.window.push(entry(job_id, self.store[job_id]))

    @precondition(lambda self: self.under_way)
    @rule()
    def fail(self) -> None:
        self.window.push(self.under_way.pop())

    @invariant()
    def stands_as_the_store_does(self) -> None:
        away = {one[3].job_id for one in self.under_way}
        there = {job_id: at(second) for job_id, second in self.store.items() if job_id not in away}
        assert len(self.window) == len(there)
        entries = deepcopy(self.window).pop_due(datetime.max.replace(tzinfo=UTC), len(JOBS))
        assert {one[3].job_id: one[0] for one in entries} == there


TestReads = Reads.TestCase
