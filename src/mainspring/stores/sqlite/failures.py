"""Jobs that are paused when their runs fail, on SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import apsw

from mainspring.core.clocks import decide_pause
from mainspring.core.failures import has_failed_in_a_row, pause_note
from mainspring.core.ids import JobId, job_shard
from mainspring.core.model import JobSpec
from mainspring.ports.store.jobs import ClockChange
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.job_clocks import move_clock, set_paused
from mainspring.stores.sqlite.locked import lock_job
from mainspring.stores.sqlite.rows import make_job_id, to_instant, to_json, to_micros
from mainspring.stores.sqlite.statements import execute, fetch_row, fetch_rows, fetch_value, fetch_values


class SqliteFailureStore:
    """`FailureStore` on SQLite."""

    _reader: Database
    _writer: Database

    async def read_failing(self, shards: Sequence[int], *, limit: int) -> list[JobId]:
        """See `FailureStore`."""
        values = {"shards": to_json(list(shards)), "limit": limit}
        found = await self._reader.call(lambda db: fetch_values(db, "read_failing", values))
        return [make_job_id(job_id) for job_id in found]

    async def pause_failing(self, changes: Sequence[ClockChange], *, now: datetime) -> list[JobId]:
        """See `FailureStore`."""
        if not changes:
            return []
        at = to_micros(now)
        return await self._writer.call(
            lambda db: [change.job_id for change in changes if _pause(db, change, at)]
        )


def _pause(db: apsw.Connection, change: ClockChange, now: int) -> bool:
    """Pause a job if it has failed as often in a row as it may."""
    key = {"job_id": change.job_id.bytes}
    job, watch = lock_job(db, change.job_id), fetch_row(db, "read_threshold", key)
    move = decide_pause(job, revision=change.revision, fire_at=change.fire_at).move
    if move is None or watch is None:
        return False
    failed = fetch_rows(db, "list_failed", {**key, "limit": watch.threshold})
    if not has_failed_in_a_row(
        watch.threshold,
        [to_instant(run.finished_at) for run in failed],
        has_succeeded=bool(failed)
        and fetch_value(db, "find_success", {**key, "run_id": failed[-1].id}) is not None,
        since=to_instant(watch.updated_at),
    ):
        return False
    set_paused(db, change.job_id, is_paused=True, note=pause_note(watch.threshold), now=now)
    move_clock(db, change, move, now)
    return True


def watch_failures(db: apsw.Connection, job_id: JobId, spec: JobSpec, *, is_new: bool) -> None:
    """Note after how many failed runs in a row a job is paused, or that it never is."""
    if spec.pause_after_failures is not None:
        values = {
            "job_id": job_id.bytes,
            "shard": job_shard(job_id),
            "threshold": spec.pause_after_failures,
        }
        execute(db, "watch_failures", values)
    elif not is_new:
        execute(db, "unwatch_failures", {"job_id": job_id.bytes})
