"""Spans in the bytes of OTLP, straight from their records.

The SDK makes an object of each span, then a message of each of its parts; here a span takes a tenth of that time. The
numbers of the fields are those of `opentelemetry/proto/trace/v1/trace.proto`, in the wire format of Protocol Buffers:
https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct

from mainspring.core.tracing import span_id_of, trace_id_of
from mainspring.ports.tracing import Span, SpanKind

_KINDS = {
    SpanKind.INTERNAL: b"\x30\x01",
    SpanKind.CLIENT: b"\x30\x03",
    SpanKind.PRODUCER: b"\x30\x04",
    SpanKind.CONSUMER: b"\x30\x05",
}
"""The field `kind`, whole."""
_pack_times = Struct("<BQBQ").pack
_STARTED, _ENDED = 0x39, 0x41
"""The fields of the times: numbers 7 and 8, of 64 bits each."""
_IS_FIRST = b"\x85\x01\x00\x01\x00\x00"
_HAS_PARENT = b"\x85\x01\x00\x03\x00\x00"
"""The field `flags`: it is known whether the parent is in another process; without one it is not, else it may be."""
_LINK_IS_REMOTE = b"\x35\x00\x03\x00\x00"
"""The field `flags` of a link, likewise."""
_IS_ERROR = b"\x7a\x02\x18\x02"
"""The field `status`, with the code of an error."""
_ONE_BYTE = 0x7F
"""The largest number that takes one byte."""
_UNSIGNED = (1 << 64) - 1


class SpanEncoder:
    """Makes requests of spans.

    Args:
        resource: the process that they are of, as an encoded `Resource`.
        scope: what has made them, as an encoded `InstrumentationScope`.
    """

    def __init__(self, resource: bytes, scope: bytes) -> None:
        self._resource = _bytes(1, resource)
        self._scope = _bytes(1, scope)

    def encode(self, spans: Sequence[Span]) -> bytes:
        """Return an `ExportTraceServiceRequest`. What is put behind it in the same form goes with it."""
        if not spans:
            return b""
        scoped = self._scope + b"".join([_bytes(2, encode_span(span)) for span in spans])
        return _bytes(1, self._resource + _bytes(2, scoped))


def encode_span(span: Span) -> bytes:
    """Return a span as an encoded `Span` of OTLP."""
    trace, parent, link, error = span.trace, span.parent, span.link, span.error
    parts = [b"\x0a\x10", trace_id_of(trace), b"\x12\x08", span_id_of(trace)]
    if parent is not None:
        parts += (b"\x22\x08", parent)
    parts += (
        _bytes(5, span.name.encode(errors="replace")),
        _KINDS[span.kind],
        _pack_times(_STARTED, span.began, _ENDED, max(span.ended, span.began)),
    )
    parts += [
        _flag(key, given) if given is True or given is False else _attribute(key, given)
        for key, given in span.attributes.items()
    ]
    if error is not None:
        parts += (_attribute("error.type", error), _IS_ERROR)
    if link is not None:
        ids = b"\x0a\x10" + trace_id_of(link) + b"\x12\x08" + span_id_of(link)
        parts.append(_bytes(13, ids + _LINK_IS_REMOTE))
    parts.append(_IS_FIRST if parent is None else _HAS_PARENT)
    return b"".join(parts)


@lru_cache(maxsize=1024)
def _attribute(key: str, given: str | int) -> bytes:
    """Return one of a span's attributes. Most are those of the span before."""
    if isinstance(given, str):
        return _pair(key, _bytes(1, given.encode(errors="replace")))
    return _pair(key, b"\x18" + _number(given & _UNSIGNED))


def _flag(key: str, given: bool) -> bytes:
    """Return an attribute that is true or false, which a cache would take for 1 or 0."""
    return _pair(key, b"\x10\x01" if given else b"\x10\x00")


def _pair(key: str, encoded: bytes) -> bytes:
    return _bytes(9, _bytes(1, key.encode()) + _bytes(2, encoded))


def _bytes(field: int, content: bytes) -> bytes:
    """Return a field, of a number below 16, that holds bytes, a text or a message."""
    size = len(content)
    head = bytes((field << 3 | 2, size)) if size <= _ONE_BYTE else bytes((field << 3 | 2,)) + _number(size)
    return head + content


def _number(number: int) -> bytes:
    """Return a number from 0 in groups of seven bits, the lowest first."""
    groups = bytearray()
    while number > _ONE_BYTE:
        groups.append(number & _ONE_BYTE | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)
