"""Finds which jobs are to tell of themselves: those with `notify` that fail, or are late."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import structlog

from mainspring.core.alerting import Fact, Judgement
from mainspring.core.alerts import Alert, Channel, find_channel
from mainspring.core.ids import JobId, RunId
from mainspring.core.notifications import Severity
from mainspring.core.notify import (
    JOB_FAILED,
    JOB_LATE,
    JobsSeen,
    LateRun,
    NotifyEvent,
    NotifyingJob,
    UnnoticedFailure,
    find_failed,
    find_late,
    jobs_to_judge,
    subject_of,
)
from mainspring.core.rights import ALL_TENANTS
from mainspring.engine.scheduling.alert_reading import try_read
from mainspring.ports.store import Store

_log = structlog.get_logger(__name__)
MOST_FAILURES = 1000
"""Failed runs that are noticed at a time. If there are more, the watchdog comes back at once."""
_PAGE = 1000
"""Jobs that one statement looks at."""
_EVER = datetime(1970, 1, 1, tzinfo=UTC)


class JobAlerts:
    """Judges jobs that notify.

    Args:
        kept: how long runs that have succeeded are kept. Failures that ended longer ago begin no alert: whether the
            job has succeeded between them is not known.
    """

    def __init__(self, store: Store, *, kept: timedelta) -> None:
        self._store = store
        self._kept = kept
        self._unknown: set[tuple[str, str]] = set()
        self._last: JobId | None = None

    async def judge(
        self, alerts: Sequence[Alert], channels: Mapping[str, Channel], now: datetime
    ) -> tuple[list[Judgement], list[RunId]]:
        """Return what is found, and which failed runs that takes note of.

        Args:
            alerts: those that are open.
        """
        jobs = await try_read("notifying jobs", self._store.list_notifying_jobs())
        told = {(alert.tenant, alert.subject) for alert in alerts if alert.rule == JOB_FAILED}
        if jobs is None:
            return [_judge(JOB_FAILED, None), _judge(JOB_LATE, None)], []
        if not jobs and not any(alert.rule in {JOB_FAILED, JOB_LATE} for alert in alerts):
            return [], []
        self._tell_unknown(jobs, channels)
        unnoticed = await try_read("unnoticed", self._store.list_unnoticed(limit=MOST_FAILURES))
        chosen, others = self._choose(jobs_to_judge(jobs, unnoticed or (), told), unnoticed or ())
        failing = (
            None if unnoticed is None else await try_read("failing", self._find_failing(chosen, told, now))
        )
        late = await try_read("late", self._find_all_late(jobs, now))
        if failing is None:
            unnoticed = None
        seen = JobsSeen(jobs=jobs, unnoticed=unnoticed or (), failing=failing or {}, late=late or {})
        failed = None if failing is None else list(find_failed(seen, channels))
        left_out = {(job.tenant, subject_of(job)) for job in others}
        judgements = [
            replace(
                _judge(JOB_FAILED, failed),
                left_out=left_out,
                subjects={(job.tenant, subject_of(job)) for job in jobs if NotifyEvent.FAILED in job.rule.on},
            ),
            replace(
                _judge(JOB_LATE, None if late is None else list(find_late(seen, channels, now))),
                subjects={(job.tenant, subject_of(job)) for job in jobs if job.rule.late_after is not None},
            ),
        ]
        return judgements, [failure.run_id for failure in unnoticed or ()]

    def _choose(
        self, jobs: Sequence[NotifyingJob], unnoticed: Sequence[UnnoticedFailure]
    ) -> tuple[list[NotifyingJob], list[NotifyingJob]]:
        """Return the jobs that are looked at this time, and those whose turn comes later.

        Those with new failures come first; the others have their turn in order of their ids.
        """
        fresh = {failure.job_id for failure in unnoticed}
        after = self._last
        jobs = sorted(
            jobs, key=lambda job: (job.id not in fresh, after is not None and job.id <= after, job.id)
        )
        chosen, others = jobs[:_PAGE], jobs[_PAGE:]
        in_turn = [job.id for job in chosen if job.id not in fresh]
        self._last = in_turn[-1] if others and in_turn else None
        return chosen, others

    async def _find_all_late(self, jobs: Sequence[NotifyingJob], now: datetime) -> dict[JobId, LateRun]:
        late = [job for job in jobs if job.rule.late_after is not None]
        return {
            job_id: run
            for start in range(0, len(late), _PAGE)
            for job_id, run in await self._find_late(late[start : start + _PAGE], now)
        }

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

    async def _find_failing(
        self, jobs: Sequence[NotifyingJob], told: Collection[tuple[str, str]], now: datetime
    ) -> dict[JobId, UnnoticedFailure]:
        """Return the jobs that fail.

        What fires goes on, however long ago the job has failed: a success since would have ended it by now.
        """
        wanted = [
            (job.id, job.rule.failures, _EVER if (job.tenant, subject_of(job)) in told else now - self._kept)
            for job in jobs
        ]
        found = await self._store.find_failing(wanted)
        return {job.id: failure for job, failure in zip(jobs, found, strict=True) if failure is not None}

    async def _find_late(self, jobs: Sequence[NotifyingJob], now: datetime) -> list[tuple[JobId, LateRun]]:
        wanted = [(job.id, now - job.rule.late_after) for job in jobs if job.rule.late_after is not None]
        found = await self._store.find_late(wanted)
        return [(job_id, run) for (job_id, _), run in zip(wanted, found, strict=True) if run is not None]


def _judge(rule: str, facts: list[Fact] | None) -> Judgement:
    return Judgement(tenant=ALL_TENANTS, rule=rule, severity=Severity.CRITICAL, facts=facts)
