"""Examples that set something up and tear it down: here the last step asks whether the first one has succeeded."""

from __future__ import annotations

from typing import Any

from tests.airflow_graphs.compare import Example, step
from tests.airflow_graphs.dags import Dag, Rule, Task, task


def _setup(name: str, after: str = "") -> Task:
    return task(name, after, is_setup=True)


def _teardown(name: str, after: str) -> Task:
    return task(name, after, Rule.ALL_DONE_SETUP_SUCCESS, is_teardown=True)


def _closing(name: str, setup: str, after: str) -> dict[str, Any]:
    """Return a step that ends what a setup has begun: whatever has failed in between, and if it fails, no matter."""
    when = f"steps.{setup}.status == 'succeeded'"
    return step(name, f"{setup} {after}", rule="all_done", when=when, allow_failure=True)


setup_teardown = Example(
    Dag(
        (
            _setup("root_setup"),
            task("normal", "root_setup"),
            _teardown("root_teardown", "root_setup normal"),
            _setup("section_1_setup", "normal"),
            task("section_1_normal", "section_1_setup"),
            _teardown("section_1_teardown", "section_1_setup section_1_normal"),
        )
    ),
    [
        step("root_setup"),
        step("normal", "root_setup"),
        _closing("root_teardown", "root_setup", "normal"),
        step("section_1_setup", "normal"),
        step("section_1_normal", "section_1_setup"),
        _closing("section_1_teardown", "section_1_setup", "section_1_normal"),
    ],
)

# A scope beside another one, and one within another: nothing waits for the teardown of the inner one.
setup_teardown_taskflow = Example(
    Dag(
        (
            _setup("my_first_task"),
            task("my_second_task", "my_first_task"),
            _teardown("my_third_task", "my_first_task my_second_task"),
            _setup("outer_setup"),
            task("outer_normal_task", "outer_setup"),
            _setup("inner_setup", "outer_setup"),
            task("inner_normal_task", "inner_setup"),
            _teardown("inner_teardown", "inner_setup inner_normal_task"),
            _teardown("outer_teardown", "outer_setup outer_normal_task inner_normal_task"),
        )
    ),
    [
        step("my_first_task"),
        step("my_second_task", "my_first_task"),
        _closing("my_third_task", "my_first_task", "my_second_task"),
        step("outer_setup"),
        step("outer_normal_task", "outer_setup"),
        step("inner_setup", "outer_setup"),
        step("inner_normal_task", "inner_setup"),
        _closing("inner_teardown", "inner_setup", "inner_normal_task"),
        _closing("outer_teardown", "outer_setup", "outer_normal_task inner_normal_task"),
    ],
)
