"""The leases that a worker holds: attempts under way, and endings that are not reported yet."""

from __future__ import annotations

from itertools import islice

from mainspring.core.ids import RunId, SessionId
from mainspring.ports.gateway import Ending
from mainspring.worker.attempt import AttemptTask

LeaseKey = tuple[RunId, int]
"""A run and its token."""


class HeldLeases:
    """The leases, as state that claiming, attempts and reporting share.

    Args:
        slots: how many attempts the worker runs at a time.

    Attributes:
        active: the attempts under way.
        ended: the endings that are not reported yet, each with the session that claimed the lease.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self.active: dict[LeaseKey, AttemptTask] = {}
        self.ended: dict[LeaseKey, tuple[SessionId, Ending]] = {}

    @property
    def keys(self) -> tuple[LeaseKey, ...]:
        """All leases: first those under way, then those that have ended."""
        return (*self.active, *self.ended)

    def __bool__(self) -> bool:
        return bool(self.active or self.ended)

    def free_slots(self) -> int:
        """Return how many more leases the worker may take. Zero or less means none.

        An ending that waits for its report occupies no slot, so that reporting overlaps with work. But active attempts
        and endings together are at most twice the slots.
        """
        active = len(self.active)
        return min(self._slots - active, 2 * self._slots - active - len(self.ended))

    def next_report(self, most: int) -> tuple[SessionId, list[LeaseKey]] | None:
        """Return the oldest endings that fit in one report, at most `most`; None if there are none.

        All endings in a report belong to one session, because an ending is reported by the session that claimed it.
        """
        entries = islice(self.ended.items(), most)
        first = next(entries, None)
        if first is None:
            return None
        key, (session_id, _) = first
        return session_id, [key, *(key for key, (other, _) in entries if other == session_id)]
