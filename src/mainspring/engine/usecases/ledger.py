"""The ledgers that users ask for: the period that they may ask for, and pages of them."""

from __future__ import annotations

from datetime import datetime, timedelta

from mainspring.core.ids import JobId
from mainspring.core.ledger import Ledger
from mainspring.core.ledger_check import LedgerCheck
from mainspring.core.model import Job
from mainspring.engine.common.calendars import CalendarReader
from mainspring.engine.common.ledger import LONGEST, NO_PERIOD, USUAL, LedgerPeriod, read_ledger
from mainspring.engine.usecases.jobs import Jobs
from mainspring.errors import InvalidInput
from mainspring.ports.clock import Clock
from mainspring.ports.store import Store

BUDGET = 1.0
"""Seconds after which a page of ledgers ends, even if it has less jobs than were asked for."""


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


class Ledgers:
    """Use cases on ledgers: of a job, of a page of jobs, and what the last check of all of them came to.

    Args:
        kept: how long ended runs are kept.
    """

    def __init__(
        self, store: Store, jobs: Jobs, calendars: CalendarReader, *, clock: Clock, kept: timedelta
    ) -> None:
        self._store, self._jobs, self._calendars = store, jobs, calendars
        self._clock, self._kept = clock, kept

    async def read(self, tenant: str, job_id: JobId, period: LedgerPeriod = NO_PERIOD) -> Ledger:
        """Compare a job's expected fires with those on record, as far as that can be done: see `LedgerPeriod`."""
        return await self._read(await self._jobs.get(tenant, job_id), period)

    async def page(
        self, tenant: str, period: LedgerPeriod = NO_PERIOD, *, after: JobId | None, limit: int
    ) -> tuple[list[Ledger], JobId | None]:
        """Do the same for jobs in order of creation: for one at least, and for more until the time for a page is over.

        Return the last one's id if there may be more.
        """
        jobs = await self._store.list_jobs(tenant, after=after, limit=limit)
        begun = self._clock.monotonic()
        found: list[Ledger] = []
        for job in jobs:
            found.append(await self._read(job, period))
            if self._clock.monotonic() - begun > BUDGET:
                break
        is_last = len(found) == len(jobs) < limit
        return found, None if is_last or not found else found[-1].job.id

    async def last_check(self) -> LedgerCheck | None:
        """Return what the last check of all jobs came to; None before the first one."""
        return await self._store.read_ledger_check()

    async def _read(self, job: Job, period: LedgerPeriod) -> Ledger:
        [spec] = await self._calendars.apply_to_jobs([(job.id, job.tenant, job.spec)])
        now = self._clock.now()
        return await read_ledger(self._store, job, spec.trigger, now=now, kept=self._kept, period=period)
