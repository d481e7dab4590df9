"""Airflow's example graphs, by the names that they have there."""

from __future__ import annotations

from tests.airflow_graphs.compare import Example
from tests.airflow_graphs.examples import plain, sensing

EXAMPLES: dict[str, Example] = {
    "example_complex": plain.complex_,
    "example_sensors": sensing.sensors,
    "example_task_group": plain.task_group,
}
