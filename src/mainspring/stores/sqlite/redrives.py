"""Redrives and their steps, on SQLite."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import apsw

from mainspring.core.audit import AuditEntry
from mainspring.core.dead_letters import DeadFilter
from mainspring.core.ids import RedriveId, RunId
from mainspring.core.redrives import DeadVersion, Redrive, RedriveChange, RedriveState
from mainspring.ports.store.nodes import Epochs
from mainspring.ports.store.redrives import DeadWindow, NewRedrive, RedriveStep
from mainspring.stores._sql.dead_filters import decode_dead_filter, encode_dead_filter
from mainspring.stores.sqlite.audit import write_audit
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.dead import values_of
from mainspring.stores.sqlite.nodes import owns_shard_0
from mainspring.stores.sqlite.rows import (
    NamedRow,
    make_job_id,
    to_instant,
    to_json,
    to_micros,
    to_optional_instant,
)
from mainspring.stores.sqlite.statements import execute, fetch_row, fetch_rows, fetch_value, fetch_values

_BEYOND = b"\xff" * 17
"""Greater than every id."""


class SqliteRedriveStore:
    """Implements `RedriveStore`."""

    _browser: Database
    _reader: Database
    _writer: Database

    async def count_dead_versions(self, tenant: str, wanted: DeadFilter, *, limit: int) -> list[DeadVersion]:
        """See `RedriveStore`."""
        values = {**values_of(tenant, wanted), "limit": limit}
        rows = await self._browser.call(lambda db: fetch_rows(db, "count_dead_versions", values))
        return [
            DeadVersion(job_id=make_job_id(row.job_id), version=row.version, count=row.letters)
            for row in rows
        ]

    async def add_redrive(self, new: NewRedrive, *, now: datetime, audit: Sequence[AuditEntry] = ()) -> None:
        """See `RedriveStore`."""
        values = {
            "redrive_id": new.id.bytes,
            "tenant": new.tenant,
            "filter": encode_dead_filter(new.wanted),
            "is_newest": new.is_newest,
            "rate": new.rate,
            "total": new.total,
            "now": to_micros(now),
        }

        def work(db: apsw.Connection) -> None:
            execute(db, "add_redrive", values)
            write_audit(db, audit, [True])

        await self._writer.call(work)

    async def get_redrive(self, redrive_id: RedriveId) -> Redrive | None:
        """See `RedriveStore`."""
        values = {"redrive_id": redrive_id.bytes}
        row = await self._reader.call(lambda db: fetch_row(db, "get_redrive", values))
        return None if row is None else _make_redrive(row)

    async def list_redrives(
        self, tenant: str, *, before: RedriveId | None = None, limit: int = 100
    ) -> list[Redrive]:
        """See `RedriveStore`."""
        values = {"tenant": tenant, "before": _BEYOND if before is None else before.bytes, "limit": limit}
        rows = await self._browser.call(lambda db: fetch_rows(db, "list_redrives", values))
        return [_make_redrive(row) for row in rows]

    async def change_redrive(
        self, redrive_id: RedriveId, change: RedriveChange, *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> bool:
        """See `RedriveStore`."""
        values = {
            "redrive_id": redrive_id.bytes,
            "state": change.leads_to,
            "now": to_micros(now),
        }
        others = to_json(sorted(change.starts_from - {change.leads_to}))

        def work(db: apsw.Connection) -> bool:
            is_change = bool(fetch_values(db, "change_redrive", {**values, "states": others}))
            write_audit(db, audit, [is_change])
            same = to_json([change.leads_to])
            return is_change or bool(fetch_values(db, "change_redrive", {**values, "states": same}))

        return await self._writer.call(work)

    async def list_running_redrives(self, *, limit: int) -> list[Redrive]:
        """See `RedriveStore`."""
        rows = await self._reader.call(lambda db: fetch_rows(db, "list_running_redrives", {"limit": limit}))
        return [_make_redrive(row) for row in rows]

    async def find_dead_to_redrive(
        self, tenant: str, wanted: DeadFilter, *, after: RunId, limit: int
    ) -> DeadWindow:
        """See `RedriveStore`."""
        values = {**values_of(tenant, wanted), "after": after, "limit": limit}
        row = await self._browser.call(lambda db: fetch_row(db, "find_dead_to_redrive", values))
        assert row is not None, "an aggregate has a row"
        run_ids = [RunId(run_id) for run_id in sorted(json.loads(row.run_ids))]
        return DeadWindow(run_ids, None if row.last is None else RunId(row.last))

    async def advance_redrives(self, steps: Sequence[RedriveStep], *, epochs: Epochs, now: datetime) -> bool:
        """See `RedriveStore`."""
        if not steps:
            return True

        def work(db: apsw.Connection) -> bool:
            if not owns_shard_0(db, epochs):
                return False
            for step in steps:
                _advance(db, step, to_micros(now))
            return True

        return await self._writer.call(work)


def _advance(db: apsw.Connection, step: RedriveStep, now: int) -> None:
    redrive = step.redrive
    cursors = {"cursor_from": redrive.cursor, "cursor_to": step.cursor_to}
    wanted = values_of(redrive.tenant, redrive.wanted)
    since_made = to_micros(redrive.created_at)
    redriven: int = fetch_value(db, "count_redriven", {**wanted, **cursors, "since_made": since_made})
    values = {"redrive_id": redrive.id.bytes, "redriven": redriven, "is_done": step.is_done, "now": now}
    execute(db, "advance_redrive", {**values, **cursors})


def _make_redrive(row: NamedRow) -> Redrive:
    return Redrive(
        id=RedriveId(UUID(bytes=row.id)),
        tenant=row.tenant,
        wanted=decode_dead_filter(row.filter),
        is_newest=bool(row.is_newest),
        rate=row.rate,
        state=RedriveState(row.state),
        cursor=RunId(row.cursor),
        total=row.total,
        done=row.done,
        created_at=to_instant(row.created_at),
        closed_at=to_optional_instant(row.closed_at),
    )
