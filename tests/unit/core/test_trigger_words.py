"""Triggers in words, and what may surprise about them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mainspring.core.triggers.reading import read_trigger
from mainspring.core.triggers.words import explain_trigger, warn_of_moment, warn_of_trigger

NOW = datetime(2026, 1, 20, 12, tzinfo=UTC)


def make(short: dict[str, Any]) -> Any:
    return read_trigger(short, base=None, old=None, now=NOW)


@pytest.mark.parametrize(
    ("short", "words"),
    [
        (
            {"cron": "0 9 * * 1-5", "tz": "Europe/Berlin"},
            "at 09:00, on Monday through Friday (Europe/Berlin)",
        ),
        ({"cron": "@daily"}, "at 00:00, every day (UTC)"),
        ({"every": "90s"}, "every 1m30s, counted from 2026-01-20 12:00:00 UTC"),
        ({"run_at": "2026-12-01T09:00:00+01:00"}, "once, at 2026-12-01 08:00:00 UTC"),
        ({"calendar_interval": "day", "at": "9:00"}, "every day, at 09:00 (UTC)"),
        (
            {"calendar_interval": "3 months", "day": 15},
            "every 3 months on day 15, at 00:00 (UTC), counted from 2026-02-15",
        ),
        ({"calendar_interval": "month", "day": 31}, "every month on the last day, at 00:00 (UTC)"),
        ({"calendar_interval": "month", "day": 30}, "every month on day 30, or the last day, at 00:00 (UTC)"),
        (
            {"calendar_interval": "2 weeks", "weekday": "MON,THU", "at": "09:00:30"},
            "every 2 weeks on Monday and Thursday, at 09:00:30 (UTC), counted from 2026-01-22",
        ),
        (
            {"calendar_interval": "year", "month": "MAR", "weekday": "last SUN"},
            "every year on the last Sunday of March, at 00:00 (UTC)",
        ),
        (
            {"any_of": ["@daily", "every 2 hours"]},
            "at 00:00, every day (UTC); or every 2h, counted from 2026-01-20 12:00:00 UTC",
        ),
        (
            {"cron": "@daily", "starts_at": "2026-02-01T00:00:00Z", "ends_at": "2026-03-01T00:00:00Z"},
            "at 00:00, every day (UTC), from 2026-02-01 00:00:00 UTC, until 2026-03-01 00:00:00 UTC",
        ),
    ],
)
def test_words(short: dict[str, Any], words: str) -> None:
    assert explain_trigger(make(short)) == words


@pytest.mark.parametrize(
    ("short", "said"),
    [
        ({"cron": "*/7 * * * *"}, ["after 56 comes 0, which is 4 later instead of 7"]),
        ({"cron": "0 */5 * * *"}, ["*/5 in the hour field does not come out even: after 20 comes 0"]),
        ({"cron": "5/10 * * * *"}, []),
        ({"cron": "*/15 */2 * */3 *"}, []),
        ({"cron": "0 0 */2 * *"}, ["begins again with each month"]),
        ({"cron": "0 0 * */5 *"}, ["in the month field"]),
        ({"cron": "0 0 * * */2"}, ["in the day of week field"]),
        ({"cron": "*/60 * * * *"}, ["is 0 alone"]),
        ({"cron": "0 0 31 * *"}, ["not every month has a day 31"]),
        ({"cron": "0 0 15,31 * *"}, []),
        ({"cron": "0 0 13 * FRI"}, ["both day fields are restricted"]),
        ({"cron": "0 0 29 2 *"}, ["a day 29", "rarer than once a year: on 2028-02-29, then on 2032-02-29"]),
        ({"cron": "@yearly"}, []),
        (
            {"cron": "30 2 * * *", "tz": "Europe/Berlin"},
            ["there is no 02:30; it fires at 03:00", "02:30 comes twice"],
        ),
        (
            {"cron": "30 2 * * *", "tz": "Europe/Berlin", "dst": "skip/both"},
            ["does not fire then", "both times"],
        ),
        ({"cron": "*/30 2 * * *", "tz": "Europe/Berlin"}, []),
        ({"cron": "0 9 * * *", "tz": "Europe/Berlin"}, []),
        (
            {"calendar_interval": "day", "at": "02:30", "tz": "Europe/Berlin"},
            ["no 02:30", "02:30 comes twice"],
        ),
        ({"calendar_interval": "10 years"}, []),
        ({"any_of": ["*/7 * * * *", "*/7 * * * *", "hourly"]}, ["after 56 comes 0"]),
        ({"cron": "*/7 * * * *", "ends_at": "2026-03-01T00:00:00Z"}, ["after 56 comes 0"]),
        ({"cron": "H/7 * * * *"}, ["does not come out even"]),
        ({"cron": "H/15 * * * *"}, []),
        ({"every": "1h"}, []),
    ],
)
def test_warnings(short: dict[str, Any], said: list[str]) -> None:
    found = warn_of_trigger(make(short), now=NOW)
    assert len(found) == len(said), found
    for warning, words in zip(found, said, strict=True):
        assert words in warning


def test_a_trigger_that_is_over_is_told_with_its_last_fire() -> None:
    ended = make({"every": "1d", "ends_at": (NOW + timedelta(days=3)).isoformat()})
    assert warn_of_trigger(ended, now=NOW + timedelta(days=2)) == []
    [told] = warn_of_trigger(ended, now=NOW + timedelta(days=4))
    last = (NOW + timedelta(days=3)).strftime("%Y-%m-%d %H:%M:%S UTC")
    assert told == f"it does not fire any more; it did last at {last}"
    assert warn_of_trigger(make({"schedule": "@reboot"}), now=NOW) == []
    end = {"ends_at": (NOW + timedelta(days=3)).isoformat()}
    assert warn_of_trigger(make({"after_end": "1h"}), now=NOW) == []
    assert warn_of_trigger(make({"after_end": "1h", **end}), now=NOW) == []
    assert warn_of_trigger(make({"after_end": "1h", **end}), now=NOW + timedelta(days=4)) != []


def test_a_repeated_local_instant_is_told() -> None:
    text = "2026-10-25 02:30 Europe/Berlin"
    for body in ({"run_at": text}, {"schedule": text}, {"trigger": {"type": "once", "at": text}}):
        assert "comes twice" in warn_of_moment(body)[0]
    for other in ({"run_at": "in 10m"}, {"schedule": "hourly"}, {"run_at": 7}, {}, {"trigger": None}):
        assert warn_of_moment(other) == []
