"""The table that the benchmarks fill: what is reached, by how much it is not, and what keeps its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import report
from benchmarks.aims import AIMS, DRAIN, Aim
from benchmarks.report import OURS, Row, make_table, publish


def rows(**rates: float) -> list[Row]:
    return [
        {"name": DRAIN, "contestant": name, "value": rate, "unit": "jobs/s"} for name, rate in rates.items()
    ]


def cells(table: list[str]) -> list[list[str]]:
    lines = [line for line in table if line.startswith("| ") and not line.startswith("| what")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def filled(**rates: float) -> dict[str, object]:
    about = {"at": "now", "commit": "abc", "machine": "m", "python": "3", "postgresql": "15"}
    return {"throughput": {**about, "rows": rows(**rates)}}


def test_line_says_what_is_reached_and_by_how_much_it_is_not() -> None:
    rates = {"Mainspring": 30_000, "graphile-worker": 40_000, "pgqueuer": 15_000, "bare loop": 45_000}
    found = cells(make_table(filled(**rates)))
    assert [line[3:5] for line in found] == [
        ["at least 1.2 times graphile-worker", "no: 0.62 of it"],
        ["at least 1.8 times pgqueuer", "yes"],
        ["at least 0.6 times bare loop", "yes"],
    ]


def test_line_without_its_peer_is_not_called_reached() -> None:
    found = cells(make_table(filled(Mainspring=30_000)))
    assert [line[4] for line in found] == ["not measured beside it"] * 3


def test_line_that_was_not_measured_is_left_out() -> None:
    assert cells(make_table({})) == []


@pytest.mark.parametrize(
    ("aim", "peers", "target"),
    [
        (Aim("p", "n", 2.0, "best"), {"a": 3.0, "b": 5.0}, 10.0),
        (Aim("p", "n", 0.5, "best", at_most=True), {"a": 3.0, "b": 5.0}, 1.5),
        (Aim("p", "n", 7), {}, 7),
    ],
)
def test_target_is_an_amount_or_a_multiple_of_a_peer(
    aim: Aim, peers: dict[str, float], target: float
) -> None:
    assert aim.target(peers)[0] == target


def test_new_figures_take_the_place_of_their_own_part_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    publish("throughput", rows(Mainspring=1))
    publish("other", rows(Mainspring=2))
    publish("throughput", rows(Mainspring=3))
    publish("throughput", rows(Mainspring=4), is_kept=False)
    kept = json.loads((tmp_path / "latest.json").read_text())
    assert {part: found["rows"][0]["value"] for part, found in kept.items()} == {"throughput": 3, "other": 2}
    assert (tmp_path / "latest.md").read_text().startswith("| what | Mainspring |")


def test_every_aim_has_a_name_of_its_own_for_each_peer() -> None:
    keys = [(aim.part, aim.name, aim.peer) for aim in AIMS]
    assert len(set(keys)) == len(keys)
    assert OURS not in {aim.peer for aim in AIMS}
