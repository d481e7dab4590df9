"""Counts the runs that this process has stored, by where they wait, and those that it only recorded as skipped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from mainspring.core.admission import OVERLAP, SubmissionVerdict
from mainspring.core.expiry import EXPIRED
from mainspring.core.limits import REASON_NO_KEY
from mainspring.core.model import FireRangeKind, LaneKey, RunKind
from mainspring.core.pauses import REASON_BLACKOUT, REASON_PAUSED
from mainspring.core.planning import REASON_CALENDAR, REASON_MISFIRE, REASON_MISFIRE_LIMIT
from mainspring.core.usage import QueueKey, Usage
from mainspring.ports.store.runs import NewRun, SubmitResult
from mainspring.ports.store.schedule import NewFireRange
from mainspring.ports.telemetry import MOST_SERIES, OTHER, Measure

_REASONS = (
    OVERLAP,
    EXPIRED,
    REASON_BLACKOUT,
    REASON_CALENDAR,
    REASON_MISFIRE,
    REASON_MISFIRE_LIMIT,
    REASON_PAUSED,
    REASON_NO_KEY,
)
"""Told from the beginning, so that who looks for an increase sees the first one, too."""


class RunCounts:
    """What was counted since the process began. At most `MOST_SERIES` sets of labels stand for themselves."""

    def __init__(self) -> None:
        self._made: Counter[tuple[str, str, str]] = Counter()
        self._skipped: Counter[str] = Counter(dict.fromkeys(_REASONS, 0))

    def measures(self) -> Iterator[Measure]:
        """Yield what was counted."""
        for labels, count in self._made.items():
            yield Measure("runs_submitted_total", count, labels)
        for reason, count in self._skipped.items():
            yield Measure("runs_skipped_total", count, (reason,))

    def usage(self) -> Iterator[tuple[QueueKey, Usage]]:
        """Yield what was counted of runs that were made, for parts of queues."""
        for (tenant, queue, kind), count in self._made.items():
            is_fired = kind == RunKind.SCHEDULED.value
            usage = Usage(fired=count) if is_fired else Usage(submitted=count)
            yield QueueKey(tenant, queue), usage

    def note_submissions(self, runs: Sequence[NewRun], results: Sequence[SubmitResult]) -> None:
        """Count the runs of submissions, as far as each made one of its own."""
        if len(runs) == 1:
            if results[0].status is SubmissionVerdict.SUBMITTED:
                self._add(runs[0].lane, runs[0].kind, 1)
            return
        # What is submitted to one job shares its lane, as an object, and nothing of another kind does.
        ids = [id(run.lane) for run in runs]
        statuses = [result.status for result in results]
        made = statuses.count(SubmissionVerdict.SUBMITTED)
        if len(set(ids)) == 1:
            self._add(runs[0].lane, runs[0].kind, made)
            return
        if made < len(runs):
            ids = [
                key
                for key, status in zip(ids, statuses, strict=True)
                if status is SubmissionVerdict.SUBMITTED
            ]
        first = {id(run.lane): run for run in runs}
        for key, count in Counter(ids).items():
            self._add(first[key].lane, first[key].kind, count)

    def note_fires(self, fires: Sequence[tuple[str, str]]) -> None:
        """Count fires that became one run each.

        Args:
            fires: the tenant and the queue of each.
        """
        for (tenant, queue), count in Counter(fires).items():
            self.note_made(tenant, queue, RunKind.SCHEDULED, count)

    def note_planned(self, runs: Sequence[NewRun], live: int) -> None:
        """Count the runs of one job that were planned together.

        Args:
            live: how many of them went live. The others were skipped: for the reason that was planned, or because an
                earlier run of the job was live.
        """
        if not runs:
            return
        if live == len(runs):
            self._add(runs[0].lane, runs[0].kind, live)
            return
        reasons = Counter(run.skip_reason for run in runs if run.skip_reason is not None)
        for reason, count in reasons.items():
            self.note_skipped(reason, count)
        self.note_skipped(OVERLAP, len(runs) - live - reasons.total())
        self._add(runs[0].lane, runs[0].kind, live)

    def note_gaps(self, fire_ranges: Sequence[NewFireRange]) -> None:
        """Count fires in a row that make no run. They share a record, so they count as one."""
        for one in fire_ranges:
            if one.kind is FireRangeKind.GAP:
                self.note_skipped(one.reason, 1)

    def note_skipped(self, reason: str, count: int) -> None:
        """Count runs that are recorded as skipped. What a reason names is left out: there may be many."""
        if count > 0:
            self._skipped[reason.partition(":")[0]] += count

    def _add(self, lane: LaneKey, kind: RunKind, count: int) -> None:
        if count:
            self.note_made(lane.tenant, lane.queue, kind, count)

    def note_made(self, tenant: str, queue: str, kind: RunKind, count: int) -> None:
        """Count runs of one kind that wait in one queue."""
        labels = (tenant, queue, kind.value)
        if labels not in self._made and len(self._made) >= MOST_SERIES:
            labels = (OTHER, OTHER, OTHER)
        self._made[labels] += count
