"""Clock changes by hand-written tables (reliability 5.3 and 5.5): what a reader can check with a calendar."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pytest

from mainspring.core.cron import Cron

NY, LORD_HOWE, TROLL, APIA = "America/New_York", "Australia/Lord_Howe", "Antarctica/Troll", "Pacific/Apia"
CASABLANCA, DUBLIN, CHATHAM = "Africa/Casablanca", "Europe/Dublin", "Pacific/Chatham"

THURSDAYS = [f"{year}-02-29T00:00" for year in (2024, 2052, 2080, 2120, 2148)]

# (zone, expression, dst, after this instant, the next fires), all in UTC
TABLE = [
    # New York 2026: 8 March 02:00 EST (07:00Z) -> 03:00 EDT; 1 November 02:00 EDT (06:00Z) -> 01:00 EST
    (NY, "30 2 * * *", "vixie", "2026-03-07T12:00", ["2026-03-08T07:00", "2026-03-09T06:30"]),
    (NY, "30 2 * * *", "after/first", "2026-03-07T12:00", ["2026-03-08T07:00", "2026-03-09T06:30"]),
    (NY, "30 2 * * *", "skip/first", "2026-03-07T12:00", ["2026-03-09T06:30"]),
    (NY, "0,15,30,45 2 * * *", "vixie", "2026-03-07T12:00", ["2026-03-08T07:00", "2026-03-09T06:00"]),
    (NY, "0 2,3 * * *", "vixie", "2026-03-07T12:00", ["2026-03-08T07:00", "2026-03-09T06:00"]),
    (NY, "*/30 2 * * *", "vixie", "2026-03-07T12:00", ["2026-03-09T06:00", "2026-03-09T06:30"]),
    (NY, "0 * * * *", "vixie", "2026-03-08T05:30", ["2026-03-08T06:00", "2026-03-08T07:00"]),
    (NY, "30 30 2 * * *", "vixie", "2026-03-07T12:00", ["2026-03-08T07:00", "2026-03-09T06:30:30"]),
    (NY, "30 1 * * *", "vixie", "2026-10-31T12:00", ["2026-11-01T05:30", "2026-11-02T06:30"]),
    (NY, "30 1 * * *", "after/second", "2026-10-31T12:00", ["2026-11-01T06:30", "2026-11-02T06:30"]),
    (
        NY,
        "30 1 * * *",
        "skip/both",
        "2026-10-31T12:00",
        ["2026-11-01T05:30", "2026-11-01T06:30", "2026-11-02T06:30"],
    ),
    (NY, "30 1 * * *", "vixie", "2026-11-01T06:15", ["2026-11-02T06:30"]),  # asked within the second pass
    (
        NY,
        "30 * * * *",
        "skip/first",
        "2026-11-01T05:00",
        ["2026-11-01T05:30", "2026-11-01T06:30", "2026-11-01T07:30"],
    ),
    (NY, "0 2 * * *", "vixie", "2026-10-31T12:00", ["2026-11-01T07:00"]),
    # Lord Howe 2025: 6 April 02:00 +11 (15:00Z the day before) -> 01:30 +10:30; 5 October 02:00 -> 02:30
    (LORD_HOWE, "0 */2 * * *", "vixie", "2025-04-05T13:30", ["2025-04-05T15:30", "2025-04-05T17:30"]),
    (LORD_HOWE, "45 1 * * *", "vixie", "2025-04-05T10:00", ["2025-04-05T14:45", "2025-04-06T15:15"]),
    (LORD_HOWE, "45 1 * * *", "after/second", "2025-04-05T10:00", ["2025-04-05T15:15", "2025-04-06T15:15"]),
    (LORD_HOWE, "15 2 * * *", "vixie", "2025-10-04T10:00", ["2025-10-04T15:30", "2025-10-05T15:15"]),
    (LORD_HOWE, "45 * * * *", "vixie", "2025-10-04T15:00", ["2025-10-04T15:15", "2025-10-04T15:45"]),
    # Troll 2025: 30 March 01:00 (01:00Z) -> 03:00; 26 October 03:00 (01:00Z) -> 01:00
    (TROLL, "30 1 * * *", "vixie", "2025-03-29T12:00", ["2025-03-30T01:00", "2025-03-30T23:30"]),
    (TROLL, "30 1,2 * * *", "vixie", "2025-03-29T12:00", ["2025-03-30T01:00", "2025-03-30T23:30"]),
    (TROLL, "30 2 * * *", "vixie", "2025-10-25T12:00", ["2025-10-26T00:30", "2025-10-27T02:30"]),
    (TROLL, "30 2 * * *", "after/both", "2025-10-25T12:00", ["2025-10-26T00:30", "2025-10-26T02:30"]),
    # Apia has no 30 December 2011
    (APIA, "30 6 * * *", "vixie", "2011-12-29T12:00", ["2011-12-29T16:30", "2011-12-30T16:30"]),
    (APIA, "30 6 30 12 *", "vixie", "2011-01-01T00:00", ["2012-12-29T16:30"]),
    (APIA, "0 */6 * * *", "vixie", "2011-12-30T03:00", ["2011-12-30T04:00", "2011-12-30T10:00"]),
    # Casablanca leaves +1 for Ramadan: 23 February 2025 03:00 (02:00Z) -> 02:00, 6 April 02:00 (02:00Z) -> 03:00
    (CASABLANCA, "30 2 * * *", "vixie", "2025-02-22T12:00", ["2025-02-23T01:30", "2025-02-24T02:30"]),
    (CASABLANCA, "30 2 * * *", "vixie", "2025-04-05T12:00", ["2025-04-06T02:00", "2025-04-07T01:30"]),
    # Dublin's winter time is the negative saving; the wall shows what London shows
    (DUBLIN, "30 1 * * *", "vixie", "2025-03-29T12:00", ["2025-03-30T01:00", "2025-03-31T00:30"]),
    (DUBLIN, "30 1 * * *", "vixie", "2025-10-25T12:00", ["2025-10-26T00:30", "2025-10-27T01:30"]),
    # days without a midnight
    ("America/Santiago", "0 0 * * *", "vixie", "2025-09-06T12:00", ["2025-09-07T04:00", "2025-09-08T03:00"]),
    ("Asia/Beirut", "0 0 * * *", "vixie", "2025-03-29T12:00", ["2025-03-29T22:00", "2025-03-30T21:00"]),
    ("Africa/Cairo", "0 0 * * *", "vixie", "2025-04-24T12:00", ["2025-04-24T22:00", "2025-04-25T21:00"]),
    ("America/Havana", "0 0 * * *", "vixie", "2025-03-08T12:00", ["2025-03-09T05:00", "2025-03-10T04:00"]),
    ("Atlantic/Azores", "0 0 * * *", "vixie", "2025-03-29T12:00", ["2025-03-30T01:00", "2025-03-31T00:00"]),
    ("America/Santiago", "0 0 * * *", "skip/first", "2025-09-06T12:00", ["2025-09-08T03:00"]),
    # changes for good, by half an hour
    ("America/Caracas", "0 * * * *", "vixie", "2016-05-01T06:00", ["2016-05-01T06:30", "2016-05-01T07:00"]),
    ("America/Caracas", "45 2 * * *", "vixie", "2016-04-30T12:00", ["2016-05-01T07:00", "2016-05-02T06:45"]),
    ("Asia/Pyongyang", "45 23 * * *", "vixie", "2018-05-04T12:00", ["2018-05-04T15:00", "2018-05-05T14:45"]),
    ("Asia/Pyongyang", "0 * * * *", "vixie", "2018-05-04T13:45", ["2018-05-04T14:30", "2018-05-04T15:00"]),
    # an offset of quarters of an hour
    (CHATHAM, "*/45 * * * *", "vixie", "2025-06-01T00:00", ["2025-06-01T00:15", "2025-06-01T01:00"]),
    (CHATHAM, "*/15 2 * * *", "vixie", "2025-09-27T14:00", ["2025-09-28T12:15", "2025-09-28T12:30"]),
    # offsets of old that are no whole minutes: Monrovia was 44 minutes 30 seconds behind until 7 January 1972
    (
        "Africa/Monrovia",
        "0 0 * * *",
        "vixie",
        "1972-01-05T12:00",
        ["1972-01-06T00:44:30", "1972-01-07T00:44:30"],
    ),
    ("Africa/Monrovia", "30 0 * * *", "skip/first", "1972-01-06T12:00", ["1972-01-08T00:30"]),
    # far dates
    ("UTC", "0 0 29 2 *", "vixie", "2095-01-01T00:00", ["2096-02-29T00:00", "2104-02-29T00:00"]),
    ("UTC", "0 0 * 2 THU#5", "vixie", "2023-01-01T00:00", THURSDAYS),
    ("Europe/Berlin", "30 2 * * *", "vixie", "2199-03-30T12:00", ["2199-03-31T01:00", "2199-04-01T00:30"]),
]


@pytest.mark.parametrize(("tz", "text", "dst", "after", "expected"), TABLE)
def test_next_follows_rule_v(tz: str, text: str, dst: str, after: str, expected: list[str]) -> None:
    cron, at = Cron(text, tz, dst), utc(after)
    for wanted in map(utc, expected):
        found = cron.next_after(at)
        assert found == wanted
        at = found


@pytest.mark.parametrize(("tz", "text", "dst", "after", "expected"), TABLE)
def test_previous_gives_the_same_fires(tz: str, text: str, dst: str, after: str, expected: list[str]) -> None:
    cron, fires = Cron(text, tz, dst), list(map(utc, expected))
    for earlier, later in pairwise(fires):
        assert cron.previous_before(later) == earlier
    first = cron.previous_before(fires[0])
    assert first is not None
    assert first <= utc(after)


def test_first_pass_does_not_count_from_its_first_second_on_where_the_second_is_wanted() -> None:
    cron = Cron("0 1 * * *", NY, "after/second")
    assert cron.previous_before(utc("2026-11-01T05:00:01")) == utc("2026-10-31T05:00:00")
    assert cron.previous_before(utc("2026-11-01T06:00:01")) == utc("2026-11-01T06:00:00")


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
