"""The spans of attempts, and what their work passes on."""

from __future__ import annotations

from dataclasses import field
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from mainspring.core.ids import format_job_id, format_run_id
from mainspring.core.outcomes import Failure
from mainspring.core.tracing import must_be_linked, span_id_of, successor_of
from mainspring.core.values import value
from mainspring.ports.executor import Snooze, Success
from mainspring.ports.gateway import Ending, HandedBack, Lease, Stopped
from mainspring.ports.tracing import Span, SpanKind, Tracer

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_show_job = lru_cache(maxsize=256)(format_job_id)  # runs of one job come by the hundred
Facts = dict[str, str | int | bool]


@value()
class AttemptTrace:
    """The trace of an attempt under way.

    Attributes:
        context: what its work passes on: the trace, and the attempt's own span.
        parent: the id of the span that it hangs on; None if it is the first of its trace.
        link: the trace context of the submission, if that is in another trace.
        began: in nanoseconds since 1970; None if this worker exports no spans.
        facts: the attributes that its spans have in common.
    """

    context: bytes
    parent: bytes | None = None
    link: bytes | None = None
    began: int | None = None
    facts: Facts = field(default_factory=dict)


class AttemptTraces:
    """Makes the spans `queue` and `attempt NAME` of runs that are traced.

    Args:
        tracer: takes them; without one, only the trace context is passed on.
        split_after: how long after it was due a run is that gets a trace of its own.
        worker: the worker's name.
    """

    def __init__(self, tracer: Tracer | None, *, split_after: timedelta, worker: str) -> None:
        self._tracer = tracer
        self._split_after = split_after // _MICROSECOND * 1000
        self._worker = worker

    def begin(self, lease: Lease) -> AttemptTrace | None:
        """Begin the trace of an attempt; None if its run is not traced."""
        given = lease.trace
        if given is None:
            return None
        tracer = self._tracer
        if tracer is None:
            return AttemptTrace(given)
        now = tracer.now()
        due = (lease.due_at - _EPOCH) // _MICROSECOND * 1000
        is_first = lease.token == 1
        trace = given
        parent: bytes | None = span_id_of(given)
        link: bytes | None = None
        facts = _facts_of(lease)
        if now - due > self._split_after or must_be_linked(given):
            trace, parent, link = successor_of(given, lease.run_id), None, given
        if is_first:
            # The first span of a trace of its own has the id that the trace's context names.
            waited = trace if link is not None else tracer.new_span(trace)
            tracer.record(
                Span(
                    name="queue",
                    trace=waited,
                    parent=parent,
                    link=link,
                    kind=SpanKind.INTERNAL,
                    began=min(due, now),
                    ended=now,
                    attributes=facts,
                )
            )
            if link is not None:
                parent, link = span_id_of(waited), None
        elif must_be_linked(given):
            parent, link = span_id_of(trace), None  # the first attempt has recorded that span
        return AttemptTrace(tracer.new_span(trace), parent, link, now, facts)

    def end(self, begun: AttemptTrace, lease: Lease, ending: Ending | None) -> None:
        """Record the span of an attempt that has ended.

        Args:
            ending: None if its lease was lost.
        """
        if self._tracer is None or begun.began is None:
            return
        facts = begun.facts | {
            "mainspring.outcome": _outcome_of(ending),
            "mainspring.worker": self._worker,
        }
        self._tracer.record(
            Span(
                name=f"attempt {lease.spec.name}",
                trace=begun.context,
                parent=begun.parent,
                link=begun.link,
                kind=SpanKind.CONSUMER,
                began=begun.began,
                ended=self._tracer.now(),
                attributes=facts,
                error=error_of(ending),
            )
        )


def _facts_of(lease: Lease) -> Facts:
    return {
        "mainspring.job": lease.spec.name,
        "mainspring.job_id": _show_job(lease.job_id),
        "mainspring.run_id": format_run_id(lease.run_id),
        "mainspring.tenant": lease.tenant,
        "mainspring.queue": lease.spec.queue,
        "mainspring.attempt": lease.attempt,
        "mainspring.type": lease.spec.target.type,
    }


def _outcome_of(ending: Ending | None) -> str:
    if ending is None:
        return "lost"
    if isinstance(ending, Success):
        return "succeeded"
    if isinstance(ending, Failure):
        return "timed_out" if ending.is_timeout else "failed"
    if isinstance(ending, Snooze):
        return "snoozed"
    if isinstance(ending, HandedBack):
        return "preempted" if ending.is_preempted else "handed_back"
    assert isinstance(ending, Stopped), "there is no other ending"
    return "cancelled"


def error_of(ending: Ending | None) -> str | None:
    """Return which kind of error an ending is; None if it is none. What the error says may be confidential."""
    if ending is None:
        return "lost"
    if not isinstance(ending, Failure):
        return None
    if ending.is_timeout:
        return "timeout"
    cause = ending.cause
    if cause is None:
        return "failed"
    if cause.exceptions:
        return cause.exceptions[0]
    if cause.status is not None:
        return f"status {cause.status}"
    if cause.exit_code is not None:
        return f"exit {cause.exit_code}"
    return "connection" if cause.is_connection else "failed"
