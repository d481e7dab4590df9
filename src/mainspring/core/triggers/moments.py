"""Single instants as people write them: `in 10m`, ISO 8601, seconds since 1970, local time with the name of a zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, NamedTuple

from mainspring.core.cron.fields import CronError
from mainspring.core.cron.walk import Walker, read_dst
from mainspring.core.cron.zones import Zone, load_zone
from mainspring.core.fields import EARLIEST, LATEST, read_instant
from mainspring.core.kinds import Kind, Schema
from mainspring.core.values import value
from mainspring.errors import InvalidInput

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_SECONDS = 100_000_000
"""Of 1973. A smaller number is meant as a delay."""
_TWO_DAYS = 2 * 86_400
_LONGEST = 100
_IN = re.compile(r"in\s+(.+)", re.IGNORECASE | re.ASCII)
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{5,15}(?:Z|[+-][0-9]{2}:?[0-9]{2})", re.ASCII)
_SECONDS = re.compile(r"@?(-?[0-9]{1,15}(?:\.[0-9]{1,6})?)", re.ASCII)
_LOCAL = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]+([0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?)"
    r"(?:\[(?P<inside>[A-Za-z][^\]]*)\]|\s+(?P<name>[A-Za-z]\S*))",
    re.ASCII,
)
_PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?|an?)?\s*([a-z]+)\s*(?:,|and\b)?\s*", re.ASCII)
_UNITS = {
    timedelta(milliseconds=1): "ms milliseconds millisecond",
    timedelta(seconds=1): "s sec secs second seconds",
    timedelta(minutes=1): "m min mins minute minutes",
    timedelta(hours=1): "h hr hrs hour hours",
    timedelta(days=1): "d day days",
    timedelta(weeks=1): "w week weeks",
}
_UNIT_OF = {word: unit for unit, words in _UNITS.items() for word in words.split()}
RIGHT = "ISO 8601 with an offset, `2026-12-01 09:00 Europe/Berlin`, seconds since 1970, or `in 10m`"


class Moment(NamedTuple):
    """An instant, and what clocks that change make of the local time that was written; None if nothing."""

    at: datetime
    note: str | None = None


def read_spoken_duration(text: str) -> timedelta | None:
    """Return a duration like `10m`, `90 seconds`, `1 hour 30 minutes`; None if it is none."""
    rest, total = text.strip().lower(), timedelta(0)
    if not rest or len(rest) > _LONGEST:
        return None
    while rest:
        found = _PART.match(rest)
        unit = _UNIT_OF.get(found[2]) if found is not None else None
        if found is None or unit is None or found[1] is None:
            return None
        try:
            total += (1.0 if found[1].startswith("a") else float(found[1])) * unit
        except OverflowError:
            return None
        rest = rest[found.end() :]
    return total


def is_plain_instant(text: str) -> bool:
    """Say whether a text is an instant as programs write it: whatever else can be said of one, it is not local."""
    return text[4:5] == "-" and _ISO.fullmatch(text) is not None


def read_moment_or_delay(value: object, path: str) -> Moment | timedelta:
    """Return an instant, or for text like `in 10m` how far ahead it lies.

    Args:
        value: text, seconds since 1970 as a number, or an aware datetime.

    Raises:
        InvalidInput: it is none of these, or out of range.
    """
    if isinstance(value, str):
        if is_plain_instant(value):
            return Moment(read_instant(value, path))
        text = value.strip()
        if found := _IN.fullmatch(text):
            delay = read_spoken_duration(found[1])
            if delay is None or not timedelta(0) < delay <= timedelta(days=3650):
                message = f"{value[:60]!r} is not like 'in 10m' or 'in 2 hours', up to ten years"
                raise InvalidInput(path, message)
            return delay
        if found := _SECONDS.fullmatch(text):
            return Moment(_from_seconds(float(found[1]), path))
        if len(text) <= _LONGEST and (found := _LOCAL.fullmatch(text)) and found["name"] != "Z":
            return _read_local(found[1], found[2], found["inside"] or found["name"], path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        return Moment(_from_seconds(value, path))
    try:
        return Moment(read_instant(value, path))
    except InvalidInput as error:
        hint = (
            ""
            if "out of range" in error.message
            else ", or like '2026-12-01 09:00 Europe/Berlin' or 'in 10m'"
        )
        raise InvalidInput(path, f"{error.message}{hint}") from None


def read_when(value: object, path: str, *, now: datetime) -> Moment:
    """Return an instant, written in any of the forms.

    Raises:
        InvalidInput: it is in none of them, or out of range.
    """
    found = read_moment_or_delay(value, path)
    return Moment(now + found) if isinstance(found, timedelta) else found


def _from_seconds(seconds: float, path: str) -> datetime:
    low, high = _FIRST_SECONDS, LATEST.timestamp()
    if not low <= seconds < high:
        is_finer = low * 1000 <= seconds < high * 1000
        hint = "; it looks like milliseconds, so divide it by 1000" if is_finer else ""
        if 0 <= seconds < low:
            hint = "; for so long from now, write it like 'in 10m'"
        raise InvalidInput(path, f"is out of range as seconds since 1970{hint}")
    return _EPOCH + timedelta(microseconds=round(seconds * 1_000_000))


class _OneTime:
    """A single wall time, as what a walker goes by."""

    def __init__(self, wall: int) -> None:
        self._wall = wall

    def at_or_after(self, wall: int) -> int | None:
        """Return it if it is to come."""
        return self._wall if wall <= self._wall else None

    def at_or_before(self, wall: int) -> int | None:
        """Return it if it has passed."""
        return self._wall if wall >= self._wall else None


def _read_local(day: str, clock: str, name: str, path: str) -> Moment:
    try:
        zone = load_zone(name)
        padded = clock if clock[1] != ":" else f"0{clock}"
        local = datetime.fromisoformat(f"{day}T{padded}").replace(tzinfo=UTC)
    except CronError as error:
        raise InvalidInput(path, error.message) from None
    except ValueError:
        raise InvalidInput(path, f"'{day} {clock}' is no date and time of day") from None
    wall = int(local.timestamp())
    is_gap_fired, passes = read_dst("vixie")
    walker = Walker(_OneTime(wall), zone, is_gap_fired=is_gap_fired, passes=passes)
    epoch = walker.next_after(wall - _TWO_DAYS)
    if epoch is None:
        raise InvalidInput(path, f"{day} {clock} does not exist in {name}; give another time")
    at = _EPOCH + timedelta(seconds=epoch)
    if not EARLIEST <= at < LATEST:
        raise InvalidInput(path, "is out of range; give an instant of the years 1970 to 9000")
    return Moment(at, _note(zone, wall, epoch, f"{day} {padded}"))


def _note(zone: Zone, wall: int, epoch: int, written: str) -> str | None:
    segment = zone.segment(epoch)
    shown = _EPOCH + timedelta(seconds=epoch + segment.offset)
    if epoch + segment.offset != wall:
        return f"{written} does not exist in {zone.key}, where clocks go ahead; {shown:%H:%M} is meant"
    if wall >= segment.shown_from:
        first = f"the first is meant, at {_EPOCH + timedelta(seconds=epoch):%H:%M} UTC"
        return f"{written} comes twice in {zone.key}, where clocks go back; {first}"
    return None


@value()
class MomentText(Kind):
    """An instant in any of the forms; kept in UTC. What `read` returns for `in 10m` is a timedelta."""

    metavar: ClassVar[str] = "INSTANT"
    is_json: ClassVar[bool] = False

    def read(self, value: object, path: str, old: Any) -> datetime | timedelta:
        """Read an instant, or how far ahead it lies."""
        del old
        found = read_moment_or_delay(value, path)
        return found if isinstance(found, timedelta) else found.at

    def store(self, value: datetime) -> str:
        """Return its text."""
        return value.isoformat()

    def load(self, plain: str) -> datetime:
        """Return the instant."""
        return datetime.fromisoformat(plain)

    def schema(self) -> Schema:
        """Return the schema of its forms."""
        return {"anyOf": [{"type": "string"}, {"type": "number"}]}

    def stored_schema(self) -> Schema:
        """Return the schema of an instant's text."""
        return {"type": "string", "format": "date-time"}

    def limits(self) -> str:
        """Describe its forms."""
        return RIGHT
