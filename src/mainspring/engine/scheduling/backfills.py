"""Makes the runs of backfills, each at its own rate, so that they never hold up fires that are on time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

import structlog

from mainspring.core.backfill import BackfillWork, Section, SectionStep, plan_step, room_of, walk_section
from mainspring.core.expiry import QueueExpiries
from mainspring.core.ids import BackfillId, FireRangeId, format_backfill_id, job_shard
from mainspring.core.model import JobSpec, Overlap
from mainspring.core.rates import Bucket
from mainspring.engine.common.queue_expiries import QueueExpiryFollower
from mainspring.engine.common.run_counts import RunCounts
from mainspring.engine.common.wakeups import Wakeups, lanes_of
from mainspring.engine.scheduling.backfill_fires import BackfillFires
from mainspring.engine.scheduling.ownership import Ownership
from mainspring.engine.scheduling.run_factory import make_backfilled_run
from mainspring.errors import TookTooLong
from mainspring.ports.clock import Waiter
from mainspring.ports.store import Store
from mainspring.ports.store.backfills import BackfillStep
from mainspring.ports.store.schedule import FireResult, FireStatus

_log = structlog.get_logger(__name__)
PERIOD = 0.5
_IDLE = 1.0
BACKFILLS_PER_TICK = 50
RUNS_PER_TICK = 500
"""Together with `PERIOD`, this allows at most a thousand runs of backfills per second and node."""
LOOK = 1000
"""Fires of a section that are looked at together."""
_KEPT = timedelta(seconds=10)
"""How long what was read about them is good for."""


@dataclass(slots=True)
class _Window:
    """The next fires of a section, and which of them are done.

    Attributes:
        cursor_at: after which they lie.
        is_end: the section has no others.
    """

    section_id: FireRangeId
    cursor_at: datetime | None
    fires: list[datetime]
    done: set[datetime]
    is_end: bool
    read_at: datetime


class Backfiller:
    """Takes a step in each open backfill of this node's shards, in turn, as its rate and its live runs allow."""

    name = "backfills"

    def __init__(
        self,
        store: Store,
        fires: BackfillFires,
        *,
        ownership: Ownership,
        wakeups: Wakeups,
        waiter: Waiter,
        expiries: QueueExpiryFollower,
        counts: RunCounts,
    ) -> None:
        self._store = store
        self._expiries = expiries
        self._fires = fires
        self._ownership = ownership
        self._counts = counts
        self._wakeups = wakeups
        self._windows: dict[BackfillId, _Window] = {}
        self._after: BackfillId | None = None
        self.waiter = waiter

    async def tick(self, now: datetime) -> float:
        """Take one step in some of the backfills; those that come after them are next."""
        epochs = self._ownership.epochs
        if not epochs:
            self._windows.clear()
            return _IDLE
        works = await self._store.read_backfill_work(
            sorted(epochs), after=self._after, limit=BACKFILLS_PER_TICK
        )
        self._after = works[-1].id if len(works) == BACKFILLS_PER_TICK else None
        # Those of backfills that are over, or that stopped, are among these.
        self._windows = {key: one for key, one in self._windows.items() if now - one.read_at < _KEPT}
        if not works:
            return _IDLE
        specs = await self._fires.specs(
            (work.section.job_id, work.section.version, work.section.tenant) for work in works
        )
        share = max(RUNS_PER_TICK // len(works), 1)
        steps: list[BackfillStep] = []
        for work in works:
            spec = specs.get((work.section.job_id, work.section.version))
            # One whose trigger is unknown here waits for a server that knows it.
            step = None if spec is None else await self._try_plan(work, spec, share, now)
            if step is not None:
                steps.append(step)
        results = await self._store.advance_backfills(steps, epochs=epochs, now=now)
        fenced = self._note(steps, results)
        if fenced:
            self._ownership.fence(fenced, used=epochs)
        if any(result.run_ids for result in results):
            self._wakeups.runs_ready(lanes_of([run for step in steps for run in step.runs]))
        return PERIOD

    async def _try_plan(
        self, work: BackfillWork, spec: JobSpec, share: int, now: datetime
    ) -> BackfillStep | None:
        """Plan a step; none if the store has no time to say what is done, which must not hold up the others."""
        try:
            return await self._plan(work, spec, share, now)
        except TookTooLong:
            _log.warning("backfill_waits_for_the_store", backfill=format_backfill_id(work.id))
            return None

    async def _plan(
        self, work: BackfillWork, spec: JobSpec, share: int, now: datetime
    ) -> BackfillStep | None:
        permits = work.options.pace.permits(work.level, work.level_at, now)
        room = min(room_of(work, permits, is_alone=spec.overlap is Overlap.SKIP), share)
        if room < 1:
            return None
        window = await self._window(work, spec, now)
        ends_at = work.section.to_at if window.is_end else None
        planned = plan_step(window.fires, window.done, room, ends_at=ends_at)
        return (
            None
            if planned is None
            else _make_step(work, spec, planned, permits, self._expiries.by_queue, now)
        )

    async def _window(self, work: BackfillWork, spec: JobSpec, now: datetime) -> _Window:
        section = work.section
        window = self._windows.get(work.id)
        if (
            window is not None
            and (window.section_id, window.cursor_at) == (section.id, section.cursor_at)
            and (window.fires or window.is_end)
            and now - window.read_at < _KEPT
        ):
            return window
        assert section.to_at is not None, "a section has an end"
        fires: list[datetime] = []
        if spec.trigger is not None:
            cut = Section(section.version, section.from_at, section.to_at)
            fires = list(islice(walk_section(cut, spec.trigger, section.cursor_at), LOOK + 1))
        is_end = len(fires) <= LOOK
        fires = fires[:LOOK]
        done: set[datetime] = set()
        if fires:
            done = await self._fires.done(section.job_id, fires[0], fires[-1], work.options.skip_done)
        self._windows[work.id] = _Window(section.id, section.cursor_at, fires, done, is_end, now)
        return self._windows[work.id]

    def _note(self, steps: list[BackfillStep], results: list[FireResult]) -> set[int]:
        """Move the windows of steps that took effect, and forget the others. Return the shards that are lost."""
        fenced: set[int] = set()
        for step, result in zip(steps, results, strict=True):
            window = self._windows.get(step.id)
            if result.status is FireStatus.FIRED:
                self._counts.note_planned(step.runs, len(result.run_ids))
            if result.status is FireStatus.FENCED:
                fenced.add(job_shard(step.job_id))
            if window is None or result.status is not FireStatus.FIRED or step.is_section_done:
                self._windows.pop(step.id, None)
                continue
            window.cursor_at = step.cursor_to
            del window.fires[: len(step.runs) + step.skipped]
        return fenced


def _make_step(
    work: BackfillWork,
    spec: JobSpec,
    planned: SectionStep,
    permits: Bucket,
    expiries: QueueExpiries,
    now: datetime,
) -> BackfillStep:
    section = work.section
    left = permits.take(len(planned.fires))
    assert left.level is not None
    assert left.level_at is not None
    return BackfillStep(
        id=work.id,
        job_id=section.job_id,
        fire_range_id=section.id,
        cursor_from=section.cursor_at,
        cursor_to=planned.cursor_to,
        runs=tuple(
            make_backfilled_run(
                spec,
                section=section,
                fire_at=fire_at,
                priority=work.options.priority,
                expiries=expiries,
                now=now,
            )
            for fire_at in planned.fires
        ),
        skipped=planned.skipped,
        is_section_done=planned.is_section_done,
        is_done=planned.is_section_done and work.is_last,
        level=left.level,
        level_at=left.level_at,
    )
