"""Workflows on a whole engine: a worker whose function does what each step's payload says, and an oracle."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mainspring.core.definition.workflows import plain_from_workflow
from mainspring.core.ids import JobId, RunId
from mainspring.core.model import JobSpec, Run, Target
from mainspring.core.retry import Backoff, RetryPolicy
from mainspring.core.states import FINAL_STATES, RunState
from mainspring.core.workflows.model import Workflow, WorkflowStep
from mainspring.core.workflows.rules import StepRule
from mainspring.core.workflows.state import StepStatus
from mainspring.engine.usecases.submissions import Submission
from mainspring.ports.flow_codec import decode_flow_state
from mainspring.ports.store import Store
from mainspring.registry import FunctionRegistry
from mainspring.signals import current_attempt
from mainspring.stores.memory import MemoryStore
from mainspring.stores.postgres import PostgresStore
from mainspring.stores.sqlite import SqliteStore
from mainspring.testing.clock import FakeClock
from mainspring.testing.factories import add_job, make_spec
from mainspring.testing.manual import TENANT, ManualRuntime, ManualWorker

ONCE = RetryPolicy(max_retries=0)
TWICE = RetryPolicy(max_retries=1, backoff=Backoff.FIXED, delay=timedelta(seconds=10), jitter=0.0)


def make_store(request: pytest.FixtureRequest, folder: Path, clock: FakeClock) -> Store:
    """Return the store that a fixture's parameter names."""
    match request.param:
        case "memory":
            return MemoryStore(time=clock.now)
        case "sqlite":
            return SqliteStore(folder / "mainspring.db")
        case _:
            return PostgresStore(request.getfixturevalue("migrated_database"), random=random.Random(1))


STORES = ("memory", "sqlite", pytest.param("postgres", marks=pytest.mark.postgres))
"""What such a fixture takes."""


class Deeds:
    """The function of all steps: it notes its call, and fails as often as the step is told to."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self.failures: dict[str, int] = {}

    async def act(self, step: str, **others: Any) -> str:
        """Do a step."""
        self.calls.append((step, others))
        if self.failures.get(step, 0) > 0:
            self.failures[step] -= 1
            raise ValueError(f"{step} fails")
        return f"{step} done by {current_attempt().attempt}"

    @property
    def order(self) -> list[str]:
        """The steps in the order of their calls."""
        return [step for step, _ in self.calls]

    def registry(self) -> FunctionRegistry:
        """Return the functions of a worker."""
        registry = FunctionRegistry()
        registry.add("act", self.act)
        return registry


def step(name: str, after: str = "", **fields: Any) -> WorkflowStep:
    """Make a step that does itself. Its parents are named in one text."""
    values: dict[str, Any] = {"payload": f'{{"step": "{name}"}}'.encode(), "retry": ONCE}
    target = Target("function", {"function": "act"})
    return WorkflowStep(name=name, target=target, after=tuple(after.split()), **values | fields)


def job_step(name: str, job: str, after: str = "", **fields: Any) -> WorkflowStep:
    """Make a step that runs another job. Its parents are named in one text."""
    return WorkflowStep(name=name, job=job, after=tuple(after.split()), **fields)


def workflow_of(*steps: WorkflowStep, deadline: timedelta | None = None, **fields: Any) -> JobSpec:
    """Return the definition of a job that runs these steps."""
    target = Target("workflow", plain_from_workflow(Workflow(steps, deadline)))
    return make_spec(**{"target": target, "retry": ONCE} | fields)


@dataclass(slots=True)
class Flows:
    """Servers on one store, with one worker at the first of them."""

    runtime: ManualRuntime
    deeds: Deeds
    worker: ManualWorker

    @classmethod
    async def begin(cls, runtime: ManualRuntime, deeds: Deeds) -> Flows:
        """Give a runtime that was entered a worker."""
        return cls(runtime, deeds, await runtime.worker())

    async def add(self, *steps: WorkflowStep, **fields: Any) -> JobId:
        """Store a workflow."""
        job = await add_job(self.runtime.store, spec=workflow_of(*steps, **fields))
        return job.id

    async def submit(self, job_id: JobId, **fields: Any) -> RunId:
        """Submit a run."""
        done = await self.runtime.client.runs.submit(TENANT, Submission(job_id=job_id, **fields))
        return done.run_id

    async def start(self, *steps: WorkflowStep, **fields: Any) -> RunId:
        """Store a workflow, and submit a run of it."""
        return await self.submit(await self.add(*steps, **fields))

    async def turn(self) -> None:
        """Begin what is due, and take the turns that mail makes, those of workflows within others, too."""
        is_again = True
        while is_again:
            is_again = await self.runtime.services["flow_starts"].tick(self.runtime.clock.now()) == 0.0
            mails = await self.mail()
            while await self.runtime.services["flows"].tick(self.runtime.clock.now()) == 0.0:
                continue
            is_again |= await self.mail() < mails

    async def work(self) -> None:
        """Take turns and carry out what they start, until nothing is left that is due."""
        await self.turn()
        while await self.worker.work():
            await self.turn()

    async def run(self, run_id: RunId) -> Run:
        """Return a run."""
        return await self.runtime.client.runs.get(TENANT, run_id)

    async def state(self, run_id: RunId) -> RunState:
        """Return the state of a run."""
        return (await self.run(run_id)).state

    async def steps(self, run_id: RunId) -> list[StepStatus]:
        """Return how far the steps of a flow have come."""
        (kept,) = await self.runtime.store.read_flow_states([run_id])
        assert kept is not None
        return [StepStatus(byte) for byte in decode_flow_state(kept).steps]

    async def runs(self, run_id: RunId) -> list[Run]:
        """Return the runs of all steps."""
        return await self.runtime.store.list_flow_runs(run_id, limit=1000)

    async def mail(self) -> int:
        """Return how much mail there is."""
        return len(await self.runtime.store.read_mail(range(256), lows={}, limit=1000))

    async def check(self, run_id: RunId) -> None:
        """Check what holds for every flow that is over: no live step, no second run, nothing left."""
        runs = await self.runs(run_id)
        assert {run.state for run in runs} <= FINAL_STATES
        places = [run.place for run in runs]
        assert len(places) == len(set(places)), "W2: one run for each step"
        assert await self.mail() == 0, "W4: no mail is left"
        assert await self.runtime.store.read_flows([run_id]) == [None], "W4: no flow without open work"


# -- the oracle: written from the words of the rules, apart from the code under test -----------------------------------

_FAILED = {StepStatus.FAILED, StepStatus.CANCELLED, StepStatus.UPSTREAM_FAILED}


def says(rule: StepRule, parents: Sequence[StepStatus]) -> str:
    """Return what a rule says once all parents have ended: run, skip or upstream."""
    failed = any(one in _FAILED for one in parents)
    skipped = StepStatus.SKIPPED in parents
    succeeded = StepStatus.SUCCEEDED in parents
    match rule:
        case StepRule.ALL_SUCCESS:
            return "upstream" if failed else "skip" if skipped else "run"
        case StepRule.ALL_DONE:
            return "run"
        case StepRule.NONE_FAILED:
            return "upstream" if failed else "run"
        case StepRule.NONE_FAILED_MIN_ONE_SUCCESS:
            return "upstream" if failed else "run" if succeeded else "skip"
        case StepRule.ONE_SUCCESS:
            return "run" if succeeded else "upstream" if failed else "skip"
        case StepRule.ONE_FAILED:
            return "run" if failed else "skip"
        case StepRule.ALL_FAILED:
            return "run" if all(one in _FAILED for one in parents) else "skip"
        case StepRule.NONE_SKIPPED:
            return "skip" if skipped else "run"


def foretell(steps: Sequence[WorkflowStep], failing: set[str]) -> tuple[dict[str, StepStatus], RunState]:
    """Return how each step ends, and the workflow, if these steps fail whenever they run."""
    ends: dict[str, StepStatus] = {}
    by_name = {one.name: one for one in steps}

    def end_of(name: str) -> StepStatus:
        if name not in ends:
            one = by_name[name]
            said = says(one.rule, [end_of(parent) for parent in one.after])
            if said == "run":
                ends[name] = StepStatus.FAILED if name in failing else StepStatus.SUCCEEDED
            else:
                ends[name] = StepStatus.SKIPPED if said == "skip" else StepStatus.UPSTREAM_FAILED
        return ends[name]

    for one in steps:
        end_of(one.name)
    has_failed = any(ends[one.name] is StepStatus.FAILED and not one.allow_failure for one in steps)
    return ends, RunState.FAILED if has_failed else RunState.SUCCEEDED
