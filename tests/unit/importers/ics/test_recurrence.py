"""Rules of recurrence: against dateutil, and what is refused."""

from datetime import date, datetime, time, timedelta
from typing import Any

import pytest
from dateutil.rrule import rrulestr
from hypothesis import given
from hypothesis import strategies as st

from mainspring.errors import InvalidInput
from mainspring.importers.ics.expansion import ExpansionSteps, recur
from mainspring.importers.ics.lines import IcsLine
from mainspring.importers.ics.recurrence import read_recurrence

FIRST, LAST = date(9970, 1, 1), date(9995, 12, 31)
"""dateutil goes on to the year 9999 while nothing matches, so rules begin not long before."""
DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


def line(text: str) -> IcsLine:
    return IcsLine(7, "RRULE", {}, text)


def dates(text: str, start: date, last: date) -> list[date]:
    return list(recur(read_recurrence(line(text)), start, last, ExpansionSteps()))


def by_dateutil(text: str, start: date, last: date) -> list[date]:
    found = [start]
    rule: Any = rrulestr(text, dtstart=datetime.combine(start, time()))
    count = None
    if "COUNT=" in text:  # a start that the rule does not name counts here, and not there
        count = int(text.partition("COUNT=")[2].partition(";")[0])
        rule = rule.replace(count=None)
    for at in rule:
        if at.date() > last or (count is not None and len(found) >= count):
            break
        if at.date() > start:
            found.append(at.date())
    return found


def numbers(most: int, *, least: int | None = None) -> st.SearchStrategy[str]:
    number = st.integers(-most if least is None else least, most).filter(bool)
    return st.lists(number, min_size=1, max_size=4, unique=True).map(lambda found: ",".join(map(str, found)))


@st.composite
def rules(draw: st.DrawFn) -> str:
    frequency = draw(st.sampled_from(["DAILY", "WEEKLY", "MONTHLY", "YEARLY"]))
    parts = {"FREQ": frequency}
    may: dict[str, st.SearchStrategy[str]] = {
        "INTERVAL": st.integers(1, 9).map(str),
        "COUNT": st.integers(1, 40).map(str),
        "WKST": st.sampled_from(DAYS),
        "BYMONTH": numbers(12, least=1),
        "BYDAY": st.lists(st.sampled_from(DAYS), min_size=1, max_size=4, unique=True).map(",".join),
    }
    if frequency != "WEEKLY":
        may["BYMONTHDAY"] = numbers(31)
    if frequency in {"MONTHLY", "YEARLY"}:
        numbered = st.tuples(st.sampled_from([-5, -2, -1, 1, 2, 4, 5]), st.sampled_from(DAYS))
        several = st.lists(
            numbered.map(lambda pair: f"{pair[0]}{pair[1]}"), min_size=1, max_size=3, unique=True
        )
        may["BYDAY"] |= several.map(",".join)
    if frequency == "YEARLY":
        may["BYYEARDAY"] = numbers(366)
    for name in draw(st.lists(st.sampled_from(sorted(may)), unique=True, max_size=4)):
        parts[name] = draw(may[name])
    if (
        frequency == "YEARLY"
        and not any(letter.isdigit() for letter in parts.get("BYDAY", ""))
        and draw(st.booleans())
    ):
        parts["BYWEEKNO"] = draw(numbers(53, least=-51))  # dateutil misses days of -52 in the year before
        # Without BYDAY, dateutil takes whole weeks, and the standard the start's weekday.
        parts.setdefault("BYDAY", "WE")
    # In the first week, dateutil counts positions from the start on; in months and years from their first day.
    if any(name.startswith("BY") for name in parts) and frequency != "WEEKLY" and draw(st.booleans()):
        parts["BYSETPOS"] = draw(numbers(6))
    return ";".join(f"{name}={value}" for name, value in parts.items())


@given(rules(), st.dates(FIRST, FIRST + timedelta(days=800)))
def test_rules_expand_as_by_dateutil(text: str, start: date) -> None:
    assert dates(text, start, LAST) == by_dateutil(text, start, LAST), text


@pytest.mark.parametrize(
    ("text", "start", "expected"),
    [
        ("FREQ=YEARLY;BYMONTH=11;BYDAY=4TH", "2026-11-26", ["2026-11-26", "2027-11-25", "2028-11-23"]),
        ("FREQ=YEARLY", "2024-02-29", ["2024-02-29", "2028-02-29", "2032-02-29"]),
        ("FREQ=MONTHLY;BYMONTHDAY=-1;COUNT=3", "2026-12-31", ["2026-12-31", "2027-01-31", "2027-02-28"]),
        ("FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13", "2026-11-13", ["2026-11-13", "2027-08-13", "2028-10-13"]),
        ("FREQ=MONTHLY", "2026-10-31", ["2026-10-31", "2026-12-31", "2027-01-31"]),
        (
            "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU;WKST=SU",
            "2026-11-24",
            ["2026-11-24", "2026-12-06", "2026-12-08"],
        ),
        ("FREQ=YEARLY;BYWEEKNO=53", "2026-12-30", ["2026-12-30", "2032-12-29", "2037-12-30"]),
        ("FREQ=YEARLY;BYWEEKNO=-53;BYDAY=WE", "2025-12-31", ["2025-12-31", "2031-12-31"]),
        ("FREQ=WEEKLY;BYDAY=MO,TU,FR;BYSETPOS=1", "2026-11-26", ["2026-11-26", "2026-11-30", "2026-12-07"]),
        ("FREQ=WEEKLY;COUNT=2;BYDAY=MO", "2026-11-24", ["2026-11-24", "2026-11-30"]),
        ("freq=daily;interval=3;count=3;", "2026-11-24", ["2026-11-24", "2026-11-27", "2026-11-30"]),
    ],
)
def test_dates_of_a_rule(text: str, start: str, expected: list[str]) -> None:
    found = dates(text, date.fromisoformat(start), date(2038, 1, 1))[: len(expected)]
    assert [day.isoformat() for day in found] == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("FREQ=SECONDLY", "FREQ=SECONDLY is not supported: an event may recur once a day at most"),
        ("FREQ=HOURLY;COUNT=3", "FREQ=HOURLY is not supported"),
        ("FREQ=DAILY;BYHOUR=9,17", "BYHOUR is not supported"),
        ("FREQ=OFTEN", "FREQ must be one of DAILY, WEEKLY, MONTHLY, YEARLY"),
        ("COUNT=3", "FREQ must be one of"),
        ("FREQ=DAILY;COUNT=0", "COUNT must be a whole number from 1"),
        ("FREQ=DAILY;INTERVAL=-1", "INTERVAL must be a whole number from 1"),
        ("FREQ=DAILY;COUNT=" + "9" * 5000, "COUNT must be a whole number from 1"),
        ("FREQ=DAILY;COUNT=2;UNTIL=20270101", "only one of them"),
        ("FREQ=DAILY;FREQ=DAILY", "each part once; 'FREQ=DAILY' does not fit"),
        ("FREQ=DAILY;COUNT", "'COUNT' does not fit"),
        ("FREQ=YEARLY;RSCALE=HEBREW", "'RSCALE=HEBREW' does not fit"),
        ("YM1 12 #0", "'YM1 12 #0' does not fit"),
        ("FREQ=YEARLY;BYMONTH=13", "BYMONTH must be numbers from 1 to 12, without 0, not '13'"),
        ("FREQ=YEARLY;BYMONTH=-1", "BYMONTH must be numbers from 1 to 12"),
        ("FREQ=MONTHLY;BYMONTHDAY=0", "BYMONTHDAY must be numbers from -31 to 31, without 0, not '0'"),
        ("FREQ=MONTHLY;BYDAY=XX", "BYDAY must be days like MO, 2TU or -1FR, not 'XX'"),
        ("FREQ=MONTHLY;BYDAY=0MO", "BYDAY must be days like"),
        ("FREQ=WEEKLY;BYDAY=1MO", "BYDAY with numbers goes with months and years only"),
        ("FREQ=WEEKLY;BYMONTHDAY=1", "BYMONTHDAY does not go with FREQ=WEEKLY"),
        ("FREQ=MONTHLY;BYWEEKNO=1", "BYWEEKNO does not go with FREQ=MONTHLY"),
        ("FREQ=MONTHLY;BYSETPOS=1", "BYSETPOS needs another part"),
        ("FREQ=WEEKLY;WKST=XX", "WKST must be one of MO"),
        ("", "must be like FREQ=YEARLY;COUNT=3"),
    ],
)
def test_a_wrong_rule_is_refused_by_its_line(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_recurrence(line(text))
    assert caught.value.field == "line 7: RRULE"
    assert message in caught.value.message


def test_work_on_rules_is_counted_and_ends() -> None:
    steps = ExpansionSteps(2000)
    rule = read_recurrence(line("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30"))
    assert list(recur(rule, date(2026, 1, 1), date(2026, 12, 31), steps)) == [date(2026, 1, 1)]
    with pytest.raises(InvalidInput, match="the events of the file take too long to expand"):
        list(recur(rule, date(2026, 1, 1), date(2026, 12, 31), steps))
