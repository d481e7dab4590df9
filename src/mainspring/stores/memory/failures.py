"""Jobs that are paused when their runs fail."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import islice

from mainspring.core.clocks import decide_pause
from mainspring.core.failures import has_failed_in_a_row, pause_note
from mainspring.core.ids import JobId, job_shard
from mainspring.core.states import RunState
from mainspring.ports.store.jobs import ClockChange
from mainspring.stores.memory.jobs import move_clock
from mainspring.stores.memory.rows import JobRow
from mainspring.stores.memory.tables import Tables


class MemoryFailureStore:
    """`FailureStore` in memory."""

    _tables: Tables

    async def read_failing(self, shards: Sequence[int], *, limit: int) -> list[JobId]:
        wanted = frozenset(shards)
        jobs = self._tables.failure_watch.values()
        found = (job.id for job in jobs if job_shard(job.id) in wanted and self._is_failing(job))
        return list(islice(found, limit))

    def _is_failing(self, job: JobRow) -> bool:
        threshold = job.spec.pause_after_failures
        if threshold is None or job.is_paused:
            return False
        failed_at: list[datetime] = []
        has_succeeded = False
        for (run_id,) in self._tables.runs_of_job[job.id].below(None):
            run = self._tables.runs[run_id]
            has_succeeded = has_succeeded or run.state is RunState.SUCCEEDED
            if run.state is RunState.FAILED and run.finished_at is not None:
                failed_at.append(run.finished_at)
            if has_succeeded or len(failed_at) == threshold:
                break
        return has_failed_in_a_row(threshold, failed_at, has_succeeded=has_succeeded, since=job.updated_at)

    async def pause_failing(self, changes: Sequence[ClockChange], *, now: datetime) -> list[JobId]:
        paused = []
        for change in changes:
            job = self._tables.jobs.get(change.job_id)
            if job is None or not self._is_failing(job):
                continue
            assert job.spec.pause_after_failures is not None
            decision = decide_pause(job, revision=change.revision, fire_at=change.fire_at)
            if decision.move is None:
                continue
            move_clock(self._tables, job, decision.move, change.fire_ranges, now)
            job.pause_note = pause_note(job.spec.pause_after_failures)
            paused.append(change.job_id)
        return paused
