"""Which calendars the clocks of jobs go by, within the transaction that writes the clocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mainspring.core.ids import JobId
from mainspring.ports.store.calendars import CalendarUses
from mainspring.stores.postgres.connection import Transaction


async def find_moved(transaction: Transaction, calendars: Mapping[JobId, CalendarUses | None]) -> set[JobId]:
    """Return the jobs whose calendars are no longer as they were read. No new version comes until the transaction ends.

    Jobs without calendars cost nothing here.
    """
    read = {job_id: uses.revision for job_id, uses in calendars.items() if uses is not None}
    if not read:
        return set()
    rows = await transaction.fetch("hold_calendar_revision")
    return {job_id for job_id, revision in read.items() if revision != rows[0]["number"]}


async def use_calendars(
    transaction: Transaction,
    jobs: Sequence[tuple[JobId, str, CalendarUses | None]],
    *,
    are_new: bool = False,
) -> None:
    """Keep which calendars the clocks of jobs go by; None leaves that as it is."""
    given = [(job_id, tenant, calendars) for job_id, tenant, calendars in jobs if calendars is not None]
    if given and not are_new:
        await transaction.execute("remove_calendar_uses", job_ids=[job_id for job_id, _, _ in given])
    rows = [(job_id, tenant, use) for job_id, tenant, calendars in given for use in calendars.uses]
    if rows:
        await transaction.execute(
            "add_calendar_uses",
            job_ids=[job_id for job_id, _, _ in rows],
            tenants=[tenant for _, tenant, _ in rows],
            calendars=[use.name for _, _, use in rows],
            versions=[use.version for _, _, use in rows],
            are_pinned=[use.is_pinned for _, _, use in rows],
        )
