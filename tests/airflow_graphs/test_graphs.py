"""Airflow's example graphs end here as they do there, in all combinations of how their tasks end."""

from __future__ import annotations

import pytest

from tests.airflow_graphs.compare import Difference, compare
from tests.airflow_graphs.examples import EXAMPLES

FAILURE_BEFORE_SKIP, NOT_WANTED, NO_RUN_SKIPS_ITSELF, NO_FAILURE_IS_LOST = (
    Difference.FAILURE_BEFORE_SKIP,
    Difference.NOT_WANTED,
    Difference.NO_RUN_SKIPS_ITSELF,
    Difference.NO_FAILURE_IS_LOST,
)
# How many combinations there are, and in how many of them the two differ, each time by a rule that is meant.
FOUND: dict[str, tuple[int, dict[Difference, int]]] = {
    "example_complex": (534, {}),
    "example_sensors": (525, {NO_RUN_SKIPS_ITSELF: 301}),
    "example_task_group": (16, {}),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_ends_as_in_airflow(name: str) -> None:
    assert compare(EXAMPLES[name]) == FOUND[name]
