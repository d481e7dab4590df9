"""The restrictions that every claim keeps, and the policy epoch that makes it keep them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from asyncpg import Record

from mainspring.core.audit import AuditEntry
from mainspring.core.blackouts import Blackout, renew_blackout
from mainspring.core.lane_caps import KnownCap, LaneCaps, cap_key_of
from mainspring.core.pauses import KEPT, LanePauses, Pause, PauseKey, PauseMode, PauseScope, renew
from mainspring.ports.store.restrictions import KEEPS_RESTRICTIONS, BlackoutsWritten, Restrictions
from mainspring.stores.postgres.audit import write_audit
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction

_MOST_NAMED = 5


class PostgresRestrictionStore:
    """`RestrictionStore` on PostgreSQL."""

    _connections: Connections

    async def read_restrictions(self, *, known: int | None = None) -> Restrictions | None:
        rows = await self._connections.fetch(Role.WATCH, "read_restrictions", is_repeatable=True, known=known)
        if not rows:
            return None
        held = [row for row in rows if row["scope"] is not None]
        pauses = LanePauses(_pause_of(row) for row in held if row["calendar"] is None)
        blackouts = [_blackout_of(row) for row in held if row["calendar"] is not None]
        # If these caps are newer than the epoch, claims under it give nothing.
        found = await self._connections.fetch(Role.WATCH, "read_caps", is_repeatable=True)
        caps = {cap_key_of(row["name"]): KnownCap(row["max_running"], row["key_id"]) for row in found}
        return Restrictions(
            rows[0]["number"], pauses, tuple(sorted(blackouts, key=_order_of)), LaneCaps(caps)
        )

    async def list_older_programs(self, *, protocol: int = KEEPS_RESTRICTIONS) -> list[str]:
        rows = await self._connections.fetch(
            Role.WATCH, "list_older_programs", is_repeatable=True, protocol=protocol, limit=_MOST_NAMED
        )
        return _named(rows)

    async def add_pauses(
        self, pauses: Sequence[Pause], *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[str]:
        if not pauses:
            return []

        async def work(transaction: Transaction) -> list[str]:
            if older := await find_older_programs(transaction):
                return older
            [row] = await transaction.fetch("raise_policy_epoch", now=now)
            last = {pause.key: pause for pause in pauses}
            known = await transaction.fetch("find_pauses", **_columns_of(last))
            before = {pause.key: pause for pause in map(_pause_of, known)}
            renewed = {key: renew(pause, before.get(key)) for key, pause in last.items()}
            await transaction.execute(
                "write_pauses",
                **_columns_of(last),
                modes=[pause.mode for pause in renewed.values()],
                notes=[pause.note for pause in renewed.values()],
                makers=[pause.made_by for pause in renewed.values()],
                sinces=[pause.since for pause in renewed.values()],
                untils=[pause.until for pause in renewed.values()],
            )
            await take_effect(transaction, row["number"], now)
            changed = [renewed[pause.key] != before.get(pause.key) for pause in pauses]
            await write_audit(transaction, audit, changed)
            return []

        return await self._connections.transact(Role.EDIT, work)

    async def lift_pauses(
        self, keys: Sequence[PauseKey], *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[bool]:
        if not keys:
            return []

        async def work(transaction: Transaction) -> list[bool]:
            [row] = await transaction.fetch("raise_policy_epoch", now=now)
            known = await transaction.fetch("find_pauses", **_columns_of(set(keys)))
            on = {pause.key for pause in map(_pause_of, known) if pause.is_on(now)}
            await transaction.execute("delete_pauses", **_columns_of(set(keys)))
            await take_effect(transaction, row["number"], now)
            were_on = [key in on for key in keys]
            await write_audit(transaction, audit, were_on)
            return were_on

        return await self._connections.transact(Role.EDIT, work)

    async def set_blackouts(
        self,
        key: PauseKey,
        blackouts: Sequence[Blackout],
        *,
        revision: int,
        now: datetime,
        audit: Sequence[AuditEntry] = (),
    ) -> BlackoutsWritten:
        async def work(transaction: Transaction) -> BlackoutsWritten:
            if blackouts and (older := await find_older_programs(transaction)):
                return BlackoutsWritten(older=tuple(older))
            # First the calendars, as whoever writes these does.
            [known] = await transaction.fetch("hold_calendar_revision")
            if known["number"] != revision:
                return BlackoutsWritten(is_moved=True)
            [row] = await transaction.fetch("raise_policy_epoch", now=now)
            rows = await transaction.fetch("find_blackouts", scope=key.scope, name=key.name)
            before = {(one.tenant, one.calendar): one for one in map(_blackout_of, rows)}
            await transaction.execute("delete_blackouts", scope=key.scope, name=key.name)
            renewed = [renew_blackout(one, before.get((one.tenant, one.calendar))) for one in blackouts]
            await _add_blackouts(transaction, key, renewed)
            await take_effect(transaction, row["number"], now)
            await write_audit(transaction, audit, [set(renewed) != set(before.values())])
            return BlackoutsWritten()

        return await self._connections.transact(Role.EDIT, work)

    async def begin_blackouts(self, begun_at: datetime, *, now: datetime) -> bool:
        async def work(transaction: Transaction) -> bool:
            rows = await transaction.fetch("begin_policy_epoch", begun_at=begun_at, now=now)
            if rows:
                await take_effect(transaction, rows[0]["number"], now)
            return bool(rows)

        return await self._connections.transact(Role.EDIT, work)


async def _add_blackouts(transaction: Transaction, key: PauseKey, blackouts: Sequence[Blackout]) -> None:
    await transaction.execute(
        "add_blackouts",
        scope=key.scope,
        name=key.name,
        tenants=[one.tenant for one in blackouts],
        calendars=[one.calendar for one in blackouts],
        versions=[one.version for one in blackouts],
        are_pinned=[one.is_pinned for one in blackouts],
        modes=[one.mode for one in blackouts],
        notes=[one.note for one in blackouts],
        makers=[one.made_by for one in blackouts],
        sinces=[one.since for one in blackouts],
    )


def _order_of(blackout: Blackout) -> tuple[PauseKey, str, str]:
    return blackout.key, blackout.tenant, blackout.calendar


async def find_older_programs(transaction: Transaction) -> list[str]:
    """Return some of the servers and workers that do not look at the policy epoch."""
    rows = await transaction.fetch("list_older_programs", protocol=KEEPS_RESTRICTIONS, limit=_MOST_NAMED)
    return _named(rows)


def _named(programs: Iterable[Record]) -> list[str]:
    return [f"{one['kind']} {one['name']} (host {one['host']}, pid {one['pid']})" for one in programs]


async def take_effect(transaction: Transaction, epoch: int, now: datetime) -> None:
    """Have every claim that was chosen before give nothing."""
    await transaction.execute("prune_pauses", before=now - KEPT)
    await transaction.execute("raise_session_epochs", policy_epoch=epoch)


def _columns_of(keys: Iterable[PauseKey]) -> dict[str, list[str]]:
    listed = list(keys)
    return {"scopes": [key.scope for key in listed], "names": [key.name for key in listed]}


def _blackout_of(row: Record) -> Blackout:
    return Blackout(
        scope=PauseScope(row["scope"]),
        name=row["name"],
        tenant=row["tenant"],
        calendar=row["calendar"],
        version=row["version"],
        is_pinned=row["is_pinned"],
        mode=PauseMode(row["mode"]),
        note=row["note"],
        made_by=row["made_by"],
        since=row["since"],
    )


def _pause_of(row: Record) -> Pause:
    return Pause(
        scope=PauseScope(row["scope"]),
        name=row["name"],
        mode=PauseMode(row["mode"]),
        note=row["note"],
        made_by=row["made_by"],
        since=row["since"],
        until=row["until"],
    )
