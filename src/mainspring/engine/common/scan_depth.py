"""Decides how far back to scan for what is ready, so that entries that are over cost nothing (design 6).

When a run is claimed or a clock moves on, its old entry stays in the index until it can be cleared. A transaction that
stays open elsewhere prevents that. A scan that starts just before the oldest known entry passes none of these. It can
miss an entry with an older instant that was committed late, so some scans go further back. The deeper a scan goes, the
rarer it is; and the more it costs, the longer the wait until the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from mainspring.core.values import value
from mainspring.engine.common.pacing import Pacing

LONGEST = 60.0
"""The most seconds between two scans of one depth, if it is due. Otherwise scans of one depth take a twentieth of the
time; the shallowest has no limit."""


@value()
class Depth:
    """How far back one kind of scan goes.

    Attributes:
        lag: how far it goes back beyond what the last read covered; None goes to the very beginning.
        period: seconds between two scans of this depth, at least.
    """

    lag: timedelta | None
    period: float = 0.0


class ScanDepth:
    """Chooses the depth of each scan.

    Args:
        depths: the shallowest first, which may always be used; the last one goes to the very beginning.
    """

    def __init__(self, depths: Sequence[Depth]) -> None:
        self._depths = depths
        self._due = [float("-inf")] * len(depths)
        self._free = [float("-inf")] * len(depths)
        self._pacing = [Pacing(longest=LONGEST) for _ in depths]
        self._is_demanded = False

    def demand(self) -> None:
        """Make the next scan go to the very beginning, as soon as its cost allows."""
        self._is_demanded = True
        self._due[-1] = float("-inf")

    def choose(self, at: float) -> int:
        """Return the number of the deepest scan that is due at a monotonic instant. The caller starts that scan now."""
        self._is_demanded = False
        for number in range(len(self._depths) - 1, 0, -1):
            if at >= max(self._due[number], self._free[number]):
                return number
        return 0

    def lag(self, number: int) -> timedelta | None:
        """Return how far back a scan goes; None means to the very beginning."""
        return self._depths[number].lag

    def note(self, number: int, *, begun: float, ended: float) -> None:
        """Note that a scan has succeeded. It counts for the shallower depths as well."""
        for done in range(1, number + 1):
            self._due[done] = begun + self._depths[done].period
        if self._is_demanded:  # while it was under way, so it may have missed what is demanded
            self._due[-1] = float("-inf")
        self._free[number] = ended + self._pacing[number].rest(ended - begun)

    def charge(self, number: int, *, begun: float, ended: float) -> None:
        """Count the time of a scan that failed. Otherwise one that is too expensive would be tried again and again."""
        self._free[number] = ended + self._pacing[number].rest(ended - begun, has_failed=True)
