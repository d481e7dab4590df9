"""The trace context of a run in 25 bytes: the trace's id, the id of the span to hang on, and flags.

https://www.w3.org/TR/trace-context/
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256

from mainspring.errors import InvalidInput

TRACE_SIZE = 25
"""16 bytes of the trace's id, 8 of the span's, 1 of flags."""
SAMPLED = 0x01
"""The flag of a trace that is recorded. Runs of others have no trace context."""
LINKED = 0x80
"""Our own flag: so much time lies between submission and start that the attempts get a trace of their own. It is never
passed on."""
_ID_END, _SPAN_END = 16, 24
_TEXT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)


def make_trace(trace_id: bytes, span_id: bytes, flags: int = SAMPLED) -> bytes:
    """Return the trace context of these parts: 16 bytes, 8 bytes, and flags from 0 to 255."""
    return trace_id + span_id + bytes((flags,))


def is_traceable(trace: bytes | None) -> bool:
    """Say whether bytes are a trace context of ours. What another release has written need not be."""
    return trace is not None and len(trace) == TRACE_SIZE


def trace_id_of(trace: bytes) -> bytes:
    """Return the 16 bytes of the trace's id."""
    return trace[:_ID_END]


def span_id_of(trace: bytes) -> bytes:
    """Return the 8 bytes of the id of the span to hang on."""
    return trace[_ID_END:_SPAN_END]


def show_trace_id(trace: bytes | None) -> str | None:
    """Return the trace's id as tools show it: 32 hexadecimal digits; None without a trace."""
    return trace[:_ID_END].hex() if trace is not None else None


def with_span(trace: bytes, span_id: bytes) -> bytes:
    """Return the context of what hangs on another span of the same trace."""
    return trace[:_ID_END] + span_id + trace[_SPAN_END:]


def must_be_linked(trace: bytes) -> bool:
    """Say whether the attempts get a trace of their own in any case."""
    return bool(trace[_SPAN_END] & LINKED)


def as_linked(trace: bytes) -> bytes:
    """Return the context of a run that starts long after its submission."""
    return trace[:_SPAN_END] + bytes((trace[_SPAN_END] | LINKED,))


def successor_of(trace: bytes, run: int) -> bytes:
    """Return the context of the trace that goes on for a run after a long wait.

    It is the same on every worker, so that all attempts after the wait are in one trace. Its span's id is that of the
    trace's first span.
    """
    digest = sha256(trace[:_SPAN_END] + b"%d" % run).digest()
    # No part of it may be zero throughout, which a hash never is.
    return make_trace(digest[:_ID_END], digest[_ID_END:_SPAN_END])


def show_traceparent(trace: bytes) -> str:
    """Return the value of the header `traceparent`."""
    flags = trace[_SPAN_END] & ~LINKED
    return f"00-{trace[:_ID_END].hex()}-{trace[_ID_END:_SPAN_END].hex()}-{flags:02x}"


def read_traceparent(text: str, field: str = "traceparent") -> bytes | None:
    """Read the value of the header `traceparent`. None: the trace is not recorded.

    Raises:
        InvalidInput: it is none. It names the field.
    """
    found = _TEXT.fullmatch(text.strip(" \t"))
    if found is None:
        message = "must be like 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01, in lower case"
        raise InvalidInput(field, message)
    version, trace_id, span_id, flags, rest = found.groups()
    if version == "ff" or (version == "00" and rest is not None):
        raise InvalidInput(field, "is of a version that does not exist, or has more than four parts")
    if not int(trace_id, 16) or not int(span_id, 16):
        raise InvalidInput(field, "has an id of zeros, which stands for no trace")
    if not int(flags, 16) & SAMPLED:
        return None
    return make_trace(bytes.fromhex(trace_id), bytes.fromhex(span_id))


def follow_traceparent(text: str | None) -> tuple[bytes | None, bool]:
    """Return the trace context that a caller passes on, and whether the caller has decided about it.

    What cannot be read counts as not given, as the standard has it: a tool for observation stops no work.
    """
    if text is None:
        return None, False
    try:
        return read_traceparent(text), True
    except InvalidInput:
        return None, False


def first_trace(traces: Iterable[bytes | None]) -> bytes | None:
    """Return the first trace context there is."""
    return next((trace for trace in traces if trace is not None), None)
