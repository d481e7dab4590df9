"""How all calls identify a lease: by its run and token."""

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
    Meta(ge=0, le=2**31 - 1, description="The lease's token. It grows with every claim and loss of the run."),
]


class LeaseKey(Struct, kw_only=True, forbid_unknown_fields=True):
    """A lease, identified by run and token."""

    run_id: RunText
    token: Token


def to_keys(items: Iterable[LeaseKey]) -> tuple[tuple[RunId, int], ...]:
    """Read the runs and tokens of leases."""
    return tuple((read_run_id(item.run_id), item.token) for item in items)


def from_keys(keys: Iterable[tuple[RunId, int]]) -> list[LeaseKey]:
    """Write the runs and tokens of leases."""
    return [LeaseKey(run_id=format_run_id(run_id), token=token) for run_id, token in keys]


def read_run_id(text: str, field: str = "run_id") -> RunId:
    """Read `run_…`.

    Raises:
        InvalidInput: the text is not a run's id. The error names the field.
    """
    try:
        return parse_run_id(text)
    except ValueError as error:
        raise InvalidInput(field, str(error)) from None


def read_json(raw: msgspec.Raw) -> bytes | None:
    """Return the text of a JSON value, or None for null."""
    text = bytes(raw)
    return None if text == b"null" else text
