"""What stands for a lease in all calls: its run and token."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from mainspring.core.ids import RunId, format_run_id, parse_run_id
from mainspring.errors import InvalidInput

RUN_EXAMPLE = "run_00000000001yf"
RunText = Annotated[str, Meta(examples=[RUN_EXAMPLE], description="The run.")]
Token = Annotated[
    int,
    Meta(ge=0, le=2**31 - 1, description="The lease's token: grows with every claim and loss of the run."),
]


class LeaseKey(Struct, kw_only=True, forbid_unknown_fields=True):
    """A lease by run and token."""

    run_id: RunText
    token: Token


def to_keys(items: Iterable[LeaseKey]) -> tuple[tuple[RunId, int], ...]:
    """Read leases by run and token."""
    return tuple((read_run_id(item.run_id), item.token) for item in items)


def from_keys(keys: Iterable[tuple[RunId, int]]) -> list[LeaseKey]:
    """Write leases by run and token."""
    return [LeaseKey(run_id=format_run_id(run_id), token=token) for run_id, token in keys]


def read_run_id(text: str, field: str = "run_id") -> RunId:
    """Read `run_…`.

    Raises:
        InvalidInput: it is none; names the field.
    """
    try:
        return parse_run_id(text)
    except ValueError as error:
        raise InvalidInput(field, str(error)) from None


def read_json(raw: msgspec.Raw) -> bytes | None:
    """Return the text of a JSON value; null is none."""
    text = bytes(raw)
    return None if text == b"null" else text
