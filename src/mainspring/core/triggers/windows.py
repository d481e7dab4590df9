"""Windows: the fields that let a trigger fire only from an instant on, or only up to one."""

from __future__ import annotations

from mainspring.core.options import Option, Options
from mainspring.core.times import Instant

WINDOW = Options(
    Option(
        name="starts_at",
        kind=Instant(),
        summary="With a trigger that recurs: it does not fire before this instant.",
        detail="An interval that has no anchor is counted from here: this is its first fire.",
        default=None,
        is_nullable=True,
        example="2026-12-01T00:00:00+01:00",
    ),
    Option(
        name="ends_at",
        kind=Instant(),
        summary="With a trigger that recurs: it does not fire after this instant.",
        default=None,
        is_nullable=True,
        example="2027-01-01T00:00:00+01:00",
    ),
)
