"""A job's expected fires minus its recorded ones: zero at any time (law 4)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from mainspring.core.ids import RunId
from mainspring.core.ledger import Balance, Ledger, balance_fires
from mainspring.core.model import Job, RunKind
from mainspring.core.states import RunState
from mainspring.core.triggers import Trigger
from mainspring.errors import InvalidInput
from mainspring.ports.clock import Clock
from mainspring.ports.store import Store

USUAL = timedelta(days=1)
"""The period that is compared if none is asked for."""
LONGEST = timedelta(days=7)
BUDGET = 1.0
"""Seconds after which a page of ledgers ends, even if it has less jobs than were asked for."""
_PAGE = 1000


@dataclass(frozen=True, slots=True)
class LedgerPeriod:
    """The period that was asked for; None leaves a bound to the job."""

    from_at: datetime | None = None
    to_at: datetime | None = None

    def bounds(self, job: Job, now: datetime) -> tuple[datetime, datetime]:
        """Return the bounds within which a job's fires can be compared.

        The comparison ends with the newest fire on record. It starts a day ago or when it was asked for, but not before
        the job was last changed, because another definition, other calendars or a pause applied until then.
        """
        from_at = max(now - USUAL if self.from_at is None else self.from_at, job.updated_at)
        to_at = from_at if job.fired_through is None else job.fired_through
        return from_at, to_at if self.to_at is None else min(to_at, self.to_at)


NO_PERIOD = LedgerPeriod()


def check_period(from_at: datetime | None, to_at: datetime | None, *, now: datetime) -> LedgerPeriod:
    """Return the period that was asked for.

    Raises:
        InvalidInput: it begins too long ago, or ends before it begins.
    """
    if from_at is not None and from_at < now - LONGEST:
        raise InvalidInput("from", f"must be within the last {LONGEST.days} days")
    if to_at is not None and to_at < (now - USUAL if from_at is None else from_at):
        raise InvalidInput("to", "must not be before 'from', which is a day ago if it is not given")
    return LedgerPeriod(from_at, to_at)


async def read_ledger(
    store: Store, job: Job, trigger: Trigger | None, *, now: datetime, period: LedgerPeriod = NO_PERIOD
) -> Ledger:
    """Compare the fires that a job's trigger owed with those on record.

    Args:
        trigger: the job's, with its calendars.
    """
    from_at, to_at = period.bounds(job, now)
    if trigger is None or to_at <= from_at:
        return Ledger(job, from_at, from_at, Balance(0, (), ()))
    fire_ranges = [
        fire_range
        for fire_range in await store.list_fire_ranges(job.id, limit=_PAGE)
        if fire_range.version == job.version
    ]
    recorded, skipped = await _recorded(store, job, from_at)
    balance = balance_fires(
        trigger, from_at, to_at, recorded=recorded, fire_ranges=fire_ranges, skipped=skipped
    )
    return Ledger(job, from_at, to_at, balance)


async def _recorded(store: Store, job: Job, from_at: datetime) -> tuple[list[datetime], dict[datetime, str]]:
    """Return the nominal times of the version's scheduled runs, back to those created before `from_at`.

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
        if len(page) < _PAGE or page[-1].created_at < from_at:
            return recorded, skipped
        before = page[-1].id


async def read_page(
    jobs: Sequence[Job], read: Callable[[Job], Awaitable[Ledger]], *, clock: Clock
) -> list[Ledger]:
    """Read the ledgers of jobs, of the first of them at least, until the time for a page is over."""
    begun = clock.monotonic()
    found: list[Ledger] = []
    for job in jobs:
        found.append(await read(job))
        if clock.monotonic() - begun > BUDGET:
            break
    return found
