"""Calendars, their versions, and which jobs use them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from mainspring.core.audit import AuditEntry
from mainspring.core.calendars.resolved import CalendarVersion
from mainspring.core.clocks import ChangeVerdict, NextFire
from mainspring.core.ids import JobId
from mainspring.core.values import value
from mainspring.ports.store.schedule import NewFireRange


class CalendarStore(Protocol):
    """Calendars and their versions. A version never changes, and stays readable by its number after a delete.

    A number, the calendars' revision, grows with every write and delete. Whoever decides by what it has read gives the
    revision as of which it was read, and loses if it has grown since.
    """

    async def read_calendar_revision(self) -> int:
        """Return the calendars' revision."""
        ...

    async def write_calendars(
        self, versions: Sequence[CalendarVersion], *, revision: int, audit: Sequence[AuditEntry] = ()
    ) -> bool:
        """Keep versions, if the revision is still the one given; say whether it was.

        Blackouts that follow their calendars go by the new ones (`set_blackouts`).
        Their calendars are unsettled from then on, until `settle_calendars` finds that every job follows them.
        """
        ...

    async def read_calendars(
        self, tenant: str, keys: Sequence[tuple[str, int | None]]
    ) -> list[CalendarVersion | None]:
        """Return versions by name and number; without a number the newest, be it deleted or not. None if missing."""
        ...

    async def list_calendars(
        self, tenant: str, *, after: str | None = None, limit: int = 100
    ) -> list[CalendarVersion]:
        """Return a page of the newest versions of the tenant's calendars that are not deleted, by name."""
        ...

    async def list_calendar_versions(
        self, tenant: str, name: str, *, before: int | None = None, limit: int = 100
    ) -> list[CalendarVersion]:
        """Return a page of a calendar's versions, the newest first; those of a deleted calendar, too."""
        ...

    async def delete_calendar(
        self, tenant: str, name: str, *, revision: int, audit: Sequence[AuditEntry] = ()
    ) -> CalendarDeletion:
        """Delete a calendar, if the revision is still the one given and no job and no blackout uses the calendar."""
        ...

    async def read_calendar_uses(self, job_ids: Sequence[JobId]) -> list[tuple[CalendarUse, ...]]:
        """Return which versions of calendars the clocks of jobs go by, for each job in order of name."""
        ...

    async def list_jobs_of_calendar(self, tenant: str, name: str, *, limit: int) -> list[JobId]:
        """Return jobs that use a calendar, in order of id."""
        ...

    async def list_unsettled_jobs(self, *, limit: int) -> list[JobId]:
        """Return jobs whose clocks go by a version older than the newest that they follow, in order of id."""
        ...

    async def replan_jobs(self, plans: Sequence[Replan], *, now: datetime) -> list[ChangeVerdict]:
        """Set clocks by other versions of calendars, raising their revisions, in the manner of `edit_jobs`.

        A plan takes effect only if the clock still has its `revision` and `fire_at`, and the calendars' revision is the
        plan's. Otherwise the result is `MOVED`. A paused job's clock stays stopped.
        """
        ...

    async def settle_calendars(self) -> None:
        """Mark calendars as settled of which every job that follows them goes by the newest version."""
        ...


@value()
class CalendarUse:
    """A version of a calendar that a job's clock goes by.

    Attributes:
        is_pinned: the job names this version. Otherwise it follows the newest one.
    """

    name: str
    version: int
    is_pinned: bool


@value()
class CalendarUses:
    """The versions that a job's clock is to go by.

    Attributes:
        revision: that of the calendars as of which they were read. A write under another one changes nothing.
    """

    revision: int
    uses: tuple[CalendarUse, ...]


class CalendarDeletion(StrEnum):
    """What became of a delete."""

    DELETED = "deleted"
    MISSING = "missing"
    IN_USE = "in_use"
    MOVED = "moved"


@value(kw_only=True)
class Replan:
    """Where a job's clock is to stand, decided on a clock row with this `revision` and `fire_at`.

    Attributes:
        fire_ranges: records of fires that were due by the old versions, but not yet made. For a paused job, the gap
            of its fires by the new ones.
        ends_gap: the open gap ends now (as by a resume), because the fires from now on are other ones.
        fires_left: how many fires may run from now on; None if the job has no maximum.
    """

    job_id: JobId
    revision: int
    fire_at: datetime | None
    next_fire: NextFire | None
    calendars: CalendarUses
    fire_ranges: tuple[NewFireRange, ...] = ()
    ends_gap: bool = False
    fires_left: int | None = None
