"""When to look at which lanes: a few all at once, many in slices that take little of the time (design 6)."""

from __future__ import annotations

from datetime import timedelta

from mainspring.core.ids import LaneId
from mainspring.engine.common.pacing import Pacing
from mainspring.engine.common.scan_depth import Depth, ScanDepth

POLL_PERIOD = 0.5
"""Seconds between two looks at all lanes without a hint, at most, while they are few. Another process's commits are
found by then."""
POLL_JITTER = 0.25
"""Looks come earlier by up to this part of the period, at random, so that many servers do not fall into step."""
SCAN_DEPTHS = (
    Depth(timedelta(seconds=2)),
    Depth(timedelta(seconds=30), period=5.0),
    Depth(None, period=30.0),
)
"""A run's `ready_at` is the instant at which its write started. A run that is committed later than a depth's lag is
found only by a deeper scan, which comes later."""
SLICE = 1000
"""Lanes of one look, at most."""
FEW = 256
"""While no more lanes are known, each look is at all of them."""


class LaneRounds:
    """Goes round all lanes, a slice at a time. Each round has one depth.

    While there are few lanes, a round is one slice, and comes whenever something may have changed. Otherwise slices
    take at most a twentieth of the time, apart from the first round. Where a slice takes long because the store is far
    away, there is one each half second all the same, as there would be with few lanes.

    Attributes:
        after: the slice that comes next has the lanes above this one; None: it is the first of a round.
    """

    def __init__(self) -> None:
        self.after: LaneId | None = None
        self._scans = ScanDepth(SCAN_DEPTHS)
        self._pacing = Pacing(longest=POLL_PERIOD)
        self._depth = 0
        self._cost = 0.0
        self._begun = -1.0e9
        self._ended = -1.0e9
        self._due = -1.0e9
        self._is_first = True

    def due_in(self, at: float, period: float) -> float:
        """Return the seconds until the next slice, if a round begins after each period."""
        begin = self._begun + period if self.after is None else -1.0e9
        return max(self._due, begin) - at

    def begin(self, at: float) -> timedelta | None:
        """Begin a slice. Return how far back it goes; None: to the very beginning."""
        if self.after is None:
            self._depth = self._scans.choose(at)
            self._cost = 0.0
            self._begun = at
        return self._scans.lag(self._depth)

    def end(self, begun: float, ended: float, last: LaneId | None) -> None:
        """Note that a slice was read up to a lane; None: it was the last one of its round."""
        self._cost += ended - begun
        self.after = last
        rest = self._pacing.rest(ended - begun)
        self._due = ended if self._is_first else ended + rest
        if last is None:
            self._is_first = False
            self._scans.note(self._depth, begun=ended - self._cost, ended=ended)

    def fail(self, begun: float, ended: float) -> None:
        """Note that a slice could not be read. The next one begins another round."""
        self._scans.charge(self._depth, begun=begun - self._cost, ended=ended)
        self.after = None
