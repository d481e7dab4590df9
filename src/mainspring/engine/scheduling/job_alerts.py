"""Finds which jobs are to tell of themselves: those with `notify` that fail, or are late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import structlog

from mainspring.core.alerting import Judgement
from mainspring.core.alerts import Alert, Channel, find_channel
from mainspring.core.ids import JobId, RunId
from mainspring.core.notifications import Severity
from mainspring.core.notify import (
    JOB_FAILED,
    JOB_LATE,
    JobsSeen,
    LateRun,
    NotifyingJob,
    UnnoticedFailure,
    find_failed,
    find_late,
    jobs_to_judge,
)
from mainspring.core.rights import ALL_TENANTS
from mainspring.ports.store import Store

_log = structlog.get_logger(__name__)
MOST_FAILURES = 1000
"""Failed runs that are noticed at a time. If there are more, the watchdog comes back at once."""
_PAGE = 1000


class JobAlerts:
    """Judges jobs that notify."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._unknown: set[tuple[str, str]] = set()

    async def judge(
        self, alerts: Sequence[Alert], channels: Mapping[str, Channel], now: datetime
    ) -> tuple[list[Judgement], list[RunId]]:
        """Return what is found, and which failed runs that takes note of.

        Args:
            alerts: those that are open.
        """
        jobs = await self._store.list_notifying_jobs()
        told = {(alert.tenant, alert.subject) for alert in alerts if alert.rule == JOB_FAILED}
        if not jobs and not any(alert.rule in {JOB_FAILED, JOB_LATE} for alert in alerts):
            return [], []
        unnoticed = await self._store.list_unnoticed(limit=MOST_FAILURES)
        failing = await self._find_failing(jobs_to_judge(jobs, unnoticed, told))
        late = [job for job in jobs if job.rule.late_after is not None]
        self._tell_unknown(jobs, channels)
        seen = JobsSeen(
            jobs=jobs,
            unnoticed=unnoticed,
            failing=failing,
            late={
                job_id: run
                for start in range(0, len(late), _PAGE)
                for job_id, run in await self._find_late(late[start : start + _PAGE], now)
            },
        )
        judgements = [
            Judgement(
                tenant=ALL_TENANTS,
                rule=JOB_FAILED,
                severity=Severity.CRITICAL,
                facts=list(find_failed(seen, channels)),
            ),
            Judgement(
                tenant=ALL_TENANTS,
                rule=JOB_LATE,
                severity=Severity.CRITICAL,
                facts=list(find_late(seen, channels, now)),
            ),
        ]
        return judgements, [failure.run_id for failure in unnoticed]

    def _tell_unknown(self, jobs: Sequence[NotifyingJob], channels: Mapping[str, Channel]) -> None:
        """Log which jobs name a channel that does not exist, each once."""
        unknown = {
            (job.name, name)
            for job in jobs
            for name in job.rule.to
            if find_channel(channels, job.tenant, name) is None
        }
        for job, name in sorted(unknown - self._unknown):
            meaning = "nothing is told there; `mainspring channel set` makes it"
            _log.warning("channel_unknown", job=job, channel=name, meaning=meaning)
        self._unknown = unknown

    async def _find_failing(self, jobs: Sequence[NotifyingJob]) -> dict[JobId, UnnoticedFailure]:
        found = await self._store.find_failing([(job.id, job.rule.failures) for job in jobs])
        return {job.id: failure for job, failure in zip(jobs, found, strict=True) if failure is not None}

    async def _find_late(self, jobs: Sequence[NotifyingJob], now: datetime) -> list[tuple[JobId, LateRun]]:
        wanted = [(job.id, now - job.rule.late_after) for job in jobs if job.rule.late_after is not None]
        found = await self._store.find_late(wanted)
        return [(job_id, run) for (job_id, _), run in zip(wanted, found, strict=True) if run is not None]
