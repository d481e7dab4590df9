"""Lists of trigger and target types: the built-in ones, and those that packages add when a process starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

from mainspring.core.fields import read_word
from mainspring.core.options import Option, Options, Path
from mainspring.errors import InvalidInput


class DefinedType:
    """What trigger types and target types have in common.

    Attributes:
        name: the value of `type` in the full form.
        summary: what it is, in one sentence.
        options: the other fields of the full form.
        short: the short form: maps fields of a job's body to the options that they stand for. The first field selects
            this type; the others go with it.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    options: ClassVar[Options]
    short: ClassVar[Mapping[str, str]] = {}

    @property
    def head(self) -> str | None:
        """The short form's first field."""
        return next(iter(self.short), None)

    @cached_property
    def short_options(self) -> tuple[tuple[str, Option], ...]:
        """Each field of the short form with its option."""
        return tuple((field, self.options.get(name)) for field, name in self.short.items())

    @cached_property
    def path_of_short(self) -> Path:
        """From an option's name to its field in the short form."""
        fields = {option.name: field for field, option in self.short_options}
        return lambda name: fields.get(name, name)

    def read_short(self, body: Mapping[str, Any], base: object = None) -> dict[str, Any]:
        """Return the checked values of all options from the short form that a body gives.

        Args:
            base: what the body changes; it keeps those of its values that the short form could name and does not.

        Raises:
            InvalidInput: a value is wrong or missing; the field is that of the body.
        """
        read = {
            option.name: option.read(body[field], field)
            for field, option in self.short_options
            if field in body
        }
        if base is not None:
            read = {option.name: getattr(base, option.name) for _, option in self.short_options} | read
        return self.options.complete(read, self.path_of_short)

    def check(self) -> None:
        """Refuse a type whose description cannot work.

        Raises:
            InvalidInput: it cannot; the error's field is the attribute that is wrong.
        """
        read_word(getattr(self, "name", None), "name")
        if not isinstance(getattr(self, "options", None), Options):
            raise InvalidInput("options", "must be Options(Option(...), ...)")
        if "type" in self.options.by_form:
            raise InvalidInput(
                "options", "'type' is the field of the type's own name; give the option another"
            )
        for field, name in self.short.items():
            if name not in self.options.by_form:
                raise InvalidInput("short", f"{field!r} stands for {name!r}, which is not among the options")


T = TypeVar("T", bound=DefinedType)


class Types(Generic[T]):
    """Types by name and by the fields of their short forms.

    Args:
        sort: what the types are for: `trigger` or `target`.

    Attributes:
        by_name: every type by its name.
        by_field: the types whose short forms have a field: one, or several that mean the same by it.
        heads: the fields that select a type by themselves.
        companions: the other fields of short forms.
    """

    def __init__(self, sort: str, *known: T) -> None:
        self.sort = sort
        self.by_name: dict[str, T] = {}
        self.by_field: dict[str, tuple[T, ...]] = {}
        self.heads: list[str] = []
        self.companions: list[str] = []
        for one in known:
            self.add(one)

    def __iter__(self) -> Iterator[T]:
        return iter(self.by_name.values())

    def __len__(self) -> int:
        return len(self.by_name)

    def add(self, new: T) -> None:
        """Add a type.

        Raises:
            InvalidInput: its name or a field of its short form is taken, or its description cannot work.
        """
        new.check()
        if new.name in self.by_name:
            raise InvalidInput(
                "name", f"the {self.sort} type {new.name!r} exists already; choose another name"
            )
        for field, option in new.short_options:
            for owner in self.by_field.get(field, ()):
                if option is not owner.options.get(owner.short[field]) or field in {new.head, owner.head}:
                    message = f"the field {field!r} is taken by the {self.sort} type {owner.name!r}"
                    raise InvalidInput("short", message)
        self.by_name[new.name] = new
        for field in new.short:
            self.by_field[field] = (*self.by_field.get(field, ()), new)
        self.heads += list(new.short)[:1]
        self.companions += [field for field in list(new.short)[1:] if field not in self.companions]

    def of_head(self, head: str) -> T:
        """Return the type that a field selects."""
        return self.by_field[head][0]

    def owners(self, field: str) -> str:
        """Return the fields that one goes with, as one text, for messages."""
        return " or ".join(str(one.head) for one in self.by_field[field])

    def names(self) -> str:
        """Return the names as one text, for messages."""
        return ", ".join(sorted(self.by_name))
