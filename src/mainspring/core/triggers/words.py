"""Triggers in plain English, and what about them may surprise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from mainspring.core.cron import Cron
from mainspring.core.cron.explain import MONTH_NAMES
from mainspring.core.cron.surprises import find_surprises
from mainspring.core.cron.walk import MetChange
from mainspring.core.fields import show
from mainspring.core.times import from_seconds
from mainspring.core.triggers.after_end import AfterEnd
from mainspring.core.triggers.at_start import AtStart
from mainspring.core.triggers.base import Trigger, UnknownTrigger
from mainspring.core.triggers.calendar_interval import CalendarInterval
from mainspring.core.triggers.composed import AnyOf, Windowed, parts_of
from mainspring.core.triggers.interval import Interval
from mainspring.core.triggers.moments import Moment, is_plain_instant, read_moment_or_delay
from mainspring.core.triggers.on_event import OnEvent
from mainspring.core.triggers.once import Once
from mainspring.core.triggers.registry import type_of
from mainspring.core.triggers.wall_kinds import WEEK, nth_name
from mainspring.errors import InvalidInput

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OF_WALL_CLOCKS = (Cron, CalendarInterval)
_WITHOUT_RULE = (AtStart, OnEvent, UnknownTrigger)
_AHEAD = timedelta(days=370)
"""How far ahead clock changes are looked for, and how rare a cron expression may be: a year, and some days."""
_DAYS = {
    "MON": "Monday",
    "TUE": "Tuesday",
    "WED": "Wednesday",
    "THU": "Thursday",
    "FRI": "Friday",
    "SAT": "Saturday",
    "SUN": "Sunday",
}


def explain_trigger(trigger: Trigger | None) -> str:
    """Say when a trigger fires, without a full stop: `at 09:00, on Monday through Friday (Europe/Berlin)`."""
    if trigger is None:
        return "only when submitted"
    if isinstance(trigger, Once):
        return f"once, at {_instant(trigger.at)}"
    if isinstance(trigger, Windowed):
        bounds = (("from", trigger.starts_at), ("until", trigger.ends_at))
        ends = "".join(f", {word} {_instant(at)}" for word, at in bounds if at is not None)
        return f"{explain_trigger(trigger.raw)}{ends}"
    if isinstance(trigger, AnyOf):
        return "; or ".join(explain_trigger(one) for one in trigger.triggers)
    if isinstance(trigger, Cron):
        return _explain_cron(trigger)
    if isinstance(trigger, Interval):
        return f"every {show(trigger.every)}, counted from {_instant(trigger.anchor)}"
    if isinstance(trigger, CalendarInterval):
        return _explain_calendar(trigger)
    if isinstance(trigger, AfterEnd):
        return f"{show(trigger.delay)} after the end of the run before"
    if isinstance(trigger, AtStart):
        return "once at each start of the scheduler"
    if isinstance(trigger, OnEvent):
        fitting = "" if trigger.pattern is None else " that fits its pattern"
        return f"with each event of the topic {trigger.topic}{fitting}"
    kind = type_of(trigger)
    if kind is None or isinstance(trigger, UnknownTrigger):
        return "by a trigger of a type that is not known here"
    return kind.tell(kind.store(trigger))


def tell_count(max_fires: int | None) -> str:
    """Say how often a job fires, to follow on when it does; empty if it has no maximum."""
    if max_fires is None:
        return ""
    return ", once" if max_fires == 1 else f", {max_fires:,} times"


def explain_no_fires(plain: Mapping[str, Any] | None, otherwise: str) -> str:
    """Say why a preview of a trigger, given in full form, shows no fires: `otherwise`, if there will be none."""
    if plain is None:
        return "it has no trigger, and runs only when it is submitted"
    if plain["type"] in {"at_start", "event"}:
        return "when that is next, is not known beforehand"
    if plain["type"] == "after_end":
        return "at once when the job is made, or at starts_at; then at the delay after the end of each run"
    return otherwise


def explain_wait(plain: Mapping[str, Any], run: str, state: str) -> str:
    """Say which run the next fire of a trigger, given in full form, waits for."""
    return f"next: {show(from_seconds(plain['delay_seconds']))} after the end of {run}, which is {state}"


@lru_cache(maxsize=1024)
def _explain_cron(trigger: Cron) -> str:
    return trigger.explain() if trigger.tz != "UTC" else f"{trigger.explain()} (UTC)"


def _explain_calendar(trigger: CalendarInterval) -> str:
    count, unit = trigger.every
    often = f"every {unit}" if count == 1 else f"every {trigger.every}"
    days = ""
    if trigger.weekday is not None:
        names = " and ".join(_DAYS[WEEK[day]] for day in trigger.weekday.days)
        days = (
            f" on {names}"
            if trigger.weekday.nth is None
            else f" on the {nth_name(trigger.weekday.nth)} {names}"
        )
    elif trigger.day is not None:
        days = " on the last day" if trigger.day == 31 else f" on day {trigger.day}"
        if 28 < trigger.day < 31:
            days += ", or the last day"
    month = "" if trigger.month is None else f" of {MONTH_NAMES[trigger.month - 1]}"
    at = trigger.at.isoformat() if trigger.at.second else trigger.at.isoformat("minutes")
    counted = "" if count == 1 else f", counted from {trigger.anchor.isoformat()}"
    return f"{often}{days}{month}, at {at} ({trigger.tz}){counted}"


def _instant(at: datetime) -> str:
    return at.isoformat(sep=" ", timespec="seconds").replace("+00:00", " UTC")


def warn_of_trigger(trigger: Trigger | None, *, now: datetime) -> list[str]:
    """Return what may surprise in a trigger, as sentences without a full stop."""
    if trigger is None:
        return []
    found: list[str] = []
    for part in parts_of(trigger):
        if isinstance(part, _OF_WALL_CLOCKS):
            day = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
            found += _warn_of_part(part, day)
    if _is_over(trigger, now):
        last = trigger.previous_before(now)
        when = "" if last is None else f"; it did last at {_instant(last)}"
        found.append(f"it does not fire any more{when}")
    return list(dict.fromkeys(found))


def _is_over(trigger: Trigger, now: datetime) -> bool:
    """Say whether it is known that a trigger does not fire any more."""
    raw, ends_at = (trigger.raw, trigger.ends_at) if isinstance(trigger, Windowed) else (trigger, None)
    if isinstance(raw, AfterEnd):
        return ends_at is not None and ends_at < now
    return not isinstance(raw, _WITHOUT_RULE) and trigger.next_after(now) is None


@lru_cache(maxsize=1024)
def _warn_of_part(part: Cron | CalendarInterval, day: datetime) -> tuple[str, ...]:
    found: list[str] = []
    if isinstance(part, Cron):
        found += [*part.warnings, *find_surprises(part.schedule), *_rare(part, day)]
    changes: dict[bool, MetChange] = {}
    for change in part.met_changes(day, day + _AHEAD):
        changes.setdefault(change.is_gap, change)
    return (*found, *(_tell_change(change, part) for change in changes.values()))


def warn_of_moment(body: Mapping[str, Any]) -> list[str]:
    """Return what clocks that change make of the local time that `run_at` of a body gives."""
    full = body.get("trigger")
    value = full.get("at") if isinstance(full, Mapping) else body.get("run_at", body.get("schedule"))
    if not isinstance(value, str) or is_plain_instant(value):
        return []
    try:
        moment = read_moment_or_delay(value, "run_at")
    except InvalidInput:
        return []
    return [moment.note] if isinstance(moment, Moment) and moment.note is not None else []


def _rare(cron: Cron, now: datetime) -> Iterator[str]:
    first = cron.next_after(now)
    following = None if first is None else cron.next_after(first)
    if first is None or (following is not None and following - first <= _AHEAD):
        return
    then = "never again within a hundred years" if following is None else f"then on {following:%Y-%m-%d}"
    yield f"it fires rarer than once a year: on {first:%Y-%m-%d}, {then}"


def _tell_change(change: MetChange, trigger: Cron | CalendarInterval) -> str:
    day = _wall(change.wall)
    if not change.is_gap:
        times = " and ".join(f"{_wall(at):%H:%M} UTC" for at in change.fires)
        number = "both times" if len(change.fires) > 1 else "once"
        return (
            f"on {day:%Y-%m-%d}, clocks in {trigger.tz} go back, and {day:%H:%M} comes twice; "
            f"it fires {number}, at {times}"
        )
    then = f"it fires at {_wall(change.after):%H:%M} instead" if change.fires else "it does not fire then"
    return f"on {day:%Y-%m-%d}, clocks in {trigger.tz} go ahead, and there is no {day:%H:%M}; {then}"


def _wall(seconds: int) -> datetime:
    return _EPOCH + timedelta(seconds=seconds)
