"""Lists of runs.

Which table holds a state is told by its CHECK constraint: the planner leaves the others out.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mainspring.core.ids import JobId, RunId
from mainspring.core.model import Run
from mainspring.core.states import RunState
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections
from mainspring.stores.postgres.rows import LAST_ID, run_of


class PostgresBrowseStore:
    """`BrowseStore` on PostgreSQL."""

    _connections: Connections

    async def list_runs(
        self,
        tenant: str,
        *,
        job_id: JobId | None = None,
        state: RunState | None = None,
        queue: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        lowest: RunId | None = None,
        before: RunId | None = None,
        limit: int = 100,
    ) -> list[Run]:
        values: dict[str, object] = {
            "tenant": tenant,
            "queue": queue,
            "since": since,
            "until": until,
            "lowest": lowest or 0,
            "before": LAST_ID if before is None else before,
            "limit": limit,
        }
        name = "list_runs"
        if state is RunState.RUNNING:
            name = "list_held_runs"
            values["job_id"] = job_id
        else:
            values["state"] = state
            if job_id is not None:
                name = "list_runs_of_job"
                values["job_id"] = job_id
        rows = await self._connections.fetch(Role.BROWSE, name, is_repeatable=True, **values)
        return [run_of(row) for row in rows]

    async def read_run_bounds(self) -> tuple[RunId, RunId] | None:
        [row] = await self._connections.fetch(Role.BROWSE, "read_run_bounds", is_repeatable=True)
        return None if row["lowest"] is None else (RunId(row["lowest"]), RunId(row["highest"]))

    async def read_creations(self, run_ids: Sequence[RunId]) -> list[datetime | None]:
        if not run_ids:
            return []
        rows = await self._connections.fetch(
            Role.BROWSE, "read_creations", is_repeatable=True, run_ids=list(run_ids)
        )
        return [row["created_at"] for row in rows]
