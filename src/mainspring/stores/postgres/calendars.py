"""Calendars, their versions, and which jobs use them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import asyncpg

from mainspring.core.audit import AuditEntry
from mainspring.core.calendars.resolved import CalendarVersion
from mainspring.core.clocks import ChangeVerdict, ClockMove, decide_replan
from mainspring.core.ids import JobId
from mainspring.ports.codec import decode_calendar, encode_calendar
from mainspring.ports.store.calendars import CalendarDeletion, CalendarUse, Replan
from mainspring.stores.postgres.audit import write_audit
from mainspring.stores.postgres.calendar_uses import find_moved, use_calendars
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction
from mainspring.stores.postgres.job_clocks import lock_jobs, move_clocks
from mainspring.stores.postgres.restrictions import take_effect

_LAST_VERSION = 2**31 - 1


class PostgresCalendarStore:
    """`CalendarStore` on PostgreSQL."""

    _connections: Connections

    async def read_calendar_revision(self) -> int:
        rows = await self._connections.fetch(Role.READ, "read_calendar_revision", is_repeatable=True)
        number: int = rows[0]["number"]
        return number

    async def write_calendars(
        self, versions: Sequence[CalendarVersion], *, revision: int, audit: Sequence[AuditEntry] = ()
    ) -> bool:
        if not versions:
            return True

        async def work(transaction: Transaction) -> bool:
            if not await transaction.fetch("raise_calendar_revision", revision=revision):
                return False
            await transaction.execute(
                "add_calendars",
                tenants=[one.tenant for one in versions],
                names=[one.name for one in versions],
                versions=[one.version for one in versions],
                specs=[encode_calendar(one) for one in versions],
                creations_at=[one.created_at for one in versions],
            )
            followed = await transaction.fetch(
                "follow_calendars",
                tenants=[one.tenant for one in versions],
                names=[one.name for one in versions],
                versions=[one.version for one in versions],
            )
            if followed:
                now = max(one.created_at for one in versions)
                [row] = await transaction.fetch("raise_policy_epoch", now=now)
                await take_effect(transaction, row["number"], now)
            await write_audit(transaction, audit, [True] * len(versions))
            return True

        return await self._connections.transact(Role.EDIT, work)

    async def read_calendars(
        self, tenant: str, keys: Sequence[tuple[str, int | None]]
    ) -> list[CalendarVersion | None]:
        if not keys:
            return []
        wanted = list(dict.fromkeys(keys))
        rows = await self._connections.fetch(
            Role.WATCH,
            "read_calendars",
            is_repeatable=True,
            tenant=tenant,
            names=[name for name, _ in wanted],
            versions=[version for _, version in wanted],
        )
        found = {
            (row["name"], None if row["is_newest"] else row["version"]): _calendar_of(row) for row in rows
        }
        return [found.get(key) for key in keys]

    async def list_calendars(
        self, tenant: str, *, after: str | None = None, limit: int = 100
    ) -> list[CalendarVersion]:
        rows = await self._connections.fetch(
            Role.BROWSE, "list_calendars", is_repeatable=True, tenant=tenant, after=after or "", limit=limit
        )
        return [_calendar_of(row) for row in rows]

    async def list_calendar_versions(
        self, tenant: str, name: str, *, before: int | None = None, limit: int = 100
    ) -> list[CalendarVersion]:
        rows = await self._connections.fetch(
            Role.BROWSE,
            "list_calendar_versions",
            is_repeatable=True,
            tenant=tenant,
            name=name,
            before=before or _LAST_VERSION,
            limit=limit,
        )
        return [_calendar_of(row) for row in rows]

    async def delete_calendar(
        self, tenant: str, name: str, *, revision: int, audit: Sequence[AuditEntry] = ()
    ) -> CalendarDeletion:
        async def work(transaction: Transaction) -> CalendarDeletion:
            # Raised first, because that waits for jobs which are being written with this calendar.
            if not await transaction.fetch("raise_calendar_revision", revision=revision):
                return CalendarDeletion.MOVED
            rows = await transaction.fetch("find_calendar", tenant=tenant, name=name)
            if not rows:
                return CalendarDeletion.MISSING
            if rows[0]["is_used"]:
                return CalendarDeletion.IN_USE
            await transaction.execute("delete_calendar", tenant=tenant, name=name)
            await write_audit(transaction, audit, [True])
            return CalendarDeletion.DELETED

        return await self._connections.transact(Role.EDIT, work)

    async def read_calendar_uses(self, job_ids: Sequence[JobId]) -> list[tuple[CalendarUse, ...]]:
        if not job_ids:
            return []
        rows = await self._connections.fetch(
            Role.WATCH, "read_calendar_uses", is_repeatable=True, job_ids=list(dict.fromkeys(job_ids))
        )
        uses: dict[JobId, list[CalendarUse]] = {}
        for row in rows:
            use = CalendarUse(row["calendar"], row["version"], row["is_pinned"])
            uses.setdefault(row["job_id"], []).append(use)
        return [tuple(uses.get(job_id, ())) for job_id in job_ids]

    async def list_jobs_of_calendar(self, tenant: str, name: str, *, limit: int) -> list[JobId]:
        rows = await self._connections.fetch(
            Role.BROWSE, "list_jobs_of_calendar", is_repeatable=True, tenant=tenant, name=name, limit=limit
        )
        return [row["job_id"] for row in rows]

    async def list_unsettled_jobs(self, *, limit: int) -> list[JobId]:
        rows = await self._connections.fetch(
            Role.WATCH, "list_unsettled_jobs", is_repeatable=True, limit=limit
        )
        return [row["job_id"] for row in rows]

    async def replan_jobs(self, plans: Sequence[Replan], *, now: datetime) -> list[ChangeVerdict]:
        if not plans:
            return []

        async def work(transaction: Transaction) -> list[ChangeVerdict]:
            locked = await lock_jobs(transaction, [plan.job_id for plan in plans])
            moved = await find_moved(transaction, {plan.job_id: plan.calendars for plan in plans})
            verdicts: list[ChangeVerdict] = []
            done: list[tuple[Replan, ClockMove]] = []
            for plan in plans:
                job = locked.get(plan.job_id)
                decision = decide_replan(
                    job,
                    revision=plan.revision,
                    fire_at=plan.fire_at,
                    next_fire=plan.next_fire,
                    ends_gap=plan.ends_gap,
                    is_current=plan.job_id not in moved,
                )
                if job is not None and decision.move is not None:
                    job.move(decision.move)
                    done.append((plan, decision.move))
                verdicts.append(decision.verdict)
            if done:
                await transaction.execute("touch_jobs", job_ids=[plan.job_id for plan, _ in done], now=now)
                await move_clocks(transaction, done, now, {})
                await use_calendars(
                    transaction,
                    [(plan.job_id, locked[plan.job_id].tenant, plan.calendars) for plan, _ in done],
                )
            return verdicts

        return await self._connections.transact(Role.EDIT, work)

    async def settle_calendars(self) -> None:
        async def work(transaction: Transaction) -> None:
            await transaction.execute("settle_calendars")

        await self._connections.transact(Role.UPKEEP, work)


def _calendar_of(row: asyncpg.Record) -> CalendarVersion:
    spec, resolved = decode_calendar(row["spec"])
    return CalendarVersion(
        tenant=row["tenant"],
        name=row["name"],
        version=row["version"],
        spec=spec,
        resolved=resolved,
        created_at=row["created_at"],
        is_deleted=row["is_deleted"],
    )
