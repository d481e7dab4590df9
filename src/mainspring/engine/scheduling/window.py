"""What the planner knows of the next seconds: clocks in the order in which they fire."""

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
"""When it fires, when its run starts, the job, and its clock."""


@dataclass(slots=True)
class Window:
    """A heap that can be read anew while it is worked off.

    A read shows the clocks as they stood at some instant while it was under way. Of a job whose clock was taken out or
    put in since it began, only this side knows where it stands, so what the read says of it is left aside.
    """

    _heap: list[Entry] = field(default_factory=list)
    _moved: dict[JobId, Entry | None] | None = None

    def __len__(self) -> int:
        return len(self._heap)

    def first_at(self) -> datetime | None:
        """Return when the next one fires."""
        return self._heap[0][0] if self._heap else None

    def push(self, entry: Entry) -> None:
        """Put a clock in whose job has none here."""
        heappush(self._heap, entry)
        if self._moved is not None:
            self._moved[entry[3].job_id] = entry

    def pop_due(self, now: datetime, limit: int) -> list[Entry]:
        """Take out what fires by now, in order; at most so many."""
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
        """Note from now on what moves; nothing that was taken out may be under way."""
        self._moved = {}

    def end_read(self, entries: Iterable[Entry]) -> None:
        """Take what was read instead of what was there, but for what has moved since the read began."""
        moved = self._moved or {}
        self._heap = [entry for entry in entries if entry[3].job_id not in moved]
        self._heap += [entry for entry in moved.values() if entry is not None]
        heapify(self._heap)
        self._moved = None

    def give_up_read(self) -> None:
        """Keep what is there: the read failed."""
        self._moved = None


def entry_of(clock: DueClock, spec: JobSpec | None) -> Entry:
    """Return a clock's place among the others: of those that fire together first whose run starts first."""
    start = clock.fire_at
    if spec is not None and spec.jitter:
        start = jittered(clock.job_id, start, spec.jitter)
    return clock.fire_at, start, clock.job_id, clock
