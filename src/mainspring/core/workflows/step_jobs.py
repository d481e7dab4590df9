"""What the runs of a workflow's steps run: for each step, a definition that follows from that of the workflow.

Such a run has a job of its own, so that the status of the workflow's job, its overlap and its lists never meet it. That
job is not stored. Its id is the workflow's, with version 8 instead of 7, and the version tells which step of which
version of the workflow it is.
"""

from __future__ import annotations

from uuid import UUID

from mainspring.core.ids import JobId
from mainspring.core.model import JobSpec
from mainspring.core.targets import WORKFLOW
from mainspring.core.workflows.model import Workflow

MOST_KEPT_STEPS = 4096
"""Steps that versions can tell apart."""
MOST_KEPT_VERSIONS = 2**31 // MOST_KEPT_STEPS - 1
"""The newest version of a workflow of which the versions of steps can tell."""

_VERSION_AT = 76
_JOB, _STEP = 7, 8
_FLIP = (_JOB ^ _STEP) << _VERSION_AT


def is_workflow(spec: JobSpec) -> bool:
    """Say whether a job's runs are workflows, which the engine runs itself."""
    return spec.target.type == WORKFLOW


def is_step_job(job_id: JobId) -> bool:
    """Say whether this is the id that runs of steps have instead of a job's."""
    return job_id.int >> _VERSION_AT & 0xF == _STEP


def step_job_id(job_id: JobId) -> JobId:
    """Return the id that runs of steps of a workflow have, from that of its job."""
    return JobId(UUID(int=job_id.int ^ _FLIP))


def workflow_job_id(step_job: JobId) -> JobId:
    """Return the id of the job whose steps' runs have this one."""
    return JobId(UUID(int=step_job.int ^ _FLIP))


def step_version(version: int, step: int) -> int:
    """Return the version that runs of a step have, from that of the workflow's job.

    Raises:
        ValueError: there are too many versions or steps for it.
    """
    if not (0 <= step < MOST_KEPT_STEPS and 0 < version <= MOST_KEPT_VERSIONS):
        raise ValueError(f"step {step} of version {version} is beyond what can be kept")
    return version * MOST_KEPT_STEPS + step


def split_step_version(kept: int) -> tuple[int, int]:
    """Return the version of the workflow's job, and the step, of which the version of a step's run tells."""
    return divmod(kept, MOST_KEPT_STEPS)


def spec_of_step(spec: JobSpec, workflow: Workflow, step: int) -> JobSpec:
    """Return the definition of the runs of a step with a target. One without a payload gets that of the workflow.

    Args:
        spec: the definition of the workflow's job.
    """
    own = workflow.steps[step]
    assert own.target is not None, "what runs a job has that job's definition"
    return JobSpec(
        name=f"{spec.name}.{own.name}",
        target=own.target,
        payload=spec.payload if own.payload is None else own.payload,
        priority=spec.priority if own.priority is None else own.priority,
        queue=spec.queue if own.queue is None else own.queue,
        labels=own.labels,
        retry=own.retry,
        delivery=own.delivery,
        timeout=own.timeout,
        soft_timeout=own.soft_timeout,
        poison_limit=spec.poison_limit,
    )
