"""Reads the clocks of the next seconds into the planner's window, when that delays no fire (design 5)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from mainspring.core.model import Priority
from mainspring.core.triggers import EPOCH
from mainspring.engine.common.definitions import Definitions
from mainspring.engine.common.scan_depth import Depth, ScanDepth
from mainspring.engine.scheduling.ownership import Ownership
from mainspring.engine.scheduling.window import Window
from mainspring.ports.clock import Clock
from mainspring.ports.store import Store
from mainspring.ports.store.schedule import DueClock

WINDOW = timedelta(seconds=2)
READ_PERIOD = 1.0
LATEST_READ = 1.5
"""Seconds after the last read at which the window is read again, whatever is due. Until then, reads look for a quiet
moment, so that due fires need not wait for a read. Fires on full seconds leave time in between."""
QUIET = 2.0
"""A read may start when nothing is due within this many times the duration of the last read."""
PATIENCE = 0.1
"""Seconds that a read, requested because clocks have changed, waits for a quiet moment, at most."""
STALE_SHARE = 0.2
"""The share of time for reads that changed clocks request. A bulk load changes clocks every few milliseconds."""
READ_LIMIT = 10_000
"""Clocks of a priority that one scan returns."""
PARTIAL_LEFT = 2_500
"""If more is due than was read, the next read starts when this many are left. It takes as long as firing those."""
AT_A_TIME = 250
"""Definitions to read between two chances to fire."""
_SHORTEST = 0.001
"""Seconds before a postponed read is considered again, at least."""
_TICK = timedelta(microseconds=1)
SCAN_DEPTHS = (Depth(timedelta(seconds=5)), Depth(None, period=30.0))
"""A clock is set to an instant ahead. The exception is a job that was due before it was made; its creator sends a
signal. If the signal gets lost, or the clock is committed late, a deeper scan finds it."""


class WindowReader:
    """Decides when the window is read, and from which instant on."""

    def __init__(
        self,
        store: Store,
        window: Window,
        *,
        clock: Clock,
        ownership: Ownership,
        definitions: Definitions,
    ) -> None:
        self._store = store
        self._window = window
        self._clock = clock
        self._ownership = ownership
        self._definitions = definitions
        self._scans = ScanDepth(SCAN_DEPTHS)
        self._read_at: datetime | None = None
        self._read_took = 0.0
        self._settled = EPOCH  # all clocks due before it are in the window
        self._moved_after: datetime | None = (
            None  # clocks due at it or later moved on, unseen, since the last read
        )
        self._gains = 0  # how often the node has gained shards
        self._is_stale = True
        self._unread: dict[Priority, int] = {}
        """Priorities of which more is due than was read, and the size of the window at which to read on."""

    def note_change(self) -> None:
        """Read the window soon, and further back than usual: clocks have changed, or a fire was lost."""
        self._scans.demand()
        self._is_stale = True

    def note_gain(self) -> None:
        """Read the window from the beginning: nothing is known about the shards that the node has gained."""
        self._gains += 1
        self._settled = EPOCH
        self.note_change()

    def note_moved(self, due_at: datetime | None) -> None:
        """Let the next read start at this fire, so that it finds the clock that another write moved on from it.

        A fire whose answer got lost may have been carried out long after the window was last read. Its next fire can
        then lie far before the instant at which a shallow scan starts, and a deep one may be too expensive for now.
        """
        if due_at is not None:
            self._moved_after = due_at if self._moved_after is None else min(self._moved_after, due_at)

    def forget(self) -> None:
        """Start anew when the node owns shards again."""
        self._window.clear()
        self._settled = EPOCH
        self._is_stale = True

    def until_read(self, now: datetime) -> float:
        """Return the seconds until the window is to be read, unless something changes first."""
        if self._read_at is None:
            return 0.0
        age = (now - self._read_at).total_seconds()
        if self._unread:
            # What was read fires first in any case, and reading it again for each batch would take longer. But the
            # next fires of what has fired may keep the window full for ever, so its age counts, too.
            few = any(self._window.count(priority) <= size for priority, size in self._unread.items())
            return 0.0 if few else READ_PERIOD - age
        until, latest = READ_PERIOD - age, LATEST_READ - age
        if self._is_stale:
            until = min(until, self._read_took / STALE_SHARE - age)
            latest = min(latest, until + PATIENCE)
        first_at = self._window.first_at()
        until_due = (first_at - now).total_seconds() if first_at is not None else READ_PERIOD
        quiet = QUIET * self._read_took
        if until_due > max(until, 0.0) + quiet:
            return until
        return min(max(until, until_due, 0.0) + max(quiet, _SHORTEST), latest)

    async def read(self, now: datetime) -> None:
        """Read the window. What is in it may fire meanwhile."""
        self._is_stale = False  # before the await, so that a signal during the read does not get lost
        shards, gains = sorted(self._ownership.epochs), self._gains
        depth, begun = self._scans.choose(self._clock.monotonic()), self._clock.monotonic()
        since = self._since(self._scans.lag(depth))
        moved_after, self._moved_after = self._moved_after, None  # as with the signal
        self._window.begin_read()
        try:
            clocks = await self._store.read_due(shards, until=now + WINDOW, limit=READ_LIMIT, since=since)
            ended = self._clock.monotonic()
            read_through = _read_through(clocks)
            beyond = await self._read_beyond(read_through, clocks, shards, now)
            await self._load_definitions(clocks + beyond)
        except BaseException:
            self._window.give_up_read()
            self._scans.charge(depth, begun=begun, ended=self._clock.monotonic())
            self._is_stale = True
            self.note_moved(moved_after)
            raise
        self._window.end_read(clocks + beyond)
        self._read_took = self._clock.monotonic() - begun
        self._unread = {
            priority: PARTIAL_LEFT + sum(clock.priority is priority for clock in beyond)
            for priority in read_through
        }
        self._settled = min([now, *read_through.values()])
        if gains != self._gains:  # nothing is known about shards gained in the meantime
            self._settled = EPOCH
        self._scans.note(depth, begun=begun, ended=ended)  # now nothing that it read can get lost
        self._read_at = now

    async def _read_beyond(
        self,
        read_through: dict[Priority, datetime],
        clocks: Sequence[DueClock],
        shards: Sequence[int],
        now: datetime,
    ) -> list[DueClock]:
        """Return clocks that become due in the next seconds, where others before them filled the scan.

        So a herd does not hide the fires that come after it.
        """
        if not read_through:
            return []
        since = min(max(now, instant + _TICK) for instant in read_through.values())
        found = await self._store.read_due(shards, until=now + WINDOW, limit=READ_LIMIT, since=since)
        known = {clock.job_id for clock in clocks}
        return [clock for clock in found if clock.priority in read_through and clock.job_id not in known]

    async def _load_definitions(self, clocks: Sequence[DueClock]) -> None:
        """Fill the cache in parts, so that due fires get their turn in between. An outline says enough."""
        wanted = [clock for clock in clocks if clock.outline is None]
        for first in range(0, len(wanted), AT_A_TIME):
            some = wanted[first : first + AT_A_TIME]
            await self._definitions.load((clock.job_id, clock.version) for clock in some)

    def _since(self, lag: timedelta | None) -> datetime | None:
        """Return where a scan starts: no later than the oldest clock that has not fired yet."""
        if lag is None:
            return None
        since = min(self._window.first_at() or self._settled, self._settled - lag)
        return since if self._moved_after is None else min(since, self._moved_after)


def _read_through(clocks: Sequence[DueClock]) -> dict[Priority, datetime]:
    """Return the priorities that filled the scan, and the instant up to which it has read each."""
    last: dict[Priority, datetime] = {}
    counts = dict.fromkeys(Priority, 0)
    for clock in clocks:
        last[clock.priority] = clock.due_at
        counts[clock.priority] += 1
    return {priority: last[priority] for priority, count in counts.items() if count == READ_LIMIT}
