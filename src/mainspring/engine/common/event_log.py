"""Writes what went wrong to the log: a line each for the first of a job, and a number for what comes in masses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import structlog

from mainspring.core.attempt_lines import LineKind, line_of
from mainspring.core.ids import JobId, format_run_id
from mainspring.core.line_budget import PERIOD, LineBudget
from mainspring.core.model import JobSpec, Misfire
from mainspring.core.outcomes import Transition
from mainspring.core.times import write_instant
from mainspring.core.tracing import show_trace_id
from mainspring.ports.clock import Clock, Waiter
from mainspring.ports.store.claims import HeldRun

_log = structlog.get_logger(__name__)
_MISSED = "fires_missed"
_FOLLOWING: Mapping[Misfire, str] = {
    Misfire.SKIP: "they are skipped, as the job's misfire policy says",
    Misfire.FIRE_LATEST: "one run is made for the newest of them",
    Misfire.FIRE_ALL: "they are made up for at the job's pace",
}


class EventLog:
    """The log of failed attempts, dead letters, lost runs and missed fires.

    What succeeds costs nothing here: nobody calls.

    Args:
        is_silent: write nothing, for an engine that has no log.
    """

    name = "event_log"

    def __init__(self, *, clock: Clock, waiter: Waiter, is_silent: bool = False) -> None:
        self._is_silent = is_silent
        self._clock = clock
        self.waiter = waiter
        self._budget = LineBudget(clock.monotonic())

    async def tick(self, now: datetime) -> float:
        """Tell what got no line, when the period is over."""
        del now
        at = self._clock.monotonic()
        if not self._budget.has_left_out:
            return PERIOD
        rest = self._budget.rest(at)
        if rest > 0:
            return rest
        for left in self._budget.settle(at):
            about = {"job": left.subject} if left.subject else {}
            _log.warning("further_events", seconds=round(PERIOD), **about, **left.events)
        return PERIOD

    def note_end(self, end: Transition, spec: JobSpec, attempt: int, trace: bytes | None = None) -> None:
        """Log that an attempt did not succeed.

        Args:
            trace: the run's trace context; None if it is not traced.
        """
        line = line_of(end, spec, attempt)
        if line is None or not self._take(spec.name, line.kind.value):
            return
        write = _log.error if line.kind is LineKind.RUN_FAILED else _log.warning
        write(
            line.kind.value,
            job=spec.name,
            run=format_run_id(end.run_id),
            attempt=attempt,
            error=line.error,
            next=line.following,
            **_trace_of(trace),
        )

    def note_ends(
        self, ends: Sequence[Transition], held: Sequence[HeldRun], specs: Mapping[tuple[JobId, int], JobSpec]
    ) -> None:
        """Log the ends of attempts that were taken from their workers."""
        runs = {run.run_id: run for run in held}
        for end in ends:
            run = runs[end.run_id]
            self.note_end(end, specs[run.job_id, run.version], run.attempt, run.trace)

    def note_missed(self, spec: JobSpec, fire_at: datetime, *, through: datetime) -> None:
        """Log that fires of a job were missed, and what becomes of them.

        All jobs share the lines: after an outage, thousands have missed fires at once.
        """
        if self._take("", _MISSED):
            _log.warning(
                _MISSED,
                job=spec.name,
                since=write_instant(fire_at),
                through=write_instant(through),
                next=_FOLLOWING[spec.misfire.policy],
            )

    def _take(self, subject: str, kind: str) -> bool:
        if self._is_silent:
            return False
        has_line = self._budget.take(subject, kind, self._clock.monotonic())
        if not has_line:
            self.waiter.signal()
        return has_line


def _trace_of(trace: bytes | None) -> dict[str, str | None]:
    return {} if trace is None else {"trace_id": show_trace_id(trace)}
