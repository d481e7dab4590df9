"""The spans of calls over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from mainspring.core.outcomes import Failure
from mainspring.core.tracing import span_id_of
from mainspring.core.values import value
from mainspring.ports.executor import NotBegun, Outcome, Snooze
from mainspring.ports.tracing import Span, SpanKind, Tracer


@value()
class CallTrace:
    """A call under way.

    Attributes:
        trace: what it passes on.
        parent: the id of the attempt's span.
        began: in nanoseconds since 1970; None if this worker exports no spans.
    """

    trace: bytes
    parent: bytes
    began: int | None


class CallTraces:
    """Makes the span `callback` of each call; without a tracer, calls only pass the attempt's span on."""

    def __init__(self, tracer: Tracer | None) -> None:
        self._tracer = tracer

    def begin(self, trace: bytes) -> CallTrace:
        """Begin the call of an attempt that is traced."""
        if self._tracer is None:
            return CallTrace(trace, span_id_of(trace), None)
        return CallTrace(self._tracer.new_span(trace), span_id_of(trace), self._tracer.now())

    def end(self, call: CallTrace, params: Mapping[str, Any], outcome: Outcome | None) -> None:
        """Record a call that is over.

        Args:
            outcome: None if it was stopped.
        """
        if self._tracer is None or call.began is None:
            return
        status = _status_of(outcome)
        facts = _facts_of(params) | ({} if status is None else {"http.response.status_code": status})
        self._tracer.record(
            Span(
                name="callback",
                trace=call.trace,
                parent=call.parent,
                kind=SpanKind.CLIENT,
                began=call.began,
                ended=self._tracer.now(),
                attributes=facts,
                error=_error_of(outcome, status),
            )
        )


def _facts_of(params: Mapping[str, Any]) -> dict[str, str | int | bool]:
    """Return where a call goes. A path or a query may be confidential."""
    facts: dict[str, str | int | bool] = {"http.request.method": str(params.get("method", "POST"))}
    try:
        url = urlsplit(str(params.get("url", "")))
        host, port = url.hostname, url.port
    except ValueError:
        return facts
    if host:
        facts["server.address"] = host
    if port:
        facts["server.port"] = port
    return facts


def _status_of(outcome: Outcome | None) -> int | None:
    if outcome is None or isinstance(outcome, Snooze | NotBegun) or outcome.result is None:
        return None
    status = msgspec.json.decode(outcome.result).get("status")
    return status if isinstance(status, int) else None


def _error_of(outcome: Outcome | None, status: int | None) -> str | None:
    if outcome is None:
        return "cancelled"
    if not isinstance(outcome, Failure):
        return None
    if outcome.is_timeout:
        return "timeout"
    if status is not None:
        return str(status)
    return "connection" if outcome.cause is not None and outcome.cause.is_connection else "refused"
