"""Runs on SQLite: submission, cancel, expiry, inspection."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import apsw

from mainspring.core.admission import (
    KnownKey,
    SubmissionVerdict,
    admit,
    is_remembered,
    verdict_of_text,
    verdict_to_text,
)
from mainspring.core.applying import CancelVerdict, judge_cancel
from mainspring.core.audit import AuditEntry
from mainspring.core.expiry import EXPIRED
from mainspring.core.fencing import ENGINE_SESSION
from mainspring.core.ids import JobId, RunId
from mainspring.core.model import Attempt, Run
from mainspring.core.states import RunState
from mainspring.core.workflows.mail import FlowNotice
from mainspring.ports.store.runs import NewRun, SubmitResult
from mainspring.stores.sqlite.audit import write_audit
from mainspring.stores.sqlite.completion import end_waiting
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.dead import read_settled, settle_redriven
from mainspring.stores.sqlite.inserts import InternedLanes, insert_runs
from mainspring.stores.sqlite.once import submit_once
from mainspring.stores.sqlite.rows import NamedRow, make_attempt, make_run, to_instant, to_json, to_micros
from mainspring.stores.sqlite.statements import execute, fetch_row, fetch_rows, fetch_value, fetch_values

_LAST_ID = 2**63 - 1


class SqliteRunStore:
    """`RunStore` on SQLite."""

    _browser: Database
    _reader: Database
    _writer: Database
    _lane_ids: InternedLanes

    async def submit_runs(
        self,
        runs: Sequence[NewRun],
        *,
        now: datetime,
        notice: str | None = None,
        audit: Sequence[AuditEntry] = (),
    ) -> list[SubmitResult]:
        """See `RunStore`."""
        if not runs:
            return []
        if not audit:
            return await self._writer.call(lambda db: self._submit(db, runs, now))

        def work(db: apsw.Connection) -> list[SubmitResult]:
            results = self._submit(db, runs, now)
            write_audit(db, audit, [result.status is SubmissionVerdict.SUBMITTED for result in results])
            return results

        return await self._writer.call(work)

    def _submit(self, db: apsw.Connection, runs: Sequence[NewRun], now: datetime) -> list[SubmitResult]:
        versions: dict[JobId, int | None] = {}
        results: list[SubmitResult] = []
        plain: list[NewRun] = []

        def insert_plain() -> None:
            # Called before a run with a key is handled, so that ids grow in the order of the arguments.
            results.extend(
                SubmitResult(SubmissionVerdict.SUBMITTED, run_id)
                for run_id in insert_runs(db, self._lane_ids, plain, to_micros(now))
            )
            plain.clear()

        last: NewRun | None = None
        known = SubmitResult(SubmissionVerdict.JOB_MISSING)
        admission = known.status
        for run in runs:
            if last is None or not _is_alike(run, last):  # a call's runs are mostly of one job
                if run.job_id not in versions:
                    versions[run.job_id] = _find_version(db, run.job_id)
                known = _admit(db, run, versions[run.job_id], now)
                admission = known.status
            last = run
            if admission is SubmissionVerdict.SUBMITTED and run.submit_key is None and run.once is None:
                plain.append(run)
                continue
            insert_plain()
            is_new = admission is SubmissionVerdict.SUBMITTED
            result = self._submit_keyed(db, run, now) if is_new else known
            if run.redrive_of is not None and result.run_id is not None:
                settle_redriven(db, run.redrive_of, result.run_id, now)
            results.append(result)
        insert_plain()
        return results

    def _submit_keyed(self, db: apsw.Connection, run: NewRun, now: datetime) -> SubmitResult:
        """Insert a run that has a key of one kind or both, and store the keys."""
        settled = None if run.redrive_of is None else read_settled(db, [run.redrive_of]).get(run.redrive_of)
        if settled is not None:
            return SubmitResult(SubmissionVerdict.SETTLED, settled.redriven_as)
        if run.once is None:
            (run_id,) = insert_runs(db, self._lane_ids, [run], to_micros(now))
            result = SubmitResult(SubmissionVerdict.SUBMITTED, run_id)
            if run.redrive_of is not None:
                mark = {"run_id": run_id, "redrive_of": run.redrive_of, "flow_seed": run.flow_seed}
                execute(db, "mark_redrive", mark)
        else:
            result = submit_once(db, self._lane_ids, run, now)
        key = run.submit_key
        if key is not None and is_remembered(result.status):
            values = {
                "tenant": run.lane.tenant,
                "key": key.key,
                "run_id": result.run_id,
                "request_hash": key.request_hash,
                "expiry_at": to_micros(key.expires_at),
                "verdict": verdict_to_text(result.status),
                "now": to_micros(now),
            }
            execute(db, "reserve_key", values)
        return result

    async def cancel_runs(
        self, run_ids: Sequence[RunId], *, reason: str, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[CancelVerdict]:
        """See `RunStore`."""
        if not run_ids:
            return []
        at = to_micros(now)

        def work(db: apsw.Connection) -> list[CancelVerdict]:
            verdicts, changed = [], []
            for run_id in run_ids:
                verdict, is_new = cancel_run(db, run_id, reason, at)
                verdicts.append(verdict)
                changed.append(is_new)
            write_audit(db, audit, changed)
            return verdicts

        return await self._writer.call(work)

    async def expire_runs(self, *, now: datetime, limit: int) -> list[RunId]:
        """See `RunStore`."""
        at = to_micros(now)

        def work(db: apsw.Connection) -> list[RunId]:
            expired = [
                RunId(run_id) for run_id in fetch_values(db, "find_expired", {"now": at, "limit": limit})
            ]
            for run_id in expired:
                end_waiting(db, run_id, RunState.SKIPPED, EXPIRED, at)
            return expired

        return await self._writer.call(work)

    async def get_runs(self, run_ids: Sequence[RunId]) -> list[Run | None]:
        """See `RunStore`."""
        if not run_ids:
            return []
        values = {"run_ids": to_json(list(run_ids))}
        rows = await self._reader.call(lambda db: fetch_rows(db, "get_runs", values))
        found = {run.id: run for run in map(make_run, rows)}
        return [found.get(run_id) for run_id in run_ids]

    async def newest_runs(self, job_ids: Sequence[JobId], *, now: datetime) -> list[Run | None]:
        """See `RunStore`."""
        at = to_micros(now)

        def work(db: apsw.Connection) -> list[list[NamedRow]]:
            return [fetch_rows(db, "newest_run", {"job_id": job_id.bytes, "now": at}) for job_id in job_ids]

        return [make_run(rows[0]) if rows else None for rows in await self._browser.call(work)]

    async def list_attempts(self, run_id: RunId) -> list[Attempt]:
        """See `RunStore`."""
        rows = await self._reader.call(lambda db: fetch_rows(db, "list_attempts", {"run_id": run_id}))
        return [make_attempt(row) for row in rows]


def _find_version(db: apsw.Connection, job_id: JobId) -> int | None:
    version: int | None = fetch_value(db, "find_existing_job", {"job_id": job_id.bytes})
    return version


def _is_alike(run: NewRun, other: NewRun) -> bool:
    """Say whether the decision about one run also holds for the other."""
    return (
        run.job_id is other.job_id
        and run.submit_key is None
        and other.submit_key is None
        and run.version == other.version
        and run.must_be_newest == other.must_be_newest
    )


def _admit(db: apsw.Connection, run: NewRun, version: int | None, now: datetime) -> SubmitResult:
    """Decide a submission. For a known key, also return its run."""
    key = run.submit_key
    wanted = run.version if run.must_be_newest else None
    if key is None:
        admission = admit(
            known=None, request_hashes=(), newest_version=version, wanted_version=wanted, now=now
        )
        return SubmitResult(admission)
    row = fetch_row(db, "read_key", {"tenant": run.lane.tenant, "key": key.key})
    known = None
    if row is not None:
        known = KnownKey(row.request_hash, to_instant(row.expires_at), verdict_of_text(row.verdict))
    admission = admit(
        known=known,
        request_hashes=key.hashes,
        newest_version=version,
        wanted_version=wanted,
        now=now,
    )
    if (
        row is None
        or known is None
        or admission not in {SubmissionVerdict.DUPLICATE, SubmissionVerdict.KEY_MISMATCH}
    ):
        return SubmitResult(admission)
    return SubmitResult(admission, RunId(row.run_id), known.verdict)


def cancel_run(db: apsw.Connection, run_id: RunId, reason: str, now: int) -> tuple[CancelVerdict, bool]:
    """End a waiting run, or ask a RUNNING one to stop. Return what becomes of it, and whether that is new.

    Nobody but the engine asks for what it holds, so it is told.
    """
    row = fetch_row(db, "read_end", {"run_id": run_id, "token": 0})
    verdict = judge_cancel(None if row is None or row.state is None else RunState(row.state))
    if verdict is CancelVerdict.CANCELLED:
        end_waiting(db, run_id, RunState.CANCELLED, reason, now)
    if verdict is not CancelVerdict.REQUESTED:
        return verdict, verdict is CancelVerdict.CANCELLED
    holder = fetch_value(db, "request_cancel", {"run_id": run_id, "reason": reason, "now": now})
    if holder == ENGINE_SESSION:
        execute(db, "add_notice", {"flow_id": run_id, "what": FlowNotice.CANCEL.value})
    return verdict, holder is not None
