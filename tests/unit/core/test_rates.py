from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.rates import Bucket, Rate, parse_rate
from mainspring.testing.factories import at

rates = st.builds(
    Rate,
    st.integers(1, 1000),
    st.sampled_from([timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)]),
)


@pytest.mark.parametrize("text", ["1/s", "100/m", "5/h", "1/d", "1000000/s"])
def test_text_of_a_rate_is_read_and_shown(text: str) -> None:
    assert parse_rate(text).text == text


@pytest.mark.parametrize(
    "text", ["", "5", "5/", "0/s", "1000001/s", "5/w", "-1/s", "1.5/s", " 5/s", "5/s ", "\u0665/s"]
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="10/s"):
        parse_rate(text)


@pytest.mark.parametrize(
    ("text", "burst"), [("1/d", 1), ("100/m", 2), ("60/m", 1), ("61/m", 2), ("500/s", 500)]
)
def test_usual_burst_is_what_the_rate_gives_in_a_second(text: str, burst: int) -> None:
    assert parse_rate(text).usual_burst == burst


@given(rates, st.integers(1, 50), st.lists(st.floats(0, 100), max_size=60))
def test_no_window_has_more_starts_than_burst_and_rate_give(
    rate: Rate, burst: int, steps: list[float]
) -> None:
    """All who ask take all that there is, at instants that may go backwards."""
    bucket, starts = Bucket(rate, burst), []
    for seconds in steps:
        bucket = bucket.at(at(seconds))
        assert bucket.level_at is not None
        starts += [bucket.level_at] * bucket.permits
        bucket = bucket.take(bucket.permits)
    for first, begin in enumerate(starts):
        for count, end in enumerate(starts[first:], 1):
            assert count <= burst + (end - begin) / rate.per * rate.count + 1e-6


@given(rates, st.integers(1, 5))
def test_the_next_permit_is_there_at_the_instant_that_was_said(rate: Rate, burst: int) -> None:
    empty = Bucket(rate, burst).at(at(0)).take(burst)
    next_at = empty.next_permit_at()
    assert next_at is not None
    assert empty.at(next_at).permits >= 1
    assert empty.at(next_at).next_permit_at() is None
    assert empty.at(at(0) + (next_at - at(0)) / 2).permits == 0
    assert next_at - at(0) <= rate.per / rate.count + timedelta(microseconds=2)


@given(rates, st.integers(1, 5), st.floats(0, 10_000))
def test_a_bucket_never_holds_more_than_its_burst(rate: Rate, burst: int, seconds: float) -> None:
    bucket = Bucket(rate, burst).at(at(0)).take(1).at(at(seconds))
    assert bucket.level is not None
    assert burst - 1 <= bucket.level <= burst
