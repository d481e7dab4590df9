"""Examples whose tasks are mapped over lists: one that is written down, and one that another task returns."""

from __future__ import annotations

from tests.airflow_graphs.compare import Example, step
from tests.airflow_graphs.dags import FAILED, Dag, End, State, task

_NUMBERS = [{"x": 1}, {"x": 2}, {"x": 3}]

dynamic_task_mapping = Example(
    Dag((task("add_one", over=len(_NUMBERS)), task("sum_it", "add_one"))),
    [step("add_one", map={"over": _NUMBERS}), step("sum_it", "add_one")],
)

# What the second map goes over is here what the first one goes over: each of its runs keeps what it has made.
task_mapping_second_order = Example(
    Dag(
        (
            task("get_nums", ends=(End(State.SUCCESS, value=_NUMBERS), FAILED)),
            task("times_2", "get_nums", over=len(_NUMBERS)),
            task("add_10", "times_2", over=len(_NUMBERS)),
        )
    ),
    [
        step("get_nums"),
        step("times_2", map={"over": "steps.get_nums.result"}),
        step("add_10", "times_2", map={"over": "steps.get_nums.result"}),
    ],
)
