"""A fast decorator for values that are created for every run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def value(*, kw_only: bool = False) -> Callable[[type[T]], type[T]]:
    """Make a class of immutable values, equal and hashed by their fields.

    Readers may take this for `@dataclass(frozen=True, slots=True)`, and so does mypy, which forbids assignments. But
    that decorator sets each field through `object.__setattr__`. With twelve fields, that takes 2.0 to 2.6 µs instead
    of 0.2 to 1.1, several times for every run. Use this one for values that are created that often, and the ordinary
    decorator elsewhere.
    """
    return dataclass(slots=True, unsafe_hash=True, kw_only=kw_only)
