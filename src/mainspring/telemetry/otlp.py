"""Sends spans and figures to an OpenTelemetry collector, by OTLP over HTTP, from a thread of its own.

The collector may be away: work goes on, what cannot be sent is dropped and counted, and no exit waits for it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import structlog

from mainspring.errors import MissingExtra
from mainspring.ports.clock import IdSource, Waiter
from mainspring.ports.telemetry import Measure, Telemetry
from mainspring.ports.tracing import Span, Tracer
from mainspring.telemetry.spans import QueueTracer, SpanQueue

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricExporter

    from mainspring.telemetry.posting import TracePost
    from mainspring.telemetry.span_bytes import SpanEncoder

_log = structlog.get_logger(__name__)
PERIOD = 5.0
"""Seconds that spans wait, at most, for others to go with."""
METRICS_PERIOD = 60.0
"""Seconds between two reports of figures; OTEL_METRIC_EXPORT_INTERVAL says it in milliseconds."""
PATIENCE = 2.0
"""Seconds at the end of the process for what still waits."""
_SHORTEST_PERIOD = 1.0
_ENDPOINTS = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
)


class OtlpExport:
    """Sends what a process tells of itself.

    Args:
        endpoint: the collector's address; None if the environment names it, as OpenTelemetry's variables do.
        service: the name of this kind of process.
        instance: tells this process from others.
        random: returns so many random bytes, and lets no other thread in meanwhile. The system's source does: the
            event loop would wait for the threads of functions at each span.
        time: returns the host's time, in nanoseconds since 1970.

    Attributes:
        tracer: takes spans.

    Raises:
        MissingExtra: the extra `otel` is not installed.
    """

    def __init__(
        self,
        endpoint: str | None,
        *,
        service: str,
        instance: str,
        random: Callable[[int], bytes],
        time: Callable[[], int],
    ) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

            from mainspring.telemetry import otel, posting
        except ImportError:
            raise MissingExtra("telemetry.otlp", "otel") from None
        _quiet()
        self._time = time
        self._resource = otel.make_resource(service, instance)
        self._make_metrics = otel.make_metrics
        self._offer_provider = otel.offer_provider
        self._encoder: SpanEncoder = otel.make_encoder(self._resource)
        self._encode_made = otel.encode_made
        self._post: TracePost = posting.TracePost(endpoint, time=time)
        self._metrics: MetricExporter = OTLPMetricExporter(
            endpoint=None if endpoint is None else f"{endpoint}/v1/metrics"
        )
        self._queue = SpanQueue()
        self._figures: tuple[Measure, ...] | None = None
        self._since = time()
        self._is_stopping = False
        self._is_away = False
        self._thread = threading.Thread(target=self._work, name="mainspring-otlp", daemon=True)
        self.tracer: Tracer = QueueTracer(self._queue, random=random, time=time)

    @asynccontextmanager
    async def running(
        self, telemetry: Telemetry, waiter: Waiter, *, owns_process: bool
    ) -> AsyncIterator[None]:
        """Send until the block ends; then give what still waits two seconds.

        Args:
            telemetry: what the process counts.
            owns_process: nothing else in the process sets OpenTelemetry up, so that it may be done here.
        """
        telemetry.watch(self._queue)
        if owns_process:
            self._offer_provider(self._queue, self._resource)
        self._thread.start()
        telling = asyncio.create_task(self._tell(telemetry, waiter), name="otlp")
        try:
            yield
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
            self._figures = telemetry.snapshot()
            await asyncio.to_thread(self._stop)
            telemetry.forget(self._queue)

    async def _tell(self, telemetry: Telemetry, waiter: Waiter) -> None:
        """Hand figures to the thread. What they are read from belongs to the loop."""
        period = read_period(os.environ.get("OTEL_METRIC_EXPORT_INTERVAL"))
        while True:
            await waiter.wait(period)
            self._figures = telemetry.snapshot()
            self._queue.goal.set()

    def _stop(self) -> None:
        self._is_stopping = True
        self._queue.goal.set()
        self._thread.join(PATIENCE)
        # A request that is still under way gives up its repeats; the thread does not hold up the process.
        for shut in (self._post.shut, self._metrics.shutdown):
            with suppress(Exception):
                shut()
        self._queue.drop_all()

    def _work(self) -> None:
        with suppress(ImportError):
            from opentelemetry.context import attach, set_value

            attach(set_value("suppress_instrumentation", True))
        while True:
            self._queue.goal.wait(PERIOD)
            self._queue.goal.clear()
            is_last = self._is_stopping
            figures, self._figures = self._figures, None
            if figures is not None:
                self._send_figures(figures)
            while batch := self._queue.take():
                self._send(batch)
            if is_last:
                return

    def _send(self, batch: list[object]) -> None:
        try:
            is_sent = self._post.put(self._encode(batch))
        except Exception as error:  # noqa: BLE001 - nothing that is wrong with a span may end the thread
            _log.error("otlp_failed", error=f"{type(error).__name__}: {error}")
            is_sent = False
        self._queue.note("sent" if is_sent else "failed", len(batch))
        self._note(is_sent=is_sent)

    def _encode(self, batch: list[object]) -> bytes:
        """Return a request of records, and of spans that functions have made with the SDK."""
        made: list[Any] = [one for one in batch if not isinstance(one, Span)]
        request = self._encoder.encode([one for one in batch if isinstance(one, Span)])
        return request + self._encode_made(made) if made else request

    def _send_figures(self, figures: tuple[Measure, ...]) -> None:
        try:
            data = self._make_metrics(figures, self._resource, since=self._since, now=self._time())
            is_sent = self._metrics.export(data).name == "SUCCESS"
        except Exception as error:  # noqa: BLE001 - likewise
            _log.error("otlp_failed", error=f"{type(error).__name__}: {error}")
            is_sent = False
        self._note(is_sent=is_sent)

    def _note(self, *, is_sent: bool) -> None:
        """Say once that the collector takes nothing, and once that it does again."""
        if is_sent and self._is_away:
            _log.info("otlp_sent_again")
        elif not is_sent and not self._is_away:
            _log.warning("otlp_not_sent", meaning="the collector takes no traces and figures; work goes on")
        self._is_away = not is_sent


def make_export(
    endpoint: str | None,
    *,
    service: str,
    ids: IdSource,
    random: Callable[[int], bytes],
    time: Callable[[], int],
) -> OtlpExport | None:
    """Make what sends traces and figures to a collector; None if neither the caller nor the environment names one.

    Args:
        endpoint, service, random, time: as for `OtlpExport`.

    Raises:
        MissingExtra: the caller names a collector, and the extra `otel` is not installed.
    """
    if not is_wanted(endpoint):
        return None
    instance = str(ids.new_uuid())
    try:
        return OtlpExport(endpoint, service=service, instance=instance, random=random, time=time)
    except MissingExtra as error:
        if endpoint is not None:
            raise
        # The variable is for whatever runs on this host, so it stops nothing.
        _log.warning("otlp_left_out", reason=str(error))
        return None


@asynccontextmanager
async def sending(
    export: OtlpExport | None, telemetry: Telemetry, waiter: Waiter, *, owns_process: bool = True
) -> AsyncIterator[None]:
    """Send what `telemetry` counts, and spans, until the block ends, if there is a collector."""
    if export is None:
        yield
        return
    async with export.running(telemetry, waiter, owns_process=owns_process):
        yield


def is_wanted(endpoint: str | None) -> bool:
    """Say whether a process is to send anything."""
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    return endpoint is not None or any(os.environ.get(name) for name in _ENDPOINTS)


def read_period(text: str | None) -> float:
    """Return the seconds between two reports of figures, of what the variable gives in milliseconds."""
    try:
        period = int(text or "") / 1000
    except ValueError:
        return METRICS_PERIOD
    return max(period, _SHORTEST_PERIOD) if period > 0 else METRICS_PERIOD


def _quiet() -> None:
    """Leave out the exporters' own lines, which come with each try. One line for each outage is enough."""
    logger = logging.getLogger("opentelemetry.exporter")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.CRITICAL)
