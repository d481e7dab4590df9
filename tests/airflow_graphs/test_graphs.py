"""Airflow's example graphs end here as they do there, in all combinations of how their tasks end."""

from __future__ import annotations

import pytest

from mainspring.core.states import RunState
from mainspring.core.workflows.state import StepStatus
from tests.airflow_graphs.compare import Difference, Example, compare, step
from tests.airflow_graphs.dags import FAILED, SKIPPED, SUCCESS, Dag, End, Rule, State, Task, condition, task
from tests.airflow_graphs.examples import EXAMPLES
from tests.airflow_graphs.oracle import UNMAPPED, Oracle
from tests.airflow_graphs.ours import Ours
from tests.airflow_graphs.scripts import Script, backward, end_of, forward

FAILURE_BEFORE_SKIP, NOT_WANTED, NO_RUN_SKIPS_ITSELF, NO_FAILURE_IS_LOST = (
    Difference.FAILURE_BEFORE_SKIP,
    Difference.NOT_WANTED,
    Difference.NO_RUN_SKIPS_ITSELF,
    Difference.NO_FAILURE_IS_LOST,
)
# How many combinations there are, and in how many of them the two differ, each time by a rule that is meant.
FOUND: dict[str, tuple[int, dict[Difference, int]]] = {
    "example_bash_operator": (55, {FAILURE_BEFORE_SKIP: 17, NO_FAILURE_IS_LOST: 17}),
    "example_branch_operator": (258, {}),
    "example_complex": (534, {}),
    "example_dynamic_task_mapping": (9, {}),
    "example_latest_only_with_trigger": (18, {FAILURE_BEFORE_SKIP: 2, NO_FAILURE_IS_LOST: 1}),
    "example_nested_branch_dag": (16, {}),
    "example_sensors": (525, {NO_RUN_SKIPS_ITSELF: 301}),
    "example_setup_teardown": (13, {NOT_WANTED: 5}),
    "example_setup_teardown_taskflow": (105, {NOT_WANTED: 41}),
    "example_short_circuit_operator": (40, {FAILURE_BEFORE_SKIP: 2, NO_FAILURE_IS_LOST: 13}),
    "example_skip_dag": (112, {FAILURE_BEFORE_SKIP: 14, NO_FAILURE_IS_LOST: 8}),
    "example_subdag_operator": (6, {}),
    "example_task_group": (16, {}),
    "example_task_mapping_second_order": (16, {}),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_ends_as_in_airflow(name: str) -> None:
    assert compare(EXAMPLES[name]) == FOUND[name]


# -- all rules: behind a parent that may succeed, fail or be skipped, and one that may have failed upstream ------------

RULES = {rule: rule.value for rule in Rule if rule not in {Rule.ALL_DONE_SETUP_SUCCESS, Rule.ALWAYS}}
PARENTS = "left right behind"
ANY_RAN = " || ".join(f"steps.{name}.status in ['succeeded', 'failed']" for name in PARENTS.split())
ALL_SKIPPED = " && ".join(f"steps.{name}.status == 'skipped'" for name in PARENTS.split())
IN_OTHER_WORDS = {
    Rule.ONE_DONE: {"rule": "all_done", "when": ANY_RAN},  # though not as soon as one has ended
    Rule.ALL_SKIPPED: {"rule": "all_done", "when": ALL_SKIPPED},
}


def test_rules_say_the_same_of_all_parents() -> None:
    ends = (SUCCESS, SKIPPED, FAILED)
    parents = (
        task("left", ends=ends),
        task("right", ends=ends),
        task("before"),
        task("behind", "before", ends=ends),
    )
    example = Example(
        Dag((*parents, *(task(rule.value, PARENTS, rule, ends=(SUCCESS,)) for rule in RULES))),
        [
            step("left", when="!('left' in input.skip)"),
            step("right", when="!('right' in input.skip)"),
            step("before"),
            step("behind", "before", when="!('behind' in input.skip)"),
            *(
                step(name, PARENTS, **IN_OTHER_WORDS.get(rule, {"rule": name}))
                for rule, name in RULES.items()
            ),
        ],
    )
    assert compare(example) == (36, {FAILURE_BEFORE_SKIP: 15})


# -- where the order of ends decides in Airflow ------------------------------------------------------------------------


def _tell(dag: Dag, script: Script) -> set[tuple[State, bool]]:
    """Return how the last task may end in Airflow, and whether the run is a success, by the order of ends."""

    def choose(task: Task, item: int) -> End:
        return end_of(script, task, item)

    stories = [Oracle(dag, choose).play(order) for order in (forward, backward)]
    return {(story.end_of(dag.tasks[-1].name), story.is_success) for story in stories}


def test_a_failure_beside_a_skip_is_never_lost_here() -> None:
    example = EXAMPLES["example_bash_operator"]
    script = {("also_run_this", UNMAPPED): FAILED, ("this_will_skip", UNMAPPED): SKIPPED}
    assert _tell(example.dag, script) == {(State.SKIPPED, True), (State.UPSTREAM_FAILED, False)}
    for order in (forward, backward):
        outcome = Ours(example.steps).play(example.dag, script, order)
        assert outcome.ends["run_this_last"] is StepStatus.UPSTREAM_FAILED
        assert outcome.state is RunState.FAILED


# -- what else the page for users of Airflow says ----------------------------------------------------------------------


def test_a_short_circuit_may_skip_what_its_rule_would_let_run() -> None:
    example = Example(
        Dag(
            (
                condition("check", skips=["load", "report"]),
                task("load", "check"),
                task("report", "load", Rule.ALL_DONE),
            )
        ),
        [
            step("check"),
            step("load", "check", when="steps.check.result"),
            step("report", "load", rule="all_done", when="steps.check.result != false"),
        ],
    )
    assert compare(example) == (7, {NO_FAILURE_IS_LOST: 2})


def test_a_teardown_whose_failure_matters_may_not_fail() -> None:
    example = Example(
        Dag(
            (
                task("create", is_setup=True),
                task("work", "create"),
                task("delete", "create work", Rule.ALL_DONE_SETUP_SUCCESS, is_teardown=True, is_minded=True),
            )
        ),
        [
            step("create"),
            step("work", "create"),
            step("delete", "create work", rule="all_done", when="steps.create.status == 'succeeded'"),
        ],
    )
    # In Airflow, it is the only leaf then, and a failure of the work is lost.
    assert compare(example) == (5, {NOT_WANTED: 1, NO_FAILURE_IS_LOST: 1})
