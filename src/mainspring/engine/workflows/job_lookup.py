"""Finds the jobs that steps run, when they start."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mainspring.core.ids import RunId
from mainspring.core.model import Job
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.step_jobs import is_workflow
from mainspring.core.workflows.turn import FlowTurn
from mainspring.engine.workflows.step_runs import MakeRuns, StepFault
from mainspring.ports.store import Store
from mainspring.ports.store.runs import NewRun

MOST_DEEP = 8
"""Workflows within one another: one that nothing runs is 1 deep."""


class JobLookup:
    """Finds jobs for the turns of one batch. Each is looked up once, so all of the batch see the same version."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._jobs: dict[tuple[str, str], Job | None] = {}
        self._depths: dict[RunId, int] = {}

    async def take(
        self,
        tenant: str,
        flow_id: RunId,
        plan: FlowPlan,
        decide: Callable[[Mapping[int, str]], FlowTurn],
        make: MakeRuns,
    ) -> tuple[FlowTurn, tuple[NewRun, ...]]:
        """Return a turn, and the runs that it makes. Steps that cannot start fail in it.

        Args:
            decide: takes the turn, with these steps refused.
            make: makes its runs from the jobs that it names; raises `StepFault` if one cannot be made.
        """
        refused: dict[int, str] = {}
        while True:
            decided = decide(refused)
            jobs: dict[str, Job] = {}
            faults: dict[int, str] = {}
            for step in (*decided.starts, *(step for step, _ in decided.items)):
                name = plan.jobs.get(step)
                if name is None:
                    continue
                job = await self._find(tenant, name)
                if job is None:
                    faults[step] = f"there is no job {name!r}"
                elif is_workflow(job.spec) and await self._depth(flow_id) >= MOST_DEEP:
                    faults[step] = (
                        f"job {name!r} is a workflow, and more than {MOST_DEEP} would be within one another"
                    )
                else:
                    jobs[name] = job
            if not faults:
                try:
                    return decided, make(decided, jobs)
                except StepFault as fault:
                    faults[fault.step] = fault.reason
            refused |= faults

    async def _find(self, tenant: str, name: str) -> Job | None:
        key = tenant, name
        if key not in self._jobs:
            (self._jobs[key],) = await self._store.find_jobs(tenant, [name])
        return self._jobs[key]

    async def _depth(self, flow_id: RunId) -> int:
        """Return how deep a workflow is. Only one that is about to run another is asked."""
        above: RunId | None = flow_id
        depth = 0
        if flow_id in self._depths:
            return self._depths[flow_id]
        while above is not None and depth < MOST_DEEP:
            (run,) = await self._store.get_runs([above])
            above = None if run is None or run.place is None else run.place.flow_id
            depth += 1
        self._depths[flow_id] = depth
        return depth
