"""Makes the definition of a calendar from the events of a file."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from typing import Any

from mainspring.core.calendars.sets import Span, merge_spans, wall_date
from mainspring.core.calendars.spec import MOST_NOTE, MOST_RULES
from mainspring.core.calendars.walls import DAY
from mainspring.core.cron import CronError
from mainspring.core.cron.zones import Zone, load_zone
from mainspring.errors import InvalidInput
from mainspring.importers.ics import IcsCalendar
from mainspring.importers.ics.events import EventTimes, IcsEvent, Key, read_event
from mainspring.importers.ics.expansion import ExpansionSteps
from mainspring.importers.ics.lines import IcsLine, IcsLines, read_lines
from mainspring.importers.ics.values import IcsValues, find_zone

YEARS_AHEAD = 10
"""Events recur to the end of the year that comes so many years after this one."""
_LATEST = 100
_BEGIN = datetime(1970, 1, 1)  # noqa: DTZ001 - wall time
_ESCAPED = re.compile(r"\\([\\;,nN])")


def read(data: bytes, *, tz: str | None, now: datetime, most_days: int) -> IcsCalendar:
    """Read a file. `read_ics` says more."""
    found = read_lines(data)
    _check_headers(found)
    home = _home(found, tz)
    values = IcsValues(home, date(now.year + _LATEST, 12, 31))
    last = date(now.year + YEARS_AHEAD, 12, 31)
    times = EventTimes(values, last, ExpansionSteps())
    spans, left_out = _collect([read_event(each, values) for each in found.events], times, most_days)
    rules = _rules(spans)
    if not rules:
        raise InvalidInput("line 1: BEGIN", "the file has no event that holds any time since 1970")
    return IcsCalendar(
        body={"tz": home.key, "rules": rules},
        events=len(found.events),
        left_out=left_out,
        expanded_to=last if times.is_cut else None,
    )


def _check_headers(found: IcsLines) -> None:
    scale, method = found.headers.get("CALSCALE"), found.headers.get("METHOD")
    if scale is not None and scale.value.upper() != "GREGORIAN":
        scale.refuse("must be GREGORIAN")
    if method is not None and method.value.upper() == "CANCEL":
        method.refuse("says that the events are cancelled; export the calendar instead")


def _home(found: IcsLines, tz: str | None) -> Zone:
    """Return the calendar's zone."""
    named = found.headers.get("X-WR-TIMEZONE")
    if tz is None and named is not None:
        zone = find_zone(named.value)
        if zone is None:
            named.refuse(
                f"the zone {named.value[:80]!r} is not known; give tz an IANA name like Europe/Berlin"
            )
        return zone
    try:
        return load_zone("UTC" if tz is None else tz)
    except CronError as error:
        raise InvalidInput("tz", error.message) from None


def _collect(
    events: Iterable[IcsEvent], times: EventTimes, most_days: int
) -> tuple[dict[str, list[Span]], int]:
    """Return the times of all events by their notes, and how many events have none."""
    by_uid: defaultdict[object, list[IcsEvent]] = defaultdict(list)
    for event in events:
        uid = event.lines.get("UID")
        by_uid[event.lines.begin.number if uid is None else uid.value].append(event)
    spans: defaultdict[str, list[Span]] = defaultdict(list)
    left_out = days = 0
    for group in by_uid.values():
        kept, without = _current(group, times)
        left_out += len(group) - len(kept)
        for event in kept:
            is_empty = True
            for low, high in times.spans(event, frozenset() if _override(event) else without):
                is_empty = False
                days += (high - 1) // DAY - low // DAY + 1
                if days > most_days:
                    event.at_start.refuse(
                        f"with this event, the file has more than {most_days:,} dates; export fewer years"
                    )
                spans[_note(event)].append((low, high))
            left_out += is_empty
    return spans, left_out


def _current(group: list[IcsEvent], times: EventTimes) -> tuple[list[IcsEvent], frozenset[Key]]:
    """Return the events of one UID that hold, and the times that some of them take from the others.

    Of several versions of the same event, the one with the highest SEQUENCE holds.
    """
    bases = [event for event in group if _override(event) is None]
    newest = max((_sequence(event) for event in bases), default=0)
    bases = [event for event in bases if _sequence(event) == newest]
    overrides: dict[Key, IcsEvent] = {}
    for event in group:
        line = _override(event)
        if line is None:
            continue
        if "RANGE" in line.params:
            line.refuse("RANGE is not supported; export the calendar with the later events on their own")
        if event.rules:
            event.rules[0].line.refuse("does not go with RECURRENCE-ID, which is for a single time")
        key = times.key(bases[0] if bases else event, line, line.value)
        if key not in overrides or _sequence(overrides[key]) <= _sequence(event):
            overrides[key] = event
    kept = [event for event in (*bases, *overrides.values()) if not event.is_cancelled]
    return kept, frozenset(overrides)


def _override(event: IcsEvent) -> IcsLine | None:
    return event.lines.get("RECURRENCE-ID")


def _sequence(event: IcsEvent) -> int:
    line = event.lines.get("SEQUENCE")
    if line is None:
        return 0
    if not (line.value.isascii() and line.value.isdigit() and len(line.value) <= 9):
        line.refuse(f"must be a whole number, not {line.value[:60]!r}")
    return int(line.value)


def _note(event: IcsEvent) -> str:
    """Return an event's summary as a note; empty if it has none."""
    line = event.lines.get("SUMMARY")
    if line is None:
        return ""
    text = _ESCAPED.sub(lambda match: " " if match[1] in "nN" else match[1], line.value[: 4 * MOST_NOTE])
    words = " ".join(text.split())
    return "".join(letter for letter in words if letter.isprintable())[:MOST_NOTE].strip()


def _rules(spans: dict[str, list[Span]]) -> list[dict[str, Any]]:
    """Return rules, in the order of time. EventTimes of one note that touch become one rule."""
    merged = sorted((low, high, note) for note, each in spans.items() for low, high in merge_spans(each))
    if len(merged) > MOST_RULES:
        raise InvalidInput(
            "line 1: BEGIN", f"the file makes more than {MOST_RULES:,} rules; export fewer years"
        )
    return [{**_rule(low, high), **({"note": note} if note else {})} for low, high, note in merged]


def _rule(low: int, high: int) -> dict[str, str]:
    if low % DAY or high % DAY:
        return {"from": _wall(low), "to": _wall(high)}
    first, last = wall_date(low).isoformat(), wall_date(high - DAY).isoformat()
    return {"date": first} if first == last else {"from": first, "to": last}


def _wall(wall: int) -> str:
    return (_BEGIN + timedelta(seconds=wall)).isoformat(timespec="seconds")
