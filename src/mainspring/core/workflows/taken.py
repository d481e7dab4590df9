"""What a run takes over from the one that it repeats: steps, and items of steps, that had succeeded."""

from __future__ import annotations

from collections.abc import Iterable

from mainspring.core.ids import RunId
from mainspring.core.values import value


@value()
class TakenStep:
    """A step that had succeeded in an earlier run of the workflow, so that it does not run again.

    Attributes:
        step: its place in the workflow.
        flow_id, place: the run in which it succeeded, and its place there.
        items: of a step some of whose items had succeeded, which ones: a bit for each, the lowest first. Empty if the
            step as a whole is taken over.
    """

    step: int
    flow_id: RunId
    place: int
    items: bytes = b""

    @property
    def is_whole(self) -> bool:
        """Whether all of the step is taken over."""
        return not self.items


Taken = tuple[TakenStep, ...]
"""What a flow has taken over, in order of place."""


def pack_items(items: Iterable[int]) -> bytes:
    """Return items as `TakenStep.items` holds them."""
    bits = bytearray()
    for item in items:
        if item >> 3 >= len(bits):
            bits.extend(bytes((item >> 3) + 1 - len(bits)))
        bits[item >> 3] |= 1 << (item & 7)
    return bytes(bits)


def has_item(items: bytes, item: int) -> bool:
    """Say whether an item is among packed ones."""
    return item >> 3 < len(items) and bool(items[item >> 3] >> (item & 7) & 1)


def unpack_items(items: bytes) -> list[int]:
    """Return packed items, lowest first."""
    return [item for item in range(8 * len(items)) if has_item(items, item)]
