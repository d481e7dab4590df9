"""Spans in bytes: OpenTelemetry's own messages read from them what the records say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Status
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Message

from mainspring.core.tracing import make_trace
from mainspring.ports.tracing import Span, SpanKind
from mainspring.telemetry.span_bytes import SpanEncoder, encode_span

TIMES = st.integers(0, 2**63 - 1)
TEXTS = st.text(max_size=300)
TRACES = st.builds(make_trace, st.binary(min_size=16, max_size=16), st.binary(min_size=8, max_size=8))
SPANS = st.builds(
    Span,
    name=TEXTS,
    trace=TRACES,
    kind=st.sampled_from(SpanKind),
    began=TIMES,
    ended=TIMES,
    attributes=st.dictionaries(TEXTS, TEXTS | st.integers(-(2**63), 2**63 - 1) | st.booleans(), max_size=8),
    parent=st.none() | st.binary(min_size=8, max_size=8),
    link=st.none() | TRACES,
    error=st.none() | TEXTS,
)
KINDS = {
    SpanKind.INTERNAL: Message.SPAN_KIND_INTERNAL,
    SpanKind.CLIENT: Message.SPAN_KIND_CLIENT,
    SpanKind.PRODUCER: Message.SPAN_KIND_PRODUCER,
    SpanKind.CONSUMER: Message.SPAN_KIND_CONSUMER,
}


def message_of(span: Span) -> Message:
    """Return the message of a span, made by the library of OpenTelemetry's messages."""
    attributes = [KeyValue(key=key, value=value_of(given)) for key, given in span.attributes.items()]
    if span.error is not None:
        attributes.append(KeyValue(key="error.type", value=value_of(span.error)))
    link = span.link
    return Message(
        trace_id=span.trace[:16],
        span_id=span.trace[16:24],
        parent_span_id=span.parent or b"",
        name=span.name,
        kind=KINDS[span.kind],
        start_time_unix_nano=span.began,
        end_time_unix_nano=max(span.began, span.ended),
        attributes=attributes,
        links=[] if link is None else [Message.Link(trace_id=link[:16], span_id=link[16:24], flags=0x300)],
        status=None if span.error is None else Status(code=Status.STATUS_CODE_ERROR),
        flags=0x100 if span.parent is None else 0x300,
    )


def value_of(given: str | int | bool) -> AnyValue:
    if isinstance(given, bool):
        return AnyValue(bool_value=given)
    return AnyValue(string_value=given) if isinstance(given, str) else AnyValue(int_value=given)


@given(SPANS)
def test_any_span_is_read_as_it_was_recorded(span: Span) -> None:
    assert Message.FromString(encode_span(span)) == message_of(span)


@given(st.lists(SPANS, min_size=1, max_size=4))
def test_a_request_holds_the_process_the_scope_and_all_spans(spans: list[Span]) -> None:
    resource = Resource(attributes=[KeyValue(key="service.name", value=value_of("shop"))])
    scope = InstrumentationScope(name="mainspring", version="1")
    encoder = SpanEncoder(resource.SerializeToString(), scope.SerializeToString())
    group = ResourceSpans(
        resource=resource, scope_spans=[ScopeSpans(scope=scope, spans=[message_of(one) for one in spans])]
    )
    request = ExportTraceServiceRequest(resource_spans=[group])
    assert ExportTraceServiceRequest.FromString(encoder.encode(spans)) == request
    # What follows in the same form is a part of the request.
    twice = ExportTraceServiceRequest(resource_spans=[group, group])
    assert ExportTraceServiceRequest.FromString(encoder.encode(spans) + request.SerializeToString()) == twice


def test_no_spans_are_an_empty_request() -> None:
    assert SpanEncoder(b"", b"").encode([]) == b""


@pytest.mark.parametrize("numbers", [(True, 1), (1, True), (False, 0), (0, False)])
def test_true_is_not_taken_for_one(numbers: tuple[int, int]) -> None:
    for number in numbers:
        span = Span(
            name="a", trace=bytes(25), kind=SpanKind.CLIENT, began=0, ended=0, attributes={"is": number}
        )
        assert Message.FromString(encode_span(span)) == message_of(span)


def test_half_a_character_costs_no_span() -> None:
    span = Span(
        name="\ud800", trace=bytes(25), kind=SpanKind.CLIENT, began=0, ended=0, attributes={"a": "\udfff"}
    )
    read = Message.FromString(encode_span(span))
    assert (read.name, read.attributes[0].value.string_value) == ("?", "?")
