"""A job's row and its clock's row, as they decide a change."""

from __future__ import annotations

from datetime import datetime

import apsw

from mainspring.core.ids import JobId
from mainspring.core.values import value
from mainspring.stores.sqlite.rows import to_optional_instant
from mainspring.stores.sqlite.statements import fetch_row


@value(kw_only=True)
class LockedJob:
    """What decides a change of a job, from its row and its clock's."""

    tenant: str
    version: int
    is_paused: bool
    revision: int
    next_fire_at: datetime | None


def lock_job(db: apsw.Connection, job_id: JobId) -> LockedJob | None:
    """Return what decides a change of a job; None if it does not exist."""
    row = fetch_row(db, "lock_job", {"job_id": job_id.bytes})
    if row is None:
        return None
    return LockedJob(
        tenant=row.tenant,
        version=row.version,
        is_paused=bool(row.is_paused),
        revision=row.revision,
        next_fire_at=to_optional_instant(row.next_fire_at),
    )
