"""Expressions for hypothesis to draw."""

from __future__ import annotations

from hypothesis import strategies as st

DSTS = ("after/first", "after/second", "after/both", "skip/first", "skip/second", "skip/both")
MONTH_DAYS = ("L", "LW", "L-1", "L-2", "15W", "1W", "31W")
WEEKDAYS = ("5L", "0#1", "SUN#2", "SAT#L", "1#5", "MON-SUN", "FRI-SUN", "7", "0-7", "wed")


def items(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    ranges = st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}")
    step = st.integers(1, high - low if low == 0 and high == 7 else high - low + 1)
    stepped = st.tuples(ranges | number.map(str), step).map(lambda pair: f"{pair[0]}/{pair[1]}")
    return number.map(str) | ranges | stepped


def lists(low: int, high: int, *special: str) -> st.SearchStrategy[str]:
    item = items(low, high) | st.sampled_from(special) if special else items(low, high)
    return st.lists(item, min_size=1, max_size=3).map(",".join)


def fields(low: int, high: int, *special: str, question: bool = False) -> st.SearchStrategy[str]:
    step = st.integers(1, high - low if (low, high) == (0, 7) else high - low + 1)
    stars = st.just("*") | step.map(lambda number: f"*/{number}")
    return stars | lists(low, high, *special) | (st.just("?") if question else stars)


def expressions() -> st.SearchStrategy[str]:
    """Five fields whose days match often, so that a window of a few days shows fires."""
    days = st.sampled_from(("*", "*", "*", "?")) | fields(1, 31, *MONTH_DAYS, question=True)
    weekdays = st.sampled_from(("*", "*", "*", "?")) | fields(0, 7, *WEEKDAYS, question=True)
    return (
        st.tuples(fields(0, 59), fields(0, 23), days, st.just("*"), weekdays).map(" ".join).filter(can_fire)
    )


def can_fire(text: str) -> bool:
    """Leave out what never fires and is refused: a day of month and an nth weekday that cannot meet."""
    from mainspring.core.cron import Cron, CronError

    try:
        Cron(text)
    except CronError as error:
        assert "never fires" in str(error)  # noqa: PT017 - not a test, a filter that checks its own ground
        return False
    return True
