"""Timers: the first one is kept first, and one is due from its instant on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.workflows.timers import FlowTimer, TimerKind, earliest, sort_timers, split_due

NOW = datetime(2026, 3, 1, tzinfo=UTC)
timers = st.builds(
    FlowTimer,
    st.integers(-3, 3).map(lambda seconds: NOW + timedelta(seconds=seconds)),
    st.sampled_from(TimerKind),
    st.integers(-1, 3),
)


@given(st.lists(timers, unique=True))
def test_timers_that_are_due_are_those_whose_instant_has_come(given: list[FlowTimer]) -> None:
    kept = sort_timers(given)
    due, left = split_due(kept, NOW)
    assert due + left == kept
    assert {*due} == {timer for timer in given if timer.at <= NOW}
    assert earliest(kept) == min((timer.at for timer in given), default=None)
