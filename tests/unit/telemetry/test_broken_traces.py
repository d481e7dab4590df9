"""Where OpenTelemetry fails, work goes on, and the loss is counted and exposed."""

from __future__ import annotations

import contextvars
from collections.abc import Iterator

import pytest
from opentelemetry import trace as otel

from mainspring.core.tracing import make_trace
from mainspring.ports import tracing
from mainspring.ports.telemetry import Telemetry
from mainspring.ports.tracing import attach_trace, find_current_traceparent, headers_of
from mainspring.telemetry.exposition import ProcessFacts, expose_process

TRACE = make_trace(b"t" * 16, b"s" * 8)


class BrokenSpan(otel.NonRecordingSpan):
    """A span of a package that does not go with this release of the API."""

    def get_span_context(self) -> otel.SpanContext:
        raise AttributeError("trace_flags")


@pytest.fixture(autouse=True)
def counts(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    fresh = tracing.BrokenTraces()
    monkeypatch.setattr(tracing, "BROKEN_TRACES", fresh)
    monkeypatch.setattr("mainspring.telemetry.exposition.BROKEN_TRACES", fresh)
    return fresh.counts


@pytest.fixture
def in_broken_span() -> Iterator[None]:
    with otel.use_span(BrokenSpan(otel.INVALID_SPAN_CONTEXT)):
        yield


@pytest.mark.usefixtures("in_broken_span")
def test_a_span_that_cannot_be_read_is_counted(counts: dict[str, int]) -> None:
    assert find_current_traceparent() is None
    assert headers_of(TRACE) == {"traceparent": f"00-{(b't' * 16).hex()}-{(b's' * 8).hex()}-01"}
    assert counts == {"read": 2, "attach": 0}


def test_a_trace_that_cannot_be_attached_is_counted(
    counts: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(otel, "NonRecordingSpan")  # as a release without it
    contextvars.copy_context().run(attach_trace, TRACE)
    assert counts == {"read": 0, "attach": 1}


def test_what_goes_well_is_not_counted(counts: dict[str, int]) -> None:
    def work() -> str | None:
        attach_trace(TRACE)
        return find_current_traceparent()

    found = contextvars.copy_context().run(work)
    assert found == f"00-{(b't' * 16).hex()}-{(b's' * 8).hex()}-01"
    assert counts == {"read": 0, "attach": 0}


@pytest.mark.usefixtures("in_broken_span")
def test_a_process_tells_how_many_broke() -> None:
    find_current_traceparent()
    telemetry = Telemetry()
    telemetry.watch(ProcessFacts())
    text = expose_process(telemetry)
    assert 'mainspring_traces_broken_total{step="read"} 1' in text
    assert 'mainspring_traces_broken_total{step="attach"} 0' in text
