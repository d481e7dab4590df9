"""The steps that are kept of a durable function's run, as the HTTP API shows them."""

from __future__ import annotations

from msgspec import Struct

from mainspring.core.checkpoints import Checkpoint
from mainspring.errors import InvalidInput
from mainspring.wire.protocol.checkpoints import KeptStepView, from_step


class CheckpointPage(Struct):
    """A page of the steps that are kept of a run, by name and number; `next` is the value of `after` for the page that
    follows.
    """

    items: list[KeptStepView]
    next: str | None


def view_checkpoints(found: list[Checkpoint], limit: int) -> CheckpointPage:
    """Show a page of steps."""
    following = f"{found[-1].number}:{found[-1].name}" if len(found) == limit else None
    return CheckpointPage([from_step(step) for step in found], following)


def read_after(text: str | None) -> tuple[str, int] | None:
    """Read the `next` of the previous page.

    Raises:
        InvalidInput: it is none.
    """
    if text is None:
        return None
    number, colon, name = text.partition(":")
    if not colon or not number.isdecimal() or len(number) > 9:
        raise InvalidInput(
            "after", f"must be the `next` of the previous page, like '0:charge', not {text!r:.80}"
        )
    return name, int(number)
