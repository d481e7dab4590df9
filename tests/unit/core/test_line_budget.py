"""Every event has a line in the log or a place in a count, and lines are few."""

from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.line_budget import LINES, MOST_SUBJECTS, PERIOD, TOTAL, LineBudget, Unwritten


def test_first_events_have_lines_and_the_rest_is_counted() -> None:
    budget = LineBudget(0.0)
    lines = sum(budget.take("job", "failed", 0.1) for _ in range(10_000))
    assert lines == LINES
    assert budget.rest(4.0) == PERIOD - 4.0
    assert budget.settle(PERIOD) == [Unwritten("job", {"failed": 10_000 - LINES})]
    assert not budget.has_left_out


def test_a_quiet_period_begins_anew_by_itself() -> None:
    budget = LineBudget(0.0)
    assert all(budget.take("job", "failed", 0.1) for _ in range(LINES))
    assert budget.take("job", "failed", PERIOD)


def test_many_subjects_are_bounded_too() -> None:
    budget = LineBudget(0.0)
    lines = sum(budget.take(f"job {number}", "failed", 0.1) for number in range(1000))
    left = budget.settle(PERIOD)
    assert (lines, len(left)) == (TOTAL, MOST_SUBJECTS + 1)
    assert left[-1] == Unwritten(None, {"failed": 1000 - TOTAL - MOST_SUBJECTS})


@given(
    events=st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(["failed", "lost"]), st.floats(0, 5)), max_size=200
    )
)
def test_no_event_is_lost(events: list[tuple[str, str, float]]) -> None:
    budget, now, told = LineBudget(0.0), 0.0, 0
    for subject, kind, after in events:
        now += after
        if budget.has_left_out and not budget.rest(now):
            told += sum(sum(left.events.values()) for left in budget.settle(now))
        told += budget.take(subject, kind, now)
    told += sum(sum(left.events.values()) for left in budget.settle(now))
    assert told == len(events)
