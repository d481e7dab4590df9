"""Examples of tasks that skip themselves: here a step that is not wanted says so before it starts."""

from __future__ import annotations

from tests.airflow_graphs.compare import Example, step
from tests.airflow_graphs.dags import FAILED, SKIPPED, SUCCESS, Dag, Rule, task


def _wanted(name: str) -> str:
    return f"!('{name}' in input.skip)"


_SKIPS = (SUCCESS, SKIPPED, FAILED)

skip_dag = Example(
    Dag(
        (
            task("skip_operator_1", ends=_SKIPS),
            task("always_true_1"),
            task("all_success", "skip_operator_1 always_true_1"),
            task("final_1", "all_success"),
            task("skip_operator_2", ends=_SKIPS),
            task("always_true_2"),
            task("one_success", "skip_operator_2 always_true_2", Rule.ONE_SUCCESS),
            task("final_2", "one_success"),
        )
    ),
    [
        step("skip_operator_1", when=_wanted("skip_operator_1")),
        step("always_true_1"),
        step("all_success", "skip_operator_1 always_true_1"),
        step("final_1", "all_success"),
        step("skip_operator_2", when=_wanted("skip_operator_2")),
        step("always_true_2"),
        step("one_success", "skip_operator_2 always_true_2", rule="one_success"),
        step("final_2", "one_success"),
    ],
)

bash_operator = Example(
    Dag(
        (
            task("runme_0"),
            task("runme_1"),
            task("runme_2"),
            task("run_after_loop", "runme_0 runme_1 runme_2"),
            task("also_run_this"),
            task("this_will_skip", ends=_SKIPS),
            task("run_this_last", "run_after_loop also_run_this this_will_skip"),
        )
    ),
    [
        step("runme_0"),
        step("runme_1"),
        step("runme_2"),
        step("run_after_loop", "runme_0 runme_1 runme_2"),
        step("also_run_this"),
        step("this_will_skip", when=_wanted("this_will_skip")),
        step("run_this_last", "run_after_loop also_run_this this_will_skip"),
    ],
)
