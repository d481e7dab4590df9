"""Kinds of values that only settings have; all others are the core's own.

A file gives TOML values; the environment and the command line give text. Every refusal names the setting and says what
would be right, and none shows the value of a setting that may hold a password.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import field
from typing import Any, ClassVar, TypeVar
from urllib.parse import urlsplit

from mainspring.core.allow_list import read_allow_entry, read_tenant_entry
from mainspring.core.fields import kind as kind_of
from mainspring.core.kinds import Kind, Schema, Text
from mainspring.core.values import value
from mainspring.errors import InvalidInput

E = TypeVar("E")
T = TypeVar("T")
_SEPARATORS = re.compile(r"[\s,]+")
_LIMIT = re.compile(r"([^=]*)=([+-]?[0-9]{1,18})", re.ASCII)


@value()
class OneLine(Text):
    """Text of one line: a path, an address, a name."""

    longest: int = field(default=4096, init=False)

    def limits(self) -> str:
        """Call it text; nobody asks how long it may be."""
        return "text"


@value()
class SecretUrl(OneLine):
    """A URL that may hold a password."""

    metavar: ClassVar[str] = "URL"

    def limits(self) -> str:
        """Name it."""
        return "URL"


def is_address(text: str) -> bool:
    """Say whether a text is a URL of http or https with a host."""
    try:
        parts = urlsplit(text)
        is_whole = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:  # a port that is none, or an open bracket
        return False
    return parts.scheme in {"http", "https"} and is_whole and not any(map(str.isspace, text))


@value()
class ServerUrl(SecretUrl):
    """The address of a server, or several of them, separated by commas."""

    def read(self, value: object, path: str, old: Any) -> str:
        """Read addresses."""
        text = SecretUrl.read(self, value, path, old)
        for address in text.split(","):
            if not is_address(address.strip()):
                raise InvalidInput(path, "must be an address like http://127.0.0.1:8620")
        return text


@value()
class InternalTarget(OneLine):
    """A network or a host, with or without a port, as an entry of the list of internal targets."""

    def read(self, value: object, path: str, old: Any) -> str:
        """Check an entry; it is kept as it was written."""
        text = OneLine.read(self, value, path, old)
        read_allow_entry(text, path)
        return text


@value()
class TenantTarget(OneLine):
    """An internal target, alone or as `TENANT=TARGET`."""

    def read(self, value: object, path: str, old: Any) -> str:
        """Check an entry; it is kept as it was written."""
        text = OneLine.read(self, value, path, old)
        read_tenant_entry(text, path)
        return text


@value(kw_only=True)
class Several(Kind):
    """A list of texts in the order in which they were given; a text alone is a list of one.

    Attributes:
        item: the kind of each.
        words: what the reference page calls them.
        is_needed: the list may not be empty.
    """

    item: Text = OneLine()
    words: str = "list of texts"
    is_needed: bool = False
    metavar: ClassVar[str] = "NAME"
    is_json: ClassVar[bool] = False
    is_list: ClassVar[bool] = True

    def from_text(self, text: str, path: str) -> list[str]:
        """Divide text at blanks and commas."""
        del path
        return [word for word in _SEPARATORS.split(text) if word]

    def read(self, value: object, path: str, old: Any) -> tuple[str, ...]:
        """Read a list."""
        entries = value if isinstance(value, list | tuple) else [value]
        if not all(isinstance(entry, str) for entry in entries):
            raise InvalidInput(path, f'must be a list of texts like ["a", "b"], not {kind_of(value)}')
        if self.is_needed and not entries:
            raise InvalidInput(path, "is an empty list; name one at least, or leave the setting out")
        return read_each(entries, lambda entry: self.item.read(entry, path, old), path)

    def store(self, value: tuple[str, ...]) -> list[str]:
        """Return a list."""
        return list(value)

    def load(self, plain: list[str]) -> tuple[str, ...]:
        """Return the texts."""
        return tuple(plain)

    def schema(self) -> Schema:
        """Return the schema of a list, or of one text."""
        return {"anyOf": [{"type": "array", "items": self.item.schema()}, self.item.schema()]}

    def limits(self) -> str:
        """Name them."""
        return self.words


@value()
class ResourceLimits(Kind):
    """A table of names and whole numbers; as text `NAME=NUMBER`, separated by blanks or commas."""

    names: Collection[str]
    metavar: ClassVar[str] = "NAME=N"

    def from_text(self, text: str, path: str) -> dict[str, int]:
        """Read pairs of a name and a number."""

        def read_pair(word: str) -> tuple[str, int]:
            found = _LIMIT.fullmatch(word)
            if found is None:
                raise InvalidInput(path, f"{word[:60]!r} is not of the form NAME=NUMBER, like nproc=200")
            return found[1], int(found[2])

        return dict(read_each(filter(None, _SEPARATORS.split(text)), read_pair, path))

    def read(self, value: object, path: str, old: Any) -> tuple[tuple[str, int], ...]:
        """Read a table, or pairs as this returns them."""
        del old
        table = dict(value) if isinstance(value, tuple) and all(map(_is_pair, value)) else value
        if not isinstance(table, dict):
            raise InvalidInput(path, f"must be a table like {{ nproc = 200 }}, not {kind_of(table)}")

        def read_pair(pair: tuple[str, object]) -> tuple[str, int]:
            name, number = pair
            if not isinstance(number, int) or isinstance(number, bool):
                message = f"{name[:60]!r} must be a number of 0 or more, not {kind_of(number)}"
                raise InvalidInput(path, message)
            if name not in self.names:
                known = ", ".join(sorted(self.names))
                raise InvalidInput(path, f"there is no limit {name[:60]!r}; known are {known}")
            if not 0 <= number < 2**63:
                raise InvalidInput(path, f"{name!r} must be a number of 0 or more, and less than 2^63")
            return name, number

        return tuple(sorted(read_each(table.items(), read_pair, path)))

    def store(self, value: tuple[tuple[str, int], ...]) -> dict[str, int]:
        """Return the table."""
        return dict(value)

    def load(self, plain: dict[str, int]) -> tuple[tuple[str, int], ...]:
        """Return the pairs."""
        return tuple(sorted(plain.items()))

    def schema(self) -> Schema:
        """Return the schema of an object of numbers."""
        return {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}}

    def limits(self) -> str:
        """Name the limits that there are."""
        return f"table of numbers: {', '.join(f'`{name}`' for name in sorted(self.names))}"


def read_each(entries: Iterable[E], read: Callable[[E], T], path: str) -> tuple[T, ...]:
    """Read the entries of one value.

    Raises:
        InvalidInput: some are wrong; it names `path`, and says what is wrong with each of them.
    """
    values: list[T] = []
    wrong: list[str] = []
    for entry in entries:
        try:
            values.append(read(entry))
        except InvalidInput as error:
            wrong.append(error.message)
    if wrong:
        raise InvalidInput(path, "; ".join(dict.fromkeys(wrong)))
    return tuple(values)


def _is_pair(entry: object) -> bool:
    return isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], str)
