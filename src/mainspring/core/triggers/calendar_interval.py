"""Calendar interval: every so many days, weeks, months or years, at a wall time in a zone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date, datetime, time
from functools import lru_cache
from typing import Any, ClassVar

from mainspring.core.cron.fields import CronError
from mainspring.core.cron.walk import MetChange, Walker, floor_epoch, read_dst
from mainspring.core.cron.zones import load_zone
from mainspring.core.options import Option, Options, Path
from mainspring.core.triggers.base import Trigger, TriggerType
from mainspring.core.triggers.periods import PeriodDates
from mainspring.core.triggers.wall_kinds import (
    DST,
    TZ,
    CalendarDate,
    CalendarPeriod,
    DayOfMonth,
    MonthOfYear,
    Period,
    TimeOfDay,
    WeekdayNames,
    Weekdays,
)
from mainspring.core.values import value
from mainspring.errors import InvalidInput

_MIDNIGHT = time(0)
_PROVISIONAL = date(1970, 1, 1)


@value()
class CalendarInterval:
    """Fires at a wall time on dates that are counted from an anchor, so that it does not drift.

    Attributes:
        every: how many days, weeks, months or years lie between its dates.
        at: the time of day.
        day: with months and years: the day of the month; in a shorter month its last day.
        month: with years: the month.
        weekday: with weeks: the days of the week. With months and years, instead of `day`: which weekday of the month.
        dst: what becomes of `at` when clocks change, as for cron.
        anchor: a date in a period that counts. Nothing fires before it.
    """

    every: Period
    at: time
    day: int | None
    month: int | None
    weekday: Weekdays | None
    tz: str
    dst: str
    anchor: date

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first fire strictly after the instant."""
        return _walker(self).fire_after(instant)

    def previous_before(self, instant: datetime) -> datetime | None:
        """Return the last fire strictly before the instant."""
        return _walker(self).fire_before(instant)

    def met_changes(self, start: datetime, end: datetime) -> Iterator[MetChange]:
        """Yield the clock changes from `start` to `end` that skip or repeat one of its times."""
        return _walker(self).met_changes(floor_epoch(start), floor_epoch(end))

    def reaching_back(self) -> CalendarInterval:
        """Return one that fires alike, but from 1970 on."""
        return replace(self, anchor=_dates(self).earlier_anchor())


def _dates(interval: CalendarInterval) -> PeriodDates:
    days, nth = interval.weekday or Weekdays(())
    return PeriodDates(
        unit=interval.every.unit,
        count=interval.every.number,
        second=interval.at.hour * 3600 + interval.at.minute * 60 + interval.at.second,
        anchor=interval.anchor,
        day=interval.day or 1,
        month=interval.month or 1,
        weekdays=days if nth is None else (),
        nth_weekday=None if nth is None else (nth, days[0]),
    )


@lru_cache(maxsize=4096)
def _walker(interval: CalendarInterval) -> Walker:
    is_gap_fired, passes = read_dst(interval.dst)
    return Walker(_dates(interval), load_zone(interval.tz), is_gap_fired=is_gap_fired, passes=passes)


class CalendarIntervalType(TriggerType):
    """`calendar_interval`, with `at`, `day`, `month`, `weekday`, `tz` and `dst`."""

    name = "calendar_interval"
    is_own = True
    summary = "Fires every so many days, weeks, months or years, at a time of day in a zone."
    value = CalendarInterval
    options: ClassVar[Options] = Options(
        Option(
            name="every",
            kind=CalendarPeriod(),
            summary="Fire every so many days, weeks, months or years.",
            example="3 months",
        ),
        Option(
            name="at",
            kind=TimeOfDay(),
            summary="The time of day at which a calendar interval fires.",
            default=_MIDNIGHT,
            example="09:00",
        ),
        Option(
            name="day",
            kind=DayOfMonth(),
            summary="With months and years: the day of the month.",
            detail="In a month that is too short, it is the last day, so 31 is the last day of every month. "
            "By default the day of the anchor that you give, or 1.",
            default=None,
            is_nullable=True,
            example=15,
        ),
        Option(
            name="month",
            kind=MonthOfYear(),
            summary="With years: the month.",
            detail="By default that of the anchor that you give, or January.",
            default=None,
            is_nullable=True,
            example="MAR",
        ),
        Option(
            name="weekday",
            kind=WeekdayNames(),
            summary="With weeks: the days of the week. With months and years: which weekday of the month.",
            detail="By default, with weeks, that of the anchor that you give, or Monday.",
            default=None,
            is_nullable=True,
            example="last FRI",
        ),
        TZ,
        DST,
        Option(
            name="anchor",
            kind=CalendarDate(),
            summary="A date in a period that counts; nothing fires before it.",
            detail="By default that of the first fire that is possible after the job was created.",
            default=None,
            is_nullable=True,
            example="2026-01-15",
        ),
    )
    short: ClassVar[Mapping[str, str]] = {
        "calendar_interval": "every",
        "at": "at",
        "day": "day",
        "month": "month",
        "weekday": "weekday",
        "tz": "tz",
        "dst": "dst",
    }

    def read_short(self, body: Mapping[str, Any], base: object = None) -> dict[str, Any]:
        """Return the values of the short form; those of `base` that a body does not name stay, where they still fit."""
        if not isinstance(base, CalendarInterval):
            return super().read_short(body)
        read = super().read_short({"calendar_interval": str(base.every), **body})
        kept = {"at", "tz", "dst"}
        if read["every"] == base.every:
            kept.add("anchor")
        if read["every"].unit == base.every.unit:
            kept |= {"month"} if {"day", "weekday"} & body.keys() else {"day", "month", "weekday"}
        return read | {name: getattr(base, name) for name in kept if name not in body}

    def make(
        self, values: Mapping[str, Any], path: Path, *, now: datetime, old: Trigger | None
    ) -> CalendarInterval:
        """Make a trigger. Without an anchor, one that is otherwise the same keeps its own."""
        try:
            load_zone(values["tz"])
            read_dst(values["dst"])
        except CronError as error:
            raise InvalidInput(path(error.field), error.message) from error
        made = self.value(**_complete(values, path))
        if values["anchor"] is not None:
            if made.next_after(now) is None:
                raise InvalidInput(path("anchor"), "lies so far ahead that the job would never fire")
            return made
        if isinstance(old, CalendarInterval) and replace(made, anchor=old.anchor) == old:
            return old
        first = replace(made, every=Period(1, made.every.unit)).next_after(now)
        if first is None:
            raise InvalidInput(path("every"), "never fires any more")
        return replace(made, anchor=_local_date(first, made))

    def tell(self, plain: Mapping[str, Any]) -> str:
        """Name the period, the day and the time, and the zone where it is not UTC."""
        parts = [f"every {plain['every']}"]
        if plain["weekday"] is not None:
            parts.append(f"on {plain['weekday']}")
        if plain["day"] is not None:
            parts.append("on the last day" if plain["day"] == 31 else f"on day {plain['day']}")
        if plain["month"] is not None:
            parts.append(f"of month {plain['month']}")
        zone = "" if plain["tz"] == "UTC" else f" ({plain['tz']})"
        return f"{' '.join(parts)} at {plain['at']}{zone}"


def _local_date(fire: datetime, interval: CalendarInterval) -> date:
    """Return the date in an interval's zone on which a fire was meant: a gap may have moved it, but not by a day."""
    epoch = int(fire.timestamp())
    segment = load_zone(interval.tz).segment(epoch)
    wall = epoch + segment.offset
    meant = _dates(replace(interval, every=Period(1, interval.every.unit))).at_or_before(wall)
    assert meant is not None
    return date.fromordinal(meant // 86_400 + _PROVISIONAL.toordinal())


def _complete(values: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return the values of a trigger, with the days that are not given; refuse those that do not go together."""
    unit = values["every"].unit
    day, month, weekday, anchor = (values[name] for name in ("day", "month", "weekday", "anchor"))
    if day is not None and unit not in {"month", "year"}:
        raise InvalidInput(path("day"), "goes with months and years; a week's days are given as weekday")
    if month is not None and unit != "year":
        raise InvalidInput(path("month"), "goes with years only")
    if weekday is not None:
        if unit == "day":
            raise InvalidInput(path("weekday"), "goes with weeks, months and years; every day is any weekday")
        if (unit == "week") != (weekday.nth is None):
            right = "MON or MON,THU" if unit == "week" else "first MON or last FRI"
            raise InvalidInput(path("weekday"), f"must be like {right} with {unit}s, not '{weekday}'")
        if day is not None:
            raise InvalidInput(path("weekday"), f"says the same as {path('day')!r}; give one of them")
    elif unit == "week":
        weekday = Weekdays((anchor.weekday() if anchor is not None else 0,))
    elif unit != "day" and day is None:
        day = anchor.day if anchor is not None else 1
    if unit == "year" and month is None:
        month = anchor.month if anchor is not None else 1
    return {
        **values,
        "day": day,
        "month": month,
        "weekday": weekday,
        "anchor": anchor if anchor is not None else _PROVISIONAL,
    }
