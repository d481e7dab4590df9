"""Drains catch-up and backfill fire ranges at a bounded rate (design 5).

So old work never delays fires that are on time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice

from mainspring.core.expiry import QueueExpiries
from mainspring.core.ids import JobId, job_shard
from mainspring.core.model import FireRange, FireRangeKind, JobSpec, Overlap, RunKind
from mainspring.core.pauses import NOTHING_PAUSED, LanePauses
from mainspring.core.planning import walk_range
from mainspring.core.triggers import UnknownTrigger
from mainspring.engine.common.calendars import CalendarReader
from mainspring.engine.common.definitions import Definitions
from mainspring.engine.common.queue_expiries import QueueExpiryFollower
from mainspring.engine.common.restrictions import RestrictionFollower
from mainspring.engine.common.wakeups import Wakeups, lanes_of
from mainspring.engine.scheduling.ownership import Ownership
from mainspring.engine.scheduling.run_factory import make_caught_up_run
from mainspring.ports.clock import Waiter
from mainspring.ports.store import Store
from mainspring.ports.store.schedule import FireRangeStep, FireStatus

PERIOD = 0.5
FIRE_RANGES_PER_TICK = 50
RUNS_PER_TICK = 500
"""Together with `PERIOD`, this allows at most a thousand caught-up runs per second and node."""


class CatchUp:
    """Turns the fires of open fire ranges into runs, in bounded steps that are shared fairly among the ranges."""

    name = "catch-up"

    def __init__(
        self,
        store: Store,
        *,
        ownership: Ownership,
        wakeups: Wakeups,
        waiter: Waiter,
        definitions: Definitions,
        calendars: CalendarReader,
        expiries: QueueExpiryFollower,
        restrictions: RestrictionFollower,
    ) -> None:
        self._store = store
        self._expiries = expiries
        self._restrictions = restrictions
        self._calendars = calendars
        self._ownership = ownership
        self._wakeups = wakeups
        self._definitions = definitions
        self.waiter = waiter

    async def tick(self, now: datetime) -> float:
        """Advance every open fire range by its share."""
        epochs = self._ownership.epochs
        if not epochs:
            return PERIOD
        fire_ranges = await self._store.read_fire_ranges(sorted(epochs), limit=FIRE_RANGES_PER_TICK)
        if not fire_ranges:
            return PERIOD
        specs = await self._definitions.load(
            (fire_range.job_id, fire_range.version) for fire_range in fire_ranges
        )
        found = await self._calendars.apply_to_ranges(specs, fire_ranges)
        share = max(RUNS_PER_TICK // len(fire_ranges), 1)
        steps = list(
            _plan(fire_ranges, found, share, now, self._expiries.by_queue, self._restrictions.current.pauses)
        )
        results = await self._store.advance_fire_ranges(steps, epochs=epochs, now=now)
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


def _plan(
    fire_ranges: Sequence[FireRange],
    specs: Sequence[JobSpec | None],
    share: int,
    now: datetime,
    expiries: QueueExpiries,
    pauses: LanePauses,
) -> Iterator[FireRangeStep]:
    """Plan the next step of each fire range. Of a job that cancels what is live, one at a time."""
    cancelling: set[JobId] = set()
    for fire_range, spec in zip(fire_ranges, specs, strict=True):
        # A fire range whose trigger type is unknown here waits for a server that knows it.
        if spec is None or isinstance(spec.trigger, UnknownTrigger):
            continue
        if spec.overlap is Overlap.CANCEL_RUNNING:
            if fire_range.job_id in cancelling:
                continue
            cancelling.add(fire_range.job_id)
        yield make_step(fire_range, spec, share, now, expiries, pauses)


def make_step(
    fire_range: FireRange,
    spec: JobSpec,
    share: int,
    now: datetime,
    expiries: QueueExpiries,
    pauses: LanePauses = NOTHING_PAUSED,
) -> FireRangeStep:
    """Plan the next step of a fire range: at most `share` runs. They expire as their job says, or else their queue.

    With the overlap policy `skip`, a step has only one fire, so that it is judged against the runs live at that time.
    """
    to_at = fire_range.to_at if fire_range.to_at is not None else now
    wanted = 1 if spec.overlap is Overlap.SKIP else share
    fires = _next_fires(fire_range, spec, to_at, wanted + 1)
    is_done = len(fires) <= wanted
    fires = fires[:wanted]
    kind = RunKind.BACKFILL if fire_range.kind is FireRangeKind.BACKFILL else RunKind.SCHEDULED
    return FireRangeStep(
        fire_range_id=fire_range.id,
        job_id=fire_range.job_id,
        cursor_from=fire_range.cursor_at,
        cursor_to=fires[-1] if fires and not is_done else to_at,
        runs=tuple(
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
        ),
        is_done=is_done,
        overlap=spec.overlap,
    )


def _next_fires(fire_range: FireRange, spec: JobSpec, to_at: datetime, most: int) -> list[datetime]:
    if spec.trigger is None:
        return []
    return list(islice(walk_range(spec.trigger, fire_range.from_at, to_at, fire_range.cursor_at), most))
