"""Examples that branch, and come together again: here a branch is a step that returns which way to go."""

from __future__ import annotations

from itertools import chain

from tests.airflow_graphs.compare import Example, step
from tests.airflow_graphs.dags import Dag, Rule, Task, branch, condition, task
from tests.airflow_graphs.scripts import by_section

MIN_ONE = "none_failed_min_one_success"


def _is(name: str, way: str) -> str:
    return f"steps.{name}.result == '{way}'"


_WAYS = "abcd"


def _part(start: str, at: str, ways: list[str], follows: list[str], join: str) -> list[Task]:
    """Return a task that branches into four, and the one at which they meet."""
    ends = [f"{name}" for name in (follows or ways)]
    return [
        branch(at, start, choices=ways),
        *(task(way, at) for way in ways),
        *(task(follow, way) for follow, way in zip(follows, ways, strict=False)),
        task(join, " ".join(ends), Rule.NONE_FAILED_MIN_ONE_SUCCESS),
    ]


def _names(prefix: str) -> list[str]:
    return [f"{prefix}_{way}" for way in _WAYS]


branch_operator = Example(
    Dag(
        (
            task("run_this_first"),
            *_part("run_this_first", "branching", _names("branch"), _names("follow"), "join"),
            *_part("join", "branching_ext_python", _names("ext_py"), [], "join_ext_python"),
            *_part("join_ext_python", "branching_venv", _names("venv"), [], "join_venv"),
        )
    ),
    [
        step("run_this_first"),
        step("branching", "run_this_first"),
        *chain.from_iterable(
            (
                step(f"branch_{way}", "branching", when=_is("branching", f"branch_{way}")),
                step(f"follow_{way}", f"branch_{way}"),
            )
            for way in _WAYS
        ),
        step("join", "follow_a follow_b follow_c follow_d", rule=MIN_ONE),
        step("branching_ext_python", "join"),
        *(
            step(f"ext_py_{way}", "branching_ext_python", when=_is("branching_ext_python", f"ext_py_{way}"))
            for way in _WAYS
        ),
        step("join_ext_python", "ext_py_a ext_py_b ext_py_c ext_py_d", rule=MIN_ONE),
        step("branching_venv", "join_ext_python"),
        *(step(f"venv_{way}", "branching_venv", when=_is("branching_venv", f"venv_{way}")) for way in _WAYS),
        step("join_venv", "venv_a venv_b venv_c venv_d", rule=MIN_ONE),
    ],
)

nested_branch_dag = Example(
    Dag(
        (
            branch("branch_1", choices=["true_1", "false_1"]),
            task("true_1", "branch_1"),
            task("false_1", "branch_1"),
            branch("branch_2", "false_1", choices=["true_2", "false_2"]),
            task("true_2", "branch_2"),
            task("false_2", "branch_2"),
            task("join_2", "true_2 false_2", Rule.NONE_FAILED_MIN_ONE_SUCCESS),
            task("false_3", "join_2"),
            task("join_1", "true_1 false_3", Rule.NONE_FAILED_MIN_ONE_SUCCESS),
        )
    ),
    [
        step("branch_1"),
        step("true_1", "branch_1", when=_is("branch_1", "true_1")),
        step("false_1", "branch_1", when=_is("branch_1", "false_1")),
        step("branch_2", "false_1"),
        step("true_2", "branch_2", when=_is("branch_2", "true_2")),
        step("false_2", "branch_2", when=_is("branch_2", "false_2")),
        step("join_2", "true_2 false_2", rule=MIN_ONE),
        step("false_3", "join_2"),
        step("join_1", "true_1 false_3", rule=MIN_ONE),
    ],
)

# A short circuit skips all behind it, and one that leaves their rules alone skips those directly behind it.
short_circuit_operator = Example(
    Dag(
        (
            condition("condition_is_true", skips=["true_1", "true_2"]),
            task("true_1", "condition_is_true"),
            task("true_2", "true_1"),
            condition("condition_is_false", skips=["false_1", "false_2"]),
            task("false_1", "condition_is_false"),
            task("false_2", "false_1"),
            task("task_1"),
            task("task_2", "task_1"),
            condition("short_circuit", "task_1", skips=["task_3", "task_4"]),
            task("task_3", "task_2 short_circuit"),
            task("task_4", "task_2 short_circuit"),
            task("task_5", "task_3"),
            task("task_6", "task_4"),
            task("task_7", "task_5 task_6", Rule.ALL_DONE),
        )
    ),
    [
        step("condition_is_true"),
        step("true_1", "condition_is_true", when="steps.condition_is_true.result"),
        step("true_2", "true_1"),
        step("condition_is_false"),
        step("false_1", "condition_is_false", when="steps.condition_is_false.result"),
        step("false_2", "false_1"),
        step("task_1"),
        step("task_2", "task_1"),
        step("short_circuit", "task_1"),
        step("task_3", "task_2 short_circuit", when="steps.short_circuit.result"),
        step("task_4", "task_2 short_circuit", when="steps.short_circuit.result"),
        step("task_5", "task_3"),
        step("task_6", "task_4"),
        step("task_7", "task_5 task_6", rule="all_done"),
    ],
    scripts=by_section(
        "condition_is_true true_1 true_2",
        "condition_is_false false_1 false_2",
        "task_1 task_2 short_circuit task_3 task_4 task_5 task_6 task_7",
    ),
)

# The task that looks whether its run is the latest skips those directly behind it.
latest_only_with_trigger = Example(
    Dag(
        (
            condition("latest_only", skips=["task1"]),
            task("task1", "latest_only"),
            task("task2"),
            task("task3", "task1 task2"),
            task("task4", "task1 task2", Rule.ALL_DONE),
        )
    ),
    [
        step("latest_only"),
        step("task1", "latest_only", when="steps.latest_only.result"),
        step("task2"),
        step("task3", "task1 task2"),
        step("task4", "task1 task2", rule="all_done"),
    ],
)
