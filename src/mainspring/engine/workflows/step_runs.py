"""Makes the runs of a flow's steps."""

from __future__ import annotations

from datetime import datetime

from mainspring.core.ids import JobId, RunId, key_for_target
from mainspring.core.model import JobSpec, LaneKey, RunKind
from mainspring.core.values import value
from mainspring.core.workflows.places import StepPlace
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.step_jobs import spec_of_step, step_job_id, step_version
from mainspring.core.workflows.turn import FlowTurn
from mainspring.ports.store.runs import NewRun


@value(kw_only=True)
class FlowFacts:
    """What the runs of a flow's steps take over from the workflow's run.

    Attributes:
        target_key: as it was submitted; None means the run's id. Those of its steps begin with it, so a redrive, which
            has that of the first run, gives targets the same keys again.
        payload: None means the job's.
    """

    run_id: RunId
    job_id: JobId
    version: int
    tenant: str
    fire_at: datetime | None
    target_key: str | None
    payload: bytes | None
    trace: bytes | None


def make_step_runs(
    facts: FlowFacts, spec: JobSpec, plan: FlowPlan, turn: FlowTurn, *, now: datetime
) -> tuple[NewRun, ...]:
    """Make the runs of steps that start in a turn.

    A step without a payload, and for which none was made, gets that of the workflow's run.

    Raises:
        ValueError: there are too many versions or steps for the versions of their runs.
    """
    made = dict(turn.payloads)
    return tuple([_make(facts, spec, plan, step, made.get(step), now) for step in turn.starts])


def _make(
    facts: FlowFacts, spec: JobSpec, plan: FlowPlan, step: int, made: bytes | None, now: datetime
) -> NewRun:
    own = plan.workflow.steps[step]
    derived = spec_of_step(spec, plan.workflow, step)
    return NewRun(
        job_id=step_job_id(facts.job_id),
        version=step_version(facts.version, step),
        lane=LaneKey(derived.queue, derived.route, facts.tenant, derived.priority),
        kind=RunKind.WORKFLOW,
        fire_at=facts.fire_at,
        due_at=now,
        timeout=own.timeout,
        payload=made if made is not None else facts.payload if own.payload is None else None,
        target_key=f"{key_for_target(facts.run_id, facts.target_key)}.{own.name}",
        trace=facts.trace,
        place=StepPlace(facts.run_id, step),
    )
