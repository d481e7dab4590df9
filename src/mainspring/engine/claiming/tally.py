"""Counts attempts: how late they start, how long they take and how they end, by tenant, queue and kind of target.

It costs a few additions for each batch, and for each run a part of what a dictionary does, so that nobody pays for
figures that nobody reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from mainspring.core.model import JobSpec
from mainspring.core.outcomes import AttemptOutcome, Transition
from mainspring.core.states import FINAL_STATES, RunState
from mainspring.core.usage import QueueKey, Times, Usage
from mainspring.engine.claiming.job_tally import JobTally
from mainspring.engine.claiming.lease_book import NotedLeases
from mainspring.ports.gateway import Lease
from mainspring.ports.telemetry import LAGS, MOST_SERIES, OTHER, Distribution, Measure

UNKNOWN = "_unknown"
"""The labels of runs that another process has given out."""
_MOST_SPECS = 10_000


class _Series:
    """What is counted of the attempts that share tenant, queue, priority and type of target."""

    __slots__ = ("ends", "lags", "outcomes", "priority", "queue", "retried", "tenant", "times", "type")

    def __init__(self, tenant: str, queue: str, priority: str, kind: str) -> None:
        self.tenant, self.queue, self.priority, self.type = tenant, queue, priority, kind
        self.lags, self.times = Distribution(LAGS), Distribution(LAGS)
        self.outcomes: Counter[AttemptOutcome] = Counter()
        self.ends: Counter[RunState] = Counter()
        self.retried: int = 0

    def measures(self) -> Iterator[Measure]:
        """Yield what was counted."""
        of_type = (self.tenant, self.queue, self.type)
        yield Measure("run_start_lag_seconds", self.lags.read(), (self.tenant, self.queue, self.priority))
        yield Measure("attempt_duration_seconds", self.times.read(), of_type)
        for outcome, count in self.outcomes.items():
            yield Measure("attempts_total", count, (*of_type, outcome.value))
        for state, count in self.ends.items():
            yield Measure("runs_ended_total", count, (*of_type, state.value))

    def usage(self) -> Usage:
        """Return what was counted."""
        lags, times = self.lags.read(), self.times.read()
        return Usage(
            started=lags.count,
            succeeded=self.ends[RunState.SUCCEEDED],
            failed=self.ends[RunState.FAILED],
            cancelled=self.ends[RunState.CANCELLED],
            retried=self.retried,
            lags=Times(counts=lags.counts, total=lags.total),
            durations=Times(counts=times.counts, total=times.total),
        )


class Tally:
    """What was counted since the process began. At most `MOST_SERIES` sets of labels stand for themselves."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, ...], _Series] = {}
        # By the identity of a definition, which is kept so that no other one gets the same.
        self._of_spec: dict[int, tuple[JobSpec, _Series]] = {}
        self._unknown = _Series(UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)
        self._jobs = JobTally()

    def measures(self) -> Iterator[Measure]:
        """Yield what was counted."""
        for series in (*self._series.values(), self._unknown):
            yield from series.measures()
        yield from self._jobs.measures()

    def usage(self) -> Iterator[tuple[QueueKey, Usage]]:
        """Yield what was counted, for parts of queues; several times for one that several series are of."""
        for series in (*self._series.values(), self._unknown):
            yield QueueKey(series.tenant, series.queue), series.usage()

    def note_starts(self, noted: NotedLeases, leases: Sequence[Lease], now: datetime) -> None:
        """Count first attempts that were given out: how long after their runs were due."""
        due = [lease.due_at for lease in leases if lease.attempt == 1]
        at = now.timestamp()
        late = [at - instant for instant in map(datetime.timestamp, due)]
        self._find(noted.tenant, noted.spec).lags.add_all(late)

    def note_successes(self, taken: Iterable[NotedLeases | None], at: float, now: datetime) -> None:
        """Count attempts that have succeeded.

        Args:
            taken: with which leases each was given.
            at: now, in monotonic seconds.
        """
        for noted, count in Counter(taken).items():
            self._note(noted, AttemptOutcome.SUCCEEDED, RunState.SUCCEEDED, count, at, now)

    def note_ends(
        self,
        taken: Iterable[NotedLeases | None],
        transitions: Iterable[Transition],
        at: float,
        now: datetime,
    ) -> None:
        """Count attempts that have ended in any way.

        Args:
            taken, at: as for `note_successes`.
            transitions: how each ended.
        """
        for noted, end in zip(taken, transitions, strict=True):
            self._note(noted, end.outcome, end.to, 1, at, now)

    def note_taken_back(
        self, taken: Iterable[NotedLeases | None], ends: Iterable[Transition], now: datetime
    ) -> None:
        """Count runs that have ended with an attempt that was taken back. The attempts themselves are no reports.

        Args:
            taken: with which leases each was given.
            ends: how each ended; all in a final state.
        """
        for noted, end in zip(taken, ends, strict=True):
            series = self._unknown if noted is None else self._find(noted.tenant, noted.spec)
            series.ends[end.to] += 1
            self._note_job(noted, end.to, 1, now)

    def _note(
        self,
        noted: NotedLeases | None,
        outcome: AttemptOutcome,
        to: RunState,
        count: int,
        at: float,
        now: datetime,
    ) -> None:
        if noted is None:
            series = self._unknown
        else:
            series = self._find(noted.tenant, noted.spec)
            series.times.add(at - noted.at, count)
        series.outcomes[outcome] += count
        if to in FINAL_STATES:
            series.ends[to] += count
            self._note_job(noted, to, count, now)
        else:
            series.retried += count

    def _note_job(self, noted: NotedLeases | None, to: RunState, count: int, now: datetime) -> None:
        if noted is not None and noted.spec.metrics:
            self._jobs.note(noted.tenant, noted.spec.name, to, count, now)

    def _find(self, tenant: str, spec: JobSpec) -> _Series:
        known = self._of_spec.get(id(spec))
        if known is not None:
            return known[1]
        if len(self._of_spec) >= _MOST_SPECS:
            self._of_spec.clear()
        labels = (tenant, spec.queue, spec.priority.name, spec.target.type)
        series = self._series.get(labels)
        if series is None and len(self._series) >= MOST_SERIES:
            labels = (OTHER, OTHER, OTHER, OTHER)
            series = self._series.get(labels)
        if series is None:
            series = self._series[labels] = _Series(*labels)
        self._of_spec[id(spec)] = (spec, series)
        return series
