"""An example with graphs within a graph: each section is a DAG of its own, run by a task of the outer one."""

from __future__ import annotations

from tests.airflow_graphs.compare import Example, step
from tests.airflow_graphs.dags import Dag, task


def _section(name: str) -> Example:
    """Return a section: five tasks side by side."""
    names = [f"{name}_task_{number}" for number in range(1, 6)]
    return Example(Dag(tuple(map(task, names))), [step(one) for one in names])


SECTIONS = {name: _section(name) for name in ("section_1", "section_2")}
"""By the names of the tasks of the outer graph that run them."""

subdag_operator = Example(
    Dag(
        (
            task("start"),
            task("section_1", "start"),
            task("some_other_task", "section_1"),
            task("section_2", "some_other_task"),
            task("end", "section_2"),
        )
    ),
    [
        step("start"),
        {"name": "section_1", "job": "section_1", "after": ["start"]},
        step("some_other_task", "section_1"),
        {"name": "section_2", "job": "section_2", "after": ["some_other_task"]},
        step("end", "section_2"),
    ],
)
