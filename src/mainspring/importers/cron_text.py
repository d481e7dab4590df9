"""Writes cron expressions from sets of values, so that tools that read the same text differently fire alike."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mainspring.errors import InvalidInput

MINUTES, HOURS, DAYS, MONTHS, WEEKDAYS = range(60), range(24), range(1, 32), range(1, 13), range(7)
_NAMES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_WEEKS = [frozenset(range(first, first + 7)) for first in (1, 8, 15, 22)]


def write_values(values: Collection[int], full: range) -> str:
    """Return one field that stands for a set of values: `*`, `*/15`, `1-5`, `3,7`."""
    wanted = sorted(set(values))
    if wanted == list(full):
        return "*"
    for step in range(2, len(full) // 2):
        if len(wanted) > 2 and wanted == list(full[::step]):
            return f"*/{step}"
    return ",".join(_ranges(wanted))


def write_days(days: Collection[int], weekdays: Collection[int], *, wants_both: bool) -> tuple[str, str]:
    """Return the fields day of month and day of week.

    Args:
        days: 1 to 31; all of them are no condition.
        weekdays: 0 to 6, Sunday is 0; all of them are no condition.
        wants_both: where both are restricted, a date must be in both; otherwise one of them is enough.

    Raises:
        InvalidInput: both must match, and no expression says so.
    """
    day_text, weekday_text = write_values(days, DAYS), _write_weekdays(weekdays)
    if "*" in {day_text, weekday_text}:
        return day_text, weekday_text
    if not wants_both:  # a leading * would mean both
        return ",".join(_ranges(sorted(set(days)))), weekday_text
    if day_text.startswith("*"):
        return day_text, weekday_text
    weeks = [number for number, week in enumerate(_WEEKS, start=1) if week <= set(days)]
    if set().union(*(_WEEKS[number - 1] for number in weeks)) == set(days):
        names = [_NAMES[each] for each in sorted(set(weekdays))]
        return "*", ",".join(f"{name}#{number}" for number in weeks for name in names)
    if 1 in days:
        return ",".join(["*/31", *_ranges(sorted(set(days) - {1}))]), weekday_text
    if 0 in weekdays:
        rest = sorted(set(weekdays) - {0})
        return day_text, ",".join(["*/7", *(_NAMES[each] for each in rest)])
    message = (
        f"fires only on {weekday_text} that are day {day_text} of the month, which cron cannot say: "
        "give the job one of the two, and the other as a calendar (docs/howto/skip-holidays.md)"
    )
    raise InvalidInput("day_of_week", message)


def _write_weekdays(weekdays: Collection[int]) -> str:
    wanted = sorted(set(weekdays))
    if len(wanted) == len(WEEKDAYS):
        return "*"
    if wanted == [1, 2, 3, 4, 5]:
        return "MON-FRI"
    return ",".join(_NAMES[each] for each in wanted)


def _ranges(values: Sequence[int]) -> list[str]:
    """Return numbers, and runs of three or more as ranges."""
    parts: list[str] = []
    at = 0
    while at < len(values):
        end = at
        while end + 1 < len(values) and values[end + 1] == values[end] + 1:
            end += 1
        if end - at >= 2:
            parts.append(f"{values[at]}-{values[end]}")
        else:
            parts += [str(value) for value in values[at : end + 1]]
        at = end + 1
    return parts
