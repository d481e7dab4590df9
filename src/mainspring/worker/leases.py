"""The leases that a worker answers for: attempts under way, and endings that are not reported yet."""

from __future__ import annotations

from itertools import islice

from mainspring.core.ids import RunId, SessionId
from mainspring.ports.gateway import Ending
from mainspring.worker.attempt import AttemptTask

LeaseKey = tuple[RunId, int]
"""A run and its token."""


class HeldLeases:
    """State that claiming, attempts and reporting share.

    Args:
        slots: attempts that the worker carries out at a time.

    Attributes:
        active: attempts under way.
        ended: how attempts ended that are not reported yet, each with the session under which it was claimed.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self.active: dict[LeaseKey, AttemptTask] = {}
        self.ended: dict[LeaseKey, tuple[SessionId, Ending]] = {}

    @property
    def keys(self) -> tuple[LeaseKey, ...]:
        """All leases, in the order in which they were taken."""
        return (*self.active, *self.ended)

    def __bool__(self) -> bool:
        return bool(self.active or self.ended)

    def free_slots(self) -> int:
        """Return how many more leases the worker may take; zero or less is none.

        An ending that waits for its report holds no slot, up to as many again: reporting overlaps with work.
        """
        active = len(self.active)
        return min(self._slots - active, 2 * self._slots - active - len(self.ended))

    def next_report(self, most: int) -> tuple[SessionId, list[LeaseKey]] | None:
        """Return the oldest endings that one report can carry, at most `most`; None when there are none.

        One report speaks for one session: an attempt's end is reported under the session that claimed it.
        """
        entries = islice(self.ended.items(), most)
        first = next(entries, None)
        if first is None:
            return None
        key, (session_id, _) = first
        return session_id, [key, *(key for key, (other, _) in entries if other == session_id)]
