"""A job's life as periods with one trigger each: which fires it owed, and which it may have made."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from mainspring.core.ids import JobId
from mainspring.core.triggers import Once, Trigger
from tools.judge.fire_counts import read_stretches
from tools.judge.model import Change, ChangeKind, History
from tools.judge.oracle import every_fire

_FAR = datetime(9000, 1, 1, tzinfo=UTC)
SETTLE = timedelta(seconds=3)
"""Fires this close before the final read may still be under way."""


@dataclass(slots=True)
class TriggerPeriod:
    """A period with one trigger and one maximum of fires, in which the job was either paused or not.

    Whatever else was edited does not matter.

    The first pair of instants says by when it had surely begun and when it may have begun; the second pair does the
    same for its end.
    """

    trigger: Trigger | None
    began_by: datetime
    began_after: datetime
    ended_after: datetime
    ended_by: datetime
    is_first: bool
    is_paused: bool
    jitter: timedelta
    versions: dict[int, datetime] = field(default_factory=dict)
    """Each version that was valid within it, and by when it was surely replaced."""
    settled_by: datetime = _FAR
    """A fire that its jitter may hold back beyond this instant need not be on record yet."""
    max_fires: int | None = None
    last_at: datetime = _FAR
    """The job's last fire, if it has used up its maximum: none after it is owed, or may be on record."""

    def expected(self, slack: timedelta) -> tuple[set[datetime], set[datetime]]:
        """Return the fires that are surely owed, and those that may be on record."""
        if isinstance(self.trigger, Once):
            at = self.trigger.at
            possible = {at} if at <= self.ended_by + slack else set()
            # An instant that has just passed when the job is created is owed; after a pause or an edit, it depends.
            is_sure = self._is_over(at, slack) and (self.is_first or at > self.began_by + slack)
            return ({at} if is_sure else set()), possible
        until = min(self.ended_by + slack, self.last_at)
        widest = set(every_fire(self.trigger, self.began_after - slack, until))
        sure = {at for at in widest if self.began_by + slack < at and self._is_over(at, slack)}
        return sure, widest

    def _is_over(self, at: datetime, slack: timedelta) -> bool:
        return at <= self.ended_after - slack and at + self.jitter <= self.settled_by - slack


def read_trigger_periods(history: History) -> dict[JobId, list[TriggerPeriod]]:
    """Return each job's periods in order."""
    periods: dict[JobId, list[TriggerPeriod]] = defaultdict(list)
    horizon = history.read_at - SETTLE
    for change in history.changes:
        mine = periods[change.job_id]
        current = mine[-1] if mine and mine[-1].ended_by == _FAR else None
        is_paused = current is not None and current.is_paused
        fires_alike = current is not None and (current.trigger, current.max_fires) == (
            change.spec.trigger,
            change.spec.max_fires,
        )
        if change.kind is ChangeKind.EDITED and current and fires_alike:
            current.versions[change.version - 1] = change.until
            current.versions[change.version] = current.ended_by
            current.jitter = max(current.jitter, change.spec.jitter)
            continue
        if current is not None:
            current.ended_after, current.ended_by = change.at, change.until
        if change.kind is not ChangeKind.DELETED:
            is_paused = change.kind is ChangeKind.PAUSED or (change.kind is ChangeKind.EDITED and is_paused)
            mine.append(_begin(change, is_first=not mine, is_paused=is_paused))
    stretches = read_stretches(history)
    for job_id, mine in periods.items():
        for period in mine:
            lasts = (stretches[job_id, one].last_at for one in period.versions if (job_id, one) in stretches)
            period.last_at = min((at for at in lasts if at is not None), default=_FAR)
            period.settled_by = horizon
            period.ended_after = min(period.ended_after, horizon)
            period.ended_by = min(period.ended_by, history.read_at)
    return periods


def _begin(change: Change, *, is_first: bool, is_paused: bool) -> TriggerPeriod:
    return TriggerPeriod(
        trigger=change.spec.trigger,
        began_by=change.until,
        began_after=change.at,
        ended_after=_FAR,
        ended_by=_FAR,
        is_first=is_first,
        is_paused=is_paused,
        jitter=change.spec.jitter,
        versions={change.version: _FAR},
        max_fires=change.spec.max_fires,
    )
