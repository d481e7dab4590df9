"""Jobs that tell channels what becomes of them, on SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import apsw

from mainspring.core.ids import JobId, RunId
from mainspring.core.model import JobSpec
from mainspring.core.notify import LateRun, NotifyingJob, UnnoticedFailure
from mainspring.ports.store.notify import LOOKED_AT
from mainspring.stores._sql.alerts import decode_notify, encode
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.rows import make_job_id, to_instant, to_micros
from mainspring.stores.sqlite.statements import execute, fetch_row, fetch_rows


class SqliteNotifyStore:
    """Implements `NotifyStore`."""

    _browser: Database
    _reader: Database

    async def list_notifying_jobs(self) -> list[NotifyingJob]:
        """See `NotifyStore`."""
        rows = await self._reader.call(lambda db: fetch_rows(db, "list_notifying_jobs"))
        return [
            NotifyingJob(
                id=make_job_id(row.id), tenant=row.tenant, name=row.name, rule=decode_notify(row.notify)
            )
            for row in rows
        ]

    async def list_unnoticed(self, *, limit: int) -> list[UnnoticedFailure]:
        """See `NotifyStore`."""
        rows = await self._browser.call(lambda db: fetch_rows(db, "list_unnoticed", {"limit": limit}))
        return [
            UnnoticedFailure(run_id=RunId(row.id), job_id=make_job_id(row.job_id), error=row.error)
            for row in rows
        ]

    async def find_failing(
        self, wanted: Sequence[tuple[JobId, int, datetime]]
    ) -> list[UnnoticedFailure | None]:
        """See `NotifyStore`."""
        if not wanted:
            return []
        return await self._browser.call(lambda db: [_find_failing(db, *one) for one in wanted])

    async def find_late(self, wanted: Sequence[tuple[JobId, datetime]]) -> list[LateRun | None]:
        """See `NotifyStore`."""
        if not wanted:
            return []
        return await self._browser.call(lambda db: [_find_late(db, *one) for one in wanted])


def _find_failing(
    db: apsw.Connection, job_id: JobId, failures: int, since: datetime
) -> UnnoticedFailure | None:
    values = {"job_id": job_id.bytes, "failures": failures, "since": to_micros(since)}
    row = fetch_row(db, "find_failing", values)
    if row is None:
        return None
    return UnnoticedFailure(run_id=RunId(row.id), job_id=job_id, error=row.error)


def _find_late(db: apsw.Connection, job_id: JobId, before: datetime) -> LateRun | None:
    values = {"job_id": job_id.bytes, "before": to_micros(before), "limit": LOOKED_AT}
    row = fetch_row(db, "find_late", values)
    if row is None:
        return None
    return LateRun(run_id=None if row.run_id is None else RunId(row.run_id), due_at=to_instant(row.due_at))


def keep_notify(db: apsw.Connection, job_id: JobId, spec: JobSpec, *, is_new: bool) -> None:
    """Note, within a transaction, whom a job tells what becomes of it, or that it tells nobody."""
    if spec.notify is not None:
        execute(db, "keep_notify", {"job_id": job_id.bytes, "rule": encode(spec.notify)})
    elif not is_new:
        drop_notify(db, job_id)


def drop_notify(db: apsw.Connection, job_id: JobId) -> None:
    """Note, within a transaction, that a job tells nobody any more, not even of what has failed."""
    key = {"job_id": job_id.bytes}
    if fetch_rows(db, "drop_notify", key):
        execute(db, "forget_unnoticed", key)
