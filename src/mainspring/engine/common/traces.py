"""Which runs are traced, and the spans of their submissions and fires."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from mainspring.core.ids import JobId, RunId, format_job_id, format_run_id
from mainspring.core.model import JobSpec, RunKind
from mainspring.core.tracing import as_linked, follow_traceparent, span_id_of
from mainspring.core.values import value
from mainspring.ports.clock import RandomSource
from mainspring.ports.store.runs import NewRun
from mainspring.ports.store.schedule import DueClock, FireResult, FireStatus
from mainspring.ports.tracing import Span, SpanKind, Tracer

SAMPLE = 0.01
"""The share of runs that are traced if their caller has not decided about it."""
SPLIT_AFTER = timedelta(hours=1)
"""A run that starts so long after its submission gets a trace of its own, with a link to the first."""


@value()
class BegunTrace:
    """A submission that is traced.

    Attributes:
        trace: what its runs get.
        parent: the id of the caller's span; None if the trace begins here.
        began: when, in nanoseconds since 1970; None if this process exports no spans.
    """

    trace: bytes
    parent: bytes | None
    began: int | None


class RunTraces:
    """Decides which runs are traced. Without a tracer, those are traced whose callers pass a trace on.

    Args:
        tracer: takes spans; None if this process exports none.
        sample: the share of others that are traced, from 0 to 1.
        split_after: see `SPLIT_AFTER`.
    """

    def __init__(
        self,
        tracer: Tracer | None = None,
        *,
        random: RandomSource | None = None,
        sample: float = SAMPLE,
        split_after: timedelta = SPLIT_AFTER,
    ) -> None:
        self._tracer = tracer
        self._random = random
        self._sample = sample
        self._split_after = split_after
        self.is_sampling: bool = tracer is not None and random is not None and sample > 0

    def _is_chosen(self) -> bool:
        return self.is_sampling and self._random is not None and self._random.random() < self._sample

    def begin(self, traceparent: str | None) -> BegunTrace | None:
        """Begin the trace of a submission, or go on with its caller's. None: it is not traced.

        Args:
            traceparent: the header that the caller has given.
        """
        tracer = self._tracer
        if traceparent is None:
            if tracer is None or not self._is_chosen():
                return None
            return BegunTrace(tracer.new_trace(), None, tracer.now())
        given, is_decided = follow_traceparent(traceparent)
        if given is not None:
            if tracer is None:
                return BegunTrace(given, None, None)
            return BegunTrace(tracer.new_span(given), span_id_of(given), tracer.now())
        if is_decided or tracer is None or not self._is_chosen():
            return None
        return BegunTrace(tracer.new_trace(), None, tracer.now())

    def give(self, begun: BegunTrace, run: NewRun, now: datetime) -> NewRun:
        """Return a run of a submission with its trace context."""
        is_split = run.due_at - now > self._split_after
        return replace(run, trace=as_linked(begun.trace) if is_split else begun.trace)

    def end_submission(
        self, begun: BegunTrace, run: NewRun, job: str, *, run_id: RunId | None, status: str, runs: int = 1
    ) -> None:
        """Record the span of a submission whose answer is known.

        Args:
            run: the submitted run, or the first of them.
            runs: how many the call has submitted.
        """
        if self._tracer is None or begun.began is None:
            return
        facts = _facts_of(run.job_id, run.lane.tenant, run.lane.queue)
        facts |= {"mainspring.job": job, "mainspring.status": status}
        if runs > 1:
            facts["mainspring.runs"] = runs
        elif run_id is not None:
            facts["mainspring.run_id"] = format_run_id(run_id)
        self._tracer.record(
            Span(
                name="submit",
                trace=begun.trace,
                parent=begun.parent,
                kind=SpanKind.PRODUCER,
                began=begun.began,
                ended=self._tracer.now(),
                attributes=facts,
            )
        )

    def sample_clocks(self, clocks: list[DueClock]) -> tuple[list[DueClock], int]:
        """Return clocks, those whose fires are to be traced with a trace context, and the time; 0 if none can be."""
        tracer = self._tracer
        if tracer is None or not self.is_sampling:
            return clocks, 0
        chosen = [
            replace(clock, trace=tracer.new_trace()) if self._is_chosen() else clock for clock in clocks
        ]
        return chosen, tracer.now()

    def end_fires(
        self,
        clocks: Sequence[DueClock],
        results: Sequence[FireResult],
        began: int,
        specs: Mapping[tuple[JobId, int], JobSpec],
    ) -> None:
        """Record the spans of fires that have made runs.

        Args:
            specs: the definitions of those that were not fired in a set.
        """
        if self._tracer is None:
            return
        ended = self._tracer.now()
        for clock, result in zip(clocks, results, strict=True):
            if clock.trace is None or result.status is not FireStatus.FIRED or not result.run_ids:
                continue
            queue = None if clock.outline is None else clock.outline.queue
            facts = _facts_of(clock.job_id, clock.tenant, queue)
            facts["mainspring.run_id"] = format_run_id(result.run_ids[0])
            facts["mainspring.kind"] = RunKind.SCHEDULED.value
            spec = specs.get((clock.job_id, clock.version))
            if spec is not None:
                facts |= {"mainspring.job": spec.name, "mainspring.queue": spec.queue}
            if len(result.run_ids) > 1:
                facts["mainspring.runs"] = len(result.run_ids)
            self._tracer.record(
                Span(
                    name="fire",
                    trace=clock.trace,
                    kind=SpanKind.PRODUCER,
                    began=began,
                    ended=ended,
                    attributes=facts,
                )
            )


def _facts_of(job_id: JobId, tenant: str, queue: str | None) -> dict[str, str | int | bool]:
    facts: dict[str, str | int | bool] = {
        "mainspring.job_id": format_job_id(job_id),
        "mainspring.tenant": tenant,
    }
    return facts if queue is None else facts | {"mainspring.queue": queue}
