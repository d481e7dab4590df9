import re
from itertools import product
from pathlib import Path

import pytest

from mainspring.core.states import (
    EDGES,
    FINAL_STATES,
    LIVE_STATES,
    READY_STATES,
    RunState,
    is_legal,
)

STORES = Path(__file__).parents[3] / "src" / "mainspring" / "stores"

# design.md 3.1, row by row
DESIGN = """
PENDING                    | RUNNING
PENDING, BLOCKED, RETRYING | CANCELLED, SKIPPED
BLOCKED                    | PENDING
RETRYING                   | RUNNING
RUNNING                    | RUNNING
RUNNING                    | SUCCEEDED
RUNNING                    | RETRYING
RUNNING                    | FAILED
RUNNING                    | PENDING
RUNNING                    | CANCELLED
"""


def design_edges() -> set[tuple[str, str]]:
    edges = set()
    for line in DESIGN.strip().splitlines():
        sources, targets = (cell.strip().split(", ") for cell in line.split("|"))
        edges |= set(product(sources, targets))
    return edges


def test_edges_are_those_of_the_design() -> None:
    assert {(edge.source.value, edge.target.value) for edge in EDGES} == design_edges()


def test_no_edge_is_listed_twice() -> None:
    assert len({(edge.source, edge.target) for edge in EDGES}) == len(EDGES)


def test_every_edge_says_when() -> None:
    assert all(edge.when for edge in EDGES)


@pytest.mark.parametrize(("source", "target"), list(product(RunState, RunState)))
def test_is_legal_agrees_with_the_table(source: RunState, target: RunState) -> None:
    assert is_legal(source, target) == ((source.value, target.value) in design_edges())


def test_final_states_have_no_way_out_and_live_ones_have() -> None:
    sources = {edge.source for edge in EDGES}
    assert sources == LIVE_STATES
    assert sources.isdisjoint(FINAL_STATES)
    assert set(RunState) == FINAL_STATES | LIVE_STATES


def test_ready_states_are_those_that_can_be_claimed() -> None:
    sources = {edge.source for edge in EDGES if edge.target is RunState.RUNNING}
    assert sources - {RunState.RUNNING} == READY_STATES  # the engine takes over what a lease holds already


def test_every_state_leads_to_an_end() -> None:
    reached = set(FINAL_STATES)
    while added := {edge.source for edge in EDGES if edge.target in reached} - reached:
        reached |= added
    assert reached == set(RunState)


def checked_states(dialect: str, constraint: str) -> set[str]:
    schema = (STORES / dialect / "migrations" / "0001_spine.sql").read_text()
    found = re.search(rf"CONSTRAINT {constraint} CHECK \(((?:[^()]|\([^()]*\))*)\)", schema)
    assert found is not None, f"{dialect} has no constraint {constraint}"
    return set(re.findall(r"'(\w+)'", found[1]))


@pytest.mark.parametrize("dialect", ["postgres", "sqlite"])
def test_schema_checks_the_same_states(dialect: str) -> None:
    assert checked_states(dialect, "run_state") == LIVE_STATES
    assert checked_states(dialect, "dead_run_state") == {RunState.FAILED}
    assert checked_states(dialect, "run_history_state") == FINAL_STATES - {RunState.FAILED}


@pytest.mark.parametrize("dialect", ["postgres", "sqlite"])
def test_ready_indexes_hold_the_ready_states(dialect: str) -> None:
    schema = (STORES / dialect / "schema.sql").read_text()
    for index in ("run_ready", "run_quarantined"):
        found = re.search(rf"CREATE INDEX {index} ON .*\(lane_id, ready_at\) WHERE (.*)", schema)
        assert found is not None
        assert set(re.findall(r"'(\w+)'", found[1])) == READY_STATES
