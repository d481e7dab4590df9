"""A job's expected fires minus its recorded ones: zero at any time (law 4)."""

from __future__ import annotations

from datetime import datetime, timedelta

from mainspring.core.ids import RunId
from mainspring.core.ledger import Balance, Ledger, balance_fires
from mainspring.core.model import Job, RunKind
from mainspring.core.triggers import Trigger
from mainspring.ports.store import Store

LONGEST = timedelta(days=1)
_PAGE = 1000


async def read_ledger(
    store: Store, job: Job, trigger: Trigger | None, *, now: datetime, period: timedelta = LONGEST
) -> Ledger:
    """Compare the fires that a job's trigger owed with those on record.

    The comparison ends with the newest fire on record. It starts at most `period` ago, but not before the job was last
    changed, because another definition, other calendars or a pause applied until then.

    Args:
        trigger: the job's, with its calendars.
    """
    from_at = max(now - min(period, LONGEST), job.updated_at)
    to_at = job.fired_through if job.fired_through is not None else from_at
    nothing = Balance(0, (), ())
    if trigger is None or to_at <= from_at:
        return Ledger(job, from_at, from_at, nothing)
    fire_ranges = [
        fire_range
        for fire_range in await store.list_fire_ranges(job.id, limit=_PAGE)
        if fire_range.version == job.version
    ]
    recorded = await _recorded(store, job, from_at)
    balance = balance_fires(trigger, from_at, to_at, recorded=recorded, fire_ranges=fire_ranges)
    return Ledger(job, from_at, to_at, balance)


async def _recorded(store: Store, job: Job, from_at: datetime) -> list[datetime]:
    """Return the nominal times of the version's scheduled runs, back to those created before `from_at`."""
    recorded: list[datetime] = []
    before: RunId | None = None
    while True:
        page = await store.list_runs(job.tenant, job_id=job.id, before=before, limit=_PAGE)
        recorded += [
            run.fire_at
            for run in page
            if run.fire_at is not None and run.kind is RunKind.SCHEDULED and run.version == job.version
        ]
        if len(page) < _PAGE or page[-1].created_at < from_at:
            return recorded
        before = page[-1].id
