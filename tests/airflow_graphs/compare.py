"""What Airflow and Mainspring make of the same graph, side by side. Where they differ by design, a rule says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from mainspring.core.states import RunState
from mainspring.core.workflows.state import StepStatus
from tests.airflow_graphs.dags import SKIPPED, Dag, End, State, Task
from tests.airflow_graphs.oracle import Oracle, Order, Story
from tests.airflow_graphs.ours import Ours, Outcome
from tests.airflow_graphs.scripts import ORDERS, Script, all_scripts, end_of

SAME = {
    State.SUCCESS: StepStatus.SUCCEEDED,
    State.FAILED: StepStatus.FAILED,
    State.SKIPPED: StepStatus.SKIPPED,
    State.UPSTREAM_FAILED: StepStatus.UPSTREAM_FAILED,
}
UNWELL = {StepStatus.FAILED, StepStatus.UPSTREAM_FAILED}


class Difference(Enum):
    """Where the two differ by design."""

    FAILURE_BEFORE_SKIP = "of a failure and a skip before a step, the failure says why it does not run"
    NOT_WANTED = "a step is skipped if its `when` is false, also where a failure is the reason"
    NO_RUN_SKIPS_ITSELF = "a sensor that gives up softly has succeeded, and says so in what it returns"
    NO_FAILURE_IS_LOST = "a workflow has failed if a step has, whatever the leaves say"


def step(name: str, after: str = "", **fields: object) -> dict[str, object]:
    """Return a step as a user writes it. Its parents are named in one text."""
    return {"name": name, "function": name, "after": after.split(), **fields}


@dataclass(frozen=True)
class Example:
    """One of Airflow's example graphs, in both.

    Attributes:
        steps: ours, as users write them.
        scripts: the ways in which its run can go.
    """

    dag: Dag
    steps: list[Mapping[str, Any]]
    scripts: Callable[[Dag], Iterable[Script]] = all_scripts
    orders: Sequence[Order] = ORDERS


def compare(example: Example) -> tuple[int, Counter[Difference]]:
    """Play all scripts of an example in both. Return how many there are, and in how many which difference is found."""
    ours, found, played = Ours(example.steps), Counter[Difference](), 0
    assert sorted(ours.names) == sorted(example.dag.by_name)
    for script in example.scripts(example.dag):
        played += 1
        found.update(_compare_one(example, ours, script))
    return played, found


def _compare_one(example: Example, ours: Ours, script: Script) -> set[Difference]:
    def choose(task: Task, item: int) -> End:
        return end_of(script, task, item)

    dag = example.dag
    stories = [Oracle(dag, choose).play(order) for order in example.orders]
    outcome, *outcomes = [ours.play(dag, script, order) for order in example.orders]
    assert all(other == outcome for other in outcomes), "ours depends on no order"
    asked = {one["name"] for one in example.steps if "when" in one}
    found: set[Difference | None] = set()
    for story in stories:
        acted = {place for place, end in story.ran.items() if end != SKIPPED}
        assert acted == outcome.ran, f"others run, after {story.tell()}"
        for task in dag.tasks:
            found.add(_compare_ends(task, story, outcome, has_when=task.name in asked))
        found.add(_compare_wholes(story, outcome))
    return {difference for difference in found if difference is not None}


def _compare_ends(task: Task, story: Story, outcome: Outcome, *, has_when: bool) -> Difference | None:
    """Return by which rule the ends of a task and a step differ; None if they do not.

    Raises:
        AssertionError: they differ by none.
    """
    theirs, ours = story.end_of(task.name), outcome.ends[task.name]
    if SAME[theirs] is ours:
        return None
    is_unwell_before = any(outcome.ends[parent] in UNWELL for parent in task.after)
    match theirs, ours:
        case State.SKIPPED, StepStatus.UPSTREAM_FAILED if is_unwell_before:
            return Difference.FAILURE_BEFORE_SKIP
        case State.UPSTREAM_FAILED, StepStatus.SKIPPED if is_unwell_before and has_when:
            return Difference.NOT_WANTED
        case State.SKIPPED, StepStatus.SUCCEEDED if any(task.name == name for name, _ in story.ran):
            return Difference.NO_RUN_SKIPS_ITSELF
    raise AssertionError(f"{task.name} is {theirs} in Airflow, and {ours.name} here, after {story.tell()}")


def _compare_wholes(story: Story, outcome: Outcome) -> Difference | None:
    is_success = outcome.state is RunState.SUCCEEDED
    if story.is_success == is_success:
        return None
    assert not is_success, "what fails there fails here"
    assert StepStatus.FAILED in outcome.ends.values()
    return Difference.NO_FAILURE_IS_LOST
