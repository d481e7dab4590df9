"""Spans and figures as OpenTelemetry's SDK has them. Only who exports imports this."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from itertools import groupby

from opentelemetry import trace as otel
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Metric as OtelMetric
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from mainspring.ports.telemetry import METRICS, Measure, MetricKind, Spread
from mainspring.telemetry.exposition import PREFIX
from mainspring.telemetry.span_bytes import SpanEncoder
from mainspring.telemetry.spans import SpanQueue

_SCOPE = "mainspring"


def make_resource(service: str, instance: str) -> Resource:
    """Return what this process is. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win.

    Args:
        service: its name if the environment says none.
        instance: tells it from other processes.
    """
    own = {SERVICE_NAME: service, SERVICE_INSTANCE_ID: instance, SERVICE_VERSION: version("mainspring")}
    given = Resource.create().attributes
    named = {name: value for name, value in given.items() if not str(value).startswith("unknown_service")}
    return Resource({**own, **named})


def make_encoder(resource: Resource) -> SpanEncoder:
    """Return what encodes records of spans, with the resource and the scope in the SDK's own form."""
    provider = TracerProvider(sampler=ALWAYS_ON, resource=resource, shutdown_on_exit=False)
    span = provider.get_tracer(_SCOPE, version("mainspring")).start_span("")
    assert isinstance(span, ReadableSpan), "the sampler records every span"
    (group,) = encode_spans([span]).resource_spans
    (scoped,) = group.scope_spans
    return SpanEncoder(group.resource.SerializeToString(), scoped.scope.SerializeToString())


def encode_made(spans: Sequence[ReadableSpan]) -> bytes:
    """Return a request of spans that functions have made with the SDK."""
    return bytes(encode_spans(spans).SerializeToString())


class _Queueing(SpanProcessor):
    """Puts the spans that functions make themselves into the queue."""

    def __init__(self, queue: SpanQueue) -> None:
        self._queue = queue

    def on_end(self, span: ReadableSpan) -> None:
        if span.context is not None and span.context.trace_flags.sampled:
            self._queue.put(span)


def offer_provider(queue: SpanQueue, resource: Resource) -> None:
    """Have spans that functions make within traced runs sent, too, unless the process has a provider of its own.

    A process has one for good, so only who owns the process calls this.
    """
    if os.environ.get("OTEL_PYTHON_TRACER_PROVIDER") or not isinstance(
        otel.get_tracer_provider(), otel.ProxyTracerProvider
    ):
        return
    provider = TracerProvider(sampler=ParentBased(ALWAYS_OFF), resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(_Queueing(queue))
    otel.set_tracer_provider(provider)


def make_metrics(measures: Iterable[Measure], resource: Resource, *, since: int, now: int) -> MetricsData:
    """Return measures as the SDK has them, under the names that Prometheus reads.

    Args:
        measures: those of one metric follow one another.
        since, now: when counting began, and the time, in nanoseconds since 1970.
    """
    metrics = [
        _make_metric(name, list(group), since, now)
        for name, group in groupby(measures, key=lambda measure: measure.name)
    ]
    scope = InstrumentationScope(_SCOPE, version("mainspring"))
    return MetricsData([ResourceMetrics(resource, [ScopeMetrics(scope, metrics, "")], "")])


def _make_metric(name: str, measures: Sequence[Measure], since: int, now: int) -> OtelMetric:
    metric = METRICS[name]
    unit = "s" if name.endswith("_seconds") else "1"
    data: Sum | Gauge | Histogram
    if metric.kind is MetricKind.DISTRIBUTION:
        points = [
            _spread_point(measure.value, _attributes_of(measure), since, now)
            for measure in measures
            if isinstance(measure.value, Spread)
        ]
        data = Histogram(points, AggregationTemporality.CUMULATIVE)
    else:
        numbers = [
            NumberDataPoint(_attributes_of(measure), since, now, measure.value)
            for measure in measures
            if not isinstance(measure.value, Spread)
        ]
        is_counter = metric.kind is MetricKind.COUNTER
        data = Sum(numbers, AggregationTemporality.CUMULATIVE, True) if is_counter else Gauge(numbers)
    return OtelMetric(f"{PREFIX}{name}", metric.words, unit, data)


def _spread_point(spread: Spread, attributes: dict[str, str], since: int, now: int) -> HistogramDataPoint:
    return HistogramDataPoint(
        attributes=attributes,
        start_time_unix_nano=since,
        time_unix_nano=now,
        count=spread.count,
        sum=spread.total,
        bucket_counts=spread.counts,
        explicit_bounds=spread.bounds,
        min=0.0,  # neither is measured; what tools read are the buckets
        max=spread.bounds[-1],
    )


def _attributes_of(measure: Measure) -> dict[str, str]:
    return dict(zip(METRICS[measure.name].labels, measure.labels, strict=True))
