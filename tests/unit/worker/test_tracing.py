"""The spans of attempts: which trace they are in, and on what they hang."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from uuid import UUID

import msgspec
import pytest

from mainspring.core.causes import Cause
from mainspring.core.ids import JobId, RunId
from mainspring.core.outcomes import Failure
from mainspring.core.tracing import as_linked, make_trace, span_id_of, successor_of, trace_id_of, with_span
from mainspring.ports.executor import Snooze, Success
from mainspring.ports.gateway import ClaimReply, Ending, HandedBack, Lease, Stopped
from mainspring.ports.tracing import Span, SpanKind
from mainspring.testing.factories import START, make_spec
from mainspring.wire.protocol import ClaimAnswerIn, from_claim_reply, to_claim_reply
from mainspring.worker.tracing import AttemptTraces, error_of

TRACE = make_trace(b"t" * 16, b"submit..")
HOUR = timedelta(hours=1)


class KeptSpans:
    """A tracer that keeps spans, and whose ids and time are counted."""

    def __init__(self, now: datetime) -> None:
        self.spans: list[Span] = []
        self.at = now
        self._numbers = count(1)

    def new_trace(self) -> bytes:
        return make_trace(b"%016d" % next(self._numbers), b"%08d" % next(self._numbers))

    def new_span(self, trace: bytes) -> bytes:
        return with_span(trace, b"%08d" % next(self._numbers))

    def now(self) -> int:
        return (self.at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000

    def record(self, span: Span) -> None:
        self.spans.append(span)


def make_lease(trace: bytes | None = TRACE, *, token: int = 1) -> Lease:
    spec = make_spec(name="pay")
    return Lease(
        *(RunId(257), token, JobId(UUID(int=1)), 1, "default", token, None, START, b'"private"', None),
        *(False, False, spec, None, trace),
    )


def traces_of(tracer: KeptSpans | None) -> AttemptTraces:
    return AttemptTraces(tracer, split_after=HOUR, worker="w")


def test_a_run_that_is_not_traced_costs_nothing() -> None:
    tracer = KeptSpans(START)
    assert traces_of(tracer).begin(make_lease(None)) is None
    assert tracer.spans == []


def test_without_a_tracer_the_trace_is_passed_on_as_it_is() -> None:
    begun = traces_of(None).begin(make_lease())
    assert begun is not None
    assert begun.context == TRACE
    traces_of(None).end(begun, make_lease(), Success())


def test_queue_and_attempt_hang_on_the_submission() -> None:
    tracer = KeptSpans(START + timedelta(seconds=3))
    traces, lease = traces_of(tracer), make_lease()
    begun = traces.begin(lease)
    assert begun is not None
    tracer.at += timedelta(seconds=2)
    traces.end(begun, lease, Success(result=b'"private"', output="private"))
    queued, attempt = tracer.spans
    assert (queued.name, attempt.name) == ("queue", "attempt pay")
    assert (queued.kind, attempt.kind) == (SpanKind.INTERNAL, SpanKind.CONSUMER)
    assert {trace_id_of(queued.trace), trace_id_of(attempt.trace)} == {trace_id_of(TRACE)}
    assert queued.parent == attempt.parent == span_id_of(TRACE)
    assert attempt.trace == begun.context
    assert queued.ended - queued.began == 3 * 10**9
    assert attempt.ended - attempt.began == 2 * 10**9
    assert (attempt.attributes["mainspring.outcome"], attempt.error) == ("succeeded", None)
    assert "private" not in f"{queued}{attempt}"


def test_a_retry_has_no_second_queue() -> None:
    tracer = KeptSpans(START + timedelta(seconds=3))
    assert traces_of(tracer).begin(make_lease(token=2)) is not None
    assert tracer.spans == []


def test_a_clock_that_is_behind_makes_no_negative_span() -> None:
    tracer = KeptSpans(START - timedelta(seconds=3))
    traces_of(tracer).begin(make_lease())
    [queued] = tracer.spans
    assert queued.began == queued.ended


@pytest.mark.parametrize(("wait", "is_split"), [(HOUR, False), (HOUR + timedelta(microseconds=1), True)])
def test_after_a_long_wait_the_attempts_have_a_trace_of_their_own(wait: timedelta, is_split: bool) -> None:
    tracer = KeptSpans(START + wait)
    traces, lease = traces_of(tracer), make_lease()
    begun = traces.begin(lease)
    assert begun is not None
    traces.end(begun, lease, Success())
    queued, attempt = tracer.spans
    if not is_split:
        assert (queued.link, trace_id_of(attempt.trace)) == (None, trace_id_of(TRACE))
        return
    own = successor_of(TRACE, lease.run_id)
    assert (queued.trace, queued.parent, queued.link) == (own, None, TRACE)
    assert (trace_id_of(attempt.trace), attempt.parent) == (trace_id_of(own), span_id_of(own))
    assert attempt.link is None


def test_a_late_retry_begins_the_next_trace_by_itself() -> None:
    tracer = KeptSpans(START + 2 * HOUR)
    traces, lease = traces_of(tracer), make_lease(token=2)
    begun = traces.begin(lease)
    assert begun is not None
    traces.end(begun, lease, Success())
    [attempt] = tracer.spans
    assert (attempt.parent, attempt.link) == (None, TRACE)
    assert trace_id_of(attempt.trace) == trace_id_of(successor_of(TRACE, lease.run_id))


def test_one_that_was_submitted_long_before_is_split_though_it_is_on_time() -> None:
    tracer = KeptSpans(START)
    traces, given = traces_of(tracer), as_linked(TRACE)
    own = successor_of(TRACE, 257)
    for token in (1, 2):
        lease = make_lease(given, token=token)
        begun = traces.begin(lease)
        assert begun is not None
        traces.end(begun, lease, Success())
    queued, first, second = tracer.spans
    assert (queued.trace, queued.parent, queued.link) == (own, None, given)
    assert first.parent == second.parent == span_id_of(own)
    assert {trace_id_of(span.trace) for span in tracer.spans} == {trace_id_of(own)}


@pytest.mark.parametrize(
    ("ending", "outcome", "error"),
    [
        (Success(), "succeeded", None),
        (Snooze(HOUR), "snoozed", None),
        (HandedBack(was_started=True), "handed_back", None),
        (HandedBack(was_started=True, is_preempted=True), "preempted", None),
        (Stopped(), "cancelled", None),
        (None, "lost", "lost"),
        (Failure(error="private"), "failed", "failed"),
        (Failure(error="private", is_timeout=True), "timed_out", "timeout"),
        (Failure(error="private", cause=Cause(exceptions=("a.B", "c.D"))), "failed", "a.B"),
        (Failure(error="private", cause=Cause(status=503)), "failed", "status 503"),
        (Failure(error="private", cause=Cause(exit_code=0)), "failed", "exit 0"),
        (Failure(error="private", cause=Cause(is_connection=True)), "failed", "connection"),
        (Failure(error="private", cause=Cause()), "failed", "failed"),
    ],
)
def test_each_ending_is_told_without_what_it_says(
    ending: Ending | None, outcome: str, error: str | None
) -> None:
    tracer = KeptSpans(START)
    traces, lease = traces_of(tracer), make_lease(token=2)
    begun = traces.begin(lease)
    assert begun is not None
    traces.end(begun, lease, ending)
    [attempt] = tracer.spans
    assert (attempt.attributes["mainspring.outcome"], attempt.error) == (outcome, error)
    assert error_of(ending) == error
    assert "private" not in str(attempt)


def test_a_lease_says_whether_it_is_split_over_the_wire() -> None:
    leases = (make_lease(), make_lease(as_linked(TRACE)), make_lease(None))
    text = msgspec.json.encode(from_claim_reply(ClaimReply(leases=leases)))
    read = to_claim_reply(msgspec.json.decode(text, type=ClaimAnswerIn))
    assert [lease.trace for lease in read.leases] == [lease.trace for lease in leases]
    old = msgspec.json.decode(text)
    for lease in old["leases"]:  # as a server of an earlier release sends it
        del lease["traceparent"], lease["is_trace_split"]
    read = to_claim_reply(msgspec.json.decode(msgspec.json.encode(old), type=ClaimAnswerIn))
    assert [lease.trace for lease in read.leases] == [None] * 3
    assert read.leases == tuple(replace(lease, trace=None) for lease in leases)
