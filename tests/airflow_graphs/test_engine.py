"""The same graphs on the whole engine: a worker carries out the steps, and each run ends as its turns alone say."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import pytest

from mainspring.core.ids import JobId
from mainspring.core.model import Target
from mainspring.registry import FunctionRegistry
from mainspring.signals import FailRun
from mainspring.testing.factories import add_job, make_spec
from mainspring.testing.manual import ManualRuntime
from tests.airflow_graphs.dags import SKIPPED, Dag, State, Task
from tests.airflow_graphs.examples import EXAMPLES
from tests.airflow_graphs.oracle import UNMAPPED, Place
from tests.airflow_graphs.ours import Ours
from tests.airflow_graphs.scripts import Script, end_of, forward
from tests.support.workflows import ONCE, Deeds, Flows


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
        "example_latest_only_with_trigger",
        "example_nested_branch_dag",
        "example_setup_teardown",
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
