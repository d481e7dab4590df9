"""Calendars, their versions, and which jobs use them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice

from mainspring.core.audit import AuditEntry
from mainspring.core.calendars.resolved import CalendarVersion
from mainspring.core.clocks import ChangeVerdict, decide_replan
from mainspring.core.ids import JobId
from mainspring.ports.store.calendars import CalendarDeletion, CalendarUse, Replan
from mainspring.stores.memory.audit import write_audit
from mainspring.stores.memory.jobs import move_clock
from mainspring.stores.memory.restrictions import follow_calendars
from mainspring.stores.memory.tables import Tables


class MemoryCalendarStore:
    """`CalendarStore` in memory."""

    _tables: Tables

    async def read_calendar_revision(self) -> int:
        return self._tables.calendars.revision

    async def write_calendars(
        self, versions: Sequence[CalendarVersion], *, revision: int, audit: Sequence[AuditEntry] = ()
    ) -> bool:
        tables = self._tables
        if not versions:
            return True
        if revision != tables.calendars.revision:
            return False
        for version in versions:
            tables.calendars.versions.setdefault((version.tenant, version.name), []).append(version)
        tables.calendars.revision += 1
        follow_calendars(tables, versions)
        write_audit(tables, audit, [True] * len(versions))
        return True

    async def read_calendars(
        self, tenant: str, keys: Sequence[tuple[str, int | None]]
    ) -> list[CalendarVersion | None]:
        found: list[CalendarVersion | None] = []
        for name, number in keys:
            kept = self._tables.calendars.versions.get((tenant, name), [])
            fitting = kept[-1:] if number is None else [one for one in kept if one.version == number]
            found.append(fitting[0] if fitting else None)
        return found

    async def list_calendars(
        self, tenant: str, *, after: str | None = None, limit: int = 100
    ) -> list[CalendarVersion]:
        kept = self._tables.calendars.versions
        names = sorted(name for owner, name in kept if owner == tenant and (after is None or name > after))
        newest = (kept[tenant, name][-1] for name in names)
        return list(islice((one for one in newest if not one.is_deleted), limit))

    async def list_calendar_versions(
        self, tenant: str, name: str, *, before: int | None = None, limit: int = 100
    ) -> list[CalendarVersion]:
        kept = reversed(self._tables.calendars.versions.get((tenant, name), []))
        return list(islice((one for one in kept if before is None or one.version < before), limit))

    async def delete_calendar(
        self, tenant: str, name: str, *, revision: int, audit: Sequence[AuditEntry] = ()
    ) -> CalendarDeletion:
        tables = self._tables
        if revision != tables.calendars.revision:
            return CalendarDeletion.MOVED
        kept = tables.calendars.versions.get((tenant, name))
        if kept is None or kept[-1].is_deleted:
            return CalendarDeletion.MISSING
        blackouts = (one for held in tables.policies.restrictions.blackouts.values() for one in held)
        if any((one.tenant, one.calendar) == (tenant, name) for one in blackouts):
            return CalendarDeletion.IN_USE
        if await self.list_jobs_of_calendar(tenant, name, limit=1):
            return CalendarDeletion.IN_USE
        tables.calendars.versions[tenant, name] = [replace(one, is_deleted=True) for one in kept]
        tables.calendars.revision += 1
        write_audit(tables, audit, [True])
        return CalendarDeletion.DELETED

    async def read_calendar_uses(self, job_ids: Sequence[JobId]) -> list[tuple[CalendarUse, ...]]:
        return [self._tables.calendars.uses.get(job_id, ()) for job_id in job_ids]

    async def list_jobs_of_calendar(self, tenant: str, name: str, *, limit: int) -> list[JobId]:
        tables = self._tables
        using = (
            job_id
            for job_id, uses in tables.calendars.uses.items()
            if tables.tenants[job_id] == tenant and any(use.name == name for use in uses)
        )
        return sorted(using)[:limit]

    async def list_unsettled_jobs(self, *, limit: int) -> list[JobId]:
        tables = self._tables
        behind = (
            job_id
            for job_id, uses in tables.calendars.uses.items()
            if any(
                not use.is_pinned
                and use.version < tables.calendars.versions[tables.tenants[job_id], use.name][-1].version
                for use in uses
            )
        )
        return sorted(behind)[:limit]

    async def replan_jobs(self, plans: Sequence[Replan], *, now: datetime) -> list[ChangeVerdict]:
        return [self._replan(plan, now) for plan in plans]

    def _replan(self, plan: Replan, now: datetime) -> ChangeVerdict:
        tables = self._tables
        job = tables.jobs.get(plan.job_id)
        decision = decide_replan(
            job,
            revision=plan.revision,
            fire_at=plan.fire_at,
            next_fire=plan.next_fire,
            ends_gap=plan.ends_gap,
            is_current=tables.is_current(plan.calendars),
        )
        if job is not None and decision.move is not None:
            job.fires_left = plan.fires_left
            move_clock(tables, job, decision.move, plan.fire_ranges, now)
            tables.use_calendars(job.id, plan.calendars)
        return decision.verdict

    async def settle_calendars(self) -> None:
        """Do nothing: `list_unsettled_jobs` looks at every job anyway."""
