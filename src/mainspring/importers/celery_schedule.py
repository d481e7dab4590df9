"""Reads the schedules of Celery's beat, and asks them for their fires."""

from __future__ import annotations

from copy import copy
from datetime import UTC, datetime, timedelta
from typing import Any

from mainspring.errors import InvalidInput
from mainspring.importers.cron_text import HOURS, MINUTES, MONTHS, write_days, write_values
from mainspring.importers.zones import name_zone

_DAY = timedelta(days=1)
_UNITS = (_DAY, timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1))
_SOLAR = "solar events are not cron times: take a fixed time (cron), or submit runs from a task that computes the event"
_LONG = timedelta(hours=3)
_MARGIN = timedelta(hours=2)
_MOST_STEPS = 200


def read_schedule(schedule: Any, now: datetime) -> dict[str, Any]:
    """Return the trigger of a schedule, as fields of a definition.

    Args:
        schedule: one of `celery.schedules`.
        now: the instant at which intervals begin.

    Raises:
        InvalidInput: it is of a kind that Mainspring does not have.
    """
    from celery import schedules

    if isinstance(schedule, schedules.solar):
        raise InvalidInput("schedule", _SOLAR)
    if isinstance(schedule, schedules.crontab):
        return _read_crontab(schedule)
    if type(schedule) is schedules.schedule:
        return _read_interval(schedule, now)
    kind = type(schedule)
    message = (
        f"is a {kind.__module__}.{kind.__qualname__}; only crontab, schedule and timedelta can be imported"
    )
    raise InvalidInput("schedule", message)


def ask_fires(schedule: Any, now: datetime, count: int) -> tuple[datetime, ...]:
    """Return the next fires after an instant, as beat finds them when it looks in time.

    Beat sleeps for as long as the schedule says, but reckons by the wall, so it may oversleep where clocks change.
    Here it wakes some hours before, as the real one does at least every five minutes.
    """
    one = copy(schedule)
    fires: list[datetime] = []
    last = at = now.astimezone(schedule.tz)
    one.nowfun = lambda: at  # the loop moves it on
    while len(fires) < count:
        for _ in range(_MOST_STEPS):
            rest = one.remaining_estimate(last)
            if rest <= timedelta(0):
                break
            at = (at.astimezone(UTC) + (rest if rest < _LONG else rest - _MARGIN)).astimezone(schedule.tz)
        else:
            break
        if at == last:
            break
        fires.append(at.astimezone(UTC))
        last = at
    return tuple(fires)


def _read_crontab(schedule: Any) -> dict[str, Any]:
    day, weekday = write_days(schedule.day_of_month, schedule.day_of_week, wants_both=True)
    minute, hour = write_values(schedule.minute, MINUTES), write_values(schedule.hour, HOURS)
    month = write_values(schedule.month_of_year, MONTHS)
    return {"cron": f"{minute} {hour} {day} {month} {weekday}", "tz": name_zone(schedule.tz)}


def _read_interval(schedule: Any, now: datetime) -> dict[str, Any]:
    every: timedelta = schedule.run_every
    if not schedule.relative:
        return {"every": every.total_seconds()}
    fires = ask_fires(schedule, now, 1)
    if not fires:
        raise InvalidInput("schedule", "never fires")
    unit = next((unit for unit in _UNITS if unit <= every), _UNITS[-1])
    every = max(every // unit, 1) * unit  # a relative schedule rounds each fire down to its largest unit
    if unit == _DAY:  # to midnight, also when clocks have changed
        first = fires[0].astimezone(schedule.tz).date().isoformat()
        days = "1 day" if every == _DAY else f"{every // _DAY} days"
        full = {
            "type": "calendar_interval",
            "every": days,
            "at": "00:00",
            "tz": name_zone(schedule.tz),
            "anchor": first,
        }
        return {"trigger": full}
    anchor = (fires[0] - every).isoformat()
    return {"trigger": {"type": "interval", "every_seconds": every.total_seconds(), "anchor": anchor}}
