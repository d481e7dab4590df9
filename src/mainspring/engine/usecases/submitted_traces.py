"""The traces of runs that are submitted in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from mainspring.core.ids import JobId
from mainspring.engine.common.traces import BegunTrace, RunTraces
from mainspring.engine.usecases.submissions import JobForm, Submission
from mainspring.ports.store.runs import NewRun, SubmitResult


class SubmittedTraces:
    """Gives runs of one call their traces: all go on with the caller's or, without one, each is chosen for itself."""

    def __init__(self, traces: RunTraces, submissions: Sequence[Submission]) -> None:
        self._traces = traces
        self._begun: dict[int, BegunTrace] = {}
        given = submissions[0].traceparent if submissions else None
        self._shared: BegunTrace | None = None if given is None else traces.begin(given)
        self._is_chosen_each = given is None and traces.is_sampling

    def give(self, index: int, run: NewRun, now: datetime) -> NewRun:
        """Return a run of the call with its trace context, if it has one."""
        begun = self._shared
        if begun is None and self._is_chosen_each:
            begun = self._traces.begin(None)
        if begun is None:
            return run
        self._begun[index] = begun
        return self._traces.give(begun, run, now)

    def end(
        self, runs: Sequence[NewRun], results: Sequence[SubmitResult], forms: Mapping[JobId, JobForm]
    ) -> None:
        """Record the span of the call, or those of the runs that were chosen."""
        for index, begun in self._begun.items():
            run, result = runs[index], results[index]
            self._traces.end_submission(
                begun,
                run,
                forms[run.job_id].job.spec.name,
                run_id=result.run_id,
                status=result.status.value,
                runs=len(runs) if self._shared is not None else 1,
            )
            if self._shared is not None:
                return
