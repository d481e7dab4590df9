"""Looks through all jobs for those that nobody defines any more, or that nobody can run, page by page."""

from __future__ import annotations

from datetime import datetime

import structlog

from mainspring.core.ids import JobId
from mainspring.core.job_findings import FindingsSoFar, JobFindings
from mainspring.core.job_warnings import UNDEFINED, warnings_of
from mainspring.engine.common.pacing import Pacing
from mainspring.engine.common.serving import OfferReader
from mainspring.errors import TookTooLong
from mainspring.ports.clock import Clock, Waiter
from mainspring.ports.store import Store

_log = structlog.get_logger(__name__)
PAGE = 100
PERIOD = 15.0
"""Seconds from one look to the next."""
SHARE = 0.01
"""Part of the time that a look may take: it goes through thousands of definitions."""
LONGEST = 5.0


class JobCheck:
    """Finds what is wrong with jobs, for `/health` and for the log.

    A problem is logged once, if two looks in a row have found it: between a worker that stops and the next that
    starts, nobody serves anything. Nor is it logged twice until it has gone.

    Attributes:
        findings: what the last whole look has found; None before the first.
    """

    name = "job_check"

    def __init__(self, store: Store, offers: OfferReader, *, clock: Clock, waiter: Waiter) -> None:
        self._store = store
        self._offers = offers
        self._clock = clock
        self.waiter = waiter
        self.findings: JobFindings | None = None
        self._pacing = Pacing(longest=LONGEST, share=SHARE)
        self._so_far = FindingsSoFar()
        self._after: tuple[str, JobId] | None = None
        self._logged: set[tuple[str, str]] = set()

    async def tick(self, now: datetime) -> float:
        """Look at a page of jobs. Come back soon while there are more."""
        begun = self._clock.monotonic()
        try:
            page = await self._store.page_jobs(after=self._after, limit=PAGE)
        except TookTooLong:
            return LONGEST
        offers = await self._offers.read_now()
        for job in page:
            if not job.is_paused:
                gap = offers.find_gap_of(job.spec, job.tenant)
                self._so_far.add(job.spec.name, warnings_of(job, gap))
        rest = self._pacing.rest(self._clock.monotonic() - begun)
        if len(page) == PAGE:
            self._after = page[-1].tenant, page[-1].id
            return rest
        self._conclude(self._so_far.sum_up(now))
        self._after, self._so_far = None, FindingsSoFar()
        return max(PERIOD, rest)

    def _conclude(self, findings: JobFindings) -> None:
        before, self.findings = self.findings, findings
        lasting = {one.key for one in before.problems} if before is not None else set()
        present = {one.key for one in findings.problems}
        for problem in findings.problems:
            if problem.key in lasting and problem.key not in self._logged:
                self._logged.add(problem.key)
                event = "jobs_undefined" if problem.code == UNDEFINED else "jobs_unserved"
                _log.warning(
                    event,
                    jobs=problem.jobs,
                    examples=list(problem.examples),
                    reason=problem.code,
                    meaning=problem.sentence,
                )
        for key in sorted(self._logged - present):
            self._logged.discard(key)
            _log.info("jobs_served_again", reason=key[0], what=key[1])
