"""When a fire is owed: at its nominal time, or later by its jitter, and not before its definition was there.

The record of fires that a calendar keeps out is owed when the last of them in a row has passed.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta

from mainspring.core.ids import JobId
from mainspring.core.model import FireRange, JobSpec, Run
from mainspring.core.triggers import Once, Trigger
from tools.judge.model import Change, History
from tools.judge.oracle import every_fire, expected_fires, is_closed

_LOOKS = (timedelta(minutes=1), timedelta(hours=1), timedelta(days=1))
"""How far ahead the next fire is looked for: not far at first, because the oracle tries every second."""


class Owed:
    """The instants from which on fires are owed. The jitter of a fire that has a run is taken from the run."""

    def __init__(self, history: History) -> None:
        self._changes: dict[tuple[JobId, int], Change] = {}
        self._by_job: dict[JobId, list[Change]] = defaultdict(list)
        for change in history.changes:
            self._changes.setdefault((change.job_id, change.version), change)
            self._by_job[change.job_id].append(change)

    def of_run(self, run: Run) -> datetime:
        """Return when the fire of a run was owed."""
        assert run.fire_at is not None
        return self._owed_at(run.job_id, run.version, run.fire_at, run.due_at)

    def at_latest(self, job_id: JobId, version: int, fire_at: datetime) -> datetime:
        """Return when a fire was owed at the latest, whatever its jitter was."""
        change = self._changes.get((job_id, version))
        held_until = fire_at if change is None else fire_at + change.spec.jitter
        return self._owed_at(job_id, version, fire_at, held_until)

    def of_row(self, row: FireRange) -> datetime:
        """Return when the record of fires that a calendar keeps out in a row was owed.

        That is when the last of them has passed, by the calendar that is valid then. Whatever changes the job or the
        calendar before that ends the row. A row that goes on as its record is made was recorded early.
        """
        assert row.to_at is not None
        changes = self._by_job[row.job_id]
        valid = [change.spec.trigger for change in changes if change.at <= row.to_at]
        trigger = valid[-1] if valid else None
        last = row.to_at
        while last <= row.created_at and (following := _closed_after(trigger, last)) is not None:
            last = following
        owed_at = self.at_latest(row.job_id, row.version, last)
        return min([owed_at, *(change.until for change in changes if change.at > row.to_at)])

    def _owed_at(self, job_id: JobId, version: int, fire_at: datetime, held_until: datetime) -> datetime:
        change = self._changes.get((job_id, version))
        if change is None:
            return fire_at
        owed_at = committed_at(change.spec, fire_at, held_until)
        before = self._changes.get((job_id, version - 1))
        # An instant that has passed is owed once its job is there, and a fire that was held back once an edit lets it
        # go. No other edit excuses a late fire.
        is_let_go = before is not None and before.spec.jitter > change.spec.jitter
        return max(owed_at, change.until) if is_let_go or isinstance(change.spec.trigger, Once) else owed_at


def committed_at(spec: JobSpec, fire_at: datetime, held_until: datetime) -> datetime:
    """Return when a fire is committed that its jitter holds back until then: no later than the next one's time."""
    following = expected_fires(spec.trigger, fire_at, held_until)
    return following[0] if following else held_until


def _closed_after(trigger: Trigger | None, at: datetime) -> datetime | None:
    """Return the next fire, if a calendar keeps that out, too."""
    for ahead in _LOOKS:
        if following := every_fire(trigger, at, at + ahead):
            return following[0] if is_closed(trigger, following[0]) else None
    return None
