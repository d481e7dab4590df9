"""The same graphs on the whole engine: a worker carries out the steps, and each run ends as its turns alone say."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, product
from typing import Any

import pytest

from mainspring.core.ids import JobId
from mainspring.core.model import Target
from mainspring.core.states import RunState
from mainspring.registry import FunctionRegistry
from mainspring.signals import FailRun
from mainspring.testing.factories import add_job, make_spec
from mainspring.testing.manual import ManualRuntime
from tests.airflow_graphs.compare import SAME
from tests.airflow_graphs.dags import FAILED, SKIPPED, SUCCESS, Dag, End, State, Task
from tests.airflow_graphs.examples import EXAMPLES
from tests.airflow_graphs.examples.within import SECTIONS
from tests.airflow_graphs.oracle import UNMAPPED, Oracle, Place, Story
from tests.airflow_graphs.ours import Ours
from tests.airflow_graphs.scripts import Script, all_scripts, end_of, forward
from tests.support.workflows import ONCE, Deeds, Flows

COMBINATIONS = 1 + 31 + 1 + 31 + 2
"""Of the graph with sections: where it goes wrong first, and of a section in how many ways."""


class Actors:
    """The functions of all tasks: each ends as the script of the run under way says."""

    def __init__(self, *dags: Dag) -> None:
        self.script: Script = {}
        self.ran: list[Place] = []
        self.registry = FunctionRegistry()
        for task in chain.from_iterable(dag.tasks for dag in dags):
            self.registry.add(task.name, self._make(task))

    def _make(self, task: Task) -> Any:
        async def act(x: int = 0, skip: Sequence[str] = ()) -> Any:
            item = x - 1 if x else UNMAPPED
            self.ran.append((task.name, item))
            end = end_of(self.script, task, item)
            if end.state is State.FAILED:
                raise FailRun(f"{task.name} fails")
            return end.value

        return act


async def _define(flows: Flows, steps: Sequence[Mapping[str, Any]], name: str = "graph") -> JobId:
    target = Target("workflow", Ours(steps).plain)
    return (await add_job(flows.runtime.store, spec=make_spec(name=name, target=target, retry=ONCE))).id


@pytest.mark.parametrize(
    "name",
    [
        "example_dynamic_task_mapping",
        "example_latest_only_with_trigger",
        "example_nested_branch_dag",
        "example_setup_teardown",
        "example_task_mapping_second_order",
    ],
)
async def test_an_example_ends_on_the_engine_as_in_its_turns(name: str) -> None:
    example = EXAMPLES[name]
    ours, actors = Ours(example.steps), Actors(example.dag)
    async with ManualRuntime(actors.registry) as runtime:
        flows = await Flows.begin(runtime, Deeds())
        job_id = await _define(flows, example.steps)
        for script in example.scripts(example.dag):
            actors.script, actors.ran = script, []
            skip = [name for (name, _), end in script.items() if end == SKIPPED]
            payload = json.dumps({"skip": skip}).encode()
            run_id = await flows.submit(job_id, payload=payload)
            await flows.work()
            foretold = ours.play(example.dag, script, forward)
            assert dict(zip(ours.names, await flows.steps(run_id), strict=True)) == foretold.ends
            assert await flows.state(run_id) is foretold.state
            assert sorted(actors.ran) == sorted(foretold.ran), "each is carried out once"
            await flows.check(run_id)


def _play_with_sections(dag: Dag, script: Script) -> tuple[Story, dict[str, Story]]:
    """Return how Airflow plays a graph, and the sections that its tasks run. Each decides how its task ends."""
    inner: dict[str, Story] = {}

    def choose(task: Task, item: int) -> End:
        if task.name not in SECTIONS:
            return end_of(script, task, item)
        inner[task.name] = Oracle(SECTIONS[task.name].dag, partial(end_of, script)).play(forward)
        return SUCCESS if inner[task.name].is_success else FAILED

    return Oracle(dag, choose).play(forward), inner


def _scripts_with_sections(dag: Dag) -> Iterator[Script]:
    """Yield all combinations of the ends of those that run, in the graph and in its sections."""
    for outer in all_scripts(dag):
        choices = [
            [
                inner
                for inner in all_scripts(SECTIONS[name].dag)
                if (FAILED in inner.values()) is (end == FAILED)
            ]
            for (name, _), end in outer.items()
            if name in SECTIONS
        ]
        for chosen in product(*choices):
            yield {place: end for part in (outer, *chosen) for place, end in part.items()}


async def test_graphs_within_a_graph_end_on_the_engine_as_in_airflow() -> None:
    example = EXAMPLES["example_subdag_operator"]
    ours, actors = Ours(example.steps), Actors(example.dag, *(each.dag for each in SECTIONS.values()))
    async with ManualRuntime(actors.registry) as runtime:
        flows = await Flows.begin(runtime, Deeds())
        inner_ids = {name: await _define(flows, each.steps, name) for name, each in SECTIONS.items()}
        job_id = await _define(flows, example.steps)
        played = 0
        for script in _scripts_with_sections(example.dag):
            played += 1
            actors.script, actors.ran = script, []
            run_id = await flows.submit(job_id)
            await flows.work()
            story, inner = _play_with_sections(example.dag, script)
            ends = dict(zip(ours.names, await flows.steps(run_id), strict=True))
            assert ends == {name: SAME[story.end_of(name)] for name in ours.names}
            assert await flows.state(run_id) is (RunState.SUCCEEDED if story.is_success else RunState.FAILED)
            expected = [place for place in story.ran if place[0] not in SECTIONS]
            expected += [place for each in inner.values() for place in each.ran]
            assert sorted(actors.ran) == sorted(expected), "each is carried out once"
            runs = {run.job_id: run for run in await flows.runs(run_id)}
            for name, each in inner.items():
                own = runs[inner_ids[name]]
                assert own.state is (RunState.SUCCEEDED if each.is_success else RunState.FAILED)
                await flows.check(own.id)
            await flows.check(run_id)
        assert played == COMBINATIONS
