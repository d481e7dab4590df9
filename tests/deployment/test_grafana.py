"""The dashboards for Grafana: they show every figure there is and no other, and Grafana can lay them out."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from mainspring.ports.telemetry import METRICS
from tests.deployment.prometheus import (
    DASHBOARDS,
    PAGE,
    known_labels,
    labels_in,
    names_in,
    panels_of,
    queries_of,
    read_dashboard,
    recorded_in,
)

_COLUMNS = 24
each = pytest.mark.parametrize("path", DASHBOARDS, ids=[path.stem for path in DASHBOARDS])


def test_the_page_names_each_dashboard() -> None:
    assert len(DASHBOARDS) == 4
    assert [path.name for path in DASHBOARDS if f"`{path.name}`" not in PAGE.read_text()] == []


def test_every_figure_is_on_a_dashboard() -> None:
    shown = {
        name
        for path in DASHBOARDS
        for panel in panels_of(read_dashboard(path))
        for expr in queries_of(panel)
        for name in names_in(expr)
    }
    assert shown == set(METRICS)


@each
def test_queries_read_figures_by_labels_that_they_have(path: Path) -> None:
    for panel in panels_of(read_dashboard(path)):
        for expr in queries_of(panel):
            assert names_in(expr) - METRICS.keys() == set(), panel["title"]
            assert recorded_in(expr) == set(), "a dashboard works without the rules"
            assert labels_in(expr) - known_labels(expr) == set(), panel["title"]


@each
def test_each_panel_has_an_id_a_place_and_words_of_its_own(path: Path) -> None:
    dashboard = read_dashboard(path)
    everything = dashboard["panels"]
    assert len({panel["id"] for panel in everything}) == len(everything)
    panels = list(panels_of(dashboard))
    assert len({panel["title"] for panel in panels}) == len(panels)
    assert [panel["title"] for panel in panels if not panel["description"].endswith(".")] == []
    places = [panel["gridPos"] for panel in everything]
    assert all(place["x"] + place["w"] <= _COLUMNS for place in places)
    assert [(one, other) for one, other in combinations(places, 2) if _overlap(one, other)] == []


def _overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
    below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
    return not beside and not below


@each
def test_queries_use_only_the_variables_of_their_dashboard(path: Path) -> None:
    dashboard = read_dashboard(path)
    names = {variable["name"] for variable in dashboard["templating"]["list"]}
    text = json.dumps(dashboard["panels"])
    used = {name for name in ("datasource", "job", "tenant", "queue", "instance") if f"${name}" in text}
    used |= {"datasource"} if "${datasource}" in text else set()
    assert used == names


@each
def test_all_data_comes_from_the_chosen_source(path: Path) -> None:
    dashboard = read_dashboard(path)
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    sources: list[Any] = [panel["datasource"] for panel in panels_of(dashboard)]
    sources += [target["datasource"] for panel in panels_of(dashboard) for target in panel["targets"]]
    assert [source for source in sources if source != chosen] == []


def test_dashboards_are_told_apart() -> None:
    documents = [read_dashboard(path) for path in DASHBOARDS]
    assert [document["uid"] for document in documents] == [path.stem for path in DASHBOARDS]
    assert len({document["title"] for document in documents}) == len(documents)
