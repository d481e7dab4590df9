"""Calendar intervals: by hand, and against a model that looks at every day."""

from __future__ import annotations

import calendar
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.core.backfill import reach_back
from mainspring.core.definition import edit_definition, plain_from_spec, read_definition, spec_from_plain
from mainspring.core.model import JobSpec
from mainspring.core.triggers import CalendarInterval, next_fires
from mainspring.core.triggers.reading import read_trigger
from mainspring.errors import InvalidInput

NOW = datetime(2026, 1, 20, 12, tzinfo=UTC)
DAY = timedelta(days=1)
WEEK = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
NTHS = ("first", "second", "third", "fourth", "last")
ZONES = (
    *("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "Asia/Beirut"),
    *("America/Sao_Paulo", "Asia/Tehran", "Pacific/Apia", "America/St_Johns", "Africa/Casablanca"),
)


def make(now: datetime = NOW, **short: Any) -> CalendarInterval:
    made = read_trigger(short, base=None, old=None, now=now)
    assert isinstance(made, CalendarInterval)
    return made


def spec_of(**fields: Any) -> JobSpec:
    return read_definition({"name": "a", "function": "f", **fields}, now=NOW)


def local_fires(trigger: CalendarInterval, count: int, after: datetime = NOW) -> list[str]:
    zone = ZoneInfo(trigger.tz)
    return [f"{fire.astimezone(zone):%Y-%m-%d %H:%M}" for fire in next_fires(trigger, after, count)]


@pytest.mark.parametrize(
    ("short", "wanted"),
    [
        ({"calendar_interval": "day", "at": "09:00"}, ["2026-01-21 09:00", "2026-01-22 09:00"]),
        ({"calendar_interval": "2 days", "at": "13:30"}, ["2026-01-20 13:30", "2026-01-22 13:30"]),
        ({"calendar_interval": "2 weeks"}, ["2026-01-26 00:00", "2026-02-09 00:00"]),
        (
            {"calendar_interval": "2 weeks", "weekday": "MON,THU", "at": "9:00"},
            ["2026-01-22 09:00", "2026-02-02 09:00", "2026-02-05 09:00", "2026-02-16 09:00"],
        ),
        (
            {"calendar_interval": "1 month", "day": 31},
            ["2026-01-31 00:00", "2026-02-28 00:00", "2026-03-31 00:00", "2026-04-30 00:00"],
        ),
        ({"calendar_interval": "3 months", "day": 15}, ["2026-02-15 00:00", "2026-05-15 00:00"]),
        ({"calendar_interval": "3 months", "day": "last"}, ["2026-01-31 00:00", "2026-04-30 00:00"]),
        ({"calendar_interval": "2 months", "weekday": "last FRI"}, ["2026-01-30 00:00", "2026-03-27 00:00"]),
        ({"calendar_interval": "1 month", "weekday": "first MON"}, ["2026-02-02 00:00", "2026-03-02 00:00"]),
        ({"calendar_interval": "month"}, ["2026-02-01 00:00", "2026-03-01 00:00"]),
        (
            {"calendar_interval": "1 year", "month": "FEB", "day": 29},
            ["2026-02-28 00:00", "2027-02-28 00:00", "2028-02-29 00:00", "2029-02-28 00:00"],
        ),
        ({"calendar_interval": "2 years", "month": 3, "day": 1}, ["2026-03-01 00:00", "2028-03-01 00:00"]),
    ],
)
def test_dates_by_hand(short: dict[str, Any], wanted: list[str]) -> None:
    assert local_fires(make(**short), len(wanted)) == wanted


def test_the_31st_does_not_drift_after_a_short_month() -> None:
    fires = local_fires(make(calendar_interval="1 month", day=31), 24)
    assert [fire[8:10] for fire in fires[:5]] == ["31", "28", "31", "30", "31"]
    assert fires[12][5:10] == "01-31"


def test_clocks_that_change_are_met_as_by_cron() -> None:
    march = datetime(2026, 3, 28, 12, tzinfo=UTC)
    daily = {"calendar_interval": "1 day", "at": "02:30", "tz": "Europe/Berlin"}
    assert local_fires(make(march, **daily), 2, march) == ["2026-03-29 03:00", "2026-03-30 02:30"]
    assert local_fires(make(march, **daily, dst="skip/first"), 1, march) == ["2026-03-30 02:30"]
    october = datetime(2026, 10, 24, 12, tzinfo=UTC)
    both = next_fires(make(october, **daily, dst="after/both"), october, 2)
    assert both == [datetime(2026, 10, 25, 0, 30, tzinfo=UTC), datetime(2026, 10, 25, 1, 30, tzinfo=UTC)]


@pytest.mark.parametrize("dst", ["vixie", "after/both"])
def test_the_first_fire_is_found_from_the_hour_that_comes_twice(dst: str) -> None:
    october = datetime(2026, 10, 24, 12, tzinfo=UTC)
    fields = {"calendar_interval": "1 month", "day": 25, "at": "02:30", "tz": "Europe/Berlin"}
    made = make(october, **fields, dst=dst)
    first, *_ = next_fires(made, october, 1)
    assert first == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert made.previous_before(datetime(2026, 10, 25, 1, 10, tzinfo=UTC)) == first
    assert made.previous_before(first) is None


def test_an_anchor_says_which_periods_count_and_where_they_begin() -> None:
    short = {"type": "calendar_interval", "every": "2 weeks", "anchor": "2026-03-04"}
    made = read_trigger({"trigger": short}, base=None, old=None, now=NOW)
    assert isinstance(made, CalendarInterval)
    assert made.weekday is not None
    assert made.weekday.days == (2,)
    assert local_fires(made, 2) == ["2026-03-04 00:00", "2026-03-18 00:00"]
    assert made.previous_before(datetime(2026, 3, 4, tzinfo=UTC)) is None
    back = reach_back(made)
    assert back.previous_before(datetime(2026, 3, 4, tzinfo=UTC)) == datetime(2026, 2, 18, tzinfo=UTC)
    assert back.next_after(datetime(1970, 1, 1, tzinfo=UTC)) is not None


def test_the_same_definition_keeps_its_anchor() -> None:
    fields = {"calendar_interval": "2 weeks", "weekday": "MON"}
    first = spec_of(**fields)
    later = {"name": "a", "function": "f", **fields}
    again = read_definition(later, now=NOW + 8 * DAY, old=first.trigger)
    assert again == first
    assert read_definition(later, now=NOW + 8 * DAY) != first


def test_a_patch_of_the_time_keeps_the_weeks() -> None:
    first = spec_of(calendar_interval="2 weeks", weekday="MON", tz="Europe/Berlin").trigger
    spec = edit_definition(
        spec_of(calendar_interval="2 weeks", weekday="MON"), {"at": "10:00"}, now=NOW + 8 * DAY
    )
    assert isinstance(first, CalendarInterval)
    assert isinstance(spec.trigger, CalendarInterval)
    assert (spec.trigger.anchor, spec.trigger.at) == (first.anchor, time(10))
    other = edit_definition(spec, {"calendar_interval": "3 months", "day": 2}, now=NOW).trigger
    assert isinstance(other, CalendarInterval)
    assert (other.weekday, other.day, other.at) == (None, 2, time(10))


def test_the_full_form_comes_back() -> None:
    spec = spec_of(
        calendar_interval="2 years", month="MAR", weekday="last SUN", at="01:30:15", tz="Europe/Berlin"
    )
    plain = plain_from_spec(spec)
    assert plain["trigger"] == {
        "type": "calendar_interval",
        "every": "2 years",
        "at": "01:30:15",
        "day": None,
        "month": 3,
        "weekday": "last SUN",
        "tz": "Europe/Berlin",
        "dst": "vixie",
        "anchor": "2026-03-29",
    }
    assert spec_from_plain(plain) == spec
    assert read_definition(plain, now=NOW) == spec


@pytest.mark.parametrize(
    ("short", "field", "right"),
    [
        ({"calendar_interval": "3 fortnights"}, "calendar_interval", "like '3 months'"),
        ({"calendar_interval": "0 days"}, "calendar_interval", "1 to 3650 days"),
        ({"calendar_interval": "11 years"}, "calendar_interval", "1 to 10 years"),
        ({"calendar_interval": 3}, "calendar_interval", "like '3 months', not a number"),
        ({"calendar_interval": "day", "at": "24:00"}, "at", "like 09:00"),
        ({"calendar_interval": "day", "day": 3}, "day", "goes with months and years"),
        ({"calendar_interval": "month", "day": 32}, "day", "1 to 31, or 'last', not 32"),
        ({"calendar_interval": "month", "month": 3}, "month", "goes with years only"),
        ({"calendar_interval": "year", "month": "MARZ1"}, "month", "like MAR"),
        ({"calendar_interval": "week", "weekday": "first MON"}, "weekday", "MON or MON,THU with weeks"),
        ({"calendar_interval": "month", "weekday": "MON"}, "weekday", "first MON or last FRI with months"),
        ({"calendar_interval": "month", "weekday": "fifth MON"}, "weekday", "last FRI"),
        ({"calendar_interval": "day", "weekday": "MON"}, "weekday", "goes with weeks"),
        ({"calendar_interval": "month", "weekday": "first MON", "day": 1}, "weekday", "same as 'day'"),
        ({"calendar_interval": "day", "tz": "Mars/Base"}, "tz", "IANA name"),
        ({"calendar_interval": "day", "dst": "never"}, "dst", "GAP/OVERLAP"),
        ({"every": "90s", "at": "9:00"}, "at", "goes with calendar_interval only"),
        ({"at": "9:00"}, "at", "goes with calendar_interval, which is not given"),
    ],
)
def test_refusals_name_the_field_and_what_is_right(short: dict[str, Any], field: str, right: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        make(**short)
    assert refused.value.field == field
    assert right in refused.value.message


def is_date(plain: Mapping[str, Any], day: date) -> bool:
    """Say whether a date counts, in the plainest way."""
    anchor, number, unit = (
        date.fromisoformat(plain["anchor"]),
        int(plain["every"].split()[0]),
        plain["every"].split()[1],
    )
    if day < anchor:
        return False
    if unit.startswith("day"):
        return (day - anchor).days % number == 0
    if unit.startswith("week"):
        monday, first = day - day.weekday() * DAY, anchor - anchor.weekday() * DAY
        return (monday - first).days // 7 % number == 0 and WEEK[day.weekday()] in plain["weekday"].split(",")
    months = (day.year - anchor.year) * 12 + day.month - anchor.month
    if unit.startswith("month"):
        if months % number:
            return False
    elif (day.year - anchor.year) % number or day.month != plain["month"]:
        return False
    length = calendar.monthrange(day.year, day.month)[1]
    if plain["weekday"] is None:
        return bool(day.day == min(plain["day"], length))
    nth, name = plain["weekday"].split()
    same = [n for n in range(1, length + 1) if WEEK[day.replace(day=n).weekday()] == name]
    return bool(day.day == same[-1 if nth == "last" else NTHS.index(nth)])


def instants_of(plain: Mapping[str, Any], day: date) -> list[datetime]:
    """Return the instants of a date, by what zoneinfo says about its wall time."""
    zone = ZoneInfo(plain["tz"])
    gap, overlap = ("after", "first") if plain["dst"] == "vixie" else plain["dst"].split("/")
    local = datetime.combine(day, time.fromisoformat(plain["at"]), zone)
    first, second = (local.replace(fold=fold).astimezone(UTC) for fold in (0, 1))
    wall = local.replace(tzinfo=None)
    if first.astimezone(zone).replace(tzinfo=None) == wall:
        passes = [first] if first == second else [first, second]
        return {"first": passes[:1], "second": passes[-1:], "both": passes}[overlap]
    if gap == "skip" or first - second >= timedelta(hours=3):
        return []
    low, high = int(second.timestamp()), int(first.timestamp())  # clocks change in between
    before = zone.utcoffset(datetime.fromtimestamp(low, zone))
    while high - low > 1:
        middle = (low + high) // 2
        is_before = zone.utcoffset(datetime.fromtimestamp(middle, zone)) == before
        low, high = (middle, high) if is_before else (low, middle)
    return [datetime.fromtimestamp(high, UTC)]


def model(plain: Mapping[str, Any], start: date, end: date) -> Iterator[datetime]:
    day = start
    while day < end:
        if is_date(plain, day):
            yield from instants_of(plain, day)
        day += DAY


@st.composite
def forms(draw: st.DrawFn) -> dict[str, Any]:
    unit = draw(st.sampled_from(["days", "weeks", "months", "years"]))
    form: dict[str, Any] = {
        "type": "calendar_interval",
        "every": f"{draw(st.integers(1, 5))} {unit}",
        "anchor": draw(st.dates(date(2008, 1, 1), date(2012, 6, 1))).isoformat(),
        "at": draw(
            st.one_of(
                st.times().map(lambda one: f"{one:%H:%M:%S}"), st.sampled_from(["00:00", "00:30", "02:30"])
            )
        ),
        "tz": draw(st.sampled_from(ZONES)),
        "dst": draw(st.sampled_from(["vixie", "after/second", "skip/both", "skip/first"])),
    }
    if unit == "weeks":
        form["weekday"] = ",".join(draw(st.lists(st.sampled_from(WEEK), min_size=1, max_size=3, unique=True)))
    elif unit != "days":
        if draw(st.booleans()):
            form["day"] = draw(st.one_of(st.integers(1, 31), st.sampled_from([29, 30, 31])))
        else:
            form["weekday"] = f"{draw(st.sampled_from(NTHS))} {draw(st.sampled_from(WEEK))}"
        if unit == "years":
            form["month"] = draw(st.integers(1, 12))
    return form


@settings(max_examples=25)
@given(forms())
def test_fires_are_those_of_a_model_that_looks_at_every_day(form: dict[str, Any]) -> None:
    made = read_trigger({"trigger": form}, base=None, old=None, now=NOW)
    assert isinstance(made, CalendarInterval)
    plain = plain_from_spec(spec_of(trigger=form))["trigger"]
    start, end = date(2009, 12, 1), date(2013, 2, 1)
    # Of the days at both ends, the zone decides whether they are within.
    low, high = datetime(2010, 1, 1, tzinfo=UTC), datetime(2013, 1, 1, tzinfo=UTC)
    expected = sorted({at for at in model(plain, start, end) if low < at < high})
    found, at = [], made.next_after(low)
    while at is not None and at < high:
        found.append(at)
        at = made.next_after(at)
    assert found == expected
    back, at = [], made.previous_before(high)
    while at is not None and at > low:
        back.append(at)
        at = made.previous_before(at)
    assert back[::-1] == expected
