"""Definitions in words that JSON can carry: what users write, what `GET` answers, what a version keeps (design 3.2)."""

from mainspring.core.definition.plain import plain_from_spec, spec_from_plain
from mainspring.core.definition.read import (
    edit_definition,
    names_target,
    read_definition,
    read_timing,
    warn_of_definition,
)

__all__ = [
    "edit_definition",
    "names_target",
    "plain_from_spec",
    "read_definition",
    "read_timing",
    "spec_from_plain",
    "warn_of_definition",
]
