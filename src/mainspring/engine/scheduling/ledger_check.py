"""Compares every job's owed fires with its records, once a day, and keeps the result where everybody can see it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import datetime, timedelta

import structlog

from mainspring.core.ids import JobId, format_job_id
from mainspring.core.ledger_check import OVERLAP, LedgerCheck, LedgerSum
from mainspring.core.model import Job
from mainspring.core.triggers import UnknownTrigger
from mainspring.engine.common.calendars import CalendarReader
from mainspring.engine.common.ledger import LONGEST, USUAL, LedgerPeriod, read_ledger
from mainspring.engine.common.pacing import Pacing
from mainspring.engine.scheduling.ownership import Ownership
from mainspring.errors import TookTooLong
from mainspring.ports.clock import Clock, Waiter
from mainspring.ports.store import Store
from mainspring.ports.telemetry import Measure

_log = structlog.get_logger(__name__)
PAGE = 100
PERIOD = 60.0
"""The most seconds between two looks at whether a check is due, and the rest after a page that took too long."""
SHARE = 0.05
"""Part of the time that a check may take: it may go through millions of runs."""
LONGEST_REST = 5.0


class LedgerChecker:
    """Checks the ledgers of all jobs, if this node owns shard 0. Other nodes' results are fenced.

    A check begins a day after the one before began, or after that one's end if it took longer. It goes on from job to
    job, a few at a time, and compares what became due since the check before. If the node stops or loses the shard, the
    next owner begins anew.

    Args:
        kept: how long ended runs are kept.
    """

    name = "ledger_checker"

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        ownership: Ownership,
        calendars: CalendarReader,
        kept: timedelta,
        waiter: Waiter,
    ) -> None:
        self._store = store
        self._clock = clock
        self._ownership = ownership
        self._calendars = calendars
        self._kept = kept
        self.waiter = waiter
        self._pacing = Pacing(longest=LONGEST_REST, share=SHARE)
        self._sum: LedgerSum | None = None
        self._jobs: deque[Job] = deque()
        self._after: tuple[str, JobId] | None = None
        self._is_last_page = False
        self._last: LedgerCheck | None = None

    def measures(self) -> Iterator[Measure]:
        """Yield what the last check found, whoever made it, while this node checks."""
        if self._last is not None and 0 in self._ownership.epochs:
            yield Measure("ledger_missing", self._last.missing)
            yield Measure("ledger_surplus", self._last.surplus)

    async def tick(self, now: datetime) -> float:
        """Compare the next job's fires, if a check is due."""
        if 0 not in self._ownership.epochs:
            self._sum = None
            return PERIOD
        if self._sum is None:
            wait = await self._begin(now)
            if wait > 0:
                return wait
        begun = self._clock.monotonic()
        try:
            is_done = await self._go_on()
        except TookTooLong:
            return PERIOD
        if is_done:
            await self._conclude(now)
            return PERIOD
        return self._pacing.rest(self._clock.monotonic() - begun)

    async def _begin(self, now: datetime) -> float:
        """Begin a check if one is due. Return the seconds until it is."""
        self._last = last = await self._store.read_ledger_check()
        if last is not None and now < last.next_at:
            return min((last.next_at - now).total_seconds(), PERIOD)
        since = now - USUAL if last is None else last.began_at - OVERLAP
        self._sum = LedgerSum(began_at=now, since=max(since, now - LONGEST))
        self._jobs.clear()
        self._after, self._is_last_page = None, False
        return 0.0

    async def _go_on(self) -> bool:
        """Compare the fires of one job that owed any, or read the next page. Return whether that was the last."""
        while self._jobs:
            is_owing = await self._compare(self._jobs[0])
            self._jobs.popleft()  # only now: a job that could not be read is read again
            if is_owing:
                return False
        if self._is_last_page:
            return True
        page = await self._store.page_jobs(after=self._after, limit=PAGE)
        self._is_last_page = len(page) < PAGE
        if page:
            self._after = page[-1].tenant, page[-1].id
        self._jobs.extend(page)
        return False

    async def _compare(self, job: Job) -> bool:
        """Compare a job's fires, if they are known here. Return whether it owed any."""
        assert self._sum is not None
        try:
            [spec] = await self._calendars.apply_to_jobs([(job.id, job.tenant, job.spec)])
        except ValueError:  # a calendar or a zone is unknown here, which the follower of calendars logs
            return False
        if isinstance(spec.trigger, UnknownTrigger):
            return False  # which fires it owes is unknown here
        period = LedgerPeriod(self._sum.since)
        ledger = await read_ledger(
            self._store, job, spec.trigger, now=self._clock.now(), kept=self._kept, period=period
        )
        if (uneven := self._sum.add(ledger)) is not None:
            _log.error(
                "ledger_uneven",
                job=uneven.name,
                job_id=format_job_id(uneven.job_id),
                tenant=uneven.tenant,
                missing=uneven.missing,
                surplus=uneven.surplus,
                first=uneven.first_at.isoformat(),
                next_step=f"mainspring ledger {uneven.name}",
            )
        return ledger.to_at > ledger.from_at

    async def _conclude(self, now: datetime) -> None:
        """Store what was found, unless the shard has gone to another node."""
        assert self._sum is not None
        check, self._sum = self._sum.conclude(now), None
        if not check.jobs:
            return  # a store that is new says nothing for the first day otherwise
        epochs = {0: self._ownership.epochs[0]} if 0 in self._ownership.epochs else {}
        if not await self._store.put_ledger_check(check, epochs=epochs):
            self._ownership.fence([0], used=epochs)
            return
        self._last = check
        _log.info("ledgers_checked", jobs=check.jobs, fires=check.expected, **_differences(check))


def _differences(check: LedgerCheck) -> dict[str, int]:
    return {"missing": check.missing, "surplus": check.surplus, "uneven_jobs": check.uneven}
