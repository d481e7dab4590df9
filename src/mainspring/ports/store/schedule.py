"""Fires and fire ranges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from mainspring.core.clocks import NextFire
from mainspring.core.ids import FireRangeId, JobId, RunId
from mainspring.core.model import FireRange, FireRangeKind, LaneKey, Overlap, Priority, RunKind
from mainspring.core.outlines import RunOutline
from mainspring.core.planning import jittered
from mainspring.core.starts import StartedClock
from mainspring.core.values import value
from mainspring.ports.store.nodes import Epochs
from mainspring.ports.store.runs import NewRun

NO_FIRE_RANGE = FireRangeId(0)
"""Before all fire ranges."""


class ScheduleStore(Protocol):
    """Fires and fire ranges."""

    async def read_due(
        self, shards: Sequence[int], *, until: datetime, limit: int, since: datetime | None = None
    ) -> list[DueClock]:
        """Return clocks of these shards with `since <= due_at <= until`, at most `limit` of each priority.

        Those of the highest priority come first, and among them the earliest.

        Args:
            since: where to start in the index. None means at the beginning, past all entries of clocks that have
                moved on.
        """
        ...

    async def record_fires(self, fires: Sequence[Fire], *, epochs: Epochs, now: datetime) -> list[FireResult]:
        """Win fires and insert their results (law 2): runs, skipped runs, fire ranges.

        A fire takes effect only if the clock row matches its id, revision and `fire_at`, and its `fired_through` lies
        before `fire_at`. Otherwise the result is `LOST`. It is `FENCED` if the shard's epoch is not the given one
        (law 3; the shard rows are held FOR SHARE). What becomes of the runs while others of their job are live,
        `core.overlap` says: they may be SKIPPED records with reason `overlap`, or cancel the others. A fire that takes
        effect also writes how many fires its job has left. A call has at most one fire per job.
        """
        ...

    async def fire_outlined(
        self, clocks: Sequence[DueClock], *, epochs: Epochs, now: datetime
    ) -> list[FireResult]:
        """Win fires of clocks that have an outline, each the last of its job, and insert their runs (ADR 0040).

        It is what `record_fires` does with such fires, without a plan for each, and under the same conditions: the
        clock's revision, its `fire_at`, its `fired_through`, and the shard's epoch. Whether a fire is due and on time
        is for the caller to say. A call has at most one clock of a job.
        """
        ...

    async def add_fire_ranges(self, fire_ranges: Sequence[NewFireRange], *, now: datetime) -> None:
        """Insert fire ranges, for a backfill."""
        ...

    async def read_fire_ranges(
        self, shards: Sequence[int], *, after: FireRangeId = NO_FIRE_RANGE, limit: int
    ) -> list[CatchUpWork]:
        """Return open catch-up and backfill fire ranges after a given one, in order of id, each with its job's pace.

        Of a job, only the oldest is returned: its ranges are drained one after the other, at one pace. Those of paused
        and of deleted jobs are left out.
        """
        ...

    async def advance_fire_ranges(
        self, steps: Sequence[FireRangeStep], *, epochs: Epochs, now: datetime
    ) -> list[FireResult]:
        """Move a fire range's cursor, insert the runs that it passed, and keep the permits that are left.

        The result is `LOST` if the cursor has moved. The job's clock row is locked first, so that no two writers judge
        overlap at the same time. Steps are fenced like `record_fires`. A call has at most one step of a
        job that cancels what is live.
        """
        ...

    async def list_fire_ranges(self, job_id: JobId, *, limit: int = 100) -> list[FireRange]:
        """Return a job's fire ranges, the newest first."""
        ...


@value(kw_only=True)
class DueClock:
    """A clock row whose next fire is near or past.

    Attributes:
        due_at: when to commit the fire (see `NextFire`).
        outline: what its run needs of the job's definition. None if only the definition says that.
        fires_left: how many fires may still run, this one included; None if the job has no maximum.
        trace: the trace context that the runs of this fire get. It is not read from the store.
    """

    job_id: JobId
    tenant: str
    version: int
    priority: Priority
    revision: int
    fire_at: datetime
    due_at: datetime
    fired_through: datetime | None
    outline: RunOutline | None = None
    fires_left: int | None = None
    trace: bytes | None = None


def outlined_lanes(clocks: Iterable[DueClock]) -> set[LaneKey]:
    """Return the lanes in which the runs of clocks that have outlines wait."""
    found = {
        (clock.outline.queue, clock.outline.route, clock.tenant, clock.priority)
        for clock in clocks
        if clock.outline is not None
    }
    return {LaneKey(*parts) for parts in found}


def outlined_run(clock: DueClock) -> NewRun:
    """Make the run of a clock that has an outline: the same as from its definition."""
    outline = clock.outline
    assert outline is not None, "only a clock with an outline fires in a set"
    due_at = jittered(clock.job_id, clock.fire_at, outline.jitter)
    return NewRun(
        clock.job_id,
        outline.version,
        LaneKey(outline.queue, outline.route, clock.tenant, clock.priority),
        RunKind.SCHEDULED,
        clock.fire_at,
        due_at,
        outline.timeout,
        expires_at=due_at + outline.expires_after if outline.expires_after is not None else None,
        trace=clock.trace,
    )


@value(kw_only=True)
class NewFireRange:
    """A fire range to insert. `to_at` None means open-ended (a pause that is still on).

    Attributes:
        calendars: the versions of calendars that its fires go by, as in `FireRange`.
    """

    job_id: JobId
    version: int
    kind: FireRangeKind
    from_at: datetime
    to_at: datetime | None
    reason: str
    calendars: tuple[str, ...] = ()


def gaps_of(started: StartedClock, job_id: JobId, version: int) -> tuple[NewFireRange, ...]:
    """Return the records of fires that a start of the cluster does not make."""
    return tuple(
        NewFireRange(
            job_id=job_id, version=version, kind=FireRangeKind.GAP, from_at=at, to_at=at, reason=reason
        )
        for at, reason in started.gaps
    )


@value(kw_only=True)
class Fire:
    """A planned fire of one job.

    Attributes:
        fire_at: the `next_fire_at` that the plan was made from.
        next_fire: where the clock stands after that; None when the trigger is exhausted.
        fired_through: the newest instant that this fire accounts for.
        runs: runs to insert. Those with a `skip_reason` become SKIPPED records.
        fire_ranges: the other fire times that this fire accounts for.
        overlap: what becomes of the runs while others of the job are live.
        fires_left: how many fires may still run after this one; None if the job has no maximum.
    """

    job_id: JobId
    revision: int
    fire_at: datetime
    next_fire: NextFire | None
    fired_through: datetime
    runs: tuple[NewRun, ...] = ()
    fire_ranges: tuple[NewFireRange, ...] = ()
    overlap: Overlap = Overlap.ALLOW
    fires_left: int | None = None


def fire_of(clock: DueClock) -> Fire:
    """Return what `fire_outlined` does with a clock, as a planned fire."""
    return Fire(
        job_id=clock.job_id,
        revision=clock.revision,
        fire_at=clock.fire_at,
        next_fire=None,
        fired_through=clock.fire_at,
        runs=(outlined_run(clock),),
        fires_left=clock.fires_left,
    )


@value(kw_only=True)
class CatchUpWork:
    """A fire range that is drained, and how far its job's pace lets it go.

    Attributes:
        newest: the job's newest version, which says how fast that is.
        level, level_at: the permits of the job's rate; None: as many as fit.
        live: how many runs of the job's fire ranges are not over, but for those of backfills.
    """

    fire_range: FireRange
    newest: int
    level: float | None
    level_at: datetime | None
    live: int


@value(kw_only=True)
class FireRangeStep:
    """One step of draining a fire range.

    Attributes:
        cursor_from: the cursor that was read; None means the start.
        level, level_at: the permits of the job's rate after the step; None: as many as fit.
    """

    fire_range_id: FireRangeId
    job_id: JobId
    cursor_from: datetime | None
    cursor_to: datetime
    runs: tuple[NewRun, ...]
    is_done: bool
    level: float | None = None
    level_at: datetime | None = None
    overlap: Overlap = Overlap.ALLOW


class FireStatus(StrEnum):
    """The result of a fire, or of a fire range's step."""

    FIRED = "fired"
    LOST = "lost"
    FENCED = "fenced"


@value()
class FireResult:
    """The result of a fire, with the ids of the runs that became live (not of skipped ones).

    Attributes:
        cancelled: the runs that it cancelled, or asked to stop.
    """

    status: FireStatus
    run_ids: tuple[RunId, ...] = ()
    cancelled: tuple[RunId, ...] = ()
