"""The verbs that make, give out, end and show runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from mainspring.core.audit import AuditEntry
from mainspring.core.ciphertexts import note_hidden, show_hidden
from mainspring.core.ids import JobId, RunId, SessionId
from mainspring.core.model import Attempt, Run
from mainspring.core.notify import UnnoticedFailure
from mainspring.core.outcomes import Transition, undecryptable
from mainspring.encryption.fields import Fields, Place
from mainspring.encryption.jobs import JobTenants
from mainspring.errors import CannotDecrypt
from mainspring.ports.store import Store
from mainspring.ports.store.backfills import BackfillStep
from mainspring.ports.store.claims import ApplyResult, ClaimedRun, ClaimRequest, ClaimResult
from mainspring.ports.store.flows import FlowStart, TurnedFlow
from mainspring.ports.store.limits import LineClaim, LineClaimResult
from mainspring.ports.store.nodes import Epochs
from mainspring.ports.store.runs import NewRun, SubmitResult
from mainspring.ports.store.schedule import Fire, FireRangeStep, FireResult

R = TypeVar("R", ClaimResult, LineClaimResult)
S = TypeVar("S", Fire, FireRangeStep, BackfillStep, FlowStart, TurnedFlow)

_MOST_PLACES = 200_000


class EncryptedRuns:
    """Runs: payload, result, error and output are encrypted as they are written, and decrypted as they are read.

    A run whose payload cannot be decrypted is not given out. If a key is missing here, it goes back; if the payload was
    changed, the run has FAILED. Lists show in the place of a value why it cannot be decrypted.
    """

    _store: Store
    _fields: Fields
    _tenants: JobTenants
    _places: dict[RunId, Place]

    async def submit_runs(
        self,
        runs: Sequence[NewRun],
        *,
        now: datetime,
        notice: str | None = None,
        audit: Sequence[AuditEntry] = (),
    ) -> list[SubmitResult]:
        """See `RunStore`."""
        return await self._store.submit_runs(self._encrypt_runs(runs), now=now, notice=notice, audit=audit)

    async def submit_claimed(self, run: NewRun, *, request: ClaimRequest, now: datetime) -> ClaimedRun | None:
        """See `ClaimStore`."""
        [encrypted] = self._encrypt_runs([run])
        claimed = await self._store.submit_claimed(encrypted, request=request, now=now)
        return None if claimed is None else replace(self._note(claimed), payload=run.payload)

    async def record_fires(self, fires: Sequence[Fire], *, epochs: Epochs, now: datetime) -> list[FireResult]:
        """See `ScheduleStore`."""
        return await self._store.record_fires(self._encrypt_in(fires), epochs=epochs, now=now)

    async def advance_fire_ranges(
        self, steps: Sequence[FireRangeStep], *, epochs: Epochs, now: datetime
    ) -> list[FireResult]:
        """See `ScheduleStore`."""
        return await self._store.advance_fire_ranges(self._encrypt_in(steps), epochs=epochs, now=now)

    async def advance_backfills(
        self, steps: Sequence[BackfillStep], *, epochs: Epochs, now: datetime
    ) -> list[FireResult]:
        """See `BackfillStore`."""
        return await self._store.advance_backfills(self._encrypt_in(steps), epochs=epochs, now=now)

    async def claim_runs(self, requests: Sequence[ClaimRequest], *, now: datetime) -> list[ClaimResult]:
        """See `ClaimStore`."""
        results = await self._store.claim_runs(requests, now=now)
        sessions = [request.session_id for request in requests]
        return await self._give_all(sessions, results, now)

    async def try_claim(self, request: ClaimRequest, *, now: datetime) -> ClaimResult | None:
        """See `ClaimStore`."""
        result = await self._store.try_claim(request, now=now)
        if result is None:
            return None
        [given] = await self._give_all([request.session_id], [result], now)
        return given

    async def claim_lined_up(self, requests: Sequence[LineClaim], *, now: datetime) -> list[LineClaimResult]:
        """See `LimitStore`."""
        results = await self._store.claim_lined_up(requests, now=now)
        sessions = [request.session_id for request in requests]
        return await self._give_all(sessions, results, now)

    async def apply(self, transitions: Sequence[Transition], *, now: datetime) -> list[ApplyResult]:
        """See `ClaimStore`."""
        encrypted = await self._encrypt_ends(transitions)
        results = await self._store.apply(encrypted, now=now)
        for end in transitions:
            self._places.pop(end.run_id, None)
        return results

    async def get_runs(self, run_ids: Sequence[RunId]) -> list[Run | None]:
        """See `RunStore`. What cannot be decrypted stays encrypted, so that no run is made with it, and says why."""
        runs = await self._store.get_runs(run_ids)
        return [None if run is None else self._decrypt(run, hide) for run in runs]

    async def newest_runs(self, job_ids: Sequence[JobId], *, now: datetime) -> list[Run | None]:
        """See `RunStore`."""
        runs = await self._store.newest_runs(job_ids, now=now)
        return [None if run is None else self._decrypt(run, show) for run in runs]

    async def list_runs(self, tenant: str, **wanted: Any) -> list[Run]:
        """See `BrowseStore`."""
        return [self._decrypt(run, show) for run in await self._store.list_runs(tenant, **wanted)]

    async def list_attempts(self, run_id: RunId) -> list[Attempt]:
        """See `RunStore`."""
        attempts = await self._store.list_attempts(run_id)
        place = (await self._find_places([run_id])).get(run_id) if attempts else None
        if place is None:
            return attempts
        show = self._fields.show_text
        return [
            replace(
                attempt,
                error=show(attempt.error, "error", place, run_id),
                output=show(attempt.output, "output", place, run_id),
            )
            for attempt in attempts
        ]

    async def list_unnoticed(self, *, limit: int) -> list[UnnoticedFailure]:
        """See `NotifyStore`. What alerts tell is kept as it is, so they do not tell errors."""
        return [replace(one, error=None) for one in await self._store.list_unnoticed(limit=limit)]

    async def find_failing(
        self, wanted: Sequence[tuple[JobId, int, datetime]]
    ) -> list[UnnoticedFailure | None]:
        """See `NotifyStore`. Alerts do not tell errors."""
        found = await self._store.find_failing(wanted)
        return [None if one is None else replace(one, error=None) for one in found]

    def _encrypt_runs(self, runs: Iterable[NewRun]) -> list[NewRun]:
        return [
            run if run.payload is None and run.submit_key is None else self._encrypt_run(run) for run in runs
        ]

    def _encrypt_run(self, run: NewRun) -> NewRun:
        payload, key, tenant = run.payload, run.submit_key, run.lane.tenant
        if payload is not None:
            payload = self._fields.encrypt_payload(payload, Place(tenant, run.job_id))
        return replace(
            run,
            payload=payload,
            submit_key=None if key is None else self._fields.mark_request(key, tenant),
        )

    def _encrypt_in(self, steps: Sequence[S]) -> list[S]:
        return [
            replace(step, runs=tuple(self._encrypt_runs(step.runs)))
            if any(run.payload is not None for run in step.runs)
            else step
            for step in steps
        ]

    async def _give_all(self, sessions: Sequence[SessionId], results: Sequence[R], now: datetime) -> list[R]:
        """Decrypt what was claimed. What cannot be decrypted is settled, and left out."""
        settled: list[Transition] = []
        given: list[R] = []
        for session_id, result in zip(sessions, results, strict=True):
            runs: list[ClaimedRun] = []
            for run in result.runs:
                try:
                    payload = self._fields.decrypt_payload(run.payload, Place(run.tenant, run.job_id))
                except CannotDecrypt as error:
                    settled.append(_settle(run, session_id, error, now))
                else:
                    self._note(run)
                    runs.append(run if payload is run.payload else replace(run, payload=payload))
            given.append(replace(result, runs=tuple(runs)) if result.runs else result)
        if settled:
            await self.apply(settled, now=now)
        return given

    def _note(self, run: ClaimedRun) -> ClaimedRun:
        if len(self._places) >= _MOST_PLACES:
            self._places.clear()
        self._places[run.run_id] = Place(run.tenant, run.job_id)
        return run

    async def _find_places(self, run_ids: Sequence[RunId]) -> dict[RunId, Place]:
        """Return whose runs these are. What this process gave out is known without the store."""
        found = {run_id: self._places[run_id] for run_id in run_ids if run_id in self._places}
        missing = [run_id for run_id in dict.fromkeys(run_ids) if run_id not in found]
        if missing:
            runs = await self._store.get_runs(missing)
            found |= {run.id: Place(run.tenant, run.job_id) for run in runs if run is not None}
        return found

    async def _encrypt_ends(self, ends: Sequence[Transition]) -> list[Transition]:
        telling = [
            end.run_id
            for end in ends
            if end.result is not None or end.error is not None or end.output is not None
        ]
        places = await self._find_places(telling)
        return [self._encrypt_end(end, places.get(end.run_id)) for end in ends]

    def _encrypt_end(self, end: Transition, place: Place | None) -> Transition:
        if end.result is None and end.error is None and end.output is None:
            return end
        if place is None:  # there is no such run, and nothing of it may be written as it is
            return replace(end, result=None, error=None, output=None)
        return replace(
            end,
            result=self._fields.encrypt_result(end.result, place, end.run_id),
            error=self._fields.encrypt_error(end.error, place, end.run_id),
            output=self._fields.encrypt_output(end.output, place, end.run_id),
        )

    def _decrypt(self, run: Run, fail: Callable[[CannotDecrypt], bytes]) -> Run:
        """Decrypt a run. `fail` gives what stands for a payload or result that cannot be decrypted."""
        place, fields = Place(run.tenant, run.job_id), self._fields
        try:
            payload = fields.decrypt_payload(run.payload, place)
        except CannotDecrypt as error:
            payload = fail(error)
        try:
            result = fields.decrypt_result(run.result, place, run.id)
        except CannotDecrypt as error:
            result = fail(error)
        return replace(
            run,
            payload=payload,
            result=result,
            error=fields.show_text(run.error, "error", place, run.id),
            output=fields.show_text(run.output, "output", place, run.id),
        )


def _settle(run: ClaimedRun, session_id: SessionId, error: CannotDecrypt, now: datetime) -> Transition:
    """Return what becomes of a run that cannot be given out."""
    why = f"the payload cannot be decrypted: {error}"
    return undecryptable(
        run.run_id, run.token, session_id, why, is_key_missing=error.key_id is not None, now=now
    )


def hide(error: CannotDecrypt) -> bytes:
    """Return what stands for data that cannot be decrypted, and says why. Nothing is made of it."""
    return note_hidden(str(error))


def show(error: CannotDecrypt) -> bytes:
    """Return what people are shown instead of data that cannot be decrypted."""
    return show_hidden(hide(error))
