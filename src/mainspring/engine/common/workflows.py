"""Workflows as their turns and their steps' runs need them, made once for each version of a job."""

from __future__ import annotations

from mainspring.core.ciphertexts import has_encrypted
from mainspring.core.definition.workflows import workflow_from_plain
from mainspring.core.ids import JobId
from mainspring.core.model import JobSpec
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.state import UnreadableFlow
from mainspring.core.workflows.step_jobs import is_workflow

_MOST_STEPS = 50_000
"""Steps of all plans that are kept."""


class FlowPlans:
    """The plans of versions of jobs. Those that were not used for the longest time go if there are too many."""

    def __init__(self) -> None:
        self._plans: dict[tuple[JobId, int], FlowPlan] = {}
        self._steps = 0

    def find(self, key: tuple[JobId, int], spec: JobSpec) -> FlowPlan:
        """Return the plan of a version of a job.

        Raises:
            UnreadableFlow: the version is no workflow, or its steps cannot be read by this program.
        """
        plan = self._plans.pop(key, None)
        if plan is None:
            plan = _make(spec)
            self._steps += len(plan.rules)
        self._plans[key] = plan
        while self._steps > _MOST_STEPS and len(self._plans) > 1:
            oldest = self._plans.pop(next(iter(self._plans)))
            self._steps -= len(oldest.rules)
        return plan


def _make(spec: JobSpec) -> FlowPlan:
    if not is_workflow(spec):
        raise UnreadableFlow(f"job {spec.name!r} is no workflow in this version")
    if has_encrypted(spec.target.params):
        raise UnreadableFlow("its definition cannot be decrypted here")
    try:
        return FlowPlan.of(workflow_from_plain(spec.target.params))
    except (LookupError, TypeError, ValueError) as error:
        raise UnreadableFlow(f"its definition cannot be read here: {error!r}") from error
