"""What a job says of who is told when it fails, is late or has recovered; and what is found by that."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from mainspring.core.ids import JobId, RunId
from mainspring.core.values import value

if TYPE_CHECKING:
    from mainspring.core.alerting import Fact
    from mainspring.core.alerts import Channel

JOB_FAILED = "job_failed"
JOB_LATE = "job_late"
"""The rules under which jobs are told of. Users cannot set them: each job says for itself."""
LONGEST_ERROR = 200


class NotifyEvent(StrEnum):
    """What a job tells of."""

    FAILED = "failed"
    LATE = "late"
    RECOVERED = "recovered"


@value(kw_only=True)
class NotifyRule:
    """Who is told of what.

    Attributes:
        to: names of channels, of the job's tenant or of all tenants.
        on: what is told. `recovered` is the end of what was told.
        late_after: a run that has not ended so long after it was due is late.
        failures: how many failed runs in a row are told of, as long as runs that have succeeded are kept.
    """

    to: tuple[str, ...]
    on: tuple[NotifyEvent, ...] = (NotifyEvent.FAILED, NotifyEvent.RECOVERED)
    late_after: timedelta | None = None
    failures: int = 1


@value(kw_only=True)
class NotifyingJob:
    """A job that has such a rule."""

    id: JobId
    tenant: str
    name: str
    rule: NotifyRule


@value(kw_only=True)
class UnnoticedFailure:
    """A failed run that no alert has taken note of yet."""

    run_id: RunId
    job_id: JobId
    error: str | None


@value(kw_only=True)
class LateRun:
    """The run of a job that has been due longest. `run_id` is None if the fire is not made yet."""

    run_id: RunId | None
    due_at: datetime


@value(kw_only=True)
class JobsSeen:
    """What is known of jobs that notify.

    Attributes:
        jobs: all of them.
        unnoticed: failed runs that are not noticed yet.
        failing: for jobs whose newest runs have failed as often as it takes, the newest of these.
        late: for jobs that are late, the run.
    """

    jobs: Sequence[NotifyingJob]
    unnoticed: Sequence[UnnoticedFailure]
    failing: Mapping[JobId, UnnoticedFailure]
    late: Mapping[JobId, LateRun]


def subject_of(job: NotifyingJob) -> str:
    """Return what an alert about a job is about."""
    return f"job:{job.name}"


def jobs_to_judge(
    jobs: Sequence[NotifyingJob], unnoticed: Sequence[UnnoticedFailure], told: Collection[tuple[str, str]]
) -> list[NotifyingJob]:
    """Return the jobs of which it has to be known whether they fail: those with new failures, or an open alert.

    Args:
        told: tenant and subject of the open alerts about failed jobs.
    """
    fresh = {failure.job_id for failure in unnoticed}
    return [
        job
        for job in jobs
        if NotifyEvent.FAILED in job.rule.on and (job.id in fresh or (job.tenant, subject_of(job)) in told)
    ]


def find_failed(seen: JobsSeen, channels: Mapping[str, Channel]) -> Iterator[Fact]:
    """Yield the jobs that fail. One that has failed and succeeded since is told of, too, if each failure is."""
    from mainspring.core.alert_facts import keys_of  # it imports this module's users
    from mainspring.core.alerting import Fact

    newest = {failure.job_id: failure for failure in seen.unnoticed}
    for job in seen.jobs:
        rule = job.rule
        failure = seen.failing.get(job.id)
        if failure is None and rule.failures == 1:
            failure = newest.get(job.id)
        if failure is None or NotifyEvent.FAILED not in rule.on:
            continue
        times = "" if rule.failures == 1 else f" {rule.failures} times in a row"
        error = "" if failure.error is None else f": {_one_line(failure.error)}"
        yield Fact(
            tenant=job.tenant,
            subject=subject_of(job),
            summary=f"job {job.name} failed{times}{error}",
            run_id=failure.run_id,
            channels=keys_of(rule.to, job.tenant, channels),
            tells_end=NotifyEvent.RECOVERED in rule.on,
            is_owed=True,
        )


def _one_line(error: str) -> str:
    """Return an error as one line of printable text that every store and every mail can hold."""
    text = " ".join(error.split())[:LONGEST_ERROR]
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)


def split_summary(rule: str, subject: str, summary: str) -> tuple[str, str | None]:
    """Return what the summary of an alert says, and the error of a run that it quotes; some may not see that."""
    head = f"job {subject.removeprefix('job:')} failed"
    if rule != JOB_FAILED or not summary.startswith(head):
        return summary, None
    times, is_told, error = summary[len(head) :].partition(": ")
    return f"{head}{times}", error if is_told else None


def find_late(seen: JobsSeen, channels: Mapping[str, Channel], now: datetime) -> Iterator[Fact]:
    """Yield the jobs that are late."""
    from mainspring.core.alert_facts import keys_of
    from mainspring.core.alerting import Fact
    from mainspring.core.fields import show

    for job in seen.jobs:
        late = seen.late.get(job.id)
        if late is None:
            continue
        lateness = now - late.due_at
        shown = show(lateness - lateness % timedelta(seconds=1))
        yield Fact(
            tenant=job.tenant,
            subject=subject_of(job),
            value=lateness.total_seconds(),
            summary=f"job {job.name} is late: what was due {shown} ago has not ended",
            run_id=late.run_id,
            channels=keys_of(job.rule.to, job.tenant, channels),
            tells_end=NotifyEvent.RECOVERED in job.rule.on,
        )
