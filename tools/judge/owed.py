"""When a fire is owed: at its nominal time, or later by its jitter, and not before its definition was there."""

from __future__ import annotations

from datetime import datetime

from mainspring.core.ids import JobId
from mainspring.core.model import JobSpec, Run
from mainspring.core.triggers import Once
from tools.judge.model import Change, History
from tools.judge.oracle import expected_fires


class Owed:
    """The instants from which on fires are owed. The jitter of a fire that has a run is taken from the run."""

    def __init__(self, history: History) -> None:
        self._changes: dict[tuple[JobId, int], Change] = {}
        for change in history.changes:
            self._changes.setdefault((change.job_id, change.version), change)

    def of_run(self, run: Run) -> datetime:
        """Return when the fire of a run was owed."""
        assert run.fire_at is not None
        return self._owed_at(run.job_id, run.version, run.fire_at, run.due_at)

    def at_latest(self, job_id: JobId, version: int, fire_at: datetime) -> datetime:
        """Return when a fire was owed at the latest, whatever its jitter was."""
        change = self._changes.get((job_id, version))
        held_until = fire_at if change is None else fire_at + change.spec.jitter
        return self._owed_at(job_id, version, fire_at, held_until)

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
