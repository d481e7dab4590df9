"""A job's expected fires minus its recorded ones: zero at any time (law 4)."""

from __future__ import annotations

from datetime import datetime, timedelta

from mainspring.core.ids import RunId
from mainspring.core.ledger import Balance, Balancing, Ledger
from mainspring.core.model import Job, RunKind
from mainspring.core.states import RunState
from mainspring.core.triggers import Trigger
from mainspring.core.values import value
from mainspring.engine.common.pacing import give_way
from mainspring.ports.store import Store

USUAL = timedelta(days=1)
"""The period that is compared if none is asked for."""
LONGEST = timedelta(days=7)
SKEW = timedelta(minutes=1)
"""How much earlier than its fire time a run may seem to be created: nodes' clocks differ, by less than that."""
_MOST_RANGES = 1000
_PAGE = 250
"""Runs that are read together: making so many takes some milliseconds, too."""
_STEP = 500
"""Fires that are compared before others get their turn: a few milliseconds."""


@value()
class LedgerPeriod:
    """The period that was asked for; None leaves a bound to the job."""

    from_at: datetime | None = None
    to_at: datetime | None = None

    def bounds(self, job: Job, now: datetime, kept: timedelta) -> tuple[datetime, datetime]:
        """Return the bounds within which a job's fires can be compared.

        The comparison ends with the newest fire on record. It starts a day ago or when it was asked for, but not before
        the job was last changed, because another definition, other calendars or a pause applied until then, and
        not before the time from which all runs are still kept.
        """
        asked = now - USUAL if self.from_at is None else self.from_at
        from_at = max(asked, job.updated_at, now - kept + SKEW)
        to_at = from_at if job.fired_through is None else job.fired_through
        return from_at, to_at if self.to_at is None else min(to_at, self.to_at)


NO_PERIOD = LedgerPeriod()


async def read_ledger(
    store: Store,
    job: Job,
    trigger: Trigger | None,
    *,
    now: datetime,
    kept: timedelta,
    period: LedgerPeriod = NO_PERIOD,
) -> Ledger:
    """Compare the fires that a job's trigger owed with those on record.

    Args:
        trigger: the job's, with its calendars.
        kept: how long runs are kept after their end.
    """
    from_at, to_at = period.bounds(job, now, kept)
    if trigger is None or to_at <= from_at:
        return Ledger(job, from_at, from_at, Balance(0, (), ()))
    fire_ranges = [
        fire_range
        for fire_range in await store.list_fire_ranges(job.id, limit=_MOST_RANGES)
        if fire_range.version == job.version
    ]
    recorded, skipped = await _recorded(store, job, from_at)
    balancing = Balancing(
        trigger, from_at, to_at, recorded=recorded, fire_ranges=fire_ranges, skipped=skipped
    )
    while balancing.step(_STEP):
        await give_way()
    return Ledger(job, from_at, to_at, balancing.balance())


async def _recorded(store: Store, job: Job, from_at: datetime) -> tuple[list[datetime], dict[datetime, str]]:
    """Return the nominal times of the version's scheduled runs, back to those created well before `from_at`.

    Also return the reasons of those that were skipped.
    """
    recorded: list[datetime] = []
    skipped: dict[datetime, str] = {}
    before: RunId | None = None
    while True:
        page = await store.list_runs(job.tenant, job_id=job.id, before=before, limit=_PAGE, is_brief=True)
        for run in page:
            if run.fire_at is None or run.kind is not RunKind.SCHEDULED or run.version != job.version:
                continue
            recorded.append(run.fire_at)
            if run.state is RunState.SKIPPED:
                skipped[run.fire_at] = run.reason or "skipped"
        if len(page) < _PAGE or page[-1].created_at < from_at - SKEW:
            return recorded, skipped
        before = page[-1].id
