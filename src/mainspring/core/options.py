"""Options: the named values of which a definition, a policy, a trigger or a target consists, each described once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import attrgetter, is_not
from typing import Any, Final, NamedTuple, overload

from mainspring.core.fields import check_known
from mainspring.core.kinds import Kind, Schema
from mainspring.errors import InvalidInput

Path = Callable[[str], str]
"""From a field's name to its path as the user wrote it, for errors."""


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required()
"""Stands for the default of an option that must be given."""
_MANY = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option.

    Attributes:
        name: the field in a body, and the attribute of the value that is made.
        kind: which values are right, and how they are read, kept and shown.
        summary: what it is, in one sentence: for the command line, the API's description and the reference page.
        detail: what else the reference page says, in Markdown.
        default: the checked value where none is given; `REQUIRED` where one must be.
        is_nullable: null is allowed, and means none.
        elsewhere: in a short form, what to write instead beside the short form of another type.
        example: a value as a user would write it.
    """

    name: str
    kind: Kind
    summary: str
    detail: str = ""
    default: Any = REQUIRED
    is_nullable: bool = False
    elsewhere: str = ""
    example: Any = None

    @property
    def forms(self) -> tuple[str, ...]:
        """Its names in a body; one of them at a time."""
        return self.kind.forms(self.name)

    @property
    def key(self) -> str:
        """Its name in the full form, which is kept and shown."""
        return self.forms[-1]

    def read(self, value: object, path: str, old: Any = None) -> Any:
        """Return the checked value of what a user wrote.

        Raises:
            InvalidInput: it is wrong.
        """
        return None if value is None and self.is_nullable else self.kind.read(value, path, old)

    def store(self, value: Any) -> Any:
        """Return the kept form of a value."""
        return None if value is None else self.kind.store(value)

    def load(self, plain: Any) -> Any:
        """Read what `store` wrote."""
        return None if plain is None else self.kind.load(plain)

    def schema(self) -> Schema:
        """Return the JSON schema of what a user may write, with its default and its words."""
        schema = self._described(self.kind.schema())
        if self.default is REQUIRED or self.default is None:
            return schema
        return {**schema, "default": self.kind.store(self.default)}

    def stored_schema(self) -> Schema:
        """Return the JSON schema of the kept form, with its words."""
        return self._described(self.kind.stored_schema())

    def _described(self, schema: Schema) -> Schema:
        if self.is_nullable and schema:
            schema = {"anyOf": [schema, {"type": "null"}]}
        schema = {**schema, "description": self.summary}
        return schema if self.example is None else {**schema, "examples": [self.example]}


class _Stored(NamedTuple):
    """How the kept form of an option is made: that of its default is made once."""

    name: str
    key: str
    store: Callable[[Any], Any]
    default: Any
    stored: Any
    copy: Callable[[Any], Any] | None

    @classmethod
    def of(cls, option: Option) -> _Stored:
        stored = None if option.default is REQUIRED else option.store(option.default)
        copy = type(stored) if isinstance(stored, dict | list) else None
        return cls(option.name, option.key, option.kind.store, option.default, stored, copy)


class _Given:
    """Finds which attributes of a value are not the defaults of the options, which most are.

    To look at each in turn takes twice as long, unless they are few.
    """

    __slots__ = ("_copied", "_defaults", "_plain", "_read", "_stored")

    def __init__(self, stored: Sequence[_Stored]) -> None:
        self._read = attrgetter(*(one.name for one in stored))
        self._defaults = tuple(one.default for one in stored)
        self._plain = {one.key: one.stored for one in stored}
        self._stored = stored
        self._copied = [(one.key, one.copy, one.stored) for one in stored if one.copy is not None]

    def store_into(self, plain: dict[str, Any], value: object) -> None:
        values = self._read(value)
        plain.update(self._plain)
        for key, copy, stored in self._copied:
            plain[key] = copy(stored)
        if values == self._defaults:
            return
        for name, key, store, *_ in compress(self._stored, map(is_not, values, self._defaults)):
            given = getattr(value, name)
            plain[key] = None if given is None else store(given)


class Options(Sequence[Option]):
    """The options of one thing, in the order in which they are shown.

    Attributes:
        by_form: each option by every name that it has in a body.
    """

    def __init__(self, *options: Option) -> None:
        self._options = options
        self.by_form: Mapping[str, Option] = {form: option for option in options for form in option.forms}
        self._required = tuple(option for option in options if option.default is REQUIRED)
        self._defaults = {option.name: option.default for option in options if option not in self._required}
        self._stored = tuple(_Stored.of(option) for option in options)
        self._given = _Given(self._stored) if len(options) >= _MANY else None

    @overload
    def __getitem__(self, index: int) -> Option: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Option, ...]: ...
    def __getitem__(self, index: int | slice) -> Option | tuple[Option, ...]:
        return self._options[index]

    def __iter__(self) -> Iterator[Option]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)

    def get(self, name: str) -> Option:
        """Return the option of that name.

        Raises:
            KeyError: there is none.
        """
        return next((option for option in self if option.name == name), None) or self.by_form[name]

    def read_given(self, given: Mapping[str, Any], path: Path, old: object = None) -> dict[str, Any]:
        """Return the checked values of those options that are given, by name; other fields are left alone.

        Args:
            old: the value that is changed; an option that merges starts from its part of it.

        Raises:
            InvalidInput: one is wrong, or is given in two forms.
        """
        read: dict[str, Any] = {}
        for form, value in given.items():
            option = self.by_form.get(form)
            if option is None:
                continue
            name = option.name
            if name in read:
                other, late = (one for one in option.forms if one in given)
                raise InvalidInput(path(late), f"says the same as {other!r}; give one of them")
            before = None if old is None else getattr(old, name)
            is_none = value is None and option.is_nullable
            read[name] = None if is_none else option.kind.read(value, path(form), before)
        return read

    def read_all(self, given: Mapping[str, Any], path: Path) -> dict[str, Any]:
        """Return the checked values of all options by name, defaults where none is given; unknown fields are refused.

        Raises:
            InvalidInput: one is wrong or missing, or there is no such field.
        """
        if not self.by_form.keys() >= given.keys():
            check_known(given, self.by_form, prefix=path(""))
        return self.complete(self.read_given(given, path), path)

    def complete(self, read: Mapping[str, Any], path: Path) -> dict[str, Any]:
        """Return checked values with the defaults of the options that are not among them.

        Raises:
            InvalidInput: an option without a default is missing.
        """
        for option in self._required:
            if option.name not in read:
                raise InvalidInput(path(option.key), "is missing")
        return {**self._defaults, **read}

    def store_into(self, plain: dict[str, Any], value: object) -> None:
        """Add the kept form of all options, which are attributes of a value."""
        if self._given is not None:
            self._given.store_into(plain, value)
            return
        for name, key, store, default, stored, copy in self._stored:
            given = getattr(value, name)
            if given is default:  # as most are
                plain[key] = stored if copy is None else copy(stored)
            else:
                plain[key] = None if given is None else store(given)

    def load(self, plain: Mapping[str, Any]) -> dict[str, Any]:
        """Read what `store` wrote; an option that is younger than the kept form has its default."""
        return {
            option.name: option.load(plain[option.key]) if option.key in plain else option.default
            for option in self
        }

    def schema(self, **fixed: Any) -> Schema:
        """Return the JSON schema of an object of these options; `fixed` are fields of one value."""
        properties = {name: {"const": value} for name, value in fixed.items()}
        properties |= {form: option.schema() for form, option in self.by_form.items()}
        # One that has two names cannot be asked for by either.
        required = [*fixed, *(o.name for o in self if o.default is REQUIRED and len(o.forms) == 1)]
        return {"type": "object", "properties": properties, "required": required}
