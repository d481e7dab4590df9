"""Runs from submission to history: submitting, cancelling, expiring, inspecting."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import islice

from mainspring.core.admission import KnownKey, SubmissionVerdict, admit, is_remembered
from mainspring.core.applying import CancelVerdict
from mainspring.core.audit import AuditEntry
from mainspring.core.expiry import EXPIRED
from mainspring.core.ids import JobId, RunId
from mainspring.core.model import Attempt, Run
from mainspring.core.states import RunState
from mainspring.ports.store.runs import NewRun, SubmitResult
from mainspring.stores.memory.audit import write_audit
from mainspring.stores.memory.dead import settle_redriven
from mainspring.stores.memory.index import LAST_ID
from mainspring.stores.memory.once import submit_once
from mainspring.stores.memory.rows import KeyRow
from mainspring.stores.memory.tables import Tables


class MemoryRunStore:
    """`RunStore` in memory."""

    _tables: Tables

    async def submit_runs(
        self,
        runs: Sequence[NewRun],
        *,
        now: datetime,
        notice: str | None = None,
        audit: Sequence[AuditEntry] = (),
    ) -> list[SubmitResult]:
        results = [self._submit_run(new, now) for new in runs]
        submitted = [result.status is SubmissionVerdict.SUBMITTED for result in results]
        write_audit(self._tables, audit, submitted)
        return results

    def _submit_run(self, new: NewRun, now: datetime) -> SubmitResult:
        result = self._decide_run(new, now)
        repeated = None if new.redrive_of is None else self._tables.runs.get(new.redrive_of)
        if repeated is not None and result.run_id is not None:
            settle_redriven(repeated, result.run_id, now)
        return result

    def _decide_run(self, new: NewRun, now: datetime) -> SubmitResult:
        tables = self._tables
        submit_key = new.submit_key
        row = None if submit_key is None else tables.keys.get((new.lane.tenant, submit_key.key))
        job = tables.jobs.get(new.job_id)
        admission = admit(
            known=None if row is None else row.known,
            request_hashes=() if submit_key is None else submit_key.hashes,
            newest_version=None if job is None else job.version,
            wanted_version=new.version if new.must_be_newest else None,
            now=now,
        )
        if admission in {SubmissionVerdict.DUPLICATE, SubmissionVerdict.KEY_MISMATCH} and row is not None:
            return SubmitResult(admission, row.run_id, row.known.verdict)
        if admission is not SubmissionVerdict.SUBMITTED:
            return SubmitResult(admission)
        repeated = None if new.redrive_of is None else tables.runs.get(new.redrive_of)
        if repeated is not None and repeated.settled is not None:
            return SubmitResult(SubmissionVerdict.SETTLED, repeated.settled.redriven_as)
        if new.once is None:
            result = SubmitResult(admission, tables.add_run(new, now=now).id)
        else:
            result = submit_once(tables, new, now)
        if submit_key is not None and result.run_id is not None and is_remembered(result.status):
            known = KnownKey(submit_key.request_hash, submit_key.expires_at, result.status)
            tables.keys[new.lane.tenant, submit_key.key] = KeyRow(result.run_id, known)
        return result

    async def cancel_runs(
        self, run_ids: Sequence[RunId], *, reason: str, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[CancelVerdict]:
        verdicts, changed = [], []
        for run_id in run_ids:
            run = self._tables.runs.get(run_id)
            was_asked = run is not None and run.is_cancel_requested
            verdict = self._tables.cancel(run_id, reason=reason, now=now)
            verdicts.append(verdict)
            is_new = verdict is CancelVerdict.REQUESTED and not was_asked
            changed.append(is_new or verdict is CancelVerdict.CANCELLED)
        write_audit(self._tables, audit, changed)
        return verdicts

    async def expire_runs(self, *, now: datetime, limit: int) -> list[RunId]:
        expired = list(islice(self._tables.expiring.between(None, (now, LAST_ID)), limit))
        for _, run_id in expired:
            self._tables.finish(self._tables.runs[run_id], RunState.SKIPPED, reason=EXPIRED, now=now)
        return [run_id for _, run_id in expired]

    async def get_runs(self, run_ids: Sequence[RunId]) -> list[Run | None]:
        rows = (self._tables.runs.get(run_id) for run_id in run_ids)
        return [row.view() if row is not None else None for row in rows]

    async def newest_runs(self, job_ids: Sequence[JobId], *, now: datetime) -> list[Run | None]:
        return [self._newest_run(job_id, now) for job_id in job_ids]

    def _newest_run(self, job_id: JobId, now: datetime) -> Run | None:
        for key in self._tables.runs_of_job[job_id].below(None):
            run = self._tables.runs[key[0]]
            if run.due_at <= now or run.started_at is not None:
                return run.view()
        return None

    async def list_attempts(self, run_id: RunId) -> list[Attempt]:
        return list(self._tables.attempts.get(run_id, ()))
