"""What the planner knows about the next seconds: the clocks, in the order in which they fire."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from heapq import heapify, heappop, heappush
from uuid import UUID

from mainspring.core.ids import JobId
from mainspring.core.model import JobSpec
from mainspring.core.planning import jittered
from mainspring.ports.store.schedule import DueClock

Entry = tuple[datetime, datetime, UUID, DueClock]
"""When the clock fires, when its run starts, the job, and the clock."""


@dataclass(slots=True)
class Window:
    """A heap of clocks that can be read from the store again while it is being worked off.

    A read shows the clocks as they were at some instant during the read. If a job's clock was taken out or put in since
    the read started, only the window knows its current state, so the window ignores what the read says about that job.
    """

    _heap: list[Entry] = field(default_factory=list)
    _moved: dict[JobId, Entry | None] | None = None

    def __len__(self) -> int:
        return len(self._heap)

    def first_at(self) -> datetime | None:
        """Return when the next clock fires; None if the window is empty."""
        return self._heap[0][0] if self._heap else None

    def push(self, entry: Entry) -> None:
        """Put in a clock. Its job must have none in the window."""
        heappush(self._heap, entry)
        if self._moved is not None:
            self._moved[entry[3].job_id] = entry

    def pop_due(self, now: datetime, limit: int) -> list[Entry]:
        """Take out the clocks that fire by `now`, in order, at most `limit`."""
        due: list[Entry] = []
        while self._heap and self._heap[0][0] <= now and len(due) < limit:
            due.append(heappop(self._heap))
        if self._moved is not None:
            self._moved.update((entry[3].job_id, None) for entry in due)
        return due

    def clear(self) -> None:
        """Forget everything."""
        self._heap.clear()

    def begin_read(self) -> None:
        """Start to note which clocks move. No fire of a clock that was taken out may be under way."""
        self._moved = {}

    def end_read(self, entries: Iterable[Entry]) -> None:
        """Replace the window with what was read, except for clocks that have moved since the read started."""
        moved = self._moved or {}
        self._heap = [entry for entry in entries if entry[3].job_id not in moved]
        self._heap += [entry for entry in moved.values() if entry is not None]
        heapify(self._heap)
        self._moved = None

    def give_up_read(self) -> None:
        """Keep the window as it is, because the read failed."""
        self._moved = None


def entry_of(clock: DueClock, spec: JobSpec | None) -> Entry:
    """Return a clock's place in the order. Of clocks that fire together, the one whose run starts first comes first."""
    start = clock.fire_at
    if spec is not None and spec.jitter:
        start = jittered(clock.job_id, start, spec.jitter)
    return clock.fire_at, start, clock.job_id, clock
