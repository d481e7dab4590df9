"""A collector of traces and figures: a real HTTP receiver that decodes OTLP, and what it has received."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

Attributes = dict[str, str | int | bool | float]


@dataclass(frozen=True)
class Received:
    """A span as a tool shows it: ids are hexadecimal, and empty if there is none."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    links: tuple[tuple[str, str], ...]
    kind: int
    began: int
    ended: int
    is_error: bool
    attributes: Attributes
    resource: Attributes
    scope: str


@dataclass
class Collector:
    """What was received, and how requests are answered.

    Attributes:
        url: its address.
        status: how it answers; anything but 200 takes nothing.
        came: notified after each request.
    """

    url: str = ""
    status: int = 200
    spans: list[Received] = field(default_factory=list)
    metrics: dict[str, list[tuple[Attributes, Any]]] = field(default_factory=dict)
    asked: int = 0
    came: threading.Condition = field(default_factory=threading.Condition)

    def wait_for(self, *names: str, seconds: float = 60) -> list[Received]:
        """Return all spans when there is one of each of these names."""
        with self.came:
            is_there = self.came.wait_for(
                lambda: set(names) <= {span.name for span in self.spans}, timeout=seconds
            )
            assert is_there, f"of {names} came only {sorted({span.name for span in self.spans})}"
            return list(self.spans)

    def wait_for_metrics(self, name: str, seconds: float = 60) -> None:
        """Wait until a figure has come."""
        with self.came:
            assert self.came.wait_for(lambda: name in self.metrics, timeout=seconds), sorted(self.metrics)

    def take(self, path: str, body: bytes) -> bytes:
        """Decode a request, keep what it has, and return the answer's body."""
        with self.came:
            self.asked += 1
            self.came.notify_all()  # who waits for it sees what is kept here: the lock is held until then
            if self.status != 200:
                return b""
            if path == "/v1/traces":
                self.spans += _spans_of(ExportTraceServiceRequest.FromString(body))
                return bytes(ExportTraceServiceResponse().SerializeToString())
            assert path == "/v1/metrics", path
            self.metrics |= _metrics_of(ExportMetricsServiceRequest.FromString(body))
            return bytes(ExportMetricsServiceResponse().SerializeToString())


@contextmanager
def collector() -> Iterator[Collector]:
    """Run a collector until the block ends."""
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            answer = found.take(self.path, self.rfile.read(int(self.headers["content-length"])))
            self.send_response(found.status)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _spans_of(request: ExportTraceServiceRequest) -> Iterator[Received]:
    for group in request.resource_spans:
        resource = _values(group.resource.attributes)
        for scoped in group.scope_spans:
            for span in scoped.spans:
                yield Received(
                    name=span.name,
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent_id=span.parent_span_id.hex(),
                    links=tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
                    kind=span.kind,
                    began=span.start_time_unix_nano,
                    ended=span.end_time_unix_nano,
                    is_error=span.status.code == span.status.STATUS_CODE_ERROR,
                    attributes=_values(span.attributes),
                    resource=resource,
                    scope=scoped.scope.name,
                )


def _metrics_of(request: ExportMetricsServiceRequest) -> dict[str, list[tuple[Attributes, Any]]]:
    found: dict[str, list[tuple[Attributes, Any]]] = {}
    for group in request.resource_metrics:
        for scoped in group.scope_metrics:
            for metric in scoped.metrics:
                data = getattr(metric, str(metric.WhichOneof("data")))
                found[metric.name] = [(_values(point.attributes), point) for point in data.data_points]
    return found


def _values(attributes: Any) -> Attributes:
    return {one.key: getattr(one.value, str(one.value.WhichOneof("value"))) for one in attributes}
