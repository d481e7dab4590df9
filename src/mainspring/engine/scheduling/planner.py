"""Fires due jobs: reads ahead, and commits small batches when they are due (design 5)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from mainspring.core.ids import JobId, format_job_id, job_shard
from mainspring.core.model import JobSpec, Overlap
from mainspring.core.planning import plan_fires
from mainspring.core.triggers import EPOCH
from mainspring.engine.common.definitions import Definitions
from mainspring.engine.common.scan_depth import Depth, ScanDepth
from mainspring.engine.common.wakeups import Wakeups
from mainspring.engine.scheduling.ownership import Ownership
from mainspring.engine.scheduling.run_factory import fire_range_of, make_fired_run
from mainspring.engine.scheduling.window import Entry, Window, entry_of
from mainspring.errors import UnknownType
from mainspring.ports.clock import Clock, Waiter
from mainspring.ports.store import Store
from mainspring.ports.store.schedule import DueClock, Fire, FireStatus

_log = structlog.get_logger(__name__)
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
BATCH = 200
"""Fires per commit: large enough to be cheap, small enough that the last does not hold up the first."""
AT_ONCE = 2
"""Batches under way when more than one is due: while the store writes one, the next one is prepared."""
PER_TICK = 10
"""Batches that share a tick's `now`."""
READ_LIMIT = 10_000
PARTIAL_LEFT = 2_500
"""If more is due than was read, the next read starts when this many are left. It takes as long as firing those."""
AT_A_TIME = 250
"""Definitions to read between two chances to fire."""
_SHORTEST = 0.001
"""Seconds before a postponed read is considered again, at least."""
SCAN_DEPTHS = (Depth(timedelta(seconds=5)), Depth(None, period=30.0))
"""A clock is set to an instant ahead. The exception is a job that was due before it was made; its creator sends a
signal. If the signal gets lost, or the clock is committed late, a deeper scan finds it."""


class Planner:
    """Keeps the clocks that fire in the next few seconds, of the owned shards, in a window. Fires them on time.

    The window is a hint (law 1). After an edit, a pause or a write by another node, an entry loses its conditional
    update and is dropped. New jobs that are due within the window arrive by a signal, or at the next read.
    """

    name = "planner"

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        ownership: Ownership,
        wakeups: Wakeups,
        waiter: Waiter,
        definitions: Definitions,
    ) -> None:
        self._store = store
        self._clock = clock
        self._ownership = ownership
        self._wakeups = wakeups
        self._definitions = definitions
        self.waiter = waiter
        self._window = Window()
        self._read_at: datetime | None = None
        self._read_took = 0.0
        self._settled = EPOCH  # all clocks due before it are in the window
        self._moved_after: datetime | None = (
            None  # clocks due at it or later moved on, unseen, since the last read
        )
        self._gains = 0  # how often the node has gained shards
        self._scans = ScanDepth(SCAN_DEPTHS)
        self._is_stale = True
        self._is_partial = False  # more clocks are due than were read
        wakeups.subscribe_clocks(self._on_clocks_changed)
        ownership.subscribe_gains(self._on_gains)

    def _on_clocks_changed(self) -> None:
        self._scans.demand()
        self._is_stale = True
        self.waiter.signal()

    def _on_gains(self) -> None:
        self._gains += 1
        self._settled = EPOCH  # nothing is known about these shards
        self._on_clocks_changed()

    async def tick(self, now: datetime) -> float:
        """Fire some batches of what is due. Read the window again if it is old."""
        if not self._ownership.epochs:
            self._window.clear()
            self._settled = EPOCH
            self._is_stale = True
            return READ_PERIOD / 4
        if self._until_read(now) <= 0:
            await self._read_and_fire(now)
        await self._fire_due(self._clock.now())
        return self._delay(self._clock.now())  # firing took time, and the wait starts only now

    async def _read_and_fire(self, now: datetime) -> None:
        """Read the window, and fire what is due in the meantime. A scan from far back may take a second."""
        reading = asyncio.ensure_future(self._read_window(now))
        try:
            while not reading.done():
                first_at = self._window.first_at()
                until = None if first_at is None else (first_at - self._clock.now()).total_seconds()
                if until is None or until > 0:
                    await asyncio.wait([reading], timeout=until)
                else:
                    await self._fire_due(self._clock.now())
        except Exception:
            await asyncio.gather(reading, return_exceptions=True)  # what it reads may be the cure
            raise
        finally:
            reading.cancel()  # no effect if it is done
        reading.result()

    def _until_read(self, now: datetime) -> float:
        """Return the seconds until the window is to be read, unless something changes first."""
        if self._read_at is None:
            return 0.0
        age = (now - self._read_at).total_seconds()
        if self._is_partial:
            # What was read fires first in any case, and reading it again for each batch would take longer. But the
            # next fires of what has fired may keep the window full for ever, so its age counts, too.
            return 0.0 if len(self._window) <= PARTIAL_LEFT else READ_PERIOD - age
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

    async def _read_window(self, now: datetime) -> None:
        self._is_stale = False  # before the await, so that a signal during the read does not get lost
        shards, gains = sorted(self._ownership.epochs), self._gains
        depth, begun = self._scans.choose(self._clock.monotonic()), self._clock.monotonic()
        since = self._since(self._scans.lag(depth))
        moved_after, self._moved_after = self._moved_after, None  # as with the signal
        self._window.begin_read()
        try:
            clocks = await self._store.read_due(shards, until=now + WINDOW, limit=READ_LIMIT, since=since)
            ended = self._clock.monotonic()
            entries = await self._entries_of(clocks)
        except BaseException:
            self._window.give_up_read()
            self._scans.charge(depth, begun=begun, ended=self._clock.monotonic())
            self._is_stale = True
            self._note_moved(moved_after)
            raise
        self._window.end_read(entries)
        self._read_took = self._clock.monotonic() - begun
        self._is_partial = len(clocks) == READ_LIMIT
        self._settled = min(now, clocks[-1].fire_at) if self._is_partial else now
        if gains != self._gains:  # nothing is known about shards gained in the meantime
            self._settled = EPOCH
        self._scans.note(depth, begun=begun, ended=ended)  # now nothing that it read can get lost
        self._read_at = now

    async def _entries_of(self, clocks: Sequence[DueClock]) -> list[Entry]:
        """Return the clocks with their places, in parts, so that due fires get their turn in between."""
        entries: list[Entry] = []
        for first in range(0, len(clocks), AT_A_TIME):
            some = clocks[first : first + AT_A_TIME]
            specs = await self._definitions.load((clock.job_id, clock.version) for clock in some)
            entries += [entry_of(clock, specs.get((clock.job_id, clock.version))) for clock in some]
        return entries

    def _since(self, lag: timedelta | None) -> datetime | None:
        """Return where a scan starts: no later than the oldest clock that has not fired yet."""
        if lag is None:
            return None
        since = min(self._window.first_at() or self._settled, self._settled - lag)
        return since if self._moved_after is None else min(since, self._moved_after)

    def _note_moved(self, fire_at: datetime | None) -> None:
        """Let the next read start at this fire, so that it finds the clock that another write moved on from it.

        A fire whose answer got lost may have been carried out long after the window was last read. Its next fire can
        then lie far before the instant at which a shallow scan starts, and a deep one may be too expensive for now.
        """
        if fire_at is not None:
            self._moved_after = fire_at if self._moved_after is None else min(self._moved_after, fire_at)

    async def _fire_due(self, now: datetime) -> None:
        """Fire some batches of what is due. While the store writes one, the next one is prepared."""
        first_at = self._window.first_at()
        if first_at is None or first_at > now:
            return
        batches = (self._window.pop_due(now, BATCH) for _ in range(PER_TICK))
        lines = AT_ONCE if len(self._window) > BATCH else 1
        ends = await asyncio.gather(
            *(self._fire_all(batches, now) for _ in range(lines)), return_exceptions=True
        )
        for end in ends:
            if end is not None:
                raise end

    async def _fire_all(self, batches: Iterator[list[Entry]], now: datetime) -> None:
        """Fire one batch after another, until one is empty. Several tasks may share the iterator."""
        for due in batches:
            if not due:
                return
            try:
                await self._fire(due, now)
            except BaseException:
                # They are still due, and the next scan starts at the oldest known clock.
                for entry in due:
                    self._window.push(entry)
                raise

    async def _fire(self, due: list[Entry], now: datetime) -> None:
        epochs = self._ownership.epochs
        # Leave out the clocks of shards that the node has given up since it read them.
        clocks = [clock for *_, clock in due if job_shard(clock.job_id) in epochs]
        specs = await self._definitions.load((clock.job_id, clock.version) for clock in clocks)
        planned = list(_plan(clocks, specs, now))
        fires = [fire for *_, fire in planned]
        results = await self._store.record_fires(fires, epochs=epochs, now=now)
        has_runs = False
        fenced: set[int] = set()
        for (clock, spec, fire), result in zip(planned, results, strict=True):
            if result.status is FireStatus.FIRED:
                has_runs = has_runs or bool(result.run_ids)
                self._push_following(clock, spec, fire, now)
            elif result.status is FireStatus.FENCED:
                fenced.add(job_shard(clock.job_id))
            else:
                self._note_moved(clock.fire_at)
                self._scans.demand()
                self._is_stale = True
        if fenced:
            _log.warning("planner_fenced", shards=sorted(fenced))
            self._ownership.fence(fenced, used=epochs)
        if has_runs:
            self._wakeups.runs_ready()

    def _push_following(self, clock: DueClock, spec: JobSpec, fire: Fire, now: datetime) -> None:
        if fire.next_fire_at is not None and fire.next_fire_at <= now + WINDOW:
            following = replace(clock, fire_at=fire.next_fire_at, fired_through=fire.fired_through)
            self._window.push(entry_of(following, spec))

    def _delay(self, now: datetime) -> float:
        until = self._until_read(now)
        first_at = self._window.first_at()
        if first_at is not None:
            until = min(until, (first_at - now).total_seconds())
        return max(until, 0.0)


def _plan(
    clocks: Sequence[DueClock], specs: Mapping[tuple[JobId, int], JobSpec], now: datetime
) -> Iterator[tuple[DueClock, JobSpec, Fire]]:
    for clock in clocks:
        spec = specs.get((clock.job_id, clock.version))
        if spec is None:
            continue
        try:
            fire = make_fire(clock, spec, now)
        except UnknownType as error:
            _log.warning("job_waits_for_its_trigger_type", job=format_job_id(clock.job_id), type=error.name)
            continue
        except Exception:  # noqa: BLE001 - a fault in one job must not hold up others
            _log.exception("job_cannot_be_planned", job=format_job_id(clock.job_id), version=clock.version)
            continue
        if fire is not None:
            yield clock, spec, fire


def make_fire(clock: DueClock, spec: JobSpec, now: datetime) -> Fire | None:
    """Turn a due clock row into the write that fires it. None if it is not due yet."""
    plan = plan_fires(spec, clock.fire_at, now=now)
    if plan is None:
        return None
    runs = [
        make_fired_run(
            spec, job_id=clock.job_id, version=clock.version, tenant=clock.tenant, fire_at=at, skip_reason=why
        )
        for at, why in [*plan.skips, *((at, None) for at in plan.fires)]
    ]
    return Fire(
        job_id=clock.job_id,
        revision=clock.revision,
        fire_at=clock.fire_at,
        next_fire_at=plan.next_fire_at,
        fired_through=plan.fired_through,
        runs=tuple(runs),
        fire_ranges=tuple(
            fire_range_of(planned, job_id=clock.job_id, version=clock.version) for planned in plan.ranges
        ),
        skip_if_live=spec.overlap is Overlap.SKIP,
    )
