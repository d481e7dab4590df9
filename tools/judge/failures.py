"""P1: a job pauses itself when so many of its newest runs have failed, and only then."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from mainspring.core.ids import JobId, RunId, format_job_id
from mainspring.core.states import RunState
from tools.judge.delays import Times
from tools.judge.model import Change, ChangeKind, Fault, History, Violation

PATIENCE = timedelta(seconds=5)
"""How long after the last failure the job may go on. Servers look once a second, if nothing holds them up."""
AFTER_SLOWNESS = timedelta(seconds=15)
"""How long after its recovery a server may still look rarely, if its looks took long: they come every ten seconds."""
_COUNTING = frozenset({RunState.SUCCEEDED, RunState.FAILED})


@dataclass(slots=True)
class _Watched:
    """A job as far as the events have come.

    Attributes:
        threshold: after how many failures it is paused; None for never.
        since: its last change, before which nothing counts.
        ends: when each of its runs succeeded or failed, and whether it failed.
        owed_since: since when it should be paused.
    """

    threshold: int | None = None
    since: datetime | None = None
    is_paused: bool = False
    is_deleted: bool = False
    ends: dict[RunId, tuple[datetime, bool]] = field(default_factory=dict)
    owed_since: datetime | None = None

    @property
    def has_failed(self) -> bool:
        """Whether its newest runs have all failed since its last change."""
        if self.threshold is None or self.since is None:
            return False
        newest = [self.ends[run_id] for run_id in sorted(self.ends, reverse=True)[: self.threshold]]
        return len(newest) == self.threshold and all(
            has_failed and ended_at > self.since for ended_at, has_failed in newest
        )

    def look(self, at: datetime) -> None:
        """Note since when it should be paused."""
        if not self.has_failed or self.is_paused or self.is_deleted:
            self.owed_since = None
        elif self.owed_since is None:
            self.owed_since = at


def judge_failures(history: History, counts: Counter[str]) -> Iterator[Violation]:
    """P1: whatever is paused by itself had failed, and whatever fails is paused soon, away from faults."""
    jobs: dict[JobId, _Watched] = defaultdict(_Watched)
    troubled = Times((fault.at, _recovered_at(fault, history)) for fault in history.faults)
    changes = sorted(
        (one for one in history.changes if one.place is not None), key=lambda one: one.place or 0
    )
    following = 0
    for index in range(len(history.events) + 1):
        while following < len(changes) and (changes[following].place or 0) <= index:
            yield from _judge_change(changes[following], jobs[changes[following].job_id], counts)
            following += 1
        if index == len(history.events):
            break
        event = history.events[index]
        if event.is_stale or event.run_id is None or event.target not in _COUNTING:
            continue
        job = jobs[event.job_id]
        job.ends[event.run_id] = (event.at, event.target is RunState.FAILED)
        job.look(event.at)
        if job.owed_since is not None and _is_late(job.owed_since, event.at, troubled):
            why = f"it should have been paused since {job.owed_since.isoformat()}, but is not at {event.at.isoformat()}"
            yield Violation("P1", format_job_id(event.job_id), (why,))
            return
    for job_id, job in jobs.items():
        if job.owed_since is not None and _is_late(job.owed_since, history.read_at, troubled):
            why = f"it should have been paused since {job.owed_since.isoformat()}, but never was"
            yield Violation("P1", format_job_id(job_id), (why,))


def judge_failures_outside(history: History, counts: Counter[str]) -> Iterator[Violation]:
    """P1 from outside: since its last change, so many runs of a job that paused itself had failed."""
    last: dict[JobId, Change] = {}
    for change in history.changes:
        before = last.get(change.job_id)
        last[change.job_id] = change
        threshold = change.spec.pause_after_failures
        if not change.is_by_itself or before is None:
            continue
        counts["jobs_paused_by_themselves"] += 1
        failed = sum(
            run.job_id == change.job_id
            and run.state is RunState.FAILED
            and run.finished_at is not None
            and before.at - history.slack <= run.finished_at <= change.until
            for run in history.runs
        )
        if threshold is None or failed < threshold:
            why = f"paused by itself until {change.until.isoformat()}, after {failed} failures of {threshold}"
            yield Violation("P1", format_job_id(change.job_id), (why,))


def _recovered_at(fault: Fault, history: History) -> datetime:
    recovered_at = fault.until + 3 * history.lease
    return recovered_at + AFTER_SLOWNESS if fault.kind == "slow" else recovered_at


def _is_late(since: datetime, now: datetime, troubled: Times) -> bool:
    return now - since > PATIENCE and not troubled.meet(since, now)


def _judge_change(change: Change, job: _Watched, counts: Counter[str]) -> Iterator[Violation]:
    if change.is_by_itself:
        counts["jobs_paused_by_themselves"] += 1
        if not job.has_failed:
            ends = ", ".join(
                "failed" if has_failed else "done" for _, (_, has_failed) in sorted(job.ends.items())
            )
            why = f"{change.at.isoformat()}: paused by itself, but its runs were: {ends[-200:]}"
            yield Violation("P1", format_job_id(change.job_id), (why,))
    counts["jobs_resumed_after_failures"] += change.kind is ChangeKind.RESUMED and job.threshold is not None
    job.threshold, job.since = change.spec.pause_after_failures, change.at
    job.is_deleted = change.kind is ChangeKind.DELETED
    if change.kind in {ChangeKind.PAUSED, ChangeKind.RESUMED}:
        job.is_paused = change.kind is ChangeKind.PAUSED
    job.owed_since = None
