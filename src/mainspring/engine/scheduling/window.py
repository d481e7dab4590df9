"""What the planner knows about the next seconds: the clocks, and which of them fire first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush
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
Heap = list[Entry]


def _heaps() -> dict[Priority, Heap]:
    return {priority: [] for priority in Priority}


@dataclass(slots=True)
class Window:
    """The clocks that are ahead, and those that are due, which fire HIGH before MEDIUM before LOW (design 5).

    It can be read from the store again while it is being worked off. A read shows the clocks as they were at some
    instant during the read. If a job's clock was taken out or put in since the read started, only the window knows its
    current state, so the window ignores what the read says about that job.
    """

    _ahead: Heap = field(default_factory=list)
    _on_time: dict[Priority, Heap] = field(default_factory=_heaps)
    _late: dict[Priority, Heap] = field(default_factory=_heaps)
    _counts: dict[Priority, int] = field(default_factory=lambda: dict.fromkeys(Priority, 0))
    _moved: dict[JobId, Entry | None] | None = None

    def __len__(self) -> int:
        return sum(self._counts.values())

    def count(self, priority: Priority) -> int:
        """Return how many clocks of a priority there are."""
        return self._counts[priority]

    def first_at(self) -> datetime | None:
        """Return when the earliest clock is due; None if the window is empty."""
        heaps = (self._ahead, *self._on_time.values(), *self._late.values())
        return min((heap[0][0] for heap in heaps if heap), default=None)

    def push(self, clock: DueClock) -> None:
        """Put in a clock. Its job must have none in the window."""
        entry = (clock.due_at, clock.job_id, clock)
        heappush(self._ahead, entry)
        self._counts[clock.priority] += 1
        if self._moved is not None:
            self._moved[clock.job_id] = entry

    def pop_due(self, now: datetime, limit: int) -> list[DueClock]:
        """Take out clocks that are due by `now`, at most `limit`, the most urgent first.

        Late ones get half of the places if there are so many, and what those on time leave.
        """
        self._sort(now)
        late = sum(map(len, self._late.values()))
        due: list[DueClock] = []
        for heap in self._on_time.values():
            while heap and len(due) < limit - min(late, limit // 2):
                due.append(heappop(heap)[2])
        while len(due) < limit and (heap := self._most_urgent_late()):
            due.append(heappop(heap)[2])
        for clock in due:
            self._counts[clock.priority] -= 1
        if self._moved is not None:
            self._moved.update((clock.job_id, None) for clock in due)
        return due

    def _sort(self, now: datetime) -> None:
        """Put clocks that have become due, or late, in their places."""
        while self._ahead and self._ahead[0][0] <= now:
            entry = heappop(self._ahead)
            heappush(self._on_time[entry[2].priority], entry)
        for priority, heap in self._on_time.items():
            while heap and heap[0][0] < now - LATE:
                heappush(self._late[priority], heappop(heap))

    def _most_urgent_late(self) -> Heap:
        """Return the heap that has the most urgent of the late clocks. It is empty if there are none."""
        waiting = ((heap[0][0] + AGING * priority, heap) for priority, heap in self._late.items() if heap)
        return min(waiting, key=lambda one: one[0], default=(None, []))[1]

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

    def _replace(self, entries: Heap) -> None:
        heapify(entries)
        self._ahead, self._on_time, self._late = entries, _heaps(), _heaps()
        self._counts = dict.fromkeys(Priority, 0)
        for *_, clock in entries:
            self._counts[clock.priority] += 1
