"""Which submissions are refused for the time being, and for how long."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.intake import (
    LONGEST_WAIT,
    USUAL_WAIT,
    Backlog,
    WaitingCount,
    WaitingScope,
    bounded_wait,
    count_for,
    count_wanted,
    next_backlog,
    rate_is_used_up,
    refuse_if_full,
    seconds_to_wait,
    take_permits,
)
from mainspring.core.rates import Bucket, Rate
from mainspring.errors import TooMany
from mainspring.testing.factories import START, at

MAIL = WaitingScope("queue", "mail")
ACME = WaitingScope("tenant", "acme")
TEN_A_SECOND = Rate(10, timedelta(seconds=1))


def backlog(waiting: int, **others: object) -> Backlog:
    return Backlog(waiting=waiting, **{"is_all": True, **others})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("waiting", "more", "fits"), [(9, 1, True), (10, 1, False), (5, 5, True), (5, 6, False)]
)
def test_submissions_fit_as_long_as_the_cap_is_not_passed(waiting: int, more: int, fits: bool) -> None:
    backlogs = {MAIL: backlog(waiting)}
    if fits:
        refuse_if_full({MAIL: 10}, backlogs, {MAIL: more})
    else:
        with pytest.raises(TooMany):
            refuse_if_full({MAIL: 10}, backlogs, {MAIL: more})


def test_what_has_not_been_counted_refuses_nobody() -> None:
    refuse_if_full({MAIL: 1}, {}, {MAIL: 100})


def test_a_refusal_names_who_is_full_and_the_numbers() -> None:
    with pytest.raises(TooMany) as caught:
        refuse_if_full({ACME: 1000}, {ACME: backlog(2000, is_all=False, per_second=100.0)}, {ACME: 1})
    error = caught.value
    assert (error.field, error.retry_after) == ("max_queued", 11)
    assert error.message == "at least 2,000 runs of tenant 'acme' wait, and its max_queued is 1,000"
    assert str(error) == f"{error.message}; try again in 11 s"


def test_a_bulk_that_never_fits_is_told_so() -> None:
    with pytest.raises(TooMany, match="20 submissions at once never fit, so send fewer in a request"):
        refuse_if_full({MAIL: 10}, {MAIL: backlog(0)}, {MAIL: 20})
    with pytest.raises(
        TooMany, match="5 runs of queue 'mail' wait, and its max_queued is 10; 6 more do not fit"
    ):
        refuse_if_full({MAIL: 10}, {MAIL: backlog(5)}, {MAIL: 6})


@pytest.mark.parametrize(
    ("per_second", "excess", "wait"),
    [
        (None, 5, USUAL_WAIT),
        (0.0, 1, LONGEST_WAIT),
        (1.0, 7, 7),
        (1000.0, 1, 1),
        (3.0, 10, 4),
        (1.0, 500, 60),
    ],
)
def test_the_wait_is_the_excess_over_the_drain_rate(per_second: float | None, excess: int, wait: int) -> None:
    assert seconds_to_wait(backlog(10, per_second=per_second), excess) == wait


def test_the_drain_rate_is_what_left_between_two_counts() -> None:
    count = count_for(MAIL, 50)
    first = next_backlog(None, count, 40, came=0, seconds=0.0)
    assert first == backlog(40)
    second = next_backlog(first, count, 30, came=10, seconds=2.0)
    assert second == backlog(30, per_second=10.0)
    assert next_backlog(second, count, 90, came=10, seconds=1.0).per_second == 0.0, "others brought some"


def test_a_count_that_was_cut_says_nothing_about_the_rate() -> None:
    count = count_for(MAIL, 50)
    assert count == WaitingCount(MAIL, 100)
    known = backlog(40, per_second=5.0)
    cut = next_backlog(known, count, 100, came=60, seconds=1.0)
    assert cut == Backlog(waiting=100, is_all=False, per_second=5.0)
    assert next_backlog(cut, count, 90, came=0, seconds=1.0).per_second == 5.0


def test_runs_are_added_up_by_scope() -> None:
    assert count_wanted([MAIL, ACME, MAIL]) == {MAIL: 2, ACME: 1}
    assert count_wanted([]) == {}


@given(
    st.lists(st.tuples(st.floats(0, 3), st.integers(1, 40)), max_size=40),
    st.integers(1, 20),
    st.sampled_from([timedelta(seconds=1), timedelta(minutes=1)]),
)
def test_no_window_gets_more_than_its_burst_its_rate_and_one_request(
    requests: list[tuple[float, int]], count: int, per: timedelta
) -> None:
    rate = Rate(count, per)
    bucket, now, given_at = Bucket(rate, rate.usual_burst), START, []
    for wait, wanted in requests:
        now += timedelta(seconds=wait)
        bucket, again_at = take_permits(bucket, wanted, now)
        if again_at is None:
            given_at.append((now, wanted))
        else:
            assert again_at > now
            assert take_permits(bucket, wanted, again_at + timedelta(microseconds=2))[1] is None
    for index, (begin, _) in enumerate(given_at):
        total = 0
        for end, wanted in given_at[index:]:
            total += wanted
            debt = max(wanted - rate.usual_burst, 0)
            assert total <= rate.usual_burst + (end - begin) / per * count + debt + 1e-6


def test_a_rate_that_is_used_up_says_when_to_come_again() -> None:
    error = rate_is_used_up("acme", TEN_A_SECOND.text, until=at(2.5), now=at(0))
    assert (error.field, error.retry_after) == ("submit_rate", 3)
    assert "tenant 'acme' submits more than its submit_rate, 10/s" in str(error)


@pytest.mark.parametrize(("seconds", "wait"), [(-1, 1), (0.01, 1), (2, 2), (2.1, 3), (3600, 60)])
def test_a_wait_has_bounds(seconds: float, wait: int) -> None:
    assert bounded_wait(timedelta(seconds=seconds)) == wait
