"""Spans: what a process tells tools for tracing about the runs that are traced.

A process that exports none has no tracer. What is passed on from one process to the next does not depend on it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from enum import StrEnum
from threading import Lock
from typing import Protocol

from mainspring.core.tracing import show_traceparent, span_id_of, trace_id_of
from mainspring.core.values import value


class SpanKind(StrEnum):
    """Which side of a call a span is."""

    INTERNAL = "internal"
    PRODUCER = "producer"
    CONSUMER = "consumer"
    CLIENT = "client"


@value(kw_only=True)
class Span:
    """One step of a run, which is over.

    Attributes:
        trace: its own trace context (`core.tracing`): the trace that it is in, and its own id.
        parent: the id of the span that it hangs on, in the same trace; None for the first of a trace.
        link: the trace context of a span in another trace from which it follows.
        began, ended: nanoseconds since 1970, by the host's clock.
        attributes: what is known about it, never what a job is given or returns.
        error: which kind of error ended it, like the name of an exception; None if it went well.
    """

    name: str
    trace: bytes
    kind: SpanKind
    began: int
    ended: int
    attributes: Mapping[str, str | int | bool]
    parent: bytes | None = None
    link: bytes | None = None
    error: str | None = None


class Tracer(Protocol):
    """Makes the ids of spans, and takes those that are over."""

    def new_trace(self) -> bytes:
        """Return the context of the first span of a new trace."""
        ...

    def new_span(self, trace: bytes) -> bytes:
        """Return the context of a further span of a trace."""
        ...

    def now(self) -> int:
        """Return the host's time, in nanoseconds since 1970."""
        ...

    def record(self, span: Span) -> None:
        """Take a span that is over. It does not wait, and it may drop the span."""
        ...


class BrokenTraces:
    """Counts how often a trace could not be passed on, because OpenTelemetry failed. Any thread may do so.

    Attributes:
        counts: by what failed: `read`, the caller's span could not be read; `attach`, an attempt's could not be made
            the current one of its function.
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {"read": 0, "attach": 0}
        self._lock = Lock()

    def note(self, step: str) -> None:
        """Count one."""
        with self._lock:
            self.counts[step] += 1


BROKEN_TRACES = BrokenTraces()
"""Those of this process. Users' functions ask for their trace without anything that could count for them."""


def find_current_traceparent() -> str | None:
    """Return the `traceparent` of the caller's own span; None if it uses no OpenTelemetry, or is in no span."""
    api = sys.modules.get("opentelemetry.trace")  # who is in a span has imported it
    if api is None:
        return None
    try:
        found = api.get_current_span().get_span_context()
        if found.is_valid:
            return f"00-{found.trace_id:032x}-{found.span_id:016x}-{int(found.trace_flags) & 1:02x}"
    except Exception:  # noqa: BLE001 - observation must not fail what it observes
        BROKEN_TRACES.note("read")
    return None


def attach_trace(trace: bytes) -> None:
    """Make a trace context the current one of OpenTelemetry, if the process uses that.

    It holds in the caller's context (`contextvars`), which the caller must have made for this.
    """
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return
    try:
        given = api.SpanContext(
            trace_id=int.from_bytes(trace_id_of(trace)),
            span_id=int.from_bytes(span_id_of(trace)),
            is_remote=True,
            trace_flags=api.TraceFlags(api.TraceFlags.SAMPLED),
        )
        context = sys.modules["opentelemetry.context"]  # `trace` imports it
        context.attach(api.set_span_in_context(api.NonRecordingSpan(given)))
    except Exception:  # noqa: BLE001 - likewise
        BROKEN_TRACES.note("attach")


def headers_of(trace: bytes | None) -> dict[str, str]:
    """Return the headers that carry on the caller's own span or, if there is none, a trace context."""
    text = find_current_traceparent()
    if text is None and trace is not None:
        text = show_traceparent(trace)
    return {} if text is None else {"traceparent": text}
