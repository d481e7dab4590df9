"""Checkpoints: what the steps of a durable function have returned, kept under run, name and number."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from mainspring.core.fields import MAX_PAYLOAD, is_deep
from mainspring.core.ids import RunId, SessionId
from mainspring.core.values import value
from mainspring.errors import InvalidInput

MAX_STEP_NAME = 200
"""The most characters of a step's name."""
MOST_STEPS = 10_000
"""The most steps of one name in a run. Their numbers start at 0."""


class CheckpointVerdict(StrEnum):
    """What became of a checkpoint: KEPT; KNOWN if one of the name and number was there; STALE if the lease is lost."""

    KEPT = "kept"
    KNOWN = "known"
    STALE = "stale"


@value()
class NewCheckpoint:
    """What a step has come to, under the lease of its attempt.

    Attributes:
        number: which step of the name it is, in the order in which the function began them, from 0.
        is_error: the value says how the step failed.
        value: JSON text in UTF-8, or None.
    """

    run_id: RunId
    token: int
    session_id: SessionId
    name: str
    number: int
    is_error: bool = False
    value: bytes | None = None


@value()
class Checkpoint:
    """What is kept of a step.

    Attributes:
        token: that of the attempt which took the step.
    """

    name: str
    number: int
    token: int
    is_error: bool
    value: bytes | None
    kept_at: datetime


def check_step_name(name: object, field: str = "name") -> str:
    """Return a step's name.

    Raises:
        InvalidInput: it is none.
    """
    if not isinstance(name, str) or not 0 < len(name) <= MAX_STEP_NAME or not name.isprintable():
        raise InvalidInput(field, f"must be 1 to {MAX_STEP_NAME} printable characters, not {name!r:.80}")
    return name


def check_checkpoint(new: NewCheckpoint, field: str) -> None:
    """Refuse what cannot be kept.

    Raises:
        InvalidInput: the name or the number is none, or the value is too large or too deep.
    """
    check_step_name(new.name, f"{field}.name")
    if not 0 <= new.number < MOST_STEPS:
        raise InvalidInput(f"{field}.number", f"must be 0 to {MOST_STEPS - 1:,}, not {new.number}")
    if new.value is not None:
        check_value(new.value, f"{field}.value")


def check_value(text: bytes, field: str) -> None:
    """Refuse what a step returned if it is too large or too deep.

    Raises:
        InvalidInput: it is.
    """
    if len(text) > MAX_PAYLOAD:
        raise InvalidInput(
            field,
            f"is {len(text):,} bytes of JSON; at most {MAX_PAYLOAD:,} can be kept of a step."
            " Keep it as a file (current_attempt().artifact), and return its id",
        )
    if is_deep(text):
        raise InvalidInput(field, "is nested too deep to be kept")
