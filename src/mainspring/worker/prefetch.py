"""Decides how many runs a worker claims ahead of its free slots, so that short runs need no large `slots`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from mainspring.core.model import Delivery
from mainspring.ports.gateway import Lease

MOST = 4000
"""The most runs that wait in a worker for a slot. Claims and reports hardly get cheaper beyond that."""
MOST_BYTES = 4 * 1024 * 1024
"""The most bytes of payload that wait in a worker, by the mean of the last claim."""
LEAST_PATIENCE = 1.0
"""Seconds that a run waits for a slot at least before it is handed back."""
COOLDOWN = 10.0
"""Seconds without claiming ahead after runs had to be handed back: a run must not go to and fro."""
_SHORTEST_SAMPLE = 0.01
"""Seconds between two readings of the rate, at least."""


class Prefetch:
    """Follows how fast a worker's attempts end, and how deep the backlog is.

    As long as each claim gets all that it asks for, there is a backlog. Then as many runs may wait in the worker as it
    ends within `horizon`: thousands of short ones, and none that takes long. A claim that gets less ends that, because
    what is ready should go to whoever is idle. So does one that gets at-most-once runs: if the worker dies, they fail,
    whether or not they have begun. So does one that gets runs with limits, because a run that waits here would keep
    others from starting elsewhere, and one that gets batches.

    The rate is read when as many attempts have ended as there are slots. Attempts that began together end together, so
    fewer ends may all be of one burst, and the next one may be far.

    Args:
        horizon: how much work may wait for a slot; zero means none.
        slots: how many attempts the worker runs at a time.

    Attributes:
        patience: seconds after which a run that still waits is handed back. The runs before it take longer than others
            did, and another worker may be idle.
    """

    def __init__(self, horizon: timedelta, *, slots: int = 1) -> None:
        self._horizon = horizon.total_seconds()
        self._slots = max(slots, 1)
        self.patience: float = max(LEAST_PATIENCE, 4 * self._horizon)
        self._paused_until = 0.0
        self._rate = 0.0
        self._read_at: float | None = None
        self._ended = 0

    def adapt(self, leases: Sequence[Lease], *, asked: int, ended: int, now: float) -> int:
        """Return how many runs may wait for a slot, after a claim was answered.

        Args:
            leases: what the claim got.
            asked: how many it asked for; 0 if it repeated an earlier one.
            ended: how many attempts have ended since the worker's start.
            now: the monotonic clock, in seconds.
        """
        self._read_rate(ended, now)
        is_backlog = 0 < asked <= len(leases)
        if not self._horizon or not is_backlog or now < self._paused_until:
            return 0
        specs = {id(lease.spec): lease.spec for lease in leases}  # thousands of leases have few specs
        if any(spec.delivery is Delivery.AT_MOST_ONCE or spec.is_lined_up for spec in specs.values()):
            return 0
        return min(int(self._rate * self._horizon), MOST, _that_fit(leases))

    def _read_rate(self, ended: int, now: float) -> None:
        if self._read_at is None:
            self._read_at, self._ended = now, ended
        elapsed, more = now - self._read_at, ended - self._ended
        if elapsed < _SHORTEST_SAMPLE:
            return
        if more >= self._slots:
            self._rate = more / elapsed
            self._read_at, self._ended = now, ended
        else:  # it is not known yet, but no higher than this
            self._rate = min(self._rate, self._slots / elapsed)

    def note_hand_back(self, now: float) -> None:
        """Note that runs have waited too long: the rate was no guide to them."""
        self._paused_until = now + COOLDOWN


def _that_fit(leases: Sequence[Lease]) -> int:
    size = sum(len(lease.payload) for lease in leases if lease.payload is not None)
    return MOST if size * MOST <= MOST_BYTES * len(leases) else MOST_BYTES * len(leases) // size
