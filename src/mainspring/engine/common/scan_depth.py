"""How far back to scan for what is ready, so that what ended long ago costs nothing (design 6).

Entries of runs that were claimed, and of clocks that have moved on, lie in the index until they can be cleared, which a
transaction that stays open elsewhere prevents. A scan from just before the oldest known entry passes none of them.
It can miss what was written with an older instant and committed late, so some scans go further back, the deeper the
rarer; and the more one of them costs, the longer it is until the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

SHARE = 0.05
"""The share of time that scans of one depth may take; the shallowest is free."""


@dataclass(frozen=True, slots=True)
class Depth:
    """How far back one kind of scan goes.

    Attributes:
        lag: before what is known; None is to the very beginning.
        period: seconds between two of them, at least.
    """

    lag: timedelta | None
    period: float = 0.0


class ScanDepth:
    """Chooses the depth of each scan.

    Args:
        depths: the shallowest, which always may be taken, first; the last one goes to the very beginning.
    """

    def __init__(self, depths: Sequence[Depth]) -> None:
        self._depths = depths
        self._due = [float("-inf")] * len(depths)
        self._free = [float("-inf")] * len(depths)
        self._is_demanded = False

    def demand(self) -> None:
        """Have the next scan go to the very beginning, as soon as its cost allows."""
        self._is_demanded = True
        self._due[-1] = float("-inf")

    def choose(self, at: float) -> int:
        """Return the number of the deepest scan that is due at a monotonic instant, to be carried out from now on."""
        self._is_demanded = False
        for number in range(len(self._depths) - 1, 0, -1):
            if at >= max(self._due[number], self._free[number]):
                return number
        return 0

    def lag(self, number: int) -> timedelta | None:
        """Return how far back a scan goes; None is to the very beginning."""
        return self._depths[number].lag

    def note(self, number: int, *, begun: float, ended: float) -> None:
        """Take note of a scan that was carried out; it stands for the shallower ones as well."""
        for done in range(1, number + 1):
            self._due[done] = begun + self._depths[done].period
        if self._is_demanded:  # while it was under way: it may have passed by what is asked for
            self._due[-1] = float("-inf")
        self.charge(number, begun=begun, ended=ended)

    def charge(self, number: int, *, begun: float, ended: float) -> None:
        """Have a scan's time count, although it failed: one that is too dear must not be all that is ever tried."""
        self._free[number] = ended + (ended - begun) / SHARE
