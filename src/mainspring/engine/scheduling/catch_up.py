"""Drains catch-up fire ranges, each job's at its own pace (design 5).

So old work never delays fires that are on time.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import islice

from mainspring.core.expiry import QueueExpiries
from mainspring.core.ids import job_shard
from mainspring.core.model import FireRange, FireRangeKind, JobSpec, Overlap, RunKind
from mainspring.core.pacing import Pace
from mainspring.core.pauses import NOTHING_PAUSED, LanePauses
from mainspring.core.planning import walk_missed
from mainspring.core.rates import Bucket
from mainspring.core.triggers import UnknownTrigger
from mainspring.engine.common.calendars import CalendarReader
from mainspring.engine.common.definitions import Definitions, has_hidden_keys
from mainspring.engine.common.queue_expiries import QueueExpiryFollower
from mainspring.engine.common.restrictions import RestrictionFollower
from mainspring.engine.common.run_counts import RunCounts
from mainspring.engine.common.wakeups import Wakeups, lanes_of
from mainspring.engine.scheduling.ownership import Ownership
from mainspring.engine.scheduling.run_factory import make_caught_up_run
from mainspring.ports.clock import Waiter
from mainspring.ports.store import Store
from mainspring.ports.store.runs import NewRun
from mainspring.ports.store.schedule import NO_FIRE_RANGE, CatchUpWork, FireRangeStep, FireStatus

PERIOD = 0.5
FIRE_RANGES_PER_TICK = 50
RUNS_PER_TICK = 500
"""Together with `PERIOD`, this allows at most a thousand caught-up runs per second and node."""


class CatchUp:
    """Turns the fires of open fire ranges into runs, as the pace of each job allows, in steps of fair shares.

    Args:
        pace: that of jobs that say nothing else.
    """

    name = "catch-up"

    def __init__(
        self,
        store: Store,
        *,
        pace: Pace,
        ownership: Ownership,
        wakeups: Wakeups,
        waiter: Waiter,
        definitions: Definitions,
        calendars: CalendarReader,
        expiries: QueueExpiryFollower,
        restrictions: RestrictionFollower,
        counts: RunCounts,
    ) -> None:
        self._store = store
        self._pace = pace
        self._expiries = expiries
        self._restrictions = restrictions
        self._calendars = calendars
        self._ownership = ownership
        self._counts = counts
        self._wakeups = wakeups
        self._definitions = definitions
        self._after = NO_FIRE_RANGE
        self.waiter = waiter

    async def tick(self, now: datetime) -> float:
        """Advance some of the open fire ranges by their shares; those that come after them are next."""
        epochs = self._ownership.epochs
        if not epochs:
            return PERIOD
        works = await self._store.read_fire_ranges(
            sorted(epochs), after=self._after, limit=FIRE_RANGES_PER_TICK
        )
        is_page = len(works) == FIRE_RANGES_PER_TICK
        self._after = works[-1].fire_range.id if is_page else NO_FIRE_RANGE
        if not works:
            return PERIOD
        steps = await self._plan(works, now)
        results = await self._store.advance_fire_ranges(steps, epochs=epochs, now=now)
        for step, result in zip(steps, results, strict=True):
            if result.status is FireStatus.FIRED:
                self._counts.note_planned(step.runs, len(result.run_ids))
        fenced = {
            job_shard(step.job_id)
            for step, result in zip(steps, results, strict=True)
            if result.status is FireStatus.FENCED
        }
        if fenced:
            self._ownership.fence(fenced, used=epochs)
        if any(result.cancelled for result in results):
            self._wakeups.cancel_requested()
        if any(result.run_ids for result in results):
            self._wakeups.runs_ready(lanes_of([run for step in steps for run in step.runs]))
        return PERIOD

    async def _plan(self, works: Sequence[CatchUpWork], now: datetime) -> list[FireRangeStep]:
        """Plan the next step of each fire range that its job's pace lets go on.

        That is the pace of the newest version: who changes it wants it for what is being caught up, too.
        """
        fire_ranges = [work.fire_range for work in works]
        versions = [(one.job_id, one.version) for one in fire_ranges]
        newest = [(work.fire_range.job_id, work.newest) for work in works]
        specs = await self._definitions.load(versions + newest)
        found = await self._calendars.apply_to_ranges(specs, fire_ranges)
        open_now: list[tuple[FireRange, JobSpec, Bucket, int]] = []
        for work, spec, key in zip(works, found, newest, strict=True):
            # A fire range whose trigger type is unknown here waits for a server that knows it, and so does one whose
            # runs have keys of a payload that cannot be decrypted here.
            if spec is None or isinstance(spec.trigger, UnknownTrigger) or has_hidden_keys(spec):
                continue
            pace = specs.get(key, spec).catch_up.pace(self._pace)
            permits = pace.permits(work.level, work.level_at, now)
            room = pace.room(permits, work.live)
            if room:
                open_now.append((work.fire_range, spec, permits, room))
        share = max(RUNS_PER_TICK // max(len(open_now), 1), 1)
        expiries, pauses = self._expiries.by_queue, self._restrictions.current.pauses
        return [
            make_step(fire_range, spec, min(room, share), now, expiries, pauses, permits=permits)
            for fire_range, spec, permits, room in open_now
        ]


def make_step(
    fire_range: FireRange,
    spec: JobSpec,
    share: int,
    now: datetime,
    expiries: QueueExpiries,
    pauses: LanePauses = NOTHING_PAUSED,
    *,
    permits: Bucket,
) -> FireRangeStep:
    """Plan the next step of a fire range: at most `share` runs. They expire as their job says, or else their queue.

    With the overlap policy `skip`, a step has only one fire, so that it is judged against the runs live at that time.

    Args:
        permits: of the rate of the job's catch-up, as they are now.
    """
    to_at = fire_range.to_at if fire_range.to_at is not None else now
    wanted = 1 if spec.overlap is Overlap.SKIP else share
    fires = _next_fires(fire_range, spec, to_at, wanted + 1)
    is_done = len(fires) <= wanted
    fires = fires[:wanted]
    left = permits.take(len(fires))
    return FireRangeStep(
        fire_range_id=fire_range.id,
        job_id=fire_range.job_id,
        cursor_from=fire_range.cursor_at,
        cursor_to=fires[-1] if fires and not is_done else to_at,
        runs=_make_runs(fire_range, spec, fires, now, expiries, pauses),
        is_done=is_done,
        level=left.level,
        level_at=left.level_at,
        overlap=spec.overlap,
    )


def _make_runs(
    fire_range: FireRange,
    spec: JobSpec,
    fires: Sequence[datetime],
    now: datetime,
    expiries: QueueExpiries,
    pauses: LanePauses,
) -> tuple[NewRun, ...]:
    kind = RunKind.BACKFILL if fire_range.kind is FireRangeKind.BACKFILL else RunKind.SCHEDULED
    return tuple(
        make_caught_up_run(
            spec,
            job_id=fire_range.job_id,
            version=fire_range.version,
            tenant=fire_range.tenant,
            fire_at=fire_at,
            kind=kind,
            fire_range_id=fire_range.id,
            expiries=expiries,
            now=now,
            pauses=pauses,
        )
        for fire_at in fires
    )


def _next_fires(fire_range: FireRange, spec: JobSpec, to_at: datetime, most: int) -> list[datetime]:
    if spec.trigger is None:
        return []
    return list(islice(walk_missed(spec.trigger, fire_range.from_at, to_at, fire_range.cursor_at), most))
