"""All that one apply of definitions changes, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import apsw

from mainspring.core.audit import AuditEntry
from mainspring.core.clocks import ChangeVerdict
from mainspring.core.owners import OwnerChange
from mainspring.ports.codec import encode_spec
from mainspring.ports.store.applying import JobsChange
from mainspring.ports.store.jobs import AddResult
from mainspring.stores.sqlite.audit import write_audit
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.jobs import add_job, delete_job, edit_job, pause_job
from mainspring.stores.sqlite.owners import own
from mainspring.stores.sqlite.rows import to_micros


class SqliteApplyStore:
    """Implements `ApplyStore`."""

    _writer: Database

    async def apply_jobs(
        self, change: JobsChange, *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[OwnerChange] | None:
        """See `ApplyStore`."""
        if change.is_empty:
            return []
        at = to_micros(now)
        specs = [encode_spec(job.spec) for job in change.adds]
        try:
            return await self._writer.call(lambda db: _apply(db, change, specs, at, audit))
        except _Unfit:
            return None


class _Unfit(Exception):
    """A part does not fit any more, so that the transaction is rolled back."""


def _apply(
    db: apsw.Connection, change: JobsChange, specs: list[bytes], now: int, audit: Sequence[AuditEntry]
) -> list[OwnerChange]:
    for job, spec in zip(change.adds, specs, strict=True):
        if add_job(db, job, spec, now) is not AddResult.ADDED:
            raise _Unfit
    verdicts = (
        *(edit_job(db, edit, now) for edit in change.edits),
        *(pause_job(db, pause, now).verdict for pause in change.pauses),
        *(delete_job(db, gone, now).verdict for gone in change.deletes),
    )
    if any(verdict is not ChangeVerdict.DONE for verdict in verdicts):
        raise _Unfit
    owned = [own(db, change.tenant, each.owner, each.names, now) for each in change.owners]
    if any(one.missing for one in owned):
        raise _Unfit
    write_audit(db, audit, [change.changes_jobs or any(one.is_change for one in owned)])
    return owned
