"""Backfills and their steps, on SQLite."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from uuid import UUID

import apsw

from mainspring.core.audit import AuditEntry
from mainspring.core.backfill import (
    CHANGEABLE,
    Backfill,
    BackfillChange,
    BackfillDefinition,
    BackfillOptions,
    BackfillState,
    BackfillWork,
    SkipDone,
    VersionTime,
)
from mainspring.core.ids import BackfillId, JobId, RunId, job_shard
from mainspring.core.model import Priority
from mainspring.core.rates import Rate
from mainspring.core.states import RunState
from mainspring.ports.store.backfills import AddedBackfill, BackfillStep, FiresOfRuns, NewBackfill
from mainspring.ports.store.nodes import Epochs
from mainspring.ports.store.schedule import FireResult, FireStatus
from mainspring.stores.sqlite.audit import write_audit
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.inserts import InternedLanes, insert_runs
from mainspring.stores.sqlite.locked import lock_job
from mainspring.stores.sqlite.rows import (
    NamedRow,
    make_fire_range,
    make_job_id,
    to_instant,
    to_json,
    to_micros,
    to_optional_instant,
    to_optional_micros,
)
from mainspring.stores.sqlite.schedule import find_fenced_shards
from mainspring.stores.sqlite.statements import (
    execute,
    execute_many,
    fetch_row,
    fetch_rows,
    fetch_value,
    fetch_values,
)

_LOST = FireResult(FireStatus.LOST)
_FENCED = FireResult(FireStatus.FENCED)
_MILLISECOND = timedelta(milliseconds=1)
_BEYOND = b"\xff" * 17
"""Greater than every id."""


class SqliteBackfillStore:
    """Implements `BackfillStore`."""

    _browser: Database
    _reader: Database
    _writer: Database
    _lane_ids: InternedLanes

    async def list_version_times(self, job_id: JobId) -> list[VersionTime]:
        """See `BackfillStore`."""
        values = {"job_id": job_id.bytes}
        rows = await self._browser.call(lambda db: fetch_rows(db, "list_version_times", values))
        return [VersionTime(row.version, to_instant(row.created_at)) for row in rows]

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
        """See `BackfillStore`."""
        values = {
            "job_id": job_id.bytes,
            "from_at": to_micros(from_at),
            "to_at": to_micros(to_at),
            "states": to_json(sorted(states)),
            "after": after,
            "limit": limit,
        }
        row = await self._browser.call(lambda db: fetch_row(db, "read_fires_of_runs", values))
        assert row is not None, "an aggregate has a row"
        last = None if row.last is None else RunId(row.last)
        return FiresOfRuns(frozenset(map(to_instant, json.loads(row.fires))), last)

    async def add_backfill(
        self, new: NewBackfill, *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> AddedBackfill:
        """See `BackfillStore`."""

        def work(db: apsw.Connection) -> AddedBackfill:
            added = _add(db, new, to_micros(now))
            write_audit(db, audit, [added.is_added])
            return added

        return await self._writer.call(work)

    async def get_backfills(self, backfill_ids: Sequence[BackfillId]) -> list[Backfill | None]:
        """See `BackfillStore`."""
        if not backfill_ids:
            return []
        values = {"backfill_ids": to_json([backfill_id.hex for backfill_id in backfill_ids])}
        rows = await self._browser.call(lambda db: fetch_rows(db, "get_backfills", values))
        found = {backfill.id: backfill for backfill in map(_backfill_of, rows)}
        return [found.get(backfill_id) for backfill_id in backfill_ids]

    async def list_backfills(
        self,
        tenant: str,
        *,
        job_id: JobId | None = None,
        before: BackfillId | None = None,
        limit: int = 100,
    ) -> list[Backfill]:
        """See `BackfillStore`."""
        values: dict[str, object] = {
            "tenant": tenant,
            "before": _BEYOND if before is None else before.bytes,
            "limit": limit,
        }
        name = "list_backfills"
        if job_id is not None:
            name, values["job_id"] = "list_backfills_of_job", job_id.bytes
        rows = await self._browser.call(lambda db: fetch_rows(db, name, values))
        return [_backfill_of(row) for row in rows]

    async def change_backfill(
        self,
        backfill_id: BackfillId,
        change: BackfillChange,
        *,
        now: datetime,
        audit: Sequence[AuditEntry] = (),
    ) -> bool:
        """See `BackfillStore`."""
        values = {
            "backfill_id": backfill_id.bytes,
            "state": change.leads_to,
            "now": to_micros(now),
        }
        left, kept = CHANGEABLE[change] - {change.leads_to}, CHANGEABLE[change] & {change.leads_to}

        def work(db: apsw.Connection) -> bool:
            is_change = fetch_value(db, "change_backfill", {**values, "states": to_json(sorted(left))})
            if (
                is_change is None
                and fetch_value(db, "change_backfill", {**values, "states": to_json(sorted(kept))}) is None
            ):
                return False
            write_audit(db, audit, [is_change is not None])
            if change is BackfillChange.CANCEL:
                execute(db, "close_sections", {"backfill_id": backfill_id.bytes, "now": to_micros(now)})
            return True

        return await self._writer.call(work)

    async def list_waiting_of_backfill(self, backfill_id: BackfillId, *, limit: int) -> list[RunId]:
        """See `BackfillStore`."""
        values = {"backfill_id": backfill_id.bytes, "limit": limit}
        found = await self._reader.call(lambda db: fetch_values(db, "list_waiting_of_backfill", values))
        return [RunId(run_id) for run_id in found]

    async def read_backfill_work(
        self, shards: Sequence[int], *, after: BackfillId | None, limit: int
    ) -> list[BackfillWork]:
        """See `BackfillStore`."""
        values = {
            "shards": to_json(list(shards)),
            "after": b"" if after is None else after.bytes,
            "limit": limit,
        }
        rows = await self._reader.call(lambda db: fetch_rows(db, "read_backfill_work", values))
        return [
            BackfillWork(
                id=BackfillId(UUID(bytes=row.backfill_id)),
                options=_options_of(row),
                section=make_fire_range(row),
                is_last=bool(row.is_last),
                level=row.level,
                level_at=to_optional_instant(row.level_at),
                live=row.live,
                is_job_busy=bool(row.is_job_busy),
            )
            for row in rows
        ]

    async def advance_backfills(
        self, steps: Sequence[BackfillStep], *, epochs: Epochs, now: datetime
    ) -> list[FireResult]:
        """See `BackfillStore`."""
        if not steps:
            return []

        def work(db: apsw.Connection) -> list[FireResult]:
            fenced = find_fenced_shards(db, [step.job_id for step in steps], epochs)
            return [
                _FENCED
                if job_shard(step.job_id) in fenced
                else self._advance_backfill(db, step, to_micros(now))
                for step in steps
            ]

        return await self._writer.call(work)

    def _advance_backfill(self, db: apsw.Connection, step: BackfillStep, now: int) -> FireResult:
        values = {
            "fire_range_id": step.fire_range_id,
            "cursor_from": to_optional_micros(step.cursor_from),
            "cursor_to": to_micros(step.cursor_to),
            "is_done": step.is_section_done,
            "now": now,
        }
        if (
            fetch_value(db, "lock_backfill", {"backfill_id": step.id.bytes}) is None
            or fetch_value(db, "advance_section", values) is None
        ):
            return _LOST
        counts = {
            "backfill_id": step.id.bytes,
            "count_made": len(step.runs),
            "count_skipped": step.skipped,
            "level": step.level,
            "level_at": to_micros(step.level_at),
            "is_done": step.is_done,
            "now": now,
        }
        execute(db, "count_backfill", counts)
        return FireResult(FireStatus.FIRED, tuple(insert_runs(db, self._lane_ids, step.runs, now)))


def _add(db: apsw.Connection, new: NewBackfill, now: int) -> AddedBackfill:
    job_id = new.job_id.bytes
    if lock_job(db, new.job_id) is None:
        return AddedBackfill(is_added=False)
    from_at, to_at = to_micros(new.from_at), to_micros(new.to_at)
    other = fetch_value(db, "find_backfill_in_way", {"job_id": job_id, "from_at": from_at, "to_at": to_at})
    if other is not None:
        return AddedBackfill(is_added=False, other=BackfillId(UUID(bytes=other)))
    shared = {"backfill_id": new.id.bytes, "job_id": job_id, "shard": job_shard(new.job_id), "now": now}
    values = {**shared, **_columns_of(new.options), "tenant": new.tenant, "fires": new.fires}
    execute(db, "add_backfill", {**values, "from_at": from_at, "to_at": to_at})
    sections = [
        {
            **shared,
            "version": section.version,
            "from_at": to_micros(section.from_at),
            "to_at": to_micros(section.to_at),
        }
        for section in new.sections
    ]
    execute_many(db, "add_section", sections)
    return AddedBackfill(is_added=True)


def _columns_of(options: BackfillOptions) -> dict[str, object]:
    return {
        "skip_done": options.skip_done,
        "definition": options.definition,
        "per_count": options.rate.count,
        "per_ms": options.rate.per // _MILLISECOND,
        "max_live": options.max_live,
        "priority": int(options.priority),
        "note": options.note,
    }


def _options_of(row: NamedRow) -> BackfillOptions:
    return BackfillOptions(
        skip_done=SkipDone(row.skip_done),
        definition=BackfillDefinition(row.definition),
        rate=Rate(row.per_count, row.per_ms * _MILLISECOND),
        max_live=row.max_live,
        priority=Priority(row.priority),
        note=row.note,
    )


def _backfill_of(row: NamedRow) -> Backfill:
    return Backfill(
        id=BackfillId(UUID(bytes=row.id)),
        job_id=make_job_id(row.job_id),
        tenant=row.tenant,
        from_at=to_instant(row.from_at),
        to_at=to_instant(row.to_at),
        options=_options_of(row),
        state=BackfillState(row.state),
        fires=row.fires,
        made=row.made,
        skipped=row.skipped,
        live=row.live,
        cursor_at=to_optional_instant(row.cursor_at),
        created_at=to_instant(row.created_at),
        closed_at=to_optional_instant(row.closed_at),
        is_job_paused=bool(row.is_job_paused),
    )
