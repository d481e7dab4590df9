"""What the planner knows about the next seconds: the clocks, and which of them fire first."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from heapq import merge
from itertools import islice
from operator import itemgetter
from uuid import UUID

from mainspring.core.ids import JobId
from mainspring.core.model import Priority
from mainspring.ports.store.schedule import DueClock

LATE = timedelta(seconds=1)
"""A fire that is overdue by more shares the batches with those on time, half and half, so that neither holds up the
other for long."""
AGING = timedelta(seconds=10)
"""Among late fires, one of a lower priority comes first if it has waited longer by this much for each tier between."""

Entry = tuple[datetime, UUID, DueClock]
"""When the clock is due, the job, and the clock."""
_due_at = itemgetter(0)


def _lists() -> dict[Priority, list[Entry]]:
    return {priority: [] for priority in Priority}


@dataclass(slots=True)
class Window:
    """The clocks that are ahead, and those that are due, which fire HIGH before MEDIUM before LOW (design 5).

    It can be read from the store again while it is being worked off. A read shows the clocks as they were at some
    instant during the read. If a job's clock was taken out or put in since the read started, only the window knows its
    current state, so the window ignores what the read says about that job.

    Each priority has its clocks sorted. What is read comes nearly in order, so a herd is sorted and taken out in
    slices.
    """

    _entries: dict[Priority, list[Entry]] = field(default_factory=_lists)
    _moved: dict[JobId, Entry | None] | None = None

    def __len__(self) -> int:
        return sum(map(len, self._entries.values()))

    def count(self, priority: Priority) -> int:
        """Return how many clocks of a priority there are."""
        return len(self._entries[priority])

    def first_at(self) -> datetime | None:
        """Return when the earliest clock is due; None if the window is empty."""
        return min((entries[0][0] for entries in self._entries.values() if entries), default=None)

    def push(self, clock: DueClock) -> None:
        """Put in a clock. Its job must have none in the window."""
        entry = (clock.due_at, clock.job_id, clock)
        insort(self._entries[clock.priority], entry)
        if self._moved is not None:
            self._moved[clock.job_id] = entry

    def pop_due(self, now: datetime, limit: int) -> list[DueClock]:
        """Take out clocks that are due by `now`, at most `limit`, the most urgent first.

        Late ones get half of the places if there are so many, and what those on time leave.
        """
        late = {
            priority: bisect_left(entries, now - LATE, key=_due_at)
            for priority, entries in self._entries.items()
        }
        room = limit - min(sum(late.values()), limit // 2)
        due: list[DueClock] = []
        for priority, entries in self._entries.items():
            first = late[priority]
            last = min(bisect_right(entries, now, key=_due_at), first + room - len(due))
            due += _take(entries, first, last)
        if late := {priority: count for priority, count in late.items() if count}:
            due += self._pop_late(late, limit - len(due))
        if self._moved is not None:
            self._moved.update((clock.job_id, None) for clock in due)
        return due

    def _pop_late(self, counts: dict[Priority, int], limit: int) -> list[DueClock]:
        """Take out late clocks, at most `limit`, the most urgent first.

        Args:
            counts: how many clocks of each priority are late.
        """
        if len(counts) == 1:
            [(priority, count)] = counts.items()
            return _take(self._entries[priority], 0, min(count, limit))
        urgent = merge(
            *(
                [
                    (entry[0] + AGING * priority, priority)
                    for entry in self._entries[priority][: min(count, limit)]
                ]
                for priority, count in counts.items()
            )
        )
        taken = dict.fromkeys(counts, 0)
        due: list[DueClock] = []
        for _, priority in islice(urgent, limit):
            due.append(self._entries[priority][taken[priority]][2])
            taken[priority] += 1
        for priority, count in taken.items():
            del self._entries[priority][:count]
        return due

    def clear(self) -> None:
        """Forget everything."""
        self._replace([])

    def begin_read(self) -> None:
        """Start to note which clocks move. No fire of a clock that was taken out may be under way."""
        self._moved = {}

    def end_read(self, clocks: Iterable[DueClock]) -> None:
        """Replace the window with what was read, except for clocks that have moved since the read started."""
        moved = self._moved or {}
        entries = [(clock.due_at, clock.job_id, clock) for clock in clocks if clock.job_id not in moved]
        self._replace(entries + [entry for entry in moved.values() if entry is not None])
        self._moved = None

    def give_up_read(self) -> None:
        """Keep the window as it is, because the read failed."""
        self._moved = None

    def _replace(self, entries: list[Entry]) -> None:
        self._entries = _lists()
        for entry in entries:
            self._entries[entry[2].priority].append(entry)
        for one in self._entries.values():
            one.sort()


def _take(entries: list[Entry], first: int, last: int) -> list[DueClock]:
    """Take out some of the entries, by their places; none if there is nothing between them."""
    taken = [clock for _, _, clock in entries[first:last]]
    del entries[first : max(first, last)]
    return taken
