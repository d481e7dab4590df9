"""Jobs that are paused when their runs fail."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mainspring.core.clocks import decide_pause
from mainspring.core.failures import has_failed_in_a_row, pause_note
from mainspring.core.ids import JobId
from mainspring.ports.store.jobs import ClockChange
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction
from mainspring.stores.postgres.jobs import lock_jobs, set_paused


class PostgresFailureStore:
    """`FailureStore` on PostgreSQL."""

    _connections: Connections

    async def read_failing(self, shards: Sequence[int], *, limit: int) -> list[JobId]:
        if not shards:
            return []
        rows = await self._connections.fetch(
            Role.WATCH, "read_failing", is_repeatable=True, shards=shards, limit=limit
        )
        return [row["job_id"] for row in rows]

    async def pause_failing(self, changes: Sequence[ClockChange], *, now: datetime) -> list[JobId]:
        if not changes:
            return []

        async def work(transaction: Transaction) -> list[JobId]:
            locked = await lock_jobs(transaction, [change.job_id for change in changes])
            paused = []
            for change in changes:
                job = locked.get(change.job_id)
                move = decide_pause(job, revision=change.revision, fire_at=change.fire_at).move
                threshold = None if move is None else await _judge(transaction, change.job_id)
                if move is None or threshold is None:
                    continue
                note = pause_note(threshold)
                await set_paused(transaction, [(change, move)], now, is_paused=True, note=note)
                paused.append(change.job_id)
            return paused

        return await self._connections.transact(Role.EDIT, work)


async def _judge(transaction: Transaction, job_id: JobId) -> int | None:
    """Return after how many failed runs a locked job is to be paused now; None if it is not."""
    watches = await transaction.fetch("read_threshold", job_id=job_id)
    if not watches:
        return None
    threshold: int = watches[0]["threshold"]
    failed = await transaction.fetch("list_failed", job_id=job_id, limit=threshold)
    successes = failed and await transaction.fetch("find_success", job_id=job_id, run_id=failed[-1]["id"])
    is_failing = has_failed_in_a_row(
        threshold,
        [run["finished_at"] for run in failed],
        has_succeeded=bool(successes),
        since=watches[0]["updated_at"],
    )
    return threshold if is_failing else None
