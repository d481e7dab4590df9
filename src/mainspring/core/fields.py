"""Reads single values of a user's definition; every refusal names the field and what would be right."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from enum import Enum
from types import MappingProxyType
from typing import Any, TypeVar

from mainspring.errors import InvalidInput, PayloadTooLarge

MAX_PAYLOAD = 64 * 1024
MAX_DEPTH = 64
MAX_NAME = 200
MAX_WORD = 64
DAY = timedelta(days=1)
# Possessive, and an unterminated string ends with the text: no byte is looked at twice, whatever is given.
_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_WORD = re.compile(rf"[A-Za-z0-9._-]{{1,{MAX_WORD}}}", re.ASCII)
_STEPS = frozenset({".", ".."})
"""Clients resolve these in the path of a URL, so nothing that bears such a name could be addressed."""
_DURATION = re.compile(r"(?:[0-9]{1,9}(?:\.[0-9]{1,6})?(?:ms|s|m|h|d))+", re.ASCII)
_DURATION_PART = re.compile(r"([0-9.]+)(ms|s|m|h|d)", re.ASCII)
_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": DAY,
}
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(9001, 1, 1, tzinfo=UTC)
"""Instants that users give lie from 1970 up to the end of 9000: what is added to them stays a datetime."""
_NOT_FINITE = frozenset({"nan", "inf", "infinity"})
_LONGEST_DELAY = 3650 * DAY
_MAX_SECONDS = 100_000_000_000
"""More than any limit, and little enough for a timedelta."""
_LEAVES = frozenset({str, int, float, bool, type(None)})
_TEXT = frozenset({str})
"""Types of most values and of most keys of a payload: asked for first, because `isinstance` of a Mapping takes long."""
_OBJECTS = (dict, Mapping)
_CONTAINERS = (dict, list, tuple, Mapping)
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
E = TypeVar("E", bound=Enum)


def one_of(given: Mapping[str, Any], *names: str, prefix: str = "") -> str | None:
    """Return which of several forms of one thing is given; refuse two."""
    found = [name for name in names if name in given]
    if len(found) > 1:
        raise InvalidInput(f"{prefix}{found[1]}", f"says the same as {found[0]!r}; give one of them")
    return found[0] if found else None


def check_known(
    given: Iterable[object],
    known: Collection[str],
    *,
    prefix: str = "",
    others: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Refuse a field that does not exist, with the nearest one that does.

    Args:
        others: the names that other tools have for our fields.
    """
    for name in given:
        if not isinstance(name, str):
            raise InvalidInput(f"{prefix}{show_key(name)}", "a field's name is text")
        if name not in known:
            from difflib import get_close_matches  # costs a start of 2 ms, and only a refusal needs it

            near = [others[name]] if name in others else get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            if known and not near:
                hint = f"; known are {', '.join(sorted(known))}"
            raise InvalidInput(f"{prefix}{show_key(name)}", f"there is no such field{hint}")


def show_key(name: object) -> str:
    """Return a key as it may stand in a message: short, and without what cannot be printed or encoded."""
    if not isinstance(name, str):
        return kind(name)
    return name[:60] if name and name[:60].isprintable() else repr(name[:60])


def read_mapping(value: object, field: str) -> Mapping[str, Any]:
    """Return an object."""
    if not isinstance(value, Mapping):
        raise InvalidInput(field, f"must be an object, not {kind(value)}")
    return value


def read_entries(value: object, field: str, *, most: int) -> list[tuple[str, object]]:
    """Return the entries of an object whose keys are text."""
    full = read_mapping(value, field)
    if len(full) > most:
        raise InvalidInput(field, f"must have at most {most} entries")
    for name in full:
        if not isinstance(name, str):
            raise InvalidInput(f"{field}.{show_key(name)}", "a name is text")
    return list(full.items())


def read_text(value: object, field: str, *, longest: int) -> str:
    """Return text of 1 to `longest` printable characters."""
    if not isinstance(value, str):
        raise InvalidInput(field, f"must be text in quotes, not {kind(value)}")
    if not 1 <= len(value) <= longest:
        raise InvalidInput(field, f"must have 1 to {longest} characters, not {len(value)}")
    if not value.isprintable():
        raise InvalidInput(field, "holds characters that cannot be printed")  # it may be a password
    return value


def read_free_text(value: object, field: str, *, longest: int, shortest: int = 1) -> str:
    """Return text of any characters but NUL, which no program can be given."""
    if (
        not isinstance(value, str)
        or not shortest <= len(value) <= longest
        or "\0" in value
        or not is_unicode(value)
    ):
        length = f"{shortest} to {longest}" if shortest else f"at most {longest}"
        raise InvalidInput(field, f"must be text of {length} characters without NUL")
    return value


def is_unicode(text: str) -> bool:
    """Say whether text can be written as UTF-8 (a lone surrogate cannot)."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def read_word(value: object, field: str) -> str:
    """Return a queue's or label's name."""
    if not isinstance(value, str) or not _WORD.fullmatch(value):
        shown = repr(value[:60]) if isinstance(value, str) else kind(value)
        raise InvalidInput(field, f"must be 1 to {MAX_WORD} of A-Z a-z 0-9 . _ -, not {shown}")
    if value in _STEPS:
        raise InvalidInput(field, f"must not be {value!r}, which is a step in a path and not a name")
    return value


def read_bool(value: object, field: str) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise InvalidInput(field, f"must be true or false without quotes, not {kind(value)}")
    return value


def read_int(value: object, field: str, *, low: int, high: int) -> int:
    """Return a whole number within bounds."""
    if isinstance(value, bool) or not isinstance(value, int):
        shown = repr(value) if isinstance(value, float) else kind(value)
        raise InvalidInput(field, f"must be a whole number from {low} to {high}, not {shown}")
    if not low <= value <= high:
        shown = str(value) if abs(value) < 10**18 else "that"
        raise InvalidInput(field, f"{shown} is not between {low} and {high}")
    return value


def read_share(value: object, field: str) -> float:
    """Return a number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidInput(field, "must be a number from 0 to 1")
    return float(value)


def read_choice(value: object, field: str, choices: type[E], *, by_name: bool = False) -> E:
    """Return a member of an enum: itself, by its value, or (in any case) by its name."""
    if isinstance(value, choices):
        return value
    names = [member.name if by_name else str(member.value) for member in choices]
    wanted = value.upper() if by_name and isinstance(value, str) else value
    if isinstance(wanted, str) and wanted in names:
        return list(choices)[names.index(wanted)]
    raise _none_of(names, value, field)


def read_one_of(value: object, field: str, words: Collection[str], *, in_any_case: bool = False) -> str:
    """Return one of several words, which are capitals where any case is taken."""
    wanted = value.upper() if in_any_case and isinstance(value, str) else value
    if isinstance(wanted, str) and wanted in words:
        return wanted
    raise _none_of(words, value, field)


def _none_of(words: Iterable[str], value: object, field: str) -> InvalidInput:
    shown = repr(value[:60]) if isinstance(value, str) else kind(value)
    return InvalidInput(field, f"must be one of {', '.join(words)}, not {shown}")


def read_duration(
    value: object, field: str, *, low: timedelta = timedelta(0), high: timedelta = 30 * DAY
) -> timedelta:
    """Return a duration: a number of seconds, text like `90s`, `1h30m`, `250ms`, or (from Python) a timedelta."""
    if isinstance(value, timedelta):
        duration = value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if not abs(value) <= _MAX_SECONDS:  # so written, it is true of NaN too
            if isinstance(value, float) and not math.isfinite(value):
                raise _no_duration(value, field)
            raise InvalidInput(field, f"must be between {show(low)} and {show(high)}")
        duration = timedelta(microseconds=round(value * 1_000_000))
    elif isinstance(value, str) and len(value) <= 60 and _DURATION.fullmatch(value):
        try:
            parts = _DURATION_PART.findall(value)
            duration = sum((float(number) * _UNITS[unit] for number, unit in parts), timedelta(0))
        except OverflowError:
            raise InvalidInput(field, f"must be between {show(low)} and {show(high)}") from None
    else:
        raise _no_duration(value, field)
    if not low <= duration <= high:
        raise InvalidInput(field, f"must be between {show(low)} and {show(high)}, not {show(duration)}")
    return duration


def _no_duration(value: object, field: str) -> InvalidInput:
    examples = "text like '90s', '5m', '1h30m'"
    if isinstance(value, float | str) and str(value).lower().lstrip("+-") in _NOT_FINITE:
        return InvalidInput(field, f"{value} is not a number of seconds, nor {examples}")
    shown = repr(value[:60]) if isinstance(value, str) else kind(value)
    return InvalidInput(field, f"must be seconds or {examples}, not {shown}")


def read_delay(value: object, field: str) -> timedelta:
    """Return for how long a run is to wait, up to ten years: a duration as `read_duration` takes it."""
    return read_duration(value, field, high=_LONGEST_DELAY)


def read_instant(value: object, field: str) -> datetime:
    """Return an instant in UTC from ISO 8601 text with an offset, or from a datetime; of the years 1970 to 9000."""
    example = "2026-11-21T09:00:00+01:00"
    if isinstance(value, datetime):
        instant = value
    elif isinstance(value, str):
        try:
            instant = datetime.fromisoformat(value)
        except ValueError:
            raise InvalidInput(field, f"{value[:60]!r} is not an instant; write it like {example}") from None
    else:
        raise InvalidInput(field, f"must be an instant like {example}, not {kind(value)}")
    if instant.utcoffset() is None:
        raise InvalidInput(field, f"has no offset; write it like {example}")
    try:
        instant = instant.astimezone(UTC)
    except (OverflowError, ValueError):
        raise InvalidInput(field, "is out of range; give an instant of the years 1970 to 9000") from None
    if not EARLIEST <= instant < LATEST:
        raise InvalidInput(field, "is out of range; give an instant of the years 1970 to 9000")
    return instant


def read_moment(value: object, field: str, *, now: datetime) -> datetime:
    """Return an instant, from what `read_instant` takes or from text like `2h`, which means so long ago.

    Args:
        now: the store's time.
    """
    if isinstance(value, str) and len(value) <= 60 and _DURATION.fullmatch(value):
        return now - read_delay(value, field)
    try:
        return read_instant(value, field)
    except InvalidInput as error:
        raise InvalidInput(field, f"{error.message}, or like 2h for so long ago") from None


def read_payload(value: object, field: str = "payload") -> bytes | None:
    """Return a payload as JSON text; None for null.

    Raises:
        PayloadTooLarge: it is over the inline limit.
        InvalidInput: it is nested too deep or is not JSON.
    """
    if value is None:
        return None
    check_depth(value, field)
    try:
        text = encode_payload(value)
    except UnicodeError:
        raise InvalidInput(field, "holds a lone surrogate, which is no character") from None
    except (TypeError, ValueError) as error:
        reason = str(error).partition(";")[0][:100]
        message = (
            f"is not JSON: {reason}; give text, finite numbers, true, false, null, lists or objects of them"
        )
        raise InvalidInput(find_odd_value(value, field), message) from None
    if len(text) > MAX_PAYLOAD:
        message = f"{len(text)} bytes; at most {MAX_PAYLOAD} fit, put large data elsewhere and pass a link"
        raise PayloadTooLarge(field, message)
    return text


def find_odd_value(value: object, place: str) -> str:
    """Return where a value holds something that JSON has not, like `payload.lines[3].price`; else the place given.

    Args:
        value: not nested too deep, and without a cycle.
    """
    if isinstance(value, dict):
        parts = ((f"{place}.{key}", item) for key, item in value.items())
    elif isinstance(value, list | tuple):
        parts = ((f"{place}[{index}]", item) for index, item in enumerate(value))
    else:
        return place
    for inner, item in parts:
        if isinstance(item, dict | list | tuple):
            found = find_odd_value(item, inner)
            if found != inner:
                return found
        elif not (
            item is None or isinstance(item, str | int) or (isinstance(item, float) and math.isfinite(item))
        ):
            return inner
    return place


def encode_payload(value: object) -> bytes:
    """Return the one JSON text of a payload that is kept: compact, in UTF-8.

    Raises:
        ValueError: it holds NaN or an infinity, or text that is not Unicode.
        RecursionError: it is nested too deep.
    """
    return _encode(value).encode()


def decode_payload(text: bytes) -> Any:
    """Return what a payload's text stands for."""
    return json.loads(text)


def check_depth(value: object, field: str) -> None:
    """Refuse what is nested deeper than `MAX_DEPTH`, or has keys that are not text; never recurses."""
    if type(value) is dict and {*map(type, value)} <= _TEXT and {*map(type, value.values())} <= _LEAVES:
        return  # as most are, in a sixth of the time
    level: list[object] = [value]
    for _ in range(MAX_DEPTH + 1):
        containers = [item for item in level if type(item) not in _LEAVES and isinstance(item, _CONTAINERS)]
        if not containers:
            return
        level = []
        for item in containers:
            if isinstance(item, _OBJECTS):
                if not {*map(type, item)} <= _TEXT and not all(isinstance(key, str) for key in item):
                    raise InvalidInput(field, "keys must be text")
                level.extend(item.values())
            else:
                level.extend(item)
    raise InvalidInput(field, f"is nested deeper than {MAX_DEPTH} levels")


def is_deep(text: bytes, limit: int = MAX_DEPTH) -> bool:
    """Say whether JSON text is nested deeper than `limit`: a decoder would recurse before it could refuse."""
    if text.count(b"[") + text.count(b"{") <= limit:
        return False
    depth = 0
    # Without a backslash, every other piece between quotes is a string; so it takes a third of the time.
    rest = _STRINGS.sub(b"", text) if b"\\" in text else b"".join(text.split(b'"')[::2])
    for byte in rest.translate(None, _NOT_BRACKETS):
        if byte in b"[{":
            depth += 1
            if depth > limit:
                return True
        else:
            depth -= 1
    return False


def show(duration: timedelta) -> str:
    """Return a duration in the text form, in its largest fitting units: `250ms`, `1.4s`, `1h30m`."""
    if duration < timedelta(0):
        return "a negative time"
    if timedelta(0) < duration < _UNITS["s"]:
        return f"{duration / _UNITS['ms']:g}ms"
    parts = []
    rest = duration
    for unit in ("d", "h", "m"):
        count, rest = divmod(rest, _UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    if rest or not parts:
        parts.append(f"{rest.total_seconds():.6f}".rstrip("0").rstrip(".") + "s")
    return "".join(parts)


def kind(value: object) -> str:
    """Name a JSON value's type for a message."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    names = (
        (date | time, "a date or time"),
        (str, "text"),
        (int, "a number"),
        (float, "a number"),
        (Mapping, "an object"),
        (list | tuple, "a list"),
    )
    return next((name for types, name in names if isinstance(value, types)), type(value).__name__)
