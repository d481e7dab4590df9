"""ICS files: what becomes of their events, and what is refused, by line and property."""

import random
import subprocess
import sys
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.calendars.sets import wall_date
from mainspring.core.calendars.spec import read_calendar
from mainspring.core.calendars.walls import DAY
from mainspring.errors import InvalidInput
from mainspring.importers.ics import IcsCalendar, read_ics

HERE = Path(__file__).parent
NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
LAST = date(2036, 12, 31)
MIB = 1024 * 1024


def calendar(*events: str, headers: str = "") -> bytes:
    """Return a file of events, each given as its lines between spaces."""
    parts = ["BEGIN:VCALENDAR", "VERSION:2.0", *headers.split()]
    for event in events:
        parts += ["BEGIN:VEVENT", *event.split(" "), "END:VEVENT"]
    return "\r\n".join([*parts, "END:VCALENDAR", ""]).encode()


def read(data: bytes, *, tz: str | None = "Europe/Berlin", most_days: int = 10_000) -> IcsCalendar:
    return read_ics(data, tz=tz, now=NOW, most_days=most_days)


def rules(*events: str, tz: str | None = "Europe/Berlin", headers: str = "") -> Any:
    return read(calendar(*events, headers=headers), tz=tz).body["rules"]


def days(found: IcsCalendar) -> set[date]:
    """Return the dates of a calendar of whole days."""
    spans = [span for rule in read_calendar(found.body).rules for span in rule.spans]
    assert all(low % DAY == high % DAY == 0 for low, high in spans)
    return {wall_date(wall) for low, high in spans for wall in range(low, high, DAY)}


def refusal(data: bytes, **given: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        read(data, **given)
    return str(caught.value)


# -- files as programs write them -------------------------------------------------------------------------------------


def exported(name: str, tz: str | None = None) -> IcsCalendar:
    return read((HERE / f"{name}.ics").read_bytes().replace(b"\n", b"\r\n"), tz=tz)


def test_a_file_of_google() -> None:
    found = exported("google")
    assert found.body == {
        "tz": "Europe/Berlin",
        "rules": [
            {"from": "2026-12-04T14:00:00", "to": "2026-12-04T22:00:00", "note": "Weihnachtsfeier"},
            {"date": "2026-12-25", "note": "Erster Weihnachtstag"},
            {"date": "2026-12-26", "note": "Zweiter Weihnachtstag"},
            {
                "date": "2027-05-07",
                "note": "Brückentag, Büro geschlossen Alle Standorte in Deutschland; Österreich nicht",
            },
            {
                "from": "2028-12-08T14:00:00",
                "to": "2028-12-08T20:00:00",
                "note": "Weihnachtsfeier (verschoben)",
            },
        ],
    }
    assert (found.events, found.left_out, found.expanded_to) == (6, 1, None)


def test_a_file_of_outlook_with_windows_zones_and_whole_days_written_as_times() -> None:
    expected = [
        {"from": "2026-12-28", "to": "2027-01-01", "note": "Betriebsferien"},
        {"from": "2027-01-08T22:00:00", "to": "2027-01-09T04:00:00", "note": "Wartung"},
        {"from": "2027-03-12T22:00:00", "to": "2027-03-13T04:00:00", "note": "Wartung"},
    ]
    assert exported("outlook", "Europe/Berlin").body == {"tz": "Europe/Berlin", "rules": expected}
    elsewhere = exported("outlook").body
    assert elsewhere["tz"] == "UTC"
    assert elsewhere["rules"][0] == expected[0]
    assert elsewhere["rules"][1]["from"] == "2027-01-08T21:00:00"


def test_a_file_of_apple_with_birthdays_since_1604() -> None:
    found = exported("apple", "America/New_York")
    notes = [rule["note"] for rule in found.body["rules"]]
    assert notes.count("Independence Day") == 2028 - 1970 + 1
    assert notes.count("Thanksgiving") == 2036 - 2020 + 1
    assert {"date": "2027-11-25", "note": "Thanksgiving"} in found.body["rules"]
    early = {"from": "2026-12-31T12:00:00", "to": "2027-01-01T00:00:00", "note": "Early close 🎆"}
    assert early in found.body["rules"]
    assert found.expanded_to == LAST


@pytest.mark.parametrize("name", ["google", "outlook", "apple"])
def test_line_ends_folds_and_a_byte_order_mark_change_nothing(name: str) -> None:
    text = (HERE / f"{name}.ics").read_bytes()
    expected = exported(name)
    assert read(text, tz=None) == expected
    assert read(b"\xef\xbb\xbf" + text.replace(b"\n", b"\r"), tz=None) == expected
    unfolded = text.replace(b"\n ", b"")
    by_bytes = b"\r\n".join(  # even within a character
        b"\r\n\t".join(line[at : at + 7] for at in range(0, len(line), 7)) for line in unfolded.split(b"\n")
    )
    assert read(by_bytes, tz=None) == expected


def test_the_order_of_events_changes_nothing() -> None:
    text = (HERE / "google.ics").read_text()
    head, *events = text.removesuffix("END:VCALENDAR\n").split("BEGIN:VEVENT\n")
    random.Random(1).shuffle(events)
    shuffled = "BEGIN:VEVENT\n".join([head, *events]) + "END:VCALENDAR\n"
    assert shuffled != text
    assert read(shuffled.encode(), tz=None) == exported("google")


# -- whole days -------------------------------------------------------------------------------------------------------


@st.composite
def events(draw: st.DrawFn) -> tuple[str, set[date]]:
    """An event of whole days, and its dates, counted day by day."""
    start = draw(st.dates(date(2020, 1, 1), date(2030, 12, 31)))
    length = draw(st.integers(1, 5))
    lines = [f"DTSTART;VALUE=DATE:{start:%Y%m%d}"]
    ending = draw(st.sampled_from(["DTEND", "DURATION"] if length > 1 else ["DTEND", "DURATION", ""]))
    if ending == "DTEND":
        lines.append(f"DTEND;VALUE=DATE:{start + timedelta(days=length):%Y%m%d}")
    elif ending:
        lines.append(f"DURATION:P{length}D")
    starts = [start]
    rule = draw(st.sampled_from(["", "DAILY", "WEEKLY", "YEARLY"]))
    if rule:
        interval = draw(st.integers(1, 20))
        every = [start + timedelta(days=number) for number in range((LAST - start).days + 1)]
        starts = {
            "DAILY": [day for day in every if (day - start).days % interval == 0],
            "WEEKLY": [day for day in every if (day - start).days % (7 * interval) == 0],
            "YEARLY": [
                day
                for day in every
                if (day.month, day.day) == (start.month, start.day)
                and (day.year - start.year) % interval == 0
            ],
        }[rule]
        count, until = draw(st.integers(1, 60)), draw(st.dates(start, date(2040, 1, 1)))
        bound = draw(st.sampled_from(["COUNT", "UNTIL"]))
        starts = starts[:count] if bound == "COUNT" else [day for day in starts if day <= until]
        end = f"COUNT={count}" if bound == "COUNT" else f"UNTIL={until:%Y%m%d}"
        lines.append(f"RRULE:FREQ={rule};INTERVAL={interval};{end}")
    excluded = draw(st.lists(st.sampled_from(starts), max_size=3))
    if excluded:
        lines.append("EXDATE;VALUE=DATE:" + ",".join(f"{day:%Y%m%d}" for day in excluded))
    added = draw(st.lists(st.dates(date(2020, 1, 1), date(2035, 1, 1)), max_size=2))
    lines += [f"RDATE;VALUE=DATE:{day:%Y%m%d}" for day in added]
    kept = ({*starts} | {*added}) - {*excluded}
    return " ".join(lines), {day + timedelta(days=step) for day in kept for step in range(length)}


@given(st.lists(events(), min_size=1, max_size=4))
def test_dates_are_those_that_are_counted_day_by_day(given_events: list[tuple[str, set[date]]]) -> None:
    expected = set[date]().union(*(each for _, each in given_events))
    data = calendar(*(text for text, _ in given_events))
    if expected:
        assert days(read(data, most_days=100_000)) == expected
    else:
        assert "no event that holds any time" in refusal(data)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ("DTSTART;VALUE=DATE:20261224", {"date": "2026-12-24"}),
        ("DTSTART:20261224", {"date": "2026-12-24"}),
        ("DTSTART:20261224 DTEND:20261225", {"date": "2026-12-24"}),
        ("DTSTART:20261224 DTEND:20261224", {"date": "2026-12-24"}),
        ("DTSTART:20261224 DURATION:P0D", {"date": "2026-12-24"}),
        ("DTSTART:20261224 DTEND:20261227", {"from": "2026-12-24", "to": "2026-12-26"}),
        ("DTSTART:20261224 DURATION:PT24H", {"date": "2026-12-24"}),
        ("DTSTART:20261224 DURATION:P1W", {"from": "2026-12-24", "to": "2026-12-30"}),
        ("DTSTART:20261224T000000 DTEND:20261225T000000", {"date": "2026-12-24"}),
        ("DTSTART:20261224 RRULE:FREQ=DAILY;COUNT=3", {"from": "2026-12-24", "to": "2026-12-26"}),
        ("DTSTART:19691230 DTEND:19700103", {"from": "1970-01-01", "to": "1970-01-02"}),
        ("DTSTART:20261224 SUMMARY:a\\,\x07b\\\\n", {"date": "2026-12-24", "note": "a,b\\n"}),
        ("DTSTART:20261224 SUMMARY:" + "ä" * 500, {"date": "2026-12-24", "note": "ä" * 200}),
        ("DTSTART:20261224 TRANSP:TRANSPARENT STATUS:TENTATIVE", {"date": "2026-12-24"}),
    ],
)
def test_one_event(event: str, expected: dict[str, str]) -> None:
    assert rules(event) == [expected]


@pytest.mark.parametrize("until", ["20261226", "20261226T000000Z", "20261225T230000Z", "20261226T000000"])
def test_until_is_a_date_for_whole_days_however_it_is_written(until: str) -> None:
    found = rules(f"DTSTART:20261224 RRULE:FREQ=DAILY;UNTIL={until}")
    assert found == [{"from": "2026-12-24", "to": "2026-12-26"}]


def test_what_goes_on_is_written_out_for_ten_years() -> None:
    expected = {date(year, 12, 24) for year in range(2026, 2037)}
    for rule in ("FREQ=YEARLY", "FREQ=YEARLY;UNTIL=99991231", "FREQ=YEARLY;COUNT=999999999"):
        found = read(calendar(f"DTSTART:20261224 RRULE:{rule}"))
        assert found.expanded_to == LAST
        assert days(found) == expected
    ending = read(calendar("DTSTART:20261224 RRULE:FREQ=YEARLY;COUNT=11"))
    assert ending.expanded_to is None
    assert days(ending) == expected


# -- times ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "low", "high"),
    [
        ("DTSTART:20261224T220000 DTEND:20261225T040000", "2026-12-24T22:00:00", "2026-12-25T04:00:00"),
        ("DTSTART:20261224T220000Z DURATION:PT90M", "2026-12-24T23:00:00", "2026-12-25T00:30:00"),
        ("DTSTART;TZID=America/New_York:20261224T220000 DTEND;TZID=America/New_York:20261225T040000",
         "2026-12-25T04:00:00", "2026-12-25T10:00:00"),
        ("DTSTART;TZID=/mozilla.org/20050126_1/Asia/Tokyo:20261224T100000 DURATION:P1DT1H",
         "2026-12-24T02:00:00", "2026-12-25T03:00:00"),
        ("DTSTART;TZID=America/New_York:20261224T100000 DTEND:20261224T160000Z",
         "2026-12-24T16:00:00", "2026-12-24T17:00:00"),
        # A night on which clocks go ahead, and one on which they go back: P1D is a day by the clocks, PT24H is exact.
        ("DTSTART:20270327T220000 DURATION:P1D", "2027-03-27T22:00:00", "2027-03-28T22:00:00"),
        ("DTSTART:20270327T220000 DURATION:PT24H", "2027-03-27T22:00:00", "2027-03-28T23:00:00"),
        ("DTSTART:20271030T220000 DURATION:PT8H", "2027-10-30T22:00:00", "2027-10-31T05:00:00"),
        # 02:30 does not exist on that day: by the offset of before it is 03:30.
        ("DTSTART;TZID=Europe/Paris:20270328T023000 DURATION:PT1H", "2027-03-28T03:30:00", "2027-03-28T04:30:00"),
    ],
)  # fmt: skip
def test_an_event_with_times_is_told_in_the_calendars_zone(event: str, low: str, high: str) -> None:
    assert rules(event) == [{"from": low, "to": high}]


def test_times_recur_by_the_clocks_of_their_own_zone() -> None:
    event = (
        "DTSTART;TZID=America/New_York:20270301T090000 DTEND;TZID=America/New_York:20270301T100000 "
        "RRULE:FREQ=WEEKLY;UNTIL=20270405T130000Z EXDATE;TZID=America/New_York:20270308T090000 "
        "EXDATE:20270315T130000Z EXDATE;VALUE=DATE:20270329 RDATE:20270407T130000Z "
        "RDATE;VALUE=PERIOD:20270408T130000Z/PT2H,20270409T130000Z/20270409T133000Z"
    )
    starts = [rule["from"] for rule in rules(event)]
    # New York's clocks go ahead on 14 March, Berlin's on 28 March.
    assert starts == [
        "2027-03-01T15:00:00",
        "2027-03-22T14:00:00",
        "2027-04-05T15:00:00",
        *(f"2027-04-0{day}T15:00:00" for day in (7, 8, 9)),
    ]
    assert [rule["to"][11:] for rule in rules(event)][-2:] == ["17:00:00", "15:30:00"]


def test_an_end_before_the_time_of_day_leaves_out_its_date() -> None:
    event = "DTSTART:20261224T220000 DTEND:20261224T230000 RRULE:FREQ=DAILY;UNTIL=20261226T2059{}"
    assert len(rules(event.format("59Z"))) == 2  # 21:59:59 in Berlin
    assert len(rules(event.format("59").replace("T2059", "T2259"))) == 3


def test_a_time_that_clocks_show_twice_is_refused_at_its_second_pass() -> None:
    first = "DTSTART:20271031T003000Z DTEND:20271031T020000Z"  # 02:30, then 03:00
    assert rules(first) == [{"from": "2027-10-31T02:30:00", "to": "2027-10-31T03:00:00"}]
    second = calendar("DTSTART:20271031T013000Z DTEND:20271031T020000Z")
    assert refusal(second).startswith("line 4: DTSTART: the event begins or ends in the hour of 2027-10-31")
    assert read(second, tz="UTC").body["rules"] == [
        {"from": "2027-10-31T01:30:00", "to": "2027-10-31T02:00:00"}
    ]


# -- several events of one UID ----------------------------------------------------------------------------------------

SERIES = "UID:a DTSTART:20261201T100000 DTEND:20261201T110000 RRULE:FREQ=DAILY;COUNT=3"


@pytest.mark.parametrize("key", [":20261202T100000", ":20261202T090000Z", ";VALUE=DATE:20261202"])
def test_an_occurrence_is_moved_or_cancelled(key: str) -> None:
    moved = f"UID:a RECURRENCE-ID{key} DTSTART:20261205T120000 DTEND:20261205T130000"
    assert [rule["from"] for rule in rules(SERIES, moved)] == [
        "2026-12-01T10:00:00",
        "2026-12-03T10:00:00",
        "2026-12-05T12:00:00",
    ]
    assert rules(moved, SERIES) == rules(SERIES, moved)
    gone = f"{moved} STATUS:CANCELLED"
    found = read(calendar(SERIES, gone))
    assert [rule["from"][8:10] for rule in found.body["rules"]] == ["01", "03"]
    assert (found.events, found.left_out) == (2, 1)
    again = f"{moved.replace('20261205', '20261206')} SEQUENCE:2"
    assert rules(SERIES, again, moved) == rules(SERIES, again) == rules(SERIES, moved, again)


def test_of_versions_of_one_event_the_newest_holds() -> None:
    old, new = "UID:a DTSTART:20261224", "UID:a SEQUENCE:1 DTSTART:20261231"
    assert rules(new, old) == [{"date": "2026-12-31"}]
    twins = rules("UID:a DTSTART:20261224", "UID:a DTSTART:20261231")  # some programs give all events one UID
    assert twins == [{"date": "2026-12-24"}, {"date": "2026-12-31"}]
    alone = rules("UID:b RECURRENCE-ID:20261224 DTSTART:20261226")
    assert alone == [{"date": "2026-12-26"}]


# -- what is left out -------------------------------------------------------------------------------------------------


def test_events_that_hold_no_time_are_counted() -> None:
    found = read(
        calendar(
            "DTSTART:20261224",
            "DTSTART:20261225 STATUS:cancelled",
            "DTSTART:20261226T100000",
            "DTSTART:20261226T100000 DTEND:20261226T100000",
            "DTSTART:19691231",
        )
    )
    assert found.body["rules"] == [{"date": "2026-12-24"}]
    assert (found.events, found.left_out) == (5, 4)


def test_other_components_are_passed_over() -> None:
    todo = b"BEGIN:VTODO\r\nDTSTART:foo\r\nRRULE:FREQ=SECONDLY\r\nEND:VTODO\r\n"
    data = calendar("DTSTART:20261224").replace(b"BEGIN:VEVENT", todo + b"BEGIN:VEVENT")
    assert read(data + b"\r\n" + data).body["rules"] == [{"date": "2026-12-24"}]


@pytest.mark.parametrize(
    ("headers", "tz", "expected"),
    [
        ("X-WR-TIMEZONE:America/New_York", None, "America/New_York"),
        ("X-WR-TIMEZONE:America/New_York", "Europe/Berlin", "Europe/Berlin"),
        ("X-WR-TIMEZONE:Nowhere", "Europe/Berlin", "Europe/Berlin"),
        ("", None, "UTC"),
    ],
)
def test_zone_of_the_calendar(headers: str, tz: str | None, expected: str) -> None:
    assert read(calendar("DTSTART:20261224", headers=headers), tz=tz).body["tz"] == expected


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ("DTSTART:foo", "line 4: DTSTART: must be a date like 20261224 or a time like 20261224T220000, not 'foo'"),
        ("DTSTART:20261301", "line 4: DTSTART: must be a date"),
        ("DTSTART:20261224T250000", "line 4: DTSTART: must be a date"),
        ("DTSTART:٢٠٢٦١٢٢٤", "line 4: DTSTART: must be a date"),
        ("DTSTART:", "line 4: DTSTART: must be a date"),
        ("DTSTART:20261224 DTSTART:20261225", "line 5: DTSTART: is given twice"),
        ("DTSTART:30261224", "line 4: DTSTART: must lie between 1600-01-01 and 2126-12-31"),
        ("DTSTART:02261224", "line 4: DTSTART: must lie between"),
        ("DTSTART;TZID=Customized:20261224T100000", "line 4: DTSTART: the zone 'Customized' is not known"),
        ("DTSTART;=:20261224", "line 4: DTSTART: cannot be read: its parameters"),
        ("UID:a", "line 3: BEGIN: VEVENT has no DTSTART"),
        ("DTSTART:20261224 DTEND:20261224T100000", "line 5: DTEND: must be a date if DTSTART is one"),
        ("DTSTART:20261224 DTEND:20261223", "line 5: DTEND: must not be before DTSTART"),
        ("DTSTART:20261224 DTEND:20261225 DURATION:P1D", "line 6: DURATION: does not go with DTEND"),
        ("DTSTART:20261224 DURATION:PT5H", "line 5: DURATION: must be whole days"),
        ("DTSTART:20261224 DURATION:-P1D", "line 5: DURATION: must be from 0 to 36,600 days"),
        ("DTSTART:20261224 DURATION:P" + "9" * 300 + "W", "line 5: DURATION: must be a length"),
        ("DTSTART:20261224 DURATION:P", "line 5: DURATION: must be a length"),
        ("DTSTART:20261224 DURATION:foo", "line 5: DURATION: must be a length like P1D or PT8H, not 'foo'"),
        ("DTSTART:20261224 RRULE:FREQ=SECONDLY", "line 5: RRULE: FREQ=SECONDLY is not supported"),
        ("DTSTART:20261224 RRULE:FREQ=DAILY;UNTIL=foo", "line 5: RRULE: must be a date"),
        ("DTSTART:20261224 EXRULE:FREQ=DAILY", "line 5: EXRULE: is not supported"),
        ("DTSTART:20261224 EXDATE:20261224,foo", "line 5: EXDATE: must be a date"),
        ("DTSTART:20261224T100000 RDATE:20261225", "line 5: RDATE: must be a time"),
        ("DTSTART:20261224 RDATE:20261225T000000Z/P1D", "line 5: RDATE: must be a date, as DTSTART is one"),
        ("DTSTART:20261224 SEQUENCE:x", "line 5: SEQUENCE: must be a whole number, not 'x'"),
        ("DTSTART:20261224 RECURRENCE-ID;RANGE=THISANDFUTURE:20261224", "line 5: RECURRENCE-ID: RANGE is not"),
        ("DTSTART:20261224 RECURRENCE-ID:20261224 RRULE:FREQ=DAILY", "line 6: RRULE: does not go with"),
        ("DTSTART:20261224 DTEND:21001224", "line 4: DTSTART: with this event, the file has more than 10,000 dates"),
        ("DTSTART:20261224 oops", "line 5: must be a property like DTSTART:20261224"),
        ("STATUS:CANCELLED DTSTART:20261224", "line 1: BEGIN: the file has no event that holds any time"),
    ],
)  # fmt: skip
def test_a_wrong_line_is_named(event: str, message: str) -> None:
    assert refusal(calendar(event)).startswith(message)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "line 1: BEGIN: an ICS file begins with BEGIN:VCALENDAR"),
        (b"\r\n\r\n", "line 1: BEGIN: an ICS file begins"),
        (b"<!DOCTYPE html>\n<html>sign in</html>", "line 1: BEGIN: an ICS file begins"),
        (b"{}", "line 1: BEGIN: an ICS file begins"),
        ("BEGIN:VCALENDAR".encode("utf-16"), "line 1: BEGIN: an ICS file begins"),
        (b"BEGIN:VEVENT\nEND:VEVENT", "line 1: BEGIN: an ICS file begins"),
        (b"VERSION:2.0\nBEGIN:VCALENDAR", "line 1: BEGIN: an ICS file begins"),
        (b"BEGIN:VCALENDAR\nEND:VCALENDAR", "line 1: BEGIN: the file has no event"),
        (b"BEGIN:VCALENDAR\nBEGIN:VEVENT", "line 2: BEGIN: VEVENT has no end; the file is cut off"),
        (b"BEGIN:VCALENDAR\nEND:VEVENT", "line 2: END: ends what did not begin"),
        (b"BEGIN:VCALENDAR\n" * 50, "line 11: BEGIN: lies in 10 others"),
        (calendar("DTSTART:20261224 SUMMARY:Gr\0").replace(b"\0", b"\xfc\xdf"), "line 5: SUMMARY: is not UTF-8"),
        (calendar(headers="CALSCALE:HEBREW"), "line 3: CALSCALE: must be GREGORIAN"),
        (calendar(headers="METHOD:CANCEL"), "line 3: METHOD: says that the events are cancelled"),
        (calendar(*["DTSTART:20261224"] * 10_001), "line 30003: BEGIN: the file has more than 10,000 events"),
    ],
)  # fmt: skip
def test_what_is_no_calendar_is_refused(data: bytes, message: str) -> None:
    assert refusal(data).startswith(message)


def test_unknown_zones_of_calendars_are_refused() -> None:
    data = calendar("DTSTART:20261224", headers="X-WR-TIMEZONE:Nowhere")
    assert refusal(data, tz=None).startswith(
        "line 3: X-WR-TIMEZONE: the zone 'Nowhere' is not known; give tz"
    )
    assert refusal(data, tz="Nowhere").startswith("tz: 'Nowhere' is not a time zone")


def filled(event: str) -> bytes:
    return calendar(*[event] * 2_000)


@pytest.mark.parametrize(
    "data",
    [
        filled("DTSTART:20261224 RRULE:FREQ=DAILY;COUNT=999999999"),
        filled("DTSTART:19700101 RRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30"),
        filled("DTSTART:16000101 RRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"),
        filled("DTSTART:16000101 RRULE:FREQ=YEARLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYSETPOS=366,-366"),
        filled("DTSTART:16000101 RRULE:FREQ=DAILY;UNTIL=19600101"),
        calendar("DTSTART:20261224 RDATE:" + ",".join(["20261224"] * 100_000)),
        calendar(*(f"DTSTART;TZID=Etc/GMT+{n % 13}:20261224T100000" for n in range(13)),
                 *(f"DTSTART;TZID=Etc/GMT-{n % 13}:20261224T100000" for n in range(13))),
    ],
    ids=["count", "never-daily", "never-yearly", "positions", "long-ago", "rdates", "zones"],
)  # fmt: skip
def test_files_that_would_take_too_long_are_refused(data: bytes) -> None:
    message = refusal(data)
    assert any(
        words in message for words in ("too long to expand", "more than 10,000 dates", "more than 20 zones")
    )


@pytest.mark.parametrize(
    "data",
    [
        calendar("DTSTART:20261224 EXDATE:" + ",".join(["20261225"] * 60_000)),
        calendar("DTSTART" + ";A=B" * 200_000 + ":20261224"),
        calendar("DTSTART:20261224 DESCRIPTION:" + "\r\n\ta" * 200_000),
        calendar("DTSTART:20261224 X-HTML:" + "a" * MIB),
    ],
    ids=["exdates", "parameters", "folds", "long-line"],
)
def test_large_files_are_read(data: bytes) -> None:
    assert read(data).body["rules"] == [{"date": "2026-12-24"}]


@given(st.lists(st.sampled_from(
    ["BEGIN:VCALENDAR", "END:VCALENDAR", "BEGIN:VEVENT", "END:VEVENT", "DTSTART:20261224", "DTSTART:foo", " x",
     "DTEND:20261226", "DTSTART;TZID=UTC:20261224T100000", "RRULE:FREQ=DAILY;COUNT=3", "UID:a", "", "\x00", "é",
     "RECURRENCE-ID:20261224", "DURATION:PT1H", "EXDATE:20261224,", "RDATE:20261224T100000Z/PT1H", ";:", "X"]
), max_size=14))  # fmt: skip
def test_any_lines_are_read_or_refused(lines: list[str]) -> None:
    data = "\n".join(["BEGIN:VCALENDAR", *lines, "END:VCALENDAR"]).encode()
    try:
        found = read(data)
    except InvalidInput as error:
        place = error.field
    else:
        assert read_calendar(found.body).plain()["rules"] == found.body["rules"]
        return
    assert place.startswith("line ")


def imported(code: str, hidden: Iterable[str]) -> subprocess.CompletedProcess[str]:
    hiding = f"import sys; sys.modules.update(dict.fromkeys({list(hidden)!r}))\n"
    return subprocess.run([sys.executable, "-c", hiding + code], capture_output=True, text=True, check=False)


def test_without_the_extra_the_error_says_how_to_install_it() -> None:
    code = (
        "from datetime import datetime, UTC\n"
        "from mainspring.errors import MissingExtra\n"
        "from mainspring.importers.ics import read_ics\n"
        "try: read_ics(b'', now=datetime.now(UTC), most_days=1)\n"
        "except MissingExtra as error: print(error.extra, str(error))"
    )
    done = imported(code, ["icalendar"])
    assert done.stderr == ""
    assert done.stdout.startswith("ics ICS files cannot be read: the extra 'ics' is not installed here; ")
    assert "pip install 'mainspring[ics]', and start again" in done.stdout
