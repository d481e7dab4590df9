"""The text format in which Prometheus reads what a process measures (version 0.0.4).

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from itertools import chain

from mainspring.ports.telemetry import METRICS, Measure, Metric, MetricKind, Spread, Telemetry
from mainspring.ports.tracing import BROKEN_TRACES

PREFIX = "mainspring_"
_KINDS = {
    MetricKind.COUNTER: "counter",
    MetricKind.GAUGE: "gauge",
    MetricKind.DISTRIBUTION: "histogram",
}
_ESCAPED = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})


def expose(measures: Iterable[Measure]) -> str:
    """Return measures as text.

    Args:
        measures: those of one metric follow one another.
    """
    lines: list[str] = []
    name = None
    for measure in measures:
        metric = METRICS[measure.name]
        if measure.name != name:
            name = measure.name
            lines.append(f"# HELP {PREFIX}{name} {metric.words}")
            lines.append(f"# TYPE {PREFIX}{name} {_KINDS[metric.kind]}")
        lines += _lines_of(metric, measure)
    return "\n".join([*lines, ""])


def expose_process(telemetry: Telemetry) -> str:
    """Return all that a process measures, and what its functions measure with prometheus-client, if they use it."""
    client = sys.modules.get("prometheus_client")
    return expose(telemetry.snapshot()) + ("" if client is None else client.generate_latest().decode())


def expose_tenant(telemetry: Telemetry, tenant: str) -> str:
    """Return what a process measures of a tenant."""
    return expose(measure for measure in telemetry.snapshot() if _tenant_of(measure) == tenant)


def _tenant_of(measure: Measure) -> str | None:
    labels = METRICS[measure.name].labels
    return measure.labels[labels.index("tenant")] if "tenant" in labels else None


class ProcessFacts:
    """What every process tells of itself."""

    def measures(self) -> Iterator[Measure]:
        """Yield its release, and how often a trace could not be passed on."""
        yield Measure("build_info", 1.0, (version("mainspring"),))
        for step, count in BROKEN_TRACES.counts.items():
            yield Measure("traces_broken_total", count, (step,))


def _lines_of(metric: Metric, measure: Measure) -> Iterator[str]:
    name, labels = f"{PREFIX}{metric.name}", list(zip(metric.labels, measure.labels, strict=True))
    if not isinstance(measure.value, Spread):
        yield f"{name}{_show_labels(labels)} {_show(measure.value)}"
        return
    spread = measure.value
    bounds = chain(map(_show, spread.bounds), ["+Inf"])
    for bound, count in zip(bounds, spread.cumulated, strict=True):
        yield f"{name}_bucket{_show_labels([*labels, ('le', bound)])} {count}"
    yield f"{name}_sum{_show_labels(labels)} {_show(spread.total)}"
    yield f"{name}_count{_show_labels(labels)} {spread.count}"


def _show_labels(labels: Iterable[tuple[str, str]]) -> str:
    text = ",".join(f'{name}="{value.translate(_ESCAPED)}"' for name, value in labels)
    return f"{{{text}}}" if text else ""


def _show(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
