"""The pace of old work: in any time, no more than its rate and one second's burst, and never too many live runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.definition import read_definition
from mainspring.core.definition.plain import plain_from_spec, spec_from_plain
from mainspring.core.pacing import USUAL_CATCH_UP, CatchUpRule, Pace
from mainspring.core.rates import Rate, parse_rate
from mainspring.errors import InvalidInput

NOW = datetime(2026, 1, 1, tzinfo=UTC)
JOB = {"name": "sync", "function": "sync", "every": "1m"}


@given(
    st.sampled_from(["1/s", "7/s", "200/s", "30/m", "500/h"]),
    st.integers(1, 50),
    st.lists(st.tuples(st.floats(0, 3), st.integers(0, 60)), max_size=60),
)
def test_no_window_and_no_instant_has_too_many(
    rate: str, max_live: int, ticks: list[tuple[float, int]]
) -> None:
    """Each tick comes some seconds after the last one, and finds that some of the live runs have ended."""
    pace = Pace(parse_rate(rate), max_live)
    level, level_at, now, live = None, None, NOW, 0
    made: list[tuple[datetime, int]] = []
    for seconds, ended in ticks:
        now += timedelta(seconds=seconds)
        live = max(live - ended, 0)
        permits = pace.permits(level, level_at, now)
        room = pace.room(permits, live)
        left = permits.take(room)
        level, level_at = left.level, left.level_at
        live += room
        assert live <= max_live
        made.append((now, room))
    per_second = pace.rate.count / pace.rate.per.total_seconds()
    for first, (begin, _) in enumerate(made):
        total = 0
        for end, count in made[first:]:
            total += count
            assert total <= pace.rate.usual_burst + per_second * (end - begin).total_seconds() + 1e-6


def test_more_live_runs_than_allowed_leave_no_room() -> None:
    pace = Pace(Rate(5, timedelta(seconds=1)), 3)
    permits = pace.permits(None, None, NOW)
    assert [pace.room(permits, live) for live in (0, 1, 3, 9)] == [3, 2, 0, 0]


def test_what_a_job_does_not_say_the_settings_say() -> None:
    assert CatchUpRule().pace(USUAL_CATCH_UP) == USUAL_CATCH_UP
    rate = parse_rate("3/m")
    assert CatchUpRule(rate=rate).pace(USUAL_CATCH_UP) == Pace(rate, 1000)
    assert CatchUpRule(max_live=7).pace(USUAL_CATCH_UP) == Pace(USUAL_CATCH_UP.rate, 7)


def test_a_definition_keeps_it() -> None:
    body = {**JOB, "catch_up": {"rate": "50/s", "max_live": 200}}
    spec = read_definition(body, now=NOW)
    assert spec.catch_up == CatchUpRule(rate=parse_rate("50/s"), max_live=200)
    plain = plain_from_spec(spec)
    assert plain["catch_up"] == {"rate": "50/s", "max_live": 200}
    assert spec_from_plain(plain) == spec
    del plain["catch_up"]  # kept by a release before
    assert spec_from_plain(plain).catch_up == CatchUpRule()


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        (None, "catch_up", "must be an object of rate, max_live"),
        ("50/s", "catch_up", "must be an object of rate, max_live"),
        ({"rate": "fast"}, "catch_up.rate", "10/s"),
        ({"rate": 50}, "catch_up.rate", "10/s"),
        ({"rate": "0/s"}, "catch_up.rate", "1 to 1,000,000"),
        ({"max_live": 0}, "catch_up.max_live", "1"),
        ({"max_live": 100_001}, "catch_up.max_live", "100"),
        ({"max_alive": 1}, "catch_up.max_alive", "max_live"),
    ],
)
def test_what_is_wrong_is_named(given: object, field: str, words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_definition({**JOB, "catch_up": given}, now=NOW)
    assert caught.value.field == field
    assert words in caught.value.message
