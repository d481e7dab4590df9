"""Kinds of values that definitions and settings hold: how each is read, kept, shown, described, and bounded.

A kind is told once which values are right. What reads a definition, a file of settings, a variable or an option, the
kept form, the API's schema, the command line's help and the reference pages all ask it. Every command loads this
module, so it imports nothing that takes time.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import field
from enum import Enum
from typing import Any, ClassVar

import mainspring.core.fields as read
from mainspring.core.values import value
from mainspring.errors import InvalidInput

Schema = dict[str, Any]

_DIGITS = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,12}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})(?:[eE][+-]?[0-9]{1,2})?", re.ASCII)
_ON = frozenset({"1", "true", "yes", "on"})
_OFF = frozenset({"0", "false", "no", "off"})


def number_of(text: str) -> int | float | str:
    """Return the number that a text is, or else the text."""
    word = text.strip()
    if _DIGITS.fullmatch(word):
        return int(word)
    return float(word) if _NUMBER.fullmatch(word) else word


@value()
class Kind:
    """Any value that JSON has, as it is. The other kinds narrow this one.

    Attributes:
        metavar: what stands for a value in the command line's help.
        is_json: the command line takes it as JSON text.
        opens_json: with `is_json`, how such text begins; any other is taken as it is. Empty: all is JSON.
        is_list: the command line takes it as an option that may be repeated.
        is_nested: its kept form is an object, or a list of objects; one that is empty or null means none.
    """

    metavar: ClassVar[str] = "JSON"
    is_json: ClassVar[bool] = True
    opens_json: ClassVar[str] = ""
    is_list: ClassVar[bool] = False
    is_nested: ClassVar[bool] = False

    def forms(self, name: str) -> tuple[str, ...]:
        """Return the field's names in a body: the usual one first, that of the full form last."""
        return (name,)

    def from_text(self, text: str, path: str) -> Any:
        """Return what the text of an option or variable stands for, for `read` to check.

        Raises:
            InvalidInput: it has another form.
        """
        del path
        return text

    def read(self, value: object, path: str, old: Any) -> Any:
        """Return the checked value of what a user wrote; `old` is the value that a patch changes.

        Raises:
            InvalidInput: it is wrong; `path` is the field as the user wrote it.
        """
        del path, old
        return value

    def store(self, value: Any) -> Any:
        """Return the kept form, which JSON can carry and `GET` shows."""
        return value

    def load(self, plain: Any) -> Any:
        """Read what `store` wrote; it is trusted, not checked."""
        return plain

    def show(self, value: Any) -> Any:
        """Return a value as a user would write it, in JSON or TOML."""
        return self.store(value)

    def schema(self) -> Schema:
        """Return the JSON schema of what a user may write."""
        return {}

    def stored_schema(self) -> Schema:
        """Return the JSON schema of the kept form."""
        return self.schema()

    def limits(self) -> str:
        """Say which values are right, for the reference page."""
        return "any JSON"


@value()
class Payload(Kind):
    """JSON that is kept as its text."""

    def read(self, value: object, path: str, old: Any) -> bytes | None:
        """Read JSON within the limits of a payload."""
        del old
        return read.read_payload(value, path)

    def store(self, value: bytes | None) -> Any:
        """Return what the text stands for."""
        return None if value is None else read.decode_payload(value)

    def load(self, plain: Any) -> bytes | None:
        """Return the text."""
        return None if plain is None else read.encode_payload(plain)

    def limits(self) -> str:
        """Say how large it may be."""
        return f"JSON, at most {read.MAX_PAYLOAD // 1024} KiB and {read.MAX_DEPTH} levels"


@value()
class Text(Kind):
    """Printable text of a bounded length."""

    longest: int = 200
    metavar: ClassVar[str] = "TEXT"
    is_json: ClassVar[bool] = False

    def read(self, value: object, path: str, old: Any) -> str:
        """Read text."""
        del old
        return read.read_text(value, path, longest=self.longest)

    def schema(self) -> Schema:
        """Return a string's schema."""
        return {"type": "string", "minLength": 1, "maxLength": self.longest}

    def limits(self) -> str:
        """Say how long it may be."""
        return f"1 to {self.longest} printable characters"


@value()
class FreeText(Text):
    """Text of several lines, without NUL."""

    def read(self, value: object, path: str, old: Any) -> str:
        """Read text that any program can be given."""
        del old
        return read.read_free_text(value, path, longest=self.longest)

    def limits(self) -> str:
        """Say how long it may be."""
        return f"1 to {self.longest} characters, no NUL"


@value()
class Word(Text):
    """A queue's or a label's name."""

    longest: int = field(default=read.MAX_WORD, init=False)
    metavar: ClassVar[str] = "NAME"

    def read(self, value: object, path: str, old: Any) -> str:
        """Read a word."""
        del old
        return read.read_word(value, path)

    def limits(self) -> str:
        """Say which characters it may have."""
        return f"1 to {self.longest} of `A-Z a-z 0-9 . _ -`"


@value()
class Words(Kind):
    """A set of words, kept sorted."""

    most: int
    noun: str
    metavar: ClassVar[str] = "NAME"
    is_json: ClassVar[bool] = False
    is_list: ClassVar[bool] = True

    def read(self, value: object, path: str, old: Any) -> tuple[str, ...]:
        """Read a list of words."""
        del old
        if not isinstance(value, list | tuple) or len(value) > self.most:
            raise InvalidInput(path, f"must be a list of at most {self.most} {self.noun}")
        return tuple(sorted({read.read_word(item, f"{path}[{n}]") for n, item in enumerate(value)}))

    def store(self, value: tuple[str, ...]) -> list[str]:
        """Return a list."""
        return list(value)

    def load(self, plain: list[str]) -> tuple[str, ...]:
        """Return the words."""
        return tuple(plain)

    def schema(self) -> Schema:
        """Return a list's schema."""
        return {"type": "array", "maxItems": self.most, "items": Word().schema()}

    def limits(self) -> str:
        """Say how many there may be."""
        return f"at most {self.most} {self.noun}, each {Word().limits()}"


@value()
class Flag(Kind):
    """True or false."""

    metavar: ClassVar[str] = ""
    is_json: ClassVar[bool] = False

    def from_text(self, text: str, path: str) -> bool:
        """Read one of several words for each."""
        word = text.strip().lower()
        if word not in _ON | _OFF:
            raise InvalidInput(path, f"must be 1 or 0, true or false, not {text[:60]!r}")
        return word in _ON

    def read(self, value: object, path: str, old: Any) -> bool:
        """Read true or false."""
        del old
        return read.read_bool(value, path)

    def schema(self) -> Schema:
        """Return a boolean's schema."""
        return {"type": "boolean"}

    def limits(self) -> str:
        """Name both."""
        return "`true` or `false`"


@value()
class Whole(Kind):
    """A whole number within bounds."""

    low: int
    high: int
    metavar: ClassVar[str] = "N"
    is_json: ClassVar[bool] = False

    def from_text(self, text: str, path: str) -> int:
        """Read digits."""
        word = text.strip()
        if _DIGITS.fullmatch(word) is None:
            raise InvalidInput(path, f"{text[:60]!r} is not a whole number from {self.low} to {self.high}")
        return int(word)

    def read(self, value: object, path: str, old: Any) -> int:
        """Read a whole number."""
        del old
        return read.read_int(value, path, low=self.low, high=self.high)

    def schema(self) -> Schema:
        """Return an integer's schema."""
        return {"type": "integer", "minimum": self.low, "maximum": self.high}

    def limits(self) -> str:
        """Say its bounds."""
        return f"{self.low:,} to {self.high:,}"


@value()
class Share(Kind):
    """A number from 0 to 1."""

    metavar: ClassVar[str] = "SHARE"
    is_json: ClassVar[bool] = False

    def from_text(self, text: str, path: str) -> int | float | str:
        """Read a number."""
        return number_of(text)

    def read(self, value: object, path: str, old: Any) -> float:
        """Read a share."""
        del old
        return read.read_share(value, path)

    def schema(self) -> Schema:
        """Return a number's schema."""
        return {"type": "number", "minimum": 0, "maximum": 1}

    def limits(self) -> str:
        """Say its bounds."""
        return "0 to 1"


@value()
class Number(Kind):
    """A number within bounds, whole or not."""

    low: float
    high: float
    metavar: ClassVar[str] = "NUMBER"
    is_json: ClassVar[bool] = False

    def from_text(self, text: str, path: str) -> int | float | str:
        """Read a number."""
        return number_of(text)

    def read(self, value: object, path: str, old: Any) -> int | float:
        """Read a number; one that is whole stays an integer."""
        del old
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidInput(path, f"must be a number from {self.low:g} to {self.high:,.12g}")
        if not self.low <= value <= self.high:
            shown = f"{value:g}" if abs(value) < 10**18 else "that"
            raise InvalidInput(path, f"{shown} is not between {self.low:g} and {self.high:,.12g}")
        return value

    def schema(self) -> Schema:
        """Return a number's schema."""
        return {"type": "number", "minimum": self.low, "maximum": self.high}

    def limits(self) -> str:
        """Say its bounds."""
        return f"{self.low:g} to {self.high:,.12g}"


@value()
class Worded(Kind, ABC):
    """What is one of several words."""

    metavar: ClassVar[str] = "WORD"
    is_json: ClassVar[bool] = False

    @abstractmethod
    def words(self) -> tuple[str, ...]:
        """Return the words, in order."""

    def stored_schema(self) -> Schema:
        """Return the words."""
        return {"type": "string", "enum": list(self.words())}

    def limits(self) -> str:
        """Name the words."""
        return ", ".join(f"`{word}`" for word in self.words())


@value()
class OneOf(Worded):
    """One of several words, kept as it is.

    Attributes:
        allowed: the words; in capitals where `in_any_case` is set.
        in_any_case: a word may be written in any case.
    """

    allowed: tuple[str, ...]
    in_any_case: bool = False

    def read(self, value: object, path: str, old: Any) -> str:
        """Read one of the words."""
        del old
        return read.read_one_of(value, path, self.allowed, in_any_case=self.in_any_case)

    def words(self) -> tuple[str, ...]:
        """Return the words, in order."""
        return self.allowed

    def schema(self) -> Schema:
        """Return the words; that they are taken in any case is what a schema cannot say."""
        return {"type": "string", "examples" if self.in_any_case else "enum": list(self.allowed)}


@value()
class Choice(Worded):
    """A member of an enum, by its value or by its name in any case."""

    members: type[Enum]
    by_name: bool = False

    def read(self, value: object, path: str, old: Any) -> Enum:
        """Read one of the words."""
        del old
        return read.read_choice(value, path, self.members, by_name=self.by_name)

    def store(self, value: Enum) -> str:
        """Return its word."""
        return value.name if self.by_name else str(value.value)

    def load(self, plain: str) -> Enum:
        """Return the member."""
        return self.members[plain] if self.by_name else self.members(plain)

    def words(self) -> tuple[str, ...]:
        """Return the words, in order."""
        return tuple(self.store(member) for member in self.members)

    def schema(self) -> Schema:
        """Return the words; a name is taken in any case, which a schema cannot say."""
        return {"type": "string", "examples": list(self.words())} if self.by_name else self.stored_schema()
