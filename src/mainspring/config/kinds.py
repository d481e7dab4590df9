"""The kinds of values that settings have: how each is read from a file and from text, checked and shown.

A file gives TOML values; the environment and the command line give text. Every refusal names the setting and says what
would be right, and none shows the value of a setting that may hold a password.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from mainspring.errors import InvalidInput

_SEPARATORS = re.compile(r"[\s,]+")
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_SECONDS = re.compile(r"[+-]?(?:[0-9]{1,12}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})(?:[eE][+-]?[0-9]{1,2})?", re.ASCII)
_ON = frozenset({"1", "true", "yes", "on"})
_OFF = frozenset({"0", "false", "no", "off"})
LONGEST_TEXT = 4096


class SettingKind(Protocol):
    """How the values of a setting are written."""

    @property
    def metavar(self) -> str:
        """What stands for a value in the help of an option."""
        ...

    @property
    def form(self) -> str:
        """How a value is written in a file, with its bounds."""
        ...

    def read(self, value: object, name: str) -> Any:
        """Return a value from what a TOML file gives.

        Raises:
            InvalidInput: it is not one of this kind, or out of range; the field is `name`.
        """
        ...

    def read_text(self, text: str, name: str) -> Any:
        """Return a value from text: an environment variable or an option.

        Raises:
            InvalidInput: as with `read`.
        """
        ...

    def check(self, value: Any, name: str) -> None:
        """Refuse a value that is out of range.

        Raises:
            InvalidInput: as with `read`.
        """
        ...

    def plain(self, value: Any) -> object:
        """Return a value as JSON and TOML can have it."""
        ...


@dataclass(frozen=True, slots=True)
class TextKind:
    """Text of one line."""

    metavar: str = "TEXT"
    form: str = "text"

    def read(self, value: object, name: str) -> str:
        if not isinstance(value, str):
            raise InvalidInput(name, f"must be text in quotes, not {name_kind(value)}")
        self.check(value, name)
        return value

    def read_text(self, text: str, name: str) -> str:
        return self.read(text, name)

    def check(self, value: str, name: str) -> None:
        if not 1 <= len(value) <= LONGEST_TEXT:
            raise InvalidInput(name, f"must have 1 to {LONGEST_TEXT} characters, not {len(value)}")
        if not value.isprintable():
            raise InvalidInput(name, "holds characters that cannot be printed")

    def plain(self, value: str) -> object:
        return value


@dataclass(frozen=True, slots=True)
class ChoiceKind:
    """One of several words."""

    words: tuple[str, ...]

    @property
    def metavar(self) -> str:
        return "|".join(self.words)

    @property
    def form(self) -> str:
        return " or ".join(f'`"{word}"`' for word in self.words)

    def read(self, value: object, name: str) -> str:
        if not isinstance(value, str):
            raise InvalidInput(name, f"must be one of {', '.join(self.words)}, not {name_kind(value)}")
        self.check(value, name)
        return value

    def read_text(self, text: str, name: str) -> str:
        return self.read(text, name)

    def check(self, value: str, name: str) -> None:
        if value not in self.words:
            raise InvalidInput(name, f"must be one of {', '.join(self.words)}, not {value[:60]!r}")

    def plain(self, value: str) -> object:
        return value


@dataclass(frozen=True, slots=True)
class SwitchKind:
    """On or off."""

    metavar: str = ""
    form: str = "`true` or `false`"

    def read(self, value: object, name: str) -> bool:
        if not isinstance(value, bool):
            raise InvalidInput(name, f"must be true or false without quotes, not {name_kind(value)}")
        return value

    def read_text(self, text: str, name: str) -> bool:
        word = text.strip().lower()
        if word not in _ON | _OFF:
            raise InvalidInput(name, f"must be 1 or 0, true or false, not {text[:60]!r}")
        return word in _ON

    def check(self, value: bool, name: str) -> None:
        """Has nothing to refuse: both are right."""

    def plain(self, value: bool) -> object:
        return value


@dataclass(frozen=True, slots=True)
class NumberKind:
    """A whole number within bounds."""

    low: int
    high: int
    metavar: str = "N"

    @property
    def form(self) -> str:
        return f"number, {self.low} to {self.high:,}"

    def read(self, value: object, name: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise InvalidInput(
                name, f"must be a number from {self.low} to {self.high}, not {name_kind(value)}"
            )
        self.check(value, name)
        return value

    def read_text(self, text: str, name: str) -> int:
        if _NUMBER.fullmatch(text.strip()) is None:
            raise InvalidInput(name, f"{text[:60]!r} is not a number from {self.low} to {self.high}")
        return self.read(int(text), name)

    def check(self, value: int, name: str) -> None:
        if not self.low <= value <= self.high:
            shown = str(value) if abs(value) < 10**18 else "that"
            raise InvalidInput(name, f"{shown} is not between {self.low} and {self.high}")

    def plain(self, value: int) -> object:
        return value


@dataclass(frozen=True, slots=True)
class DurationKind:
    """A length of time within bounds: a number of seconds, or text like `90s`, `10m`, `1h30m`, `30d`."""

    low: timedelta
    high: timedelta
    metavar: str = "DURATION"

    @property
    def form(self) -> str:
        return f"duration, {show_duration(self.low)} to {show_duration(self.high)}"

    def read(self, value: object, name: str) -> timedelta:
        from mainspring.core.fields import read_duration  # costs a start of 40 ms, and few need it

        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidInput(name, f"{value} is not a number of seconds, nor text like '30s', '10m', '30d'")
        if not isinstance(value, int | float | str) or isinstance(value, bool):
            message = f"must be seconds or text like '30s', '10m', '30d', not {name_kind(value)}"
            raise InvalidInput(name, message)
        return read_duration(value, name, low=self.low, high=self.high)

    def read_text(self, text: str, name: str) -> timedelta:
        word = text.strip()
        if _SECONDS.fullmatch(word):
            return self.read(float(word), name)
        if word.lower().lstrip("+-") in {"nan", "inf", "infinity"}:
            return self.read(math.nan if word.lower().lstrip("+-")[0] == "n" else math.inf, name)
        return self.read(word, name)

    def check(self, value: timedelta, name: str) -> None:
        if not self.low <= value <= self.high:
            message = f"must be between {show_duration(self.low)} and {show_duration(self.high)}"
            raise InvalidInput(name, f"{message}, not {show_duration(value)}")

    def plain(self, value: timedelta) -> object:
        return show_duration(value)


@dataclass(frozen=True, slots=True)
class WordsKind:
    """A list of texts; as text separated by blanks or commas.

    Attributes:
        check_word: refuses an entry that is none, by the name that it is given.
        is_needed: the list may not be empty.
    """

    metavar: str = "NAME"
    form: str = "list of texts"
    check_word: Callable[[str, str], object] | None = None
    is_needed: bool = False

    def read(self, value: object, name: str) -> tuple[str, ...]:
        entries = value if isinstance(value, list | tuple) else [value]
        for entry in entries:
            if not isinstance(entry, str):
                raise InvalidInput(name, f'must be a list of texts like ["a", "b"], not {name_kind(value)}')
        words = tuple(entries)
        self.check(words, name)
        return words

    def read_text(self, text: str, name: str) -> tuple[str, ...]:
        return self.read([word for word in _SEPARATORS.split(text) if word], name)

    def check(self, value: tuple[str, ...], name: str) -> None:
        if self.is_needed and not value:
            raise InvalidInput(name, "is an empty list; name one at least, or leave the setting out")
        for word in value:
            if self.check_word is not None:
                self.check_word(word, name)
            else:
                TextKind().check(word, name)

    def plain(self, value: tuple[str, ...]) -> object:
        return list(value)


@dataclass(frozen=True, slots=True)
class LimitsKind:
    """A table of names and whole numbers; as text `NAME=NUMBER`, separated by blanks or commas."""

    names: Collection[str]
    metavar: str = "NAME=N"

    @property
    def form(self) -> str:
        return f"table of numbers: {', '.join(f'`{name}`' for name in sorted(self.names))}"

    def read(self, value: object, name: str) -> tuple[tuple[str, int], ...]:
        if not isinstance(value, dict):
            raise InvalidInput(name, f"must be a table like {{ nproc = 200 }}, not {name_kind(value)}")
        for key, number in value.items():
            if not isinstance(number, int) or isinstance(number, bool):
                message = f"{key[:60]!r} must be a number of 0 or more, not {name_kind(number)}"
                raise InvalidInput(name, message)
        limits = tuple(sorted(value.items()))
        self.check(limits, name)
        return limits

    def read_text(self, text: str, name: str) -> tuple[tuple[str, int], ...]:
        limits = {}
        for word in filter(None, _SEPARATORS.split(text)):
            key, _, number = word.partition("=")
            if _NUMBER.fullmatch(number) is None:
                raise InvalidInput(name, f"{word[:60]!r} is not of the form NAME=NUMBER, like nproc=200")
            limits[key] = int(number)
        return self.read(limits, name)

    def check(self, value: tuple[tuple[str, int], ...], name: str) -> None:
        for key, number in value:
            if key not in self.names:
                known = ", ".join(sorted(self.names))
                raise InvalidInput(name, f"there is no limit {key[:60]!r}; known are {known}")
            if not 0 <= number < 2**63:
                raise InvalidInput(name, f"{key!r} must be a number of 0 or more, and less than 2^63")

    def plain(self, value: tuple[tuple[str, int], ...]) -> object:
        return dict(value)


def show_duration(duration: timedelta) -> str:
    """Return a duration as it is written: `30s`, `1h30m`; one of less than a second's parts as seconds."""
    seconds = duration.total_seconds()
    if seconds < 0:
        return "a negative time"
    if seconds < 60 or seconds % 1:
        return f"{seconds:g}s"
    parts = []
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        count, seconds = divmod(seconds, length)
        if count:
            parts.append(f"{count:.0f}{unit}")
    return "".join(parts)


def name_kind(value: object) -> str:
    """Name a TOML value's type for a message."""
    if isinstance(value, bool):
        return "true or false"
    names: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (str, "text"),
        ((int, float), "a number"),
        ((list, tuple), "a list"),
        (dict, "a table"),
    )
    return next((word for kind, word in names if isinstance(value, kind)), "a date or time")
