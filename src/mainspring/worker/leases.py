"""The leases that a worker holds: waiting for a slot, under way, or ended and not reported yet."""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice

from mainspring.core.ids import RunId, SessionId
from mainspring.ports.gateway import MAX_SLOTS, HandedBack, Lease, Report
from mainspring.worker.attempt import AttemptTask

LeaseKey = tuple[RunId, int]
"""A run and its token."""


class HeldLeases:
    """The leases, as state that claiming, attempts and reporting share.

    Args:
        slots: how many attempts the worker runs at a time.

    Attributes:
        slots: how many attempts the worker runs at a time.
        waiting: the leases that were claimed ahead, the oldest first, each with its session and when it came.
        active: the attempts under way.
        ended: what is not reported yet of those that have ended, each with the session that claimed the lease.
        ahead: how many leases may wait for a slot.
        is_room_wanted: whether claiming waits for room.
        shared: how many of the active attempts take no slot of their own, because they are one call with another.
    """

    def __init__(self, slots: int) -> None:
        self.slots = slots
        # Of a plain dictionary, taking the first again and again would pass over all that were taken before.
        self.waiting: OrderedDict[LeaseKey, tuple[Lease, SessionId, float]] = OrderedDict()
        self.active: dict[LeaseKey, AttemptTask] = {}
        self.ended: dict[LeaseKey, tuple[SessionId, Report]] = {}
        self.ahead = 0
        self.is_room_wanted = False
        self.shared = 0

    @property
    def report_goal(self) -> int:
        """How many endings are worth a report: while others wait for a slot, half of as many as may wait."""
        return self.ahead // 2 or 1 if self.waiting else 1

    @property
    def keys(self) -> tuple[LeaseKey, ...]:
        """All leases: first those under way, then those that wait for a slot, then those that have ended."""
        return (*self.active, *self.waiting, *self.ended)

    def __contains__(self, key: LeaseKey) -> bool:
        return key in self.active or key in self.waiting or key in self.ended

    def __bool__(self) -> bool:
        return bool(self.active or self.waiting or self.ended)

    @property
    def used_slots(self) -> int:
        """How many slots the attempts under way take."""
        return len(self.active) - self.shared

    def has_free_slot(self) -> bool:
        """Return whether one more attempt can begin."""
        return len(self.active) - self.shared < self.slots  # asked for every run, so without a call

    def free_slots(self) -> int:
        """Return how many more leases can begin at once. Zero or less means none.

        An ending that waits for its report occupies no slot, so that reporting overlaps with work. But active attempts
        and endings together are at most twice the slots. An attempt of a batch takes a part of a slot; their number
        has a bound of its own.
        """
        active, waiting = len(self.active) - self.shared, len(self.waiting)
        if self.shared:
            is_much = len(self.active) + len(self.ended) >= MAX_SLOTS
            return 0 if is_much else self.slots - active - waiting
        return min(self.slots - active, 2 * self.slots - active - len(self.ended)) - waiting

    def room(self) -> int:
        """Return how many more leases the worker may take: those that can begin at once, and those that may wait.

        While it claims ahead, it waits until half of what it holds in store is used up, so that claims are large.
        """
        if not self.ahead:
            return self.free_slots()
        if 2 * len(self.waiting) > self.ahead:
            return 0
        most = min(self.slots + self.ahead, MAX_SLOTS)
        held = len(self.active) + len(self.waiting)
        return min(most - held, 2 * most - held - len(self.ended))

    def hand_back(self, key: LeaseKey, session_id: SessionId, *, is_preempted: bool = False) -> None:
        """Note that an attempt ends before it began, so that another worker can do the work."""
        ending = HandedBack(was_started=False, is_preempted=is_preempted)
        self.ended[key] = session_id, Report(*key, ending)

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
