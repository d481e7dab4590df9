"""Counts the runs of the jobs whose definitions ask for figures of their own, by how they ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from mainspring.core.states import RunState
from mainspring.ports.telemetry import MOST_MEASURED_JOBS, OTHER, Measure

_Job = tuple[str, str]
"""Tenant and name."""


class JobTally:
    """What became of the runs of measured jobs since the process began.

    At most `MOST_MEASURED_JOBS` jobs stand for themselves; the others are counted together, and have no last success:
    that of one of them would hide that another one fails.
    """

    def __init__(self) -> None:
        self._ends: dict[_Job, Counter[RunState]] = {}
        self._successes: dict[_Job, float] = {}

    def measures(self) -> Iterator[Measure]:
        """Yield what was counted."""
        for job, ends in self._ends.items():
            for state, count in ends.items():
                yield Measure("job_runs_total", count, (*job, state.value))
        for job, at in self._successes.items():
            yield Measure("job_last_success_timestamp_seconds", at, job)

    def note(self, tenant: str, name: str, to: RunState, count: int, now: datetime) -> None:
        """Count runs of a job that have ended.

        Args:
            to: how they ended; a final state.
        """
        job = (tenant, name)
        if job not in self._ends and len(self._ends) >= MOST_MEASURED_JOBS:
            job = (OTHER, OTHER)
        self._ends.setdefault(job, Counter())[to] += count
        if to is RunState.SUCCEEDED and job != (OTHER, OTHER):
            self._successes[job] = now.timestamp()
