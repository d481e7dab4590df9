"""The field `map` of a step: for which items it runs."""

from __future__ import annotations

from typing import Any, ClassVar

from mainspring.core.definition.once import make_rule_kind
from mainspring.core.definition.step_values import ExpressionText
from mainspring.core.fields import check_depth, decode_payload, encode_payload, kind, read_payload
from mainspring.core.kinds import Kind, Schema, Whole
from mainspring.core.options import Option
from mainspring.core.values import value
from mainspring.core.workflows.maps import MOST_ITEMS, StepMap
from mainspring.errors import InvalidInput

_FULL = 1.0
"""A part of all items, as a number with a point: all of them."""


@value()
class Items(Kind):
    """A list of any JSON values, each kept as its text, or an expression that makes one."""

    most: int = MOST_ITEMS
    is_list: ClassVar[bool] = True

    def read(self, value: object, path: str, old: Any) -> tuple[bytes, ...] | str:
        """Read a list of at most so many items, each within the limits of a payload; or an expression."""
        if isinstance(value, str):
            text: str = ExpressionText().read(value, path, old)
            return text
        if not isinstance(value, list | tuple):
            raise InvalidInput(
                path, f"must be a list of items, or an expression that makes one, not {kind(value)}"
            )
        if len(value) > self.most:
            raise InvalidInput(path, f"has {len(value)} items; at most {self.most} fit")
        check_depth(value, path)
        return tuple([read_payload(item, f"{path}[{place}]") or b"null" for place, item in enumerate(value)])

    def store(self, value: tuple[bytes, ...] | str) -> list[Any] | str:
        """Return the items, or the expression."""
        return value if isinstance(value, str) else [decode_payload(item) for item in value]

    def load(self, plain: list[Any] | str) -> tuple[bytes, ...] | str:
        """Return their texts, or the expression."""
        return plain if isinstance(plain, str) else tuple([encode_payload(item) for item in plain])

    def schema(self) -> Schema:
        """Return the schema of both."""
        return {"oneOf": [{"type": "array", "maxItems": self.most}, ExpressionText().schema()]}

    def limits(self) -> str:
        """Say how many there may be."""
        return f"a list of at most {self.most:,} JSON values, or {ExpressionText().limits()}"


@value()
class Tolerance(Kind):
    """How many items may fail: a whole number, or a part of all as a number with a point."""

    metavar: ClassVar[str] = "NUMBER"
    is_json: ClassVar[bool] = False

    def read(self, value: object, path: str, old: Any) -> int | float:
        """Read a number of items, or a part of them."""
        del old
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if isinstance(value, int) and is_number and 0 <= value <= MOST_ITEMS:
            return value
        if isinstance(value, float) and 0 <= value <= _FULL:
            return value
        shown = (
            f"{value:g}"
            if isinstance(value, int | float) and abs(value) < 10**18 and is_number
            else kind(value)
        )
        raise InvalidInput(path, f"must be {self.limits()}, not {shown}")

    def schema(self) -> Schema:
        """Return a number's schema."""
        return {"type": "number", "minimum": 0, "maximum": MOST_ITEMS}

    def limits(self) -> str:
        """Say which numbers are right."""
        return f"a whole number of items from 0 to {MOST_ITEMS}, or a part of all from 0.0 to {_FULL}"


MAP = make_rule_kind(
    "map",
    StepMap,
    lambda own, _: own,
    Option(
        name="over",
        kind=Items(),
        summary="The items, one run for each: a list, or an expression that makes one.",
        example=["a.csv", "b.csv"],
    ),
    Option(
        name="max_parallel",
        kind=Whole(1, MOST_ITEMS),
        summary="How many of its runs wait or run at once, at most.",
        detail="Null is no limit.",
        default=None,
        is_nullable=True,
        example=50,
    ),
    Option(
        name="tolerate",
        kind=Tolerance(),
        summary="How many items may fail without making the step fail.",
        detail="Once more have failed, no further items start.",
        default=0,
        example=0.02,
    ),
    short=None,
)
