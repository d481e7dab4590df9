"""Backfills: records, and the steps in which they are made."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from mainspring.core.audit import AuditEntry
from mainspring.core.backfill import (
    Backfill,
    BackfillChange,
    BackfillOptions,
    BackfillWork,
    Section,
    VersionTime,
)
from mainspring.core.ids import BackfillId, FireRangeId, JobId, RunId
from mainspring.core.model import Overlap
from mainspring.core.states import RunState
from mainspring.core.values import value
from mainspring.ports.store.nodes import Epochs
from mainspring.ports.store.runs import NewRun
from mainspring.ports.store.schedule import FireResult


class BackfillStore(Protocol):
    """Backfills.

    Their sections are fire ranges of the kind BACKFILL. `read_fire_ranges` does not return them, and servers of
    releases that know of no backfills leave them alone.
    """

    async def list_version_times(self, job_id: JobId) -> list[VersionTime]:
        """Return the versions of a job, in order, and when each was stored."""
        ...

    async def read_fires_of_runs(
        self,
        job_id: JobId,
        *,
        from_at: datetime,
        to_at: datetime,
        states: Collection[RunState],
        after: RunId,
        limit: int,
    ) -> FiresOfRuns:
        """Look at the next runs of a job, live and ended ones, at most `limit`, in order of id.

        Return the fire times t, `from_at <= t <= to_at`, of those in one of these states.
        """
        ...

    async def add_backfill(
        self, new: NewBackfill, *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> AddedBackfill:
        """Insert a backfill with its sections.

        It is refused while another one of the job is open or paused whose range meets this one. The job's clock is
        held, so that two of them cannot come about at once.
        """
        ...

    async def get_backfills(self, backfill_ids: Sequence[BackfillId]) -> list[Backfill | None]:
        """Return backfills; None for unknown ones. Those of deleted jobs are cancelled, unless they are done."""
        ...

    async def list_backfills(
        self,
        tenant: str,
        *,
        job_id: JobId | None = None,
        before: BackfillId | None = None,
        limit: int = 100,
    ) -> list[Backfill]:
        """Return a page of a tenant's backfills, of one job or of all, the newest first."""
        ...

    async def change_backfill(
        self,
        backfill_id: BackfillId,
        change: BackfillChange,
        *,
        now: datetime,
        audit: Sequence[AuditEntry] = (),
    ) -> bool:
        """Pause, resume or cancel a backfill; say whether it then is in the state that was asked for.

        `CHANGEABLE` has the states in which that is possible. Sections of a cancelled one are closed.
        """
        ...

    async def list_waiting_of_backfill(self, backfill_id: BackfillId, *, limit: int) -> list[RunId]:
        """Return runs of a backfill that wait, by id."""
        ...

    async def read_backfill_work(
        self, shards: Sequence[int], *, after: BackfillId | None, limit: int
    ) -> list[BackfillWork]:
        """Return open backfills of these shards after a given one, in order of id, each with its next section.

        Those of paused and of deleted jobs are left out.
        """
        ...

    async def advance_backfills(
        self, steps: Sequence[BackfillStep], *, epochs: Epochs, now: datetime
    ) -> list[FireResult]:
        """Move the cursors of sections, insert the runs that they passed, and count both.

        A step is `LOST` if the cursor has moved, if the backfill is not open any more, or if its job is paused or
        deleted. It is `FENCED` as a fire is. A call has at most one step of a backfill.
        """
        ...


@value()
class FiresOfRuns:
    """Fire times that runs have.

    Attributes:
        last: the last run that was looked at; None if there is none after the one given.
    """

    fires: frozenset[datetime]
    last: RunId | None


@value(kw_only=True)
class NewBackfill:
    """A backfill to insert.

    Attributes:
        fires: how many fires its plan found.
        sections: at least one, in order.
    """

    id: BackfillId
    job_id: JobId
    tenant: str
    from_at: datetime
    to_at: datetime
    options: BackfillOptions
    fires: int
    sections: tuple[Section, ...]


@value(kw_only=True)
class AddedBackfill:
    """The result of adding one.

    Attributes:
        is_added: it was inserted.
        other: the backfill that stands against it. None for one that was not inserted: the job is gone.
    """

    is_added: bool
    other: BackfillId | None = None


@value(kw_only=True)
class BackfillStep:
    """A step through a section of a backfill.

    Attributes:
        cursor_from: the cursor that was read; None means the start.
        skipped: fires passed that were done.
        is_section_done: the section has no other fire.
        is_done: nor has the backfill any.
        level, level_at: the permits of its rate after the step.
    """

    id: BackfillId
    job_id: JobId
    fire_range_id: FireRangeId
    cursor_from: datetime | None
    cursor_to: datetime
    runs: tuple[NewRun, ...]
    skipped: int
    is_section_done: bool
    is_done: bool
    level: float
    level_at: datetime

    @property
    def overlap(self) -> Overlap:
        """Its runs are of another time, so they make no way for each other, and pass none over."""
        return Overlap.ALLOW
