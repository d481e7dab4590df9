"""Calendars, their versions, and which jobs use them, on SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import apsw

from mainspring.core.audit import AuditEntry
from mainspring.core.calendars.resolved import CalendarVersion
from mainspring.core.clocks import ChangeVerdict, decide_replan
from mainspring.core.ids import JobId
from mainspring.ports.codec import decode_calendar, encode_calendar
from mainspring.ports.store.calendars import CalendarDeletion, CalendarUse, Replan
from mainspring.stores.sqlite.audit import write_audit
from mainspring.stores.sqlite.calendar_uses import are_current, use_calendars
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.job_clocks import move_clock
from mainspring.stores.sqlite.locked import lock_job
from mainspring.stores.sqlite.restrictions import take_effect
from mainspring.stores.sqlite.rows import (
    NamedRow,
    make_job_id,
    to_hexes,
    to_instant,
    to_json,
    to_micros,
)
from mainspring.stores.sqlite.statements import (
    execute,
    execute_many,
    fetch_row,
    fetch_rows,
    fetch_value,
    fetch_values,
)

_LAST_VERSION = 2**31


class SqliteCalendarStore:
    """Implements `CalendarStore`."""

    _browser: Database
    _reader: Database
    _writer: Database

    async def read_calendar_revision(self) -> int:
        """See `CalendarStore`."""
        number: int = await self._reader.call(lambda db: fetch_value(db, "read_calendar_revision"))
        return number

    async def write_calendars(
        self, versions: Sequence[CalendarVersion], *, revision: int, audit: Sequence[AuditEntry] = ()
    ) -> bool:
        """See `CalendarStore`."""
        if not versions:
            return True
        rows = [
            {
                "tenant": one.tenant,
                "name": one.name,
                "version": one.version,
                "spec": encode_calendar(one),
                "creation_at": to_micros(one.created_at),
            }
            for one in versions
        ]

        def work(db: apsw.Connection) -> bool:
            if fetch_value(db, "raise_calendar_revision", {"revision": revision}) is None:
                return False
            execute_many(db, "add_calendars", rows)
            follows = [
                fetch_values(
                    db, "follow_calendar", {"tenant": one.tenant, "name": one.name, "version": one.version}
                )
                for one in versions
            ]
            if any(follows):
                take_effect(db, max(one.created_at for one in versions))
            write_audit(db, audit, [True] * len(versions))
            return True

        return await self._writer.call(work)

    async def read_calendars(
        self, tenant: str, keys: Sequence[tuple[str, int | None]]
    ) -> list[CalendarVersion | None]:
        """See `CalendarStore`."""
        if not keys:
            return []
        values = {"tenant": tenant, "keys": to_json(keys)}
        rows = await self._reader.call(lambda db: fetch_rows(db, "read_calendars", values))
        found: dict[tuple[str, int | None], CalendarVersion] = {}
        for one in map(_make_calendar, rows):
            found[one.name, one.version] = one
            newest = found.get((one.name, None))
            if newest is None or newest.version < one.version:
                found[one.name, None] = one
        return [found.get(key) for key in keys]

    async def list_calendars(
        self, tenant: str, *, after: str | None = None, limit: int = 100
    ) -> list[CalendarVersion]:
        """See `CalendarStore`."""
        values = {"tenant": tenant, "after": after or "", "limit": limit}
        rows = await self._browser.call(lambda db: fetch_rows(db, "list_calendars", values))
        return [_make_calendar(row) for row in rows]

    async def list_calendar_versions(
        self, tenant: str, name: str, *, before: int | None = None, limit: int = 100
    ) -> list[CalendarVersion]:
        """See `CalendarStore`."""
        values = {"tenant": tenant, "name": name, "before": before or _LAST_VERSION, "limit": limit}
        rows = await self._browser.call(lambda db: fetch_rows(db, "list_calendar_versions", values))
        return [_make_calendar(row) for row in rows]

    async def delete_calendar(
        self, tenant: str, name: str, *, revision: int, audit: Sequence[AuditEntry] = ()
    ) -> CalendarDeletion:
        """See `CalendarStore`."""
        values = {"tenant": tenant, "name": name}

        def work(db: apsw.Connection) -> CalendarDeletion:
            if fetch_value(db, "read_calendar_revision") != revision:
                return CalendarDeletion.MOVED
            row = fetch_row(db, "find_calendar", values)
            if row is None:
                return CalendarDeletion.MISSING
            if row.is_used:
                return CalendarDeletion.IN_USE
            execute(db, "delete_calendar", values)
            execute(db, "raise_calendar_revision", {"revision": revision})
            write_audit(db, audit, [True])
            return CalendarDeletion.DELETED

        return await self._writer.call(work)

    async def read_calendar_uses(self, job_ids: Sequence[JobId]) -> list[tuple[CalendarUse, ...]]:
        """See `CalendarStore`."""
        if not job_ids:
            return []
        values = {"job_ids": to_hexes(list(dict.fromkeys(job_ids)))}
        rows = await self._reader.call(lambda db: fetch_rows(db, "read_calendar_uses", values))
        uses: dict[JobId, list[CalendarUse]] = {}
        for row in rows:
            use = CalendarUse(row.calendar, row.version, bool(row.is_pinned))
            uses.setdefault(make_job_id(row.job_id), []).append(use)
        return [tuple(uses.get(job_id, ())) for job_id in job_ids]

    async def list_jobs_of_calendar(self, tenant: str, name: str, *, limit: int) -> list[JobId]:
        """See `CalendarStore`."""
        values = {"tenant": tenant, "name": name, "limit": limit}
        ids = await self._browser.call(lambda db: fetch_values(db, "list_jobs_of_calendar", values))
        return [make_job_id(job_id) for job_id in ids]

    async def list_unsettled_jobs(self, *, limit: int) -> list[JobId]:
        """See `CalendarStore`."""
        ids = await self._reader.call(lambda db: fetch_values(db, "list_unsettled_jobs", {"limit": limit}))
        return [make_job_id(job_id) for job_id in ids]

    async def replan_jobs(self, plans: Sequence[Replan], *, now: datetime) -> list[ChangeVerdict]:
        """See `CalendarStore`."""
        if not plans:
            return []
        at = to_micros(now)
        return await self._writer.call(lambda db: [_replan(db, plan, at) for plan in plans])

    async def settle_calendars(self) -> None:
        """See `CalendarStore`."""
        await self._writer.call(lambda db: execute(db, "settle_calendars"))


def _replan(db: apsw.Connection, plan: Replan, now: int) -> ChangeVerdict:
    job = lock_job(db, plan.job_id)
    decision = decide_replan(
        job,
        revision=plan.revision,
        fire_at=plan.fire_at,
        next_fire=plan.next_fire,
        ends_gap=plan.ends_gap,
        is_current=are_current(db, plan.calendars),
    )
    if job is not None and decision.move is not None:
        execute(db, "touch_jobs", {"job_ids": to_hexes([plan.job_id]), "now": now})
        move_clock(db, plan, decision.move, now)
        use_calendars(db, plan.job_id, job.tenant, plan.calendars)
    return decision.verdict


def _make_calendar(row: NamedRow) -> CalendarVersion:
    spec, resolved = decode_calendar(row.spec)
    return CalendarVersion(
        tenant=row.tenant,
        name=row.name,
        version=row.version,
        spec=spec,
        resolved=resolved,
        created_at=to_instant(row.created_at),
        is_deleted=bool(row.is_deleted),
    )
