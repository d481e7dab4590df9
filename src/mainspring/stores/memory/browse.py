"""Lists of runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice, takewhile

from mainspring.core.ids import BackfillId, JobId, RunId, SessionId
from mainspring.core.limits import CLUSTER
from mainspring.core.model import Run, RunKind
from mainspring.core.states import READY_STATES, RunState
from mainspring.core.why import MOST_AHEAD, KeyFacts, WaitFacts
from mainspring.ports.store.browse import JobCounts, OverdueFires
from mainspring.ports.store.sessions import SessionFacts
from mainspring.stores.memory.batches import wait_for_batch
from mainspring.stores.memory.lined_up import bucket_of, is_counted
from mainspring.stores.memory.rows import LimitKeyRow
from mainspring.stores.memory.tables import Tables

_MOST_SHOWN = 5


class MemoryBrowseStore:
    """`BrowseStore` in memory."""

    _tables: Tables

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
        tables = self._tables
        index = tables.runs_of_tenant[tenant] if job_id is None else tables.runs_of_job[job_id]
        keys = index.below(None if before is None else (before,))
        rows = (
            tables.runs[key[0]] for key in takewhile(lambda key: lowest is None or key[0] >= lowest, keys)
        )
        backfill = None if backfill_id is None else tables.backfills.rows.get(backfill_id)
        sections = set() if backfill is None else set(backfill.sections)
        wanted = (
            row
            for row in rows
            if row.tenant == tenant
            and (state is None or row.state is state)
            and (queue is None or row.lane.key.queue == queue)
            and (kind is None or row.kind is kind)
            and (backfill_id is None or row.fire_range_id in sections)
            and (error is None or (row.error is not None and row.error.startswith(error)))
            and (since is None or row.created_at >= since)
            and (until is None or row.created_at < until)
        )
        return [_brief(row.view()) if is_brief else row.view() for row in islice(wanted, limit)]

    async def read_job_names(self, job_ids: Sequence[JobId]) -> dict[JobId, str]:
        tables = self._tables
        wanted = set(job_ids)
        newest: dict[JobId, int] = {}
        for job_id, version in tables.versions:
            if job_id in wanted:
                newest[job_id] = max(version, newest.get(job_id, 0))
        return {job_id: tables.versions[job_id, version].name for job_id, version in newest.items()}

    async def page_sessions(
        self, *, after: SessionId | None = None, limit: int = 100, tenant: str | None = None
    ) -> list[SessionFacts]:
        live = (
            session
            for _, session in sorted(self._tables.sessions.items())
            if session.is_live
            and (after is None or session.id > after)
            and tenant in {None, session.offer.tenant}
        )
        return [session.view() for session in islice(live, limit)]

    async def count_held(self, session_ids: Sequence[SessionId]) -> list[int]:
        found = [self._tables.sessions.get(session_id) for session_id in session_ids]
        return [0 if session is None else sum(1 for _ in session.running) for session in found]

    async def count_job_states(self, tenant: str, *, limit: int) -> JobCounts:
        jobs = [job for job in self._tables.jobs.values() if job.tenant == tenant][:limit]
        paused = sum(job.is_paused for job in jobs)
        return JobCounts(len(jobs) - paused, paused)

    async def count_overdue(self, *, before: datetime, limit: int) -> OverdueFires:
        dues = sorted(
            job.next_fire.due_at
            for job in self._tables.jobs.values()
            if job.next_fire is not None and job.next_fire.due_at < before
        )[:limit]
        return OverdueFires(len(dues), dues[0] if dues else None)

    async def read_run_bounds(self) -> tuple[RunId, RunId] | None:
        runs = self._tables.runs
        return (min(runs), max(runs)) if runs else None

    async def read_creations(self, run_ids: Sequence[RunId]) -> list[datetime | None]:
        runs = self._tables.runs
        first = [min((known for known in runs if known >= run_id), default=None) for run_id in run_ids]
        return [None if run_id is None else runs[run_id].created_at for run_id in first]

    async def read_wait(self, run_id: RunId, *, now: datetime) -> WaitFacts | None:
        tables = self._tables
        run = tables.runs.get(run_id)
        if run is None or run.state not in READY_STATES:
            return None
        ahead = islice(run.waiting_index.below((run.ready_at, run.id)), MOST_AHEAD)
        keys = tuple(_key_facts(tables, tables.limits.keys[key_id], run.id, now) for key_id in run.keys)
        return WaitFacts(
            keys=keys,
            ahead=sum(1 for _ in ahead),
            expires_at=run.expires_at,
            batch=wait_for_batch(tables, run, now),
        )


def _key_facts(tables: Tables, key: LimitKeyRow, own: RunId, now: datetime) -> KeyFacts:
    rule, bucket = tables.limits.rules[key.tenant, key.limit], bucket_of(tables, key)
    tenant = tables.runs[own].tenant
    held = [
        run_id
        for run_id, token in key.holds.items()
        if run_id != own and is_counted(tables, key, run_id, token)
    ]
    return KeyFacts(
        limit=key.limit,
        is_of_cluster=key.tenant == CLUSTER,
        key=key.key,
        max_running=rule.max_running,
        rate=rule.rate,
        held=len(held),
        holders=tuple([run_id for run_id in held if tables.runs[run_id].tenant == tenant][:_MOST_SHOWN]),
        next_permit_at=None if bucket is None else bucket.at(now).next_permit_at(),
    )


def _brief(run: Run) -> Run:
    return replace(run, payload=None, result=None, output=None)
