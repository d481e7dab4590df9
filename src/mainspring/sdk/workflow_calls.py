"""The calls that check workflows, and show their graphs and steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mainspring.sdk.transport import Transport
from mainspring.wire import operations
from mainspring.wire.workflows import FlowCommandView, GraphView, ItemPage, JobGraphView, StepPage


class WorkflowCalls(Transport):
    """A part of `AsyncClient`."""

    async def check_workflow(self, body: Mapping[str, Any]) -> GraphView:
        """Check the definition of a job that is a workflow, and return its graph. Nothing is stored.

        Raises:
            InvalidFields: steps are wrong. It has all errors.
        """
        return await self.call(operations.CHECK_WORKFLOW, body=body, may_repeat=True)

    async def get_job_graph(self, job_id: str, *, version: int | None = None) -> JobGraphView:
        """Return the graph of a job that is a workflow: of its newest version, or of another one."""
        return await self.call(operations.GET_JOB_GRAPH, job_id, query={"version": version})

    async def list_steps(self, run_id: str, *, after: str | None = None, limit: int = 100) -> StepPage:
        """Return a page of the steps of a workflow's run, parents before their children."""
        return await self.call(operations.LIST_RUN_STEPS, run_id, query={"after": after, "limit": limit})

    async def list_items(
        self,
        run_id: str,
        step: str,
        state: str | None = None,
        *,
        after: str | None = None,
        limit: int = 100,
    ) -> ItemPage:
        """Return a page of the runs of a step that runs once for each of many items.

        Args:
            step: the name of the step.
            state: only runs in this state, like FAILED.
        """
        query = {"step": step, "state": state, "after": after, "limit": limit}
        return await self.call(operations.LIST_RUN_ITEMS, run_id, query=query)

    async def pause_run(self, run_id: str) -> FlowCommandView:
        """Have a workflow's run start no more steps. Those under way go on."""
        return await self.call(operations.PAUSE_RUN, run_id)

    async def resume_run(self, run_id: str) -> FlowCommandView:
        """Have a paused run of a workflow start what it has kept back."""
        return await self.call(operations.RESUME_RUN, run_id)

    async def skip_steps(self, run_id: str, steps: Sequence[str]) -> FlowCommandView:
        """Have steps of a workflow's run skipped that have no run yet."""
        return await self.call(operations.SKIP_RUN_STEPS, run_id, body={"steps": list(steps)})
