"""What is sent to a collector, what is dropped, and that nothing waits for it."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from dataclasses import replace

import pytest

from mainspring.clock import LoopWaiter, UuidSource, host_nanoseconds, monotonic, system_random
from mainspring.core.tracing import make_trace
from mainspring.ports.telemetry import LAGS, Distribution, Measure, Telemetry
from mainspring.ports.tracing import Span, SpanKind
from mainspring.telemetry.otlp import (
    METRICS_PERIOD,
    PATIENCE,
    OtlpExport,
    is_wanted,
    make_export,
    read_period,
    sending,
)
from mainspring.telemetry.spans import MOST_QUEUED, MOST_SENT, SpanQueue
from tests.collector import collector

SPAN = Span(
    name="queue",
    trace=make_trace(b"t" * 16, b"12345678"),
    parent=b"parent..",
    kind=SpanKind.INTERNAL,
    began=5,
    ended=7,
    attributes={"mainspring.attempt": 1, "mainspring.job": "pay", "is": True},
)


class Figures:
    """A source of one figure of each kind."""

    def measures(self) -> list[Measure]:
        lags = Distribution(LAGS)
        lags.add_all([0.001, 7.0, 10.0**9])
        return [
            Measure("runs_submitted_total", 3, ("a", "q", "manual")),
            Measure("shards_owned", 256),
            Measure("run_start_lag_seconds", lags.read(), ("a", "q", "HIGH")),
        ]


def counts(queue: SpanQueue) -> dict[str, float]:
    return {measure.labels[0]: float(str(measure.value)) for measure in queue.measures()}


def make(url: str) -> OtlpExport | None:
    random = system_random().randbytes
    return make_export(url, service="shop", ids=UuidSource(), random=random, time=host_nanoseconds)


async def test_spans_and_figures_arrive_as_they_are() -> None:
    with collector() as received:
        export = make(received.url)
        assert export is not None
        telemetry = Telemetry()
        telemetry.watch(Figures())
        async with sending(export, telemetry, LoopWaiter()):
            export.tracer.record(SPAN)
            link = make_trace(b"u" * 16, b"87654321")
            export.tracer.record(replace(SPAN, parent=None, link=link, error="a.B", kind=SpanKind.CLIENT))
    plain, linked = received.spans
    assert (plain.name, plain.trace_id, plain.span_id) == ("queue", b"t".hex() * 16, b"12345678".hex())
    assert (plain.parent_id, plain.links, plain.is_error) == (b"parent..".hex(), (), False)
    assert (plain.began, plain.ended) == (5, 7)
    assert plain.attributes == {"mainspring.attempt": 1, "mainspring.job": "pay", "is": True}
    assert (linked.parent_id, linked.links) == ("", ((b"u".hex() * 16, b"87654321".hex()),))
    assert (linked.is_error, linked.attributes["error.type"]) == (True, "a.B")
    assert plain.resource["service.name"] == "shop"
    [(labels, submitted)] = received.metrics["mainspring_runs_submitted_total"]
    assert labels == {"tenant": "a", "queue": "q", "kind": "manual"}
    assert submitted.as_int == 3 or submitted.as_double == 3
    [(_, lag)] = received.metrics["mainspring_run_start_lag_seconds"]
    assert (lag.count, list(lag.explicit_bounds)) == (3, list(LAGS))
    assert (sum(lag.bucket_counts), lag.bucket_counts[0], lag.bucket_counts[-1]) == (3, 1, 1)
    assert "mainspring_shards_owned" in received.metrics


def test_what_comes_after_too_many_is_dropped_and_counted() -> None:
    queue = SpanQueue()
    for number in range(MOST_QUEUED + 3):
        queue.put(number)
    assert counts(queue) == {"sent": 0, "dropped": 3, "failed": 0}
    assert queue.goal.is_set()
    assert queue.take() == list(range(MOST_SENT))
    queue.put("one more")
    queue.drop_all()
    assert counts(queue)["dropped"] == 3 + MOST_QUEUED - MOST_SENT + 1
    assert queue.take() == []


async def test_a_collector_that_never_answers_holds_up_no_end() -> None:
    with socket.socket() as listener:  # connections are taken by the kernel, and nobody reads them
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        export = make(url)
        assert export is not None
        telemetry = Telemetry()
        async with sending(export, telemetry, LoopWaiter()):
            for _ in range(MOST_SENT + 1):
                export.tracer.record(SPAN)
            await asyncio.sleep(0)
            begun = monotonic()
        assert monotonic() - begun < PATIENCE + 6  # it would be ten seconds for each request


def test_who_sends_nothing_imports_nothing() -> None:
    text = (
        "import sys, mainspring.runtime, mainspring.telemetry.otlp, mainspring.executors.function\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')], 'imported'\n"
    )
    subprocess.run([sys.executable, "-c", text], check=True, timeout=120)


@pytest.mark.parametrize(
    ("variables", "endpoint", "expected"),
    [
        ({}, None, False),
        ({}, "http://c", True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, None, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c"}, None, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, None, False),
        ({"OTEL_SDK_DISABLED": "true"}, "http://c", False),
    ],
)
def test_what_turns_it_on(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], endpoint: str | None, expected: bool
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert is_wanted(endpoint) is expected


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *((text, METRICS_PERIOD) for text in (None, "", "soon", "-5")),
        ("5000", 5.0),
        ("1", 1.0),
    ],
)
def test_the_period_of_figures(text: str | None, seconds: float) -> None:
    assert read_period(text) == seconds
