"""Definitions and their versions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from mainspring.core.audit import AuditEntry
from mainspring.core.clocks import ChangeVerdict, NextFire
from mainspring.core.ids import JobId
from mainspring.core.model import Job, JobSpec
from mainspring.core.values import value
from mainspring.ports.store.calendars import CalendarUses
from mainspring.ports.store.schedule import NewFireRange


class JobStore(Protocol):
    """Definitions and their versions."""

    async def add_jobs(
        self, jobs: Sequence[NewJob], *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[AddResult]:
        """Insert jobs as version 1, each with its clock row; `NAME_TAKEN` if the tenant has a job with that name.

        A job with a maximum of fires has all of them left.

        It is `CALENDARS_MOVED`, and that job is not inserted, if its calendars were read as of another revision; and
        `LIMIT_GONE`, if it uses a shared limit that is not set.
        """
        ...

    async def edit_jobs(
        self, edits: Sequence[JobEdit], *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[ChangeVerdict]:
        """Keep a new version and set the clock, raising its revision.

        An edit takes effect only if the clock still has its `revision` and `fire_at`. Otherwise the result is
        `MOVED`: read the job and decide again. The edit's fire ranges are inserted with it. With `ends_gap`, the open
        gap is closed first. A paused job stays paused: its clock stays stopped, whatever `next_fire` says. If a
        call has several edits of one job, the first that fits takes effect. The result is `MOVED`, too, if the
        edit's calendars were read as of another revision of the calendars, or if it uses a shared limit that is not
        set.
        """
        ...

    async def pause_jobs(
        self, changes: Sequence[ClockChange], *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[ChangeVerdict]:
        """Stop the clock, raise its revision, and open a gap fire range for `paused` (given in the change).

        For a job that is already paused, the result is `DONE` and nothing changes. `MOVED` and `MISSING` as for
        edits.
        """
        ...

    async def resume_jobs(
        self, changes: Sequence[ClockChange], *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[ChangeVerdict]:
        """Start the clock at `next_fire`, raise its revision, and close the open gap fire range at `now`.

        A gap that would begin after `now` is removed instead, because the pause held no fire. For a job that is not
        paused, the result is `DONE` and nothing changes: moving its clock would skip fires without a record (law 4).
        `MOVED` and `MISSING` as for edits.
        """
        ...

    async def delete_jobs(
        self, changes: Sequence[ClockChange], *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[ChangeVerdict]:
        """Delete jobs: remove the clock row, close open fire ranges, and free the name at once.

        An open gap that would begin after `now` is removed, as by `resume_jobs`. The change's fire ranges are
        inserted as closed. Versions and runs stay readable. Live runs are left to `cancel_runs`.
        """
        ...

    async def get_jobs(self, job_ids: Sequence[JobId]) -> list[Job | None]:
        """Return jobs that exist; None for unknown or deleted ones."""
        ...

    async def find_jobs(self, tenant: str, names: Sequence[str]) -> list[Job | None]:
        """Return the tenant's jobs with these names; None for names without a job."""
        ...

    async def list_jobs(self, tenant: str, *, after: JobId | None = None, limit: int = 100) -> list[Job]:
        """Return a page of the tenant's jobs after the given one, in order of id (of creation)."""
        ...

    async def read_versions(self, keys: Sequence[tuple[JobId, int]]) -> list[JobSpec | None]:
        """Return kept definitions, including those of deleted jobs; None for versions that do not exist."""
        ...


@value(kw_only=True)
class NewJob:
    """A job to insert. `next_fire` is None when it has no trigger, `calendars` when it uses none."""

    id: JobId
    tenant: str
    spec: JobSpec
    next_fire: NextFire | None
    calendars: CalendarUses | None = None


class AddResult(StrEnum):
    """What became of an insert. The core decides none: only the store knows which names are taken as it inserts."""

    ADDED = "added"
    NAME_TAKEN = "name_taken"
    CALENDARS_MOVED = "calendars_moved"
    LIMIT_GONE = "limit_gone"


@value(kw_only=True)
class JobEdit:
    """A new definition for a job, decided on a clock row with this `revision` and `fire_at`.

    Attributes:
        fire_at: the `next_fire_at` that was read (None: none).
        next_fire: where the clock stands from now on; None for a paused job or one without a trigger.
        fire_ranges: records of fires that were due but not yet made. For a paused job, the gap of its new trigger.
        ends_gap: the open gap ends now (as by a resume), because it belongs to the old trigger.
        calendars: those that the job uses from now on; None leaves them as they are, which is for jobs without any.
        fires_left: how many fires may run from now on; None if the definition has no maximum.
    """

    job_id: JobId
    revision: int
    fire_at: datetime | None
    spec: JobSpec
    next_fire: NextFire | None
    fire_ranges: tuple[NewFireRange, ...] = ()
    ends_gap: bool = False
    calendars: CalendarUses | None = None
    fires_left: int | None = None


@value(kw_only=True)
class ClockChange:
    """A pause, resume or delete, decided on a clock row with this `revision` and `fire_at`."""

    job_id: JobId
    revision: int
    fire_at: datetime | None
    next_fire: NextFire | None = None
    fire_ranges: tuple[NewFireRange, ...] = ()
