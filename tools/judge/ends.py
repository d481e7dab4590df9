"""S37: a fire after the end comes just so long after the end of the run before, and each end has one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from mainspring.core.ids import JobId, format_job_id, format_run_id
from mainspring.core.model import Run, RunKind
from tools.judge.model import Change, ChangeKind, History, Violation
from tools.judge.oracle import Ends

_LATE = timedelta(seconds=15)
"""How long after all is well a fire may take: the server looks rarely after looks that took long."""


def tell_ends(changes: Iterable[Change], runs: Sequence[Run]) -> list[Change]:
    """Return the changes of jobs with the fires on record as the trigger of those that fire after the end.

    So S1 and S2 hold each fire to one record, in the time of its version; which fires there should be is for S37.
    """
    instants: dict[JobId, set[datetime]] = defaultdict(set)
    for run in runs:
        if run.kind is RunKind.SCHEDULED and run.fire_at is not None:
            instants[run.job_id].add(run.fire_at)
    return [_tell(change, tuple(sorted(instants[change.job_id]))) for change in changes]


def _tell(change: Change, instants: tuple[datetime, ...]) -> Change:
    trigger: Any = change.spec.trigger
    if type(trigger).__name__ != "AfterEnd":  # workers of earlier releases import this
        return change
    return replace(change, spec=replace(change.spec, trigger=Ends(trigger.delay, instants)))


def judge_fires_after_ends(history: History, counts: Counter[str]) -> Iterator[Violation]:
    """S37, for jobs that fire after the end all their life."""
    changes: dict[JobId, list[Change]] = defaultdict(list)
    for change in history.changes:
        changes[change.job_id].append(change)
    runs: dict[JobId, list[Run]] = defaultdict(list)
    for run in history.runs:
        if run.kind is RunKind.SCHEDULED and run.fire_at is not None:
            runs[run.job_id].append(run)
    for job_id, mine in changes.items():
        if all(isinstance(change.spec.trigger, Ends) for change in mine):
            job = _Job(history, mine, sorted(runs[job_id], key=_fire_at))
            for why in (*job.wrong_fires(counts), *job.missing_fire(counts)):
                yield Violation("S37", format_job_id(job_id), (why, *job.story()))


def _fire_at(run: Run) -> datetime:
    assert run.fire_at is not None
    return run.fire_at


class _Job:
    """A job's changes and the runs of its fires, in order."""

    def __init__(self, history: History, changes: Sequence[Change], runs: Sequence[Run]) -> None:
        self._history, self._changes, self._runs = history, changes, runs

    def wrong_fires(self, counts: Counter[str]) -> Iterator[str]:
        """Yield what is wrong with fires that there are."""
        for before, run in zip((None, *self._runs), self._runs, strict=False):
            at = _fire_at(run)
            if before is None:
                if not self._is_changed_about(
                    at, {ChangeKind.CREATED, ChangeKind.RESUMED, ChangeKind.EDITED}
                ):
                    yield f"the first fire is at {at.isoformat()}, when nothing made it"
                continue
            end = before.finished_at
            if end is None or at < end:
                yield f"{at.isoformat()} is a fire, though {format_run_id(before.id)} is not over"
            elif self._is_a_delay_after(end, at):
                counts["fires_after_ends"] += 1
            elif self._is_changed_about(at, {ChangeKind.EDITED}):
                counts["fires_after_edits"] += 1
            elif self._is_after_a_pause(end, at):
                counts["fires_after_pauses"] += 1
            else:
                yield f"{at.isoformat()} is a fire, {at - end} after the end of {format_run_id(before.id)}"

    def _delays(self) -> set[timedelta]:
        return {
            change.spec.trigger.delay for change in self._changes if isinstance(change.spec.trigger, Ends)
        }

    def _is_a_delay_after(self, end: datetime, at: datetime) -> bool:
        return any(end + delay == at for delay in self._delays())

    def _is_after_a_pause(self, end: datetime, at: datetime) -> bool:
        """Say whether delays were counted on from the end through a pause."""
        was_paused = any(
            change.kind is ChangeKind.RESUMED and end <= change.until + self._history.slack
            for change in self._changes
        )
        return was_paused and any(not (at - end) % delay for delay in self._delays())

    def _is_changed_about(self, at: datetime, kinds: set[ChangeKind]) -> bool:
        slack = self._history.slack
        return any(
            change.kind in kinds and change.at - slack <= at <= change.until + slack
            for change in self._changes
        )

    def missing_fire(self, counts: Counter[str]) -> Iterator[str]:
        """Yield that no fire follows the last end, though the job went on for long enough."""
        changes, horizon = list(self._changes), self._history.read_at
        if changes[-1].kind is ChangeKind.PAUSED:  # as at the end of a simulation
            horizon = changes.pop().at
        switches = [change.kind for change in changes if change.kind is not ChangeKind.EDITED]
        end = self._runs[-1].finished_at if self._runs else changes[-1].until if changes else None
        if end is None or not switches or switches[-1] in {ChangeKind.PAUSED, ChangeKind.DELETED}:
            return
        owed_at = max(end, changes[-1].until, self._history.healed_at) + max(self._delays()) + _LATE
        if owed_at < horizon:
            yield f"no fire follows the end at {end.isoformat()}"
        counts["fires_after_ends_owed"] += 1

    def story(self) -> Iterator[str]:
        """Tell what became of the job."""
        for change in self._changes:
            yield f"{change.at.isoformat()} job {change.kind}, version {change.version}"
        for run in self._runs[-20:]:
            ends = "" if run.finished_at is None else f", over at {run.finished_at.isoformat()}"
            yield f"{_fire_at(run).isoformat()} {format_run_id(run.id)}: {run.state} {run.reason or ''}{ends}"
