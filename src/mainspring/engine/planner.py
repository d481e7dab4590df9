"""Fires due jobs: looks ahead, and commits small batches at the instant (design 5)."""

from __future__ import annotations

import heapq
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

import structlog

from mainspring.core.ids import job_shard
from mainspring.core.model import JobSpec, Overlap
from mainspring.core.planning import jittered, plan_fires
from mainspring.core.triggers import EPOCH
from mainspring.engine.definitions import Definitions
from mainspring.engine.lookback import Depth, LookBack
from mainspring.engine.making import make_fired_run, span_of
from mainspring.engine.ownership import Ownership
from mainspring.engine.wakeups import Wakeups
from mainspring.ports.clock import Clock, Waiter
from mainspring.ports.store import Store
from mainspring.ports.store_types import DueClock, Fire, FireStatus

_log = structlog.get_logger(__name__)
WINDOW = timedelta(seconds=2)
READ_PERIOD = 1.0
LATEST_READ = 1.5
"""Seconds after the last read at which the window is read whatever is due: with fires on full seconds there is time
in between, and whoever is due must not wait for what is not."""
QUIET = 2.0
"""A read may begin when nothing is due within the time that the last one took, so many times."""
PATIENCE = 0.1
"""For so many seconds, at most, a read that clocks' changes ask for waits for a quiet moment."""
STALE_SHARE = 0.2
"""Of the time, that reads may take that clocks' changes ask for: a bulk load changes some every few milliseconds."""
BATCH = 200
"""Fires per commit: large enough to be cheap, small enough that the first is not held up by the last."""
READ_LIMIT = 10_000
_SHORTEST = 0.001
"""Seconds after which a read that was put off is thought of again, at the earliest."""
_Entry = tuple[datetime, datetime, UUID, DueClock]
"""When it fires, when its run starts, the job, and its clock."""
LOOKS = (Depth(timedelta(seconds=5)), Depth(None, period=30.0))
"""A clock is set ahead, but for a job that was due before it was made, whose maker says so; should that get lost, or
should it be committed late, a deeper look finds it."""


class Planner:
    """Keeps the next few seconds of due clocks of the owned shards in a heap and fires them on time.

    The heap is a hint (law 1): an edit, a pause or another node makes an entry lose its conditional update, and it
    is dropped. New jobs inside the window arrive by signal or at the next read.
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
        definitions: Definitions | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._ownership = ownership
        self._wakeups = wakeups
        self._definitions = definitions or Definitions(store)
        self.waiter = waiter
        self._heap: list[_Entry] = []
        self._read_at: datetime | None = None
        self._read_took = 0.0
        self._settled = EPOCH  # no clock before it is due, but for those in the heap
        self._gains = 0  # how often shards came to the owned ones
        self._looks = LookBack(LOOKS)
        self._is_stale = True
        self._is_partial = False  # more is due than was read
        wakeups.subscribe_clocks(self._on_clocks_changed)
        ownership.subscribe_gains(self._on_gains)

    def _on_clocks_changed(self) -> None:
        self._looks.demand()
        self._is_stale = True
        self.waiter.signal()

    def _on_gains(self) -> None:
        self._gains += 1
        self._settled = EPOCH  # of these shards nothing is known
        self._on_clocks_changed()

    async def tick(self, now: datetime) -> float:
        """Fire one batch of what is due; read the window again where it is old."""
        if not self._ownership.epochs:
            self._heap.clear()
            self._settled = EPOCH
            self._is_stale = True
            return READ_PERIOD / 4
        if self._until_read(now) <= 0:
            await self._read_window(now)
        due = self._pop_due(now)
        if due:
            try:
                await self._fire(due, now)
            except BaseException:
                # They are still due, and the next look begins with the oldest that is known.
                for entry in due:
                    heapq.heappush(self._heap, entry)
                raise
        return self._delay(self._clock.now())  # reading takes its time, and the wait begins only now

    def _until_read(self, now: datetime) -> float:
        """Return the seconds until the window is to be read, should nothing change by then."""
        if self._read_at is None:
            return 0.0
        age = (now - self._read_at).total_seconds()
        if self._is_partial:
            # What was read comes first in any case; reading it again for each batch would take longer.
            if len(self._heap) <= BATCH:
                return 0.0
            return READ_PERIOD - age if self._is_stale else READ_PERIOD
        until, latest = READ_PERIOD - age, LATEST_READ - age
        if self._is_stale:
            until = min(until, self._read_took / STALE_SHARE - age)
            latest = min(latest, until + PATIENCE)
        until_due = (self._heap[0][0] - now).total_seconds() if self._heap else READ_PERIOD
        quiet = QUIET * self._read_took
        if until_due > max(until, 0.0) + quiet:
            return until
        return min(max(until, until_due, 0.0) + max(quiet, _SHORTEST), latest)

    async def _read_window(self, now: datetime) -> None:
        self._is_stale = False  # before the await: a signal that comes during the read must not get lost
        shards, gains = sorted(self._ownership.epochs), self._gains
        look, begun = self._looks.choose(self._clock.monotonic()), self._clock.monotonic()
        clocks = await self._store.read_due(
            shards, until=now + WINDOW, limit=READ_LIMIT, since=self._since(self._looks.lag(look))
        )
        ended = self._clock.monotonic()
        specs = await self._definitions.load((clock.job_id, clock.version) for clock in clocks)
        self._heap = [_entry(clock, specs.get((clock.job_id, clock.version))) for clock in clocks]
        heapq.heapify(self._heap)
        self._read_took = self._clock.monotonic() - begun
        self._is_partial = len(clocks) == READ_LIMIT
        self._settled = min(now, clocks[-1].fire_at) if self._is_partial else now
        if gains != self._gains:  # of shards that came meanwhile nothing is known
            self._settled = EPOCH
        self._looks.note(look, begun=begun, ended=ended)  # now that nothing of what it brought can get lost
        self._read_at = now

    def _since(self, lag: timedelta | None) -> datetime | None:
        """Return where a look begins: no later than the oldest clock that has not fired yet."""
        if lag is None:
            return None
        oldest = self._heap[0][0] if self._heap else self._settled
        return min(oldest, self._settled - lag)

    def _pop_due(self, now: datetime) -> list[_Entry]:
        due: list[_Entry] = []
        while self._heap and self._heap[0][0] <= now and len(due) < BATCH:
            due.append(heapq.heappop(self._heap))
        return due

    async def _fire(self, due: list[_Entry], now: datetime) -> None:
        epochs = self._ownership.epochs
        # Others were given up since they were read.
        clocks = [clock for *_, clock in due if job_shard(clock.job_id) in epochs]
        specs = await self._definitions.load((clock.job_id, clock.version) for clock in clocks)
        planned: list[tuple[DueClock, JobSpec, Fire]] = []
        for clock in clocks:
            spec = specs.get((clock.job_id, clock.version))
            fire = make_fire(clock, spec, now) if spec is not None else None
            if spec is not None and fire is not None:
                planned.append((clock, spec, fire))
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
                self._looks.demand()
                self._is_stale = True
        if fenced:
            _log.warning("planner_fenced", shards=sorted(fenced))
            self._ownership.fence(fenced, used=epochs)
        if has_runs:
            self._wakeups.runs_ready()

    def _push_following(self, clock: DueClock, spec: JobSpec, fire: Fire, now: datetime) -> None:
        if fire.next_fire_at is not None and fire.next_fire_at <= now + WINDOW:
            following = replace(clock, fire_at=fire.next_fire_at, fired_through=fire.fired_through)
            heapq.heappush(self._heap, _entry(following, spec))

    def _delay(self, now: datetime) -> float:
        until = self._until_read(now)
        if self._heap:
            until = min(until, (self._heap[0][0] - now).total_seconds())
        return max(until, 0.0)


def _entry(clock: DueClock, spec: JobSpec | None) -> _Entry:
    """Return a clock's place among the others: of those that fire together first whose run starts first."""
    start = clock.fire_at
    if spec is not None and spec.jitter:
        start = jittered(clock.job_id, start, spec.jitter)
    return clock.fire_at, start, clock.job_id, clock


def make_fire(clock: DueClock, spec: JobSpec, now: datetime) -> Fire | None:
    """Turn a due clock row into the write that fires it; None when it is still ahead."""
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
        spans=tuple(
            span_of(stretch, job_id=clock.job_id, version=clock.version) for stretch in plan.stretches
        ),
        skip_if_live=spec.overlap is Overlap.SKIP,
    )
