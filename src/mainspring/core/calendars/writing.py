"""Decides what a write of a calendar keeps: its new version, and those of the calendars that follow it.

The calendars that a version names without a number are bound to their newest versions as it is written. So a version
never changes. When a named calendar gets a new version, those that name it get one, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from mainspring.core.calendars.resolved import CalendarVersion
from mainspring.core.calendars.spec import CalendarSpec
from mainspring.errors import InvalidInput

DEEPEST = 8
"""Calendars that lie one in the other, at most."""
Versions = Mapping[tuple[str, int], CalendarVersion]
"""Versions of calendars of one tenant, by name and number."""


def plan_write(
    *,
    tenant: str,
    name: str,
    spec: CalendarSpec,
    newest: Mapping[str, CalendarVersion],
    last: int,
    known: Versions,
    now: datetime,
) -> list[CalendarVersion]:
    """Return the versions to keep, the calendar's own first; empty if it has this definition already.

    Args:
        newest: the newest version of every calendar of the tenant that is not deleted.
        last: the number of the calendar's last version, even if it was deleted; 0 for none.
        known: every version that these and the new one reach, by name and number.

    Raises:
        InvalidInput: it names a calendar that does not exist, or itself, or calendars lie too deep in each other.
    """
    resolved = _resolve_names(spec, newest, known)
    old = newest.get(name)
    if old is not None and old.spec == spec and old.resolved == resolved:
        return []
    written = {name: CalendarVersion(tenant, name, last + 1, spec, resolved, now)}
    _check_cycle(name, written[name], known)
    _follow(written, newest, now)
    reach = {**known, **{(one.name, one.version): one for one in written.values()}}
    for one in written.values():
        if (depth := _depth(one, reach)) > DEEPEST:
            whose = "the calendar" if one.name == name else f"the calendar {one.name!r}, which names it,"
            raise InvalidInput("rules", f"{whose} would lie {depth} calendars deep; at most {DEEPEST} may")
    return list(written.values())


def _resolve_names(
    spec: CalendarSpec, newest: Mapping[str, CalendarVersion], known: Versions
) -> dict[str, int]:
    resolved: dict[str, int] = {}
    for number, rule in enumerate(spec.rules):
        for form, refs in (("union", rule.union), ("intersect", rule.intersect), ("minus", rule.minus)):
            for index, ref in enumerate(refs):
                path = f"rules[{number}].{form}[{index}]"
                if ref.version is not None:
                    if (ref.name, ref.version) not in known:
                        raise InvalidInput(path, f"there is no calendar {str(ref)!r}; create it first")
                elif ref.name not in newest:
                    raise InvalidInput(path, f"there is no calendar named {ref.name!r}; create it first")
                else:
                    resolved[ref.name] = newest[ref.name].version
    return resolved


def _check_cycle(name: str, new: CalendarVersion, known: Versions) -> None:
    """Refuse a calendar that reaches itself, in whatever version."""
    waiting = [(key, [name]) for key in new.named()]
    seen: set[tuple[str, int]] = set()
    while waiting:
        key, way = waiting.pop()
        if key[0] == name:
            raise InvalidInput("rules", f"name the calendar itself: {' names '.join([*way, name])}")
        if key not in seen:
            seen.add(key)
            waiting += ((following, [*way, key[0]]) for following in known[key].named())


def _follow(
    written: dict[str, CalendarVersion], newest: Mapping[str, CalendarVersion], now: datetime
) -> None:
    """Add a version of every calendar that names a changed one without a number, and of those that name these."""
    waiting = list(written)
    while waiting:
        changed = waiting.pop(0)
        for one in newest.values():
            if changed not in one.resolved:
                continue
            before = written.get(one.name)
            base = before or replace(one, version=one.version + 1, created_at=now)
            resolved = {**base.resolved, changed: written[changed].version}
            written[one.name] = replace(base, resolved=resolved)
            if before is None:
                waiting.append(one.name)


def _depth(
    version: CalendarVersion, known: Versions, counted: dict[tuple[str, int], int] | None = None
) -> int:
    """Return how many calendars lie in each other, this one included."""
    counted = {} if counted is None else counted
    key = (version.name, version.version)
    if key not in counted:
        counted[key] = 1 + max((_depth(known[each], known, counted) for each in version.named()), default=0)
    return counted[key]
