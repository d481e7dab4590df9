"""Submission, lanes and inspection of runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mainspring.core.ids import JobId, LaneId, RunId, job_shard, make_run_id
from mainspring.core.model import Attempt, Lane, LaneKey, Priority, Run
from mainspring.core.states import RunState
from mainspring.ports.store_types import HeldRun, IdempotencyKey, NewRun, SubmitResult, SubmitStatus
from mainspring.stores.postgres.connection import Connections, Role, Session
from mainspring.stores.postgres.inserts import LaneIds, insert_runs, insert_skipped
from mainspring.stores.postgres.rows import LAST_ID, attempt_of, columns_of_runs, held_of, run_of

_JOB_MISSING = SubmitResult(SubmitStatus.JOB_MISSING)


class RunVerbs:
    """The part of `RunStore` that brings runs in and shows them."""

    _connections: Connections
    _lane_ids: LaneIds

    async def submit_runs(self, runs: Sequence[NewRun], *, now: datetime) -> list[SubmitResult]:
        if not runs:
            return []
        if all(run.submit_key is None and run.skip_reason is None for run in runs):
            results = await self._submit_plain(runs, now)
            if results is not None:
                return results

        async def work(session: Session) -> list[SubmitResult]:
            return await _submit_carefully(session, self._lane_ids, runs, now)

        return await self._connections.transact(Role.SUBMIT, work)

    async def _submit_plain(self, runs: Sequence[NewRun], now: datetime) -> list[SubmitResult] | None:
        """Insert ordinary runs by one statement; None where nothing was, because a lane must be interned first."""
        keys = list({run.lane: None for run in runs})
        known = self._lane_ids.recall(keys)
        if known is None:
            return None
        lanes = dict(zip(keys, known, strict=True))
        rows = await self._connections.fetch(
            Role.SUBMIT,
            "submit_runs",
            is_repeatable=False,
            lane_ids=sorted(known),
            run_lanes=[lanes[run.lane] for run in runs],
            now=now,
            **columns_of_runs(runs),
        )
        if not rows:
            return None
        if len(rows) == len(runs):
            return [SubmitResult(SubmitStatus.SUBMITTED, row["id"]) for row in rows]
        existing = {row["job_id"] for row in rows}
        ids = iter(rows)
        return [
            SubmitResult(SubmitStatus.SUBMITTED, next(ids)["id"]) if run.job_id in existing else _JOB_MISSING
            for run in runs
        ]

    async def read_lanes(self, queues: Sequence[str]) -> list[Lane]:
        rows = await self._connections.fetch(
            Role.WATCH, "read_lanes", is_repeatable=True, queues=queues, is_all=not queues
        )
        return [
            Lane(
                LaneId(row["id"]),
                LaneKey(row["queue"], row["route"], row["tenant"], Priority(row["priority"])),
                row["oldest_rank"],
                row["oldest_suspect_rank"],
            )
            for row in rows
        ]

    async def read_held(self, run_ids: Sequence[RunId]) -> list[HeldRun | None]:
        if not run_ids:
            return []
        rows = await self._connections.fetch(Role.WATCH, "read_held", is_repeatable=True, run_ids=run_ids)
        found = {row["id"]: held_of(row) for row in rows}
        return [found.get(run_id) for run_id in run_ids]

    async def get_runs(self, run_ids: Sequence[RunId]) -> list[Run | None]:
        if not run_ids:
            return []
        rows = await self._connections.fetch(Role.READ, "get_runs", is_repeatable=True, run_ids=run_ids)
        found = {row["id"]: run_of(row) for row in rows}
        return [found.get(run_id) for run_id in run_ids]

    async def list_runs(
        self,
        tenant: str,
        *,
        job_id: JobId | None = None,
        state: RunState | None = None,
        before: RunId | None = None,
        limit: int = 100,
    ) -> list[Run]:
        page = {
            "tenant": tenant,
            "state": state,
            "before": LAST_ID if before is None else before,
            "limit": limit,
        }
        if job_id is None:
            rows = await self._connections.fetch(Role.READ, "list_runs", is_repeatable=True, **page)
        else:
            rows = await self._connections.fetch(
                Role.READ, "list_runs_of_job", is_repeatable=True, job_id=job_id, **page
            )
        return [run_of(row) for row in rows]

    async def newest_runs(self, job_ids: Sequence[JobId], *, now: datetime) -> list[Run | None]:
        if not job_ids:
            return []
        rows = await self._connections.fetch(
            Role.READ, "newest_runs", is_repeatable=True, job_ids=job_ids, now=now
        )
        found = {row["job_id"]: run_of(row) for row in rows}
        return [found.get(job_id) for job_id in job_ids]

    async def list_attempts(self, run_id: RunId) -> list[Attempt]:
        rows = await self._connections.fetch(Role.READ, "list_attempts", is_repeatable=True, run_id=run_id)
        return [attempt_of(row) for row in rows]

    async def count_runs(self, tenant: str) -> dict[RunState, int]:
        rows = await self._connections.fetch(Role.READ, "count_runs", is_repeatable=True, tenant=tenant)
        return {RunState(row["state"]): row["count"] for row in rows}


async def _submit_carefully(
    session: Session, lane_ids: LaneIds, runs: Sequence[NewRun], now: datetime
) -> list[SubmitResult]:
    """Submit with all that one statement cannot do: keys, new lanes, records of runs that will not be."""
    rows = await session.fetch("find_existing_jobs", job_ids=sorted({run.job_id for run in runs}))
    existing = {row["id"] for row in rows}
    wanted = [run for run in runs if run.job_id in existing]
    numbers = await session.fetch("reserve_run_ids", count=len(wanted))
    ids = {
        position: make_run_id(number["number"], job_shard(run.job_id))
        for (position, run), number in zip(
            ((position, run) for position, run in enumerate(runs) if run.job_id in existing),
            numbers,
            strict=True,
        )
    }
    owners = await _reserve_keys(session, [(runs[position], run_id) for position, run_id in ids.items()], now)
    results = []
    new: list[tuple[NewRun, RunId]] = []
    for position, run in enumerate(runs):
        run_id = ids.get(position)
        if run_id is None:
            results.append(_JOB_MISSING)
            continue
        result = _judge_key(run, run_id, owners)
        if result.status is SubmitStatus.SUBMITTED:
            new.append((run, run_id))
        results.append(result)
    live = [(run, run_id) for run, run_id in new if run.skip_reason is None]
    await insert_runs(
        session, lane_ids, [run for run, _ in live], now=now, run_ids=[run_id for _, run_id in live]
    )
    skipped = [(run, run.skip_reason, run_id) for run, run_id in new if run.skip_reason is not None]
    await insert_skipped(
        session,
        [(run, reason) for run, reason, _ in skipped],
        now=now,
        run_ids=[run_id for _, _, run_id in skipped],
    )
    return results


Owners = dict[tuple[str, str], tuple[RunId, bytes]]
"""By tenant and key: the run that has the key, and the hash of its request."""


async def _reserve_keys(session: Session, runs: Sequence[tuple[NewRun, RunId]], now: datetime) -> Owners:
    """Take the keys that are free for the first run that asks for each, and say whose each is now."""
    first: dict[tuple[str, str], tuple[RunId, IdempotencyKey]] = {}
    for run, run_id in runs:
        if run.submit_key is not None:
            first.setdefault((run.lane.tenant, run.submit_key.key), (run_id, run.submit_key))
    if not first:
        return {}
    ordered = sorted(first)  # in one order, so that two callers wait for each other only one way
    tenants = [tenant for tenant, _ in ordered]
    keys = [key for _, key in ordered]
    await session.execute(
        "reserve_keys",
        tenants=tenants,
        keys=keys,
        run_ids=[first[pair][0] for pair in ordered],
        request_hashes=[first[pair][1].request_hash for pair in ordered],
        expiries_at=[first[pair][1].expires_at for pair in ordered],
        now=now,
    )
    rows = await session.fetch("read_keys", tenants=tenants, keys=keys)
    return {(row["tenant"], row["key"]): (row["run_id"], row["request_hash"]) for row in rows}


def _judge_key(run: NewRun, run_id: RunId, owners: Owners) -> SubmitResult:
    if run.submit_key is None:
        return SubmitResult(SubmitStatus.SUBMITTED, run_id)
    owner, request_hash = owners[run.lane.tenant, run.submit_key.key]
    if owner == run_id:
        return SubmitResult(SubmitStatus.SUBMITTED, run_id)
    is_same = request_hash == run.submit_key.request_hash
    return SubmitResult(SubmitStatus.DUPLICATE if is_same else SubmitStatus.KEY_MISMATCH, owner)
