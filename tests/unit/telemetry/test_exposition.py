"""Prometheus's own parser reads what a process exposes, and finds in it what was measured."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from mainspring.ports.telemetry import (
    METRICS,
    MOST_SERIES,
    OTHER,
    SECONDS,
    Distribution,
    Measure,
    MetricKind,
    Telemetry,
    keep_largest,
)
from mainspring.telemetry.exposition import ProcessFacts, expose, expose_process

LABELS = st.text(st.characters(codec="utf-8"), max_size=12)


class Given:
    """A source of given measures."""

    def __init__(self, *measures: Measure) -> None:
        self._measures = measures

    def measures(self) -> Iterator[Measure]:
        yield from self._measures


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return every sample of an exposition, by name and labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@given(st.dictionaries(LABELS, st.floats(0, 2**53)))
def test_any_label_and_any_number_is_read_back(values: dict[str, float]) -> None:
    measures = [Measure("hints_sent_total", value, (label,)) for label, value in sorted(values.items())]
    assert samples(expose(measures)) == {
        ("mainspring_hints_sent_total", (("hint", label),)): value for label, value in values.items()
    }


@given(st.lists(st.floats(0, 100)))
def test_distribution_is_a_histogram(seconds: list[float]) -> None:
    seen = Distribution(SECONDS)
    for value in seconds:
        seen.add(value)
    found = samples(expose([Measure("service_tick_seconds", seen.read(), ("planner",))]))
    name, service = "mainspring_service_tick_seconds", ("service", "planner")
    for bound in SECONDS:
        at_most = sum(value <= bound for value in seconds)
        assert found[f"{name}_bucket", (("le", f"{bound:g}"), service)] == at_most
    assert found[f"{name}_bucket", (("le", "+Inf"), service)] == len(seconds)
    assert found[f"{name}_count", (service,)] == len(seconds)
    assert found[f"{name}_sum", (service,)] == pytest.approx(sum(seconds))


def test_every_metric_has_its_kind_and_words() -> None:
    empty = Distribution(SECONDS).read()
    measures = [
        Measure(
            metric.name,
            empty if metric.kind is MetricKind.DISTRIBUTION else 1.0,
            tuple("x" for _ in metric.labels),
        )
        for metric in METRICS.values()
    ]
    families = {family.name: family for family in text_string_to_metric_families(expose(measures))}
    for metric in METRICS.values():
        family = families[f"mainspring_{metric.name.removesuffix('_total')}"]
        assert family.documentation == metric.words
        assert family.type == {"distribution": "histogram"}.get(metric.kind.value, metric.kind.value)


def test_nothing_measured_is_an_empty_text() -> None:
    assert expose([]) == ""


def test_what_functions_measure_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = CollectorRegistry()
    Counter("orders", "Orders paid.", registry=registry).inc(3)
    monkeypatch.setattr("prometheus_client.generate_latest", lambda: generate_latest(registry))
    telemetry = Telemetry()
    telemetry.watch(ProcessFacts())
    found = samples(expose_process(telemetry))
    assert found["orders_total", ()] == 3
    assert [name for name, _ in found if name.startswith("mainspring")] == [
        "mainspring_build_info",
        "mainspring_traces_broken_total",
        "mainspring_traces_broken_total",
    ]
    monkeypatch.delitem(sys.modules, "prometheus_client")
    assert "orders" not in expose_process(telemetry)


def test_figures_name_no_tenant() -> None:
    telemetry = Telemetry()
    telemetry.watch(Given(Measure("dead_runs", 3, ("acme", "mail")), Measure("shards_owned", 256)))
    assert telemetry.figures() == {"shards_owned": 256}


@given(st.dictionaries(st.tuples(LABELS, LABELS), st.integers(1, 1000), max_size=2 * MOST_SERIES))
def test_the_largest_are_kept_and_the_others_added_up(values: dict[tuple[str, str], int]) -> None:
    given_values: dict[tuple[str, ...], float] = {key: float(value) for key, value in values.items()}
    kept = keep_largest(given_values, sum)
    assert sum(kept.values()) == sum(values.values())
    assert len(kept) <= MOST_SERIES + 1
    others = kept.get((OTHER, OTHER))
    if len(values) > MOST_SERIES:
        assert others == sum(sorted(values.values())[: len(values) - MOST_SERIES])
    else:
        assert kept == given_values
