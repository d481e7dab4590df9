"""Jobs whose next fire waits for the end of a run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import islice

from mainspring.core.ends import FiredRun, after_end_of
from mainspring.core.ids import JobId, job_shard
from mainspring.core.model import RunKind
from mainspring.ports.store.ends import FollowingFire, FollowVerdict
from mainspring.ports.store.nodes import Epochs
from mainspring.stores.memory.rows import JobRow
from mainspring.stores.memory.tables import Tables


class MemoryEndStore:
    """`EndStore` in memory."""

    _tables: Tables

    async def watches_ends(self, shards: Sequence[int]) -> bool:
        wanted = frozenset(shards)
        return any(job_shard(job_id) in wanted for job_id in self._tables.after_end)

    async def read_ended(self, shards: Sequence[int], *, limit: int) -> list[JobId]:
        wanted = frozenset(shards)
        jobs = self._tables.after_end.values()
        found = (job.id for job in jobs if job_shard(job.id) in wanted and self._has_ended(job))
        return list(islice(found, limit))

    def _has_ended(self, job: JobRow) -> bool:
        if job.next_fire is not None or job.is_paused:
            return False
        run = None if job.fired_through is None else self._find_fire(job.id, job.fired_through)
        return run is None or run.finished_at is not None

    async def find_fires(self, fires: Sequence[tuple[JobId, datetime]]) -> list[FiredRun | None]:
        return [self._find_fire(job_id, fire_at) for job_id, fire_at in fires]

    def _find_fire(self, job_id: JobId, fire_at: datetime) -> FiredRun | None:
        for (run_id,) in self._tables.runs_of_job[job_id].below(None):
            run = self._tables.runs[run_id]
            if run.fire_at == fire_at and run.kind is RunKind.SCHEDULED:
                return FiredRun(run_id=run.id, state=run.state, finished_at=run.finished_at)
        return None

    async def follow_ends(
        self, following: Sequence[FollowingFire], *, epochs: Epochs, now: datetime
    ) -> list[FollowVerdict]:
        del now
        return [self._follow(one, epochs) for one in following]

    def _follow(self, following: FollowingFire, epochs: Epochs) -> FollowVerdict:
        if self._tables.is_fenced(following.job_id, epochs):
            return FollowVerdict.FENCED
        job = self._tables.jobs.get(following.job_id)
        if job is None or job.revision != following.revision or job.next_fire is not None:
            return FollowVerdict.MOVED
        job.revision += 1
        self._tables.set_next_fire(job, following.next_fire)
        if following.next_fire is None:
            self._tables.after_end.pop(job.id, None)
        return FollowVerdict.SET


def watch_ends(tables: Tables, job: JobRow) -> None:
    """Have jobs looked at whose fires wait for the ends of runs, and no others."""
    if after_end_of(job.spec.trigger) is None:
        tables.after_end.pop(job.id, None)
    else:
        tables.after_end[job.id] = job
