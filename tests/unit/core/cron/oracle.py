"""Rule V by brute force, without the engine: look at every instant of a window and ask what the wall shows."""

from __future__ import annotations

import calendar
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from zoneinfo import ZoneInfo

MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
THREE_HOURS = timedelta(hours=3)


def number(text: str, names: list[str], low: int) -> int:
    return names.index(text.upper()) + low if text.upper() in names else int(text)


def values(text: str, low: int, high: int, names: list[str] | None = None) -> set[int]:
    """Expand lists, ranges and steps; what is neither (L, W, #) is left out."""
    found: set[int] = set()
    for item in text.split(","):
        body, _, step = item.partition("/")
        upper = body.upper().replace("JUL", "")
        if "#" in body or upper.endswith(("L", "W")) or upper.startswith("L"):
            continue
        if body in {"*", "?"}:
            first, last = low, high
        elif "-" in body:
            left, right = body.split("-")
            first, last = number(left, names or [], low), number(right, names or [], low)
            last = 7 if names is DAYS and right.upper() == "SUN" and first > 0 else last
        else:
            first = number(body, names or [], low)
            last = high if step else first
        found |= set(range(first, last + 1, int(step or 1)))
    return found


def is_day_of_month(text: str, day: date) -> bool:
    length = calendar.monthrange(day.year, day.month)[1]
    if day.day in values(text, 1, 31):
        return True
    for item in text.upper().split(","):
        if item == "L" and day.day == length:
            return True
        if item.startswith("L-") and day.day == length - int(item[2:]):
            return True
        target = length if item == "LW" else int(item[:-1]) if item.endswith("W") else 99
        if target <= length and day == nearest_weekday(day.replace(day=target)):
            return True
    return False


def nearest_weekday(day: date) -> date:
    """Of the month's Mondays to Fridays take the one that is least far away."""
    length = calendar.monthrange(day.year, day.month)[1]
    month = [day.replace(day=number) for number in range(1, length + 1)]
    return min((other for other in month if other.weekday() < 5), key=lambda other: abs(other - day))


def is_day_of_week(text: str, day: date) -> bool:
    weekday = day.isoweekday() % 7
    if weekday in {value % 7 for value in values(text, 0, 7, DAYS)}:
        return True
    length = calendar.monthrange(day.year, day.month)[1]
    for item in text.upper().split(","):
        name, has_hash, nth = item.partition("#")
        if not has_hash and item.endswith("L"):
            name, has_hash, nth = item[:-1], "#", "L"
        if has_hash and number(name, DAYS, 0) % 7 == weekday:
            if nth == "L" and day.day + 7 > length:
                return True
            if nth != "L" and (day.day - 1) // 7 + 1 == int(nth):
                return True
    return False


def is_day(fields: list[str], day: date) -> bool:
    month_day, month, weekday = fields
    if day.month not in values(month, 1, 12, MONTHS):
        return False
    by_day, by_weekday = is_day_of_month(month_day, day), is_day_of_week(weekday, day)
    if month_day[0] in "*?" or weekday[0] in "*?":
        return by_day and by_weekday
    return by_day or by_weekday


@dataclass(frozen=True)
class Look:
    """An instant, what the wall shows then, and which pass of that wall time it is (0: the only one)."""

    at: datetime
    wall: datetime
    which: int


class Window:
    """All instants of [start, end), `step` seconds apart, in a zone; its gaps as (instant, missed wall times)."""

    def __init__(self, tz: str, start: datetime, end: datetime, step: int = 60) -> None:
        zone = ZoneInfo(tz)
        pace = timedelta(seconds=step)
        self.start, self.end, self.step = start, end, step
        self.looks: list[Look] = []
        self.gaps: list[tuple[datetime, list[datetime]]] = []
        at = start
        while at < end:
            local = at.astimezone(zone)
            wall = local.replace(tzinfo=None, fold=0)
            passes = {local.replace(fold=fold).astimezone(UTC) for fold in (0, 1)}
            which = 0 if len(passes) == 1 else sorted(passes).index(at) + 1
            if self.looks and wall - self.looks[-1].wall > pace:
                first = self.looks[-1].wall + pace
                missed = [first + pace * index for index in range((wall - first) // pace)]
                self.gaps.append((at, missed))
            self.looks.append(Look(at, wall, which))
            at += pace
        self.by_time: dict[time, list[Look]] = {}
        for look in self.looks:
            self.by_time.setdefault(look.wall.time(), []).append(look)

    def fires(self, expression: str, dst: str = "after/first") -> list[datetime]:
        fields = expression.split()
        fields = fields if len(fields) == 6 else ["0", *fields]
        minutes, hours = values(fields[1], 0, 59), values(fields[2], 0, 23)
        seconds = values(fields[0], 0, 59)
        day_matches = cache(lambda day: is_day(fields[3:], day))

        def is_match(wall: datetime) -> bool:
            is_time = wall.minute in minutes and wall.hour in hours and wall.second in seconds
            return is_time and day_matches(wall.date())

        gap, overlap = dst.split("/")
        is_wild = any(field.startswith("*") for field in fields[:3])
        passes = {"first": {0, 1}, "second": {0, 2}, "both": {0, 1, 2}}["both" if is_wild else overlap]
        times = [time(hour, minute, second) for hour in hours for minute in minutes for second in seconds]
        looks = (look for at in times for look in self.by_time.get(at, ()))
        found = {look.at for look in looks if look.which in passes and is_match(look.wall)}
        for at, missed in self.gaps:
            is_short = timedelta(seconds=self.step) * len(missed) < THREE_HOURS
            if not is_wild and gap == "after" and is_short and any(map(is_match, missed)):
                found.add(at)
        return sorted(found)
