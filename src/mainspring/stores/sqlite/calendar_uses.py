"""Which calendars the clocks of jobs go by, within the transaction that writes the clock."""

from __future__ import annotations

import apsw

from mainspring.core.ids import JobId
from mainspring.ports.store.calendars import CalendarUses
from mainspring.stores.sqlite.rows import to_hexes
from mainspring.stores.sqlite.statements import execute, execute_many, fetch_value


def are_current(db: apsw.Connection, calendars: CalendarUses | None) -> bool:
    """Say whether calendars are still as they were read."""
    return calendars is None or fetch_value(db, "read_calendar_revision") == calendars.revision


def use_calendars(
    db: apsw.Connection, job_id: JobId, tenant: str, calendars: CalendarUses | None, *, is_new: bool = False
) -> None:
    """Keep which calendars a job's clock goes by; None leaves that as it is."""
    if calendars is None:
        return
    if not is_new:
        execute(db, "remove_calendar_uses", {"job_ids": to_hexes([job_id])})
    rows = [
        {
            "job_id": job_id.bytes,
            "tenant": tenant,
            "calendar": use.name,
            "version": use.version,
            "is_pinned": use.is_pinned,
        }
        for use in calendars.uses
    ]
    execute_many(db, "add_calendar_uses", rows)
