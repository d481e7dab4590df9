"""Which jobs come from the code of which owner."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import apsw

from mainspring.core.audit import AuditEntry
from mainspring.core.ids import JobId
from mainspring.core.model import Job
from mainspring.core.owners import OwnedJob, OwnerChange, judge_owner
from mainspring.stores.sqlite.audit import write_audit
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.rows import make_job, make_job_id, to_hexes, to_json, to_micros
from mainspring.stores.sqlite.statements import execute, fetch_rows, fetch_tuples


class SqliteOwnerStore:
    """Implements `OwnerStore`."""

    _browser: Database
    _writer: Database

    async def own_jobs(
        self,
        tenant: str,
        owner: str,
        names: Sequence[str],
        *,
        now: datetime,
        audit: Sequence[AuditEntry] = (),
    ) -> OwnerChange:
        """See `OwnerStore`."""
        at = to_micros(now)

        def work(db: apsw.Connection) -> OwnerChange:
            change = own(db, tenant, owner, names, at)
            write_audit(db, audit, [change.is_change])
            return change

        return await self._writer.call(work)

    async def list_owned(
        self, tenant: str, owner: str, *, after: JobId | None = None, limit: int = 100
    ) -> list[Job]:
        """See `OwnerStore`."""
        start = b"" if after is None else after.bytes
        values = {"tenant": tenant, "owner": owner, "after": start, "limit": limit}
        rows = await self._browser.call(lambda db: fetch_tuples(db, "list_owned", values))
        return [make_job(row) for row in rows]

    async def list_undefined(
        self, tenant: str, *, owner: str | None = None, after: JobId | None = None, limit: int = 100
    ) -> list[Job]:
        """See `OwnerStore`."""
        start = b"" if after is None else after.bytes
        values = {"tenant": tenant, "owner": owner, "after": start, "limit": limit}
        rows = await self._browser.call(lambda db: fetch_tuples(db, "list_undefined", values))
        return [make_job(row) for row in rows]

    async def page_jobs(self, *, after: tuple[str, JobId] | None = None, limit: int = 100) -> list[Job]:
        """See `OwnerStore`."""
        tenant, start = ("", b"") if after is None else (after[0], after[1].bytes)
        values = {"tenant": tenant, "after": start, "limit": limit}
        rows = await self._browser.call(lambda db: fetch_tuples(db, "page_jobs", values))
        return [make_job(row) for row in rows]


def own(db: apsw.Connection, tenant: str, owner: str, names: Sequence[str], now: int) -> OwnerChange:
    """Note, within a transaction, which jobs an owner defines."""
    values = {
        "tenant": tenant,
        "owners": to_json([owner]),
        "names": to_json(list(names)),
        "job_ids": to_json([]),
    }
    rows = fetch_rows(db, "lock_owned", values)
    jobs = [OwnedJob(make_job_id(row.id), row.name, row.owner, row.undefined_since is None) for row in rows]
    change = judge_owner(owner, names, jobs)
    if change.defined:
        job_ids = to_hexes(change.defined)
        execute(db, "define_jobs", {"owner": owner, "job_ids": job_ids})
        execute(db, "raise_clocks", {"job_ids": job_ids})
    if change.undefined:
        execute(db, "undefine_jobs", {"job_ids": to_hexes(change.undefined), "now": now})
    return change
