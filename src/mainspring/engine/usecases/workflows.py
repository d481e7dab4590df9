"""Checks and shows workflows: the graph of a definition, and where the steps of a run are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mainspring.core.ciphertexts import has_encrypted, why_unreadable
from mainspring.core.definition.workflows import workflow_from_plain
from mainspring.core.ids import JobId, RunId, format_run_id
from mainspring.core.model import Job, JobSpec, Run
from mainspring.core.states import RunState
from mainspring.core.targets import WORKFLOW
from mainspring.core.values import value
from mainspring.core.workflows.maps import MapState
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.reports import StepReport, report_step
from mainspring.core.workflows.state import FlowState, UnreadableFlow
from mainspring.engine.usecases.definitions import Accepted, DefinitionReader
from mainspring.engine.usecases.jobs import Jobs
from mainspring.errors import CannotDecrypt, Conflict, InvalidInput, NotFound
from mainspring.ports.clock import Clock
from mainspring.ports.flow_codec import decode_flow_state
from mainspring.ports.store import Store

_PAGE = 1000


@value(kw_only=True)
class JobGraph:
    """The graph of a job that is a workflow.

    Attributes:
        version: the one that the graph is of.
    """

    job: Job
    version: int
    plan: FlowPlan


@value(kw_only=True)
class RunSteps:
    """Where some steps of a run are.

    Attributes:
        run: that of the workflow.
        is_paused: it starts no more steps until it is resumed.
        steps: parents before their children.
        following: the name of the last step, if there are further ones.
    """

    run: Run
    is_paused: bool
    plan: FlowPlan
    steps: tuple[StepReport, ...]
    following: str | None


@value(kw_only=True)
class StepItems:
    """Runs of a step that runs once for each of many items.

    Attributes:
        state: how far the step has come; None if it has not started.
        is_last: there are no further ones.
    """

    state: MapState | None
    runs: tuple[Run, ...]
    is_last: bool


class Workflows:
    """Use cases on workflows. Every method acts for one tenant."""

    def __init__(self, store: Store, jobs: Jobs, *, clock: Clock, accepted: Accepted) -> None:
        self._store, self._jobs, self._clock = store, jobs, clock
        self._definitions = DefinitionReader(store, accepted)

    async def check(self, tenant: str, body: Mapping[str, Any]) -> FlowPlan:
        """Return the graph of a job's definition, which is stored nowhere. It may leave the name out.

        Raises:
            InvalidInput: a field is wrong, or it is no workflow. Of the steps, `InvalidFields` has all errors.
        """
        if WORKFLOW not in body and "target" not in body:
            raise InvalidInput(WORKFLOW, "is missing; give an object of steps")
        (whole,), functions = await self._definitions.prepare(tenant, [{"name": "check", **body}])
        spec = self._definitions.read(
            whole, now=self._clock.now(), functions=functions, tenant=tenant, may_be_over=True
        )
        if spec.target.type != WORKFLOW:
            raise InvalidInput("target.type", f"must be {WORKFLOW!r}: there are steps to check in no other")
        return plan_of(spec)

    async def graph(self, tenant: str, job_id: JobId, *, version: int | None = None) -> JobGraph:
        """Return the graph of a job.

        Args:
            version: which of its versions; None is the newest.

        Raises:
            NotFound: there is no such job, or no such version of it.
            Conflict: it is no workflow, or one that only a later release can read.
            CannotDecrypt: its steps cannot be read here.
        """
        job = await self._jobs.get(tenant, job_id)
        spec: JobSpec | None = job.spec
        if version is not None and version != job.version:
            (spec,) = await self._store.read_versions([(job_id, version)])
        if spec is None:
            raise NotFound("version", str(version))
        return JobGraph(job=job, version=job.version if version is None else version, plan=plan_of(spec))

    async def steps(self, tenant: str, run_id: RunId, *, after: str | None, limit: int) -> RunSteps:
        """Return a page of the steps of a run, each with where it is.

        Args:
            after: only steps after the one of this name.

        Raises:
            NotFound: this tenant has no run with that id, or its version is not kept any more.
            InvalidInput: there is no such step.
            Conflict: the run is none of a workflow, or a later release has kept where its steps are.
            CannotDecrypt: its steps cannot be read here.
        """
        run, plan, state = await self._find(tenant, run_id)
        begin = 0 if after is None else _place_after(plan, after)
        page = plan.graph.order[begin : begin + limit]
        runs = (
            {}
            if state is None
            else await self._runs_of(run_id, [one for one in page if one not in plan.maps])
        )
        is_last = begin + limit >= len(plan.graph.order)
        return RunSteps(
            run=run,
            is_paused=state is not None and state.is_paused,
            plan=plan,
            steps=tuple([report_step(plan, run, state, runs, place) for place in page]),
            following=None if is_last else plan.workflow.steps[page[-1]].name,
        )

    async def items(
        self,
        tenant: str,
        run_id: RunId,
        step: str,
        *,
        state: RunState | None,
        after: RunId | None,
        limit: int,
    ) -> StepItems:
        """Return a page of the runs of a step that runs once for each of many items.

        Args:
            step: its name.
            state: only runs in this state.
            after: only runs after this one.

        Raises:
            NotFound, Conflict, CannotDecrypt: as of `steps`.
            InvalidInput: there is no such step, or it runs once.
        """
        _, plan, kept = await self._find(tenant, run_id)
        place = next((place for place, one in enumerate(plan.workflow.steps) if one.name == step), None)
        if place is None:
            raise InvalidInput("step", f"there is no step {step[:70]!r}")
        if place not in plan.maps:
            raise InvalidInput("step", f"{step!r} runs once; see the steps of the run for that")
        runs = await self._store.list_flow_runs(
            run_id, steps=[place], state=state, after=after, limit=limit + 1
        )
        counts = None if kept is None else dict(kept.maps).get(place)
        return StepItems(state=counts, runs=tuple(runs[:limit]), is_last=len(runs) <= limit)

    async def _find(self, tenant: str, run_id: RunId) -> tuple[Run, FlowPlan, FlowState | None]:
        """Return the run of a workflow, its plan, and how far its flow has come."""
        (run,) = await self._store.get_runs([run_id])
        if run is None or run.tenant != tenant:
            raise NotFound("run", format_run_id(run_id))
        (spec,) = await self._store.read_versions([(run.job_id, run.version)])
        if spec is None:
            raise NotFound("version", str(run.version))
        plan = plan_of(spec)
        (kept,) = await self._store.read_flow_states([run_id])
        try:
            state = None if kept is None else decode_flow_state(kept)
        except UnreadableFlow as error:
            raise Conflict("run", f"where its steps are cannot be read here: {error}") from error
        return run, plan, state

    async def _runs_of(self, flow_id: RunId, steps: Sequence[int]) -> dict[int, Run]:
        """Return the runs of steps that run once, by their places in the workflow."""
        found: dict[int, Run] = {}
        after: RunId | None = None
        while True:
            page = await self._store.list_flow_runs(flow_id, steps=steps, after=after, limit=_PAGE)
            found |= {run.place.step: run for run in page if run.place is not None}
            if len(page) < _PAGE:
                return found
            after = page[-1].id


def _place_after(plan: FlowPlan, name: str) -> int:
    for rank, place in enumerate(plan.graph.order):
        if plan.workflow.steps[place].name == name:
            return rank + 1
    raise InvalidInput("after", f"there is no step {name[:70]!r}; pages go on with what `next` has")


def plan_of(spec: JobSpec) -> FlowPlan:
    """Return the plan of a job's steps.

    Raises:
        Conflict: the job is no workflow, or one that only a later release can read.
        CannotDecrypt: its steps cannot be read here.
    """
    params = spec.target.params
    if spec.target.type != WORKFLOW:
        message = f"job {spec.name!r} has a target of type {spec.target.type!r}; only a workflow has steps"
        raise Conflict("target.type", message)
    if has_encrypted(params):
        raise CannotDecrypt(why_unreadable(params)[0])
    try:
        return FlowPlan.of(workflow_from_plain(params))
    except (LookupError, TypeError, ValueError) as error:
        raise Conflict("target.steps", f"they cannot be read here: {error!r}") from error
