"""Jobs that tell channels what becomes of them, in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice

from mainspring.core.ids import JobId
from mainspring.core.model import RunKind
from mainspring.core.notify import LateRun, NotifyingJob, UnnoticedFailure
from mainspring.core.states import FINAL_STATES, RunState
from mainspring.ports.store.notify import LOOKED_AT
from mainspring.stores.memory.rows import RunRow
from mainspring.stores.memory.tables import Tables


class MemoryNotifyStore:
    """`NotifyStore` in memory."""

    _tables: Tables

    async def list_notifying_jobs(self) -> list[NotifyingJob]:
        return [
            NotifyingJob(id=job.id, tenant=job.tenant, name=job.spec.name, rule=job.spec.notify)
            for job in sorted(self._tables.jobs.values(), key=lambda job: job.id)
            if job.spec.notify is not None
        ]

    async def list_unnoticed(self, *, limit: int) -> list[UnnoticedFailure]:
        found = (row for row in self._tables.runs.values() if row.is_unnoticed)
        return [_view(row) for row in islice(found, limit)]

    async def find_failing(
        self, wanted: Sequence[tuple[JobId, int, datetime]]
    ) -> list[UnnoticedFailure | None]:
        return [self._find_failing(job_id, failures, since) for job_id, failures, since in wanted]

    def _find_failing(self, job_id: JobId, failures: int, since: datetime) -> UnnoticedFailure | None:
        found: list[RunRow] = []
        for row in self._newest(job_id):
            if row.state is RunState.SUCCEEDED:
                return None
            if row.state is RunState.FAILED:
                found.append(row)
                if row.settled is not None or row.finished_at is None or row.finished_at < since:
                    return None
                if len(found) == failures:
                    return _view(found[0])
        return None

    def _newest(self, job_id: JobId) -> Iterator[RunRow]:
        for key in self._tables.runs_of_job[job_id].below(None):
            yield self._tables.runs[key[0]]

    async def find_late(self, wanted: Sequence[tuple[JobId, datetime]]) -> list[LateRun | None]:
        return [self._find_late(job_id, before) for job_id, before in wanted]

    def _find_late(self, job_id: JobId, before: datetime) -> LateRun | None:
        live = [row for row in self._newest(job_id) if row.state not in FINAL_STATES]
        late = [
            LateRun(run_id=row.id, due_at=row.due_at)
            for row in live[-LOOKED_AT:]
            if row.kind is not RunKind.BACKFILL and row.due_at < before
        ]
        job = self._tables.jobs.get(job_id)
        if job is not None and job.next_fire is not None and job.next_fire.due_at < before:
            late.append(LateRun(run_id=None, due_at=job.next_fire.due_at))
        return min(late, key=lambda one: (one.due_at, one.run_id or 0), default=None)


def forget_unnoticed(tables: Tables, job_id: JobId) -> None:
    """Note that a job tells nobody any more, not even of what has failed."""
    for key in tables.runs_of_job[job_id].below(None):
        tables.runs[key[0]].is_unnoticed = False


def _view(row: RunRow) -> UnnoticedFailure:
    return UnnoticedFailure(run_id=row.id, job_id=row.job_id, error=row.error)
