"""Lists of runs and workers.

Which table holds a state is told by its CHECK constraint: the planner leaves the others out.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from asyncpg import Record

from mainspring.core.batching import MOST_SIZE
from mainspring.core.ids import BackfillId, JobId, RunId, SessionId
from mainspring.core.model import Run, RunKind
from mainspring.core.states import RunState
from mainspring.core.why import MOST_AHEAD, BatchFacts, KeyFacts, WaitFacts
from mainspring.ports.store.browse import JobCounts, OverdueFires
from mainspring.ports.store.sessions import SessionFacts
from mainspring.stores.postgres.batches import size_of
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections
from mainspring.stores.postgres.rows import LAST_ID, bucket_of, run_of, session_of


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
        kind: RunKind | None = None,
        backfill_id: BackfillId | None = None,
        error: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        lowest: RunId | None = None,
        before: RunId | None = None,
        limit: int = 100,
        is_brief: bool = False,
    ) -> list[Run]:
        values: dict[str, object] = {
            "tenant": tenant,
            "state": state,
            "queue": queue,
            "kind": kind,
            "backfill_id": backfill_id,
            "error": error,
            "since": since,
            "until": until,
            "lowest": lowest or 0,
            "before": LAST_ID if before is None else before,
            "limit": limit,
            "is_brief": is_brief,
        }
        name = "list_runs"
        if state is RunState.RUNNING:
            name = "list_held_runs"
            values["job_id"] = job_id
        elif job_id is not None:
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

    async def read_job_names(self, job_ids: Sequence[JobId]) -> dict[JobId, str]:
        if not job_ids:
            return {}
        rows = await self._connections.fetch(
            Role.BROWSE, "read_job_names", is_repeatable=True, job_ids=list(job_ids)
        )
        return {row["id"]: row["name"] for row in rows}

    async def page_sessions(
        self, *, after: SessionId | None = None, limit: int = 100, tenant: str | None = None
    ) -> list[SessionFacts]:
        rows = await self._connections.fetch(
            Role.BROWSE, "page_sessions", is_repeatable=True, after=after or 0, limit=limit, tenant=tenant
        )
        return [session_of(row) for row in rows]

    async def count_held(self, session_ids: Sequence[SessionId]) -> list[int]:
        if not session_ids:
            return []
        rows = await self._connections.fetch(
            Role.BROWSE, "count_held", is_repeatable=True, session_ids=list(session_ids)
        )
        return [row["held"] for row in rows]

    async def count_job_states(self, tenant: str, *, limit: int) -> JobCounts:
        [row] = await self._connections.fetch(
            Role.BROWSE, "count_job_states", is_repeatable=True, tenant=tenant, limit=limit
        )
        return JobCounts(row["active"], row["paused"])

    async def count_overdue(self, *, before: datetime, limit: int) -> OverdueFires:
        [row] = await self._connections.fetch(
            Role.BROWSE, "count_overdue", is_repeatable=True, before=before, limit=limit
        )
        return OverdueFires(row["fires"], row["oldest_due_at"])

    async def read_wait(self, run_id: RunId, *, now: datetime) -> WaitFacts | None:
        rows = await self._connections.fetch(
            Role.BROWSE, "count_ahead", is_repeatable=True, run_id=run_id, limit=MOST_AHEAD
        )
        if not rows:
            return None
        keys = await self._connections.fetch(Role.BROWSE, "read_wait_keys", is_repeatable=True, run_id=run_id)
        facts = tuple(_key_facts(row, now) for row in keys)
        batches = (
            []
            if not keys
            else await self._connections.fetch(
                Role.BROWSE, "read_wait_batch", is_repeatable=True, run_id=run_id, limit=MOST_SIZE, now=now
            )
        )
        batch = next((_batch_facts(row) for row in batches if row["head_at"] is not None), None)
        [row] = rows
        return WaitFacts(
            keys=facts, ahead=min(row["ahead"], MOST_AHEAD), expires_at=row["expires_at"], batch=batch
        )


def _batch_facts(row: Record) -> BatchFacts:
    size = size_of(row)
    return BatchFacts(size=size.size, ready=row["ready"], until=row["head_at"] + size.wait)


def _key_facts(row: Record, now: datetime) -> KeyFacts:
    bucket = bucket_of(row)
    return KeyFacts(
        limit=row["name"],
        is_of_cluster=row["is_of_cluster"],
        key=row["key"],
        max_running=row["max_running"],
        rate=None if bucket is None else bucket.rate,
        held=row["held"],
        holders=tuple(row["run_ids"] or ()),
        next_permit_at=None if bucket is None else bucket.at(now).next_permit_at(),
    )
