"""Runs an ended run again: a new run that names the old one."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from mainspring.core.actors import Actor
from mainspring.core.admission import SubmissionVerdict
from mainspring.core.audit import HIDDEN, AuditEntry
from mainspring.core.ciphertexts import (
    has_encrypted,
    is_encrypted_bytes,
    show_hidden,
    why_unreadable,
)
from mainspring.core.expiry import expiry_of
from mainspring.core.ids import RunId, format_run_id
from mainspring.core.limits import KeyMaker
from mainspring.core.model import INLINE_LIMIT, Job, JobSpec, LaneKey, Run, RunKind
from mainspring.core.once_keys import canonical
from mainspring.core.redriving import (
    FROM_FAILED,
    FROM_START,
    REDRIVABLE,
    RedriveFrom,
    redrive_hash,
    redrive_key,
)
from mainspring.core.states import RunState
from mainspring.core.times import write_instant
from mainspring.engine.common.queue_expiries import QueueExpiryFollower
from mainspring.engine.usecases import auditing
from mainspring.engine.usecases.flow_redrives import FlowRedrives
from mainspring.engine.usecases.intake import Intake
from mainspring.errors import (
    CannotDecrypt,
    Conflict,
    InvalidInput,
    MainspringError,
    NotFound,
    PayloadTooLarge,
    StoreUnavailable,
)
from mainspring.ports.clock import Clock
from mainspring.ports.store import Store
from mainspring.ports.store.runs import IdempotencyKey, NewRun, SubmitResult

_log = structlog.get_logger(__name__)
_KEPT = timedelta(days=36_500)
"""A CANCELLED run that has been redriven is known for as long as the run itself may be."""
_KEPT_IF_DEAD = timedelta(days=30)
"""What was asked for with a FAILED one is known so long. That it was redriven, its dead letter says."""
_TRIES = 20


Insert = Callable[[Sequence[NewRun], Sequence[AuditEntry]], Awaitable[Sequence[SubmitResult]]]


class Redriving:
    """Runs ended runs again. Every method acts for one tenant.

    Args:
        insert: inserts runs that were made here, as a submission would be, and wakes the workers.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        intake: Intake,
        expiries: QueueExpiryFollower,
        insert: Insert,
    ) -> None:
        self._store = store
        self._clock = clock
        self._intake = intake
        self._expiries = expiries
        self._insert = insert
        self._flows = FlowRedrives(store)

    async def redrive(
        self,
        tenant: str,
        run_id: RunId,
        *,
        is_newest: bool = True,
        payload: bytes | None = None,
        begin: RedriveFrom | None = None,
        by: Actor | None = None,
    ) -> SubmitResult:
        """Run a FAILED or CANCELLED run again. Of any number of calls, one makes a run; the others get its id.

        The new run has the old one's payload, fire time and idempotency key, so that a target can tell that it is the
        same work; with another payload it is other work, and has a key of its own. One of a workflow takes over what
        had succeeded, unless it is other work.

        Args:
            is_newest: run the job's newest definition, not the one that the run had.
            payload: run with this payload instead.
            begin: of a workflow, where it is taken up again. None: where it failed; at the start with a payload.
            by: who does it, for the audit.

        Returns:
            `SUBMITTED` or `DUPLICATE`, with the id of the run that repeats the old one.

        Raises:
            NotFound: this tenant has no run with that id.
            Conflict: it has not ended, or not so; it is of a workflow's step; it was discarded; its job was deleted;
                or it was redriven with another definition or payload.
            InvalidInput: there is no such step to begin with, or it does not go with the payload.
            PayloadTooLarge: the payload is too large.
            TooMany: as for a submission.
            CannotDecrypt: its payload or definition cannot be decrypted here.
        """
        if payload is not None and len(payload) > INLINE_LIMIT:
            raise PayloadTooLarge("payload", f"{len(payload)} bytes; at most {INLINE_LIMIT} fit")
        begin = _settle_begin(begin, payload)
        for _ in range(_TRIES):
            [run] = await self._store.get_runs([run_id])
            if run is None or run.tenant != tenant:
                raise NotFound("run", format_run_id(run_id))
            _check(run)
            [new] = await self._make_all([run], payload, begin, is_newest=is_newest, is_alone=True)
            if new is None:
                raise _gone(run)
            await self._intake.admit(tenant, [new])
            after = {"definition": "newest" if is_newest else "kept"}
            after |= {} if payload is None else {"payload": HIDDEN}
            after |= {} if begin is None else {"from": begin if isinstance(begin, str) else ", ".join(begin)}
            audit = auditing.run_changed(by, run, self._clock.now(), after=after)
            [result] = await self._insert([new], audit)
            if result.status is SubmissionVerdict.JOB_MISSING:
                raise _gone(run)
            if result.status is SubmissionVerdict.KEY_MISMATCH and result.run_id is not None:
                again = format_run_id(result.run_id)
                message = f"was redriven as {again}, with another definition or payload, or from elsewhere"
                raise Conflict("run", f"{format_run_id(run_id)} {message}; redrive that run")
            if result.status is SubmissionVerdict.SETTLED:
                return await self._settled(run_id, result)
            if result.status is not SubmissionVerdict.JOB_CHANGED:
                return result
        raise StoreUnavailable(f"the job of {format_run_id(run_id)} kept changing")

    async def _settled(self, run_id: RunId, result: SubmitResult) -> SubmitResult:
        """Answer for a dead letter that was settled before: by a run that repeats it, or it was discarded."""
        if result.run_id is not None:
            return SubmitResult(SubmissionVerdict.DUPLICATE, result.run_id)
        [settled] = await self._store.read_settled([run_id])
        why = "" if settled is None else f" at {write_instant(settled.at)}: {settled.reason}"
        message = f"{format_run_id(run_id)} was discarded{why}. To run its job once more, submit it"
        raise Conflict("run", message)

    async def redrive_many(self, tenant: str, run_ids: Sequence[RunId], *, is_newest: bool) -> None:
        """Run dead letters again that are open, each with its own payload, as one request.

        What was settled meanwhile, has lost its job, or cannot be decrypted here stays as it is.

        Raises:
            TooMany: as for a submission. Nothing is stored.
        """
        left = run_ids
        for _ in range(_TRIES):
            runs = [
                run for run in await self._store.get_runs(left) if run is not None and run.tenant == tenant
            ]
            new = [one for one in await self._make_all(runs, is_newest=is_newest) if one is not None]
            if not new:
                return
            await self._intake.admit(tenant, new)
            results = await self._insert(new, ())
            left = [
                one.redrive_of
                for one, result in zip(new, results, strict=True)
                if result.status is SubmissionVerdict.JOB_CHANGED and one.redrive_of is not None
            ]
        raise StoreUnavailable(f"the job of {format_run_id(left[0])} kept changing")

    async def _make_all(
        self,
        runs: Sequence[Run],
        payload: bytes | None = None,
        begin: RedriveFrom | None = None,
        *,
        is_newest: bool,
        is_alone: bool = False,
    ) -> list[NewRun | None]:
        """Return the runs that repeat others; None for those whose job is deleted.

        Args:
            is_alone: it is an error if something cannot be decrypted, or is not kept any more; else it is None, too.
        """
        now = self._clock.now()
        job_ids = list({run.job_id: None for run in runs})
        jobs = dict(zip(job_ids, await self._store.get_jobs(job_ids), strict=True))
        versions = list({(run.job_id, run.version): None for run in runs})
        specs = dict(zip(versions, await self._store.read_versions(versions), strict=True))
        made: list[NewRun | None] = []
        for run in runs:
            job, kept = jobs[run.job_id], specs[run.job_id, run.version]
            if job is None or kept is None:
                made.append(None)
                continue
            why = _why_hidden(run, job.spec if is_newest else kept, payload)
            if why is not None:
                if is_alone:
                    raise CannotDecrypt(why)
                _log.error("run_cannot_be_decrypted", run=format_run_id(run.id), then="not redriven", why=why)
                made.append(None)
                continue
            try:
                seed = await self._seed_of(run, kept, job.spec if is_newest else kept, payload, begin)
            except MainspringError as error:
                if is_alone:
                    raise
                _log.error("run_cannot_be_redriven", run=format_run_id(run.id), why=str(error))
                made.append(None)
                continue
            new = self._make(run, job, kept, payload, begin, is_newest=is_newest, now=now)
            made.append(new if seed is None else replace(new, flow_seed=seed))
        return made

    async def _seed_of(
        self, run: Run, kept: JobSpec, spec: JobSpec, payload: bytes | None, begin: RedriveFrom | None
    ) -> bytes | None:
        """Return what a run takes over; None if that is nothing, as with another payload."""
        if payload is not None and begin is None:
            return None
        return await self._flows.make(run, kept, spec, begin)

    def _make(
        self,
        run: Run,
        job: Job,
        kept: JobSpec,
        payload: bytes | None,
        begin: RedriveFrom | None,
        *,
        is_newest: bool,
        now: datetime,
    ) -> NewRun:
        spec, version = (job.spec, job.version) if is_newest else (kept, run.version)
        own = run.payload if payload is None else payload
        return NewRun(
            job.id,
            version,
            _lane(run, kept, spec),
            RunKind.REDRIVE,
            run.fire_at,
            now,
            spec.timeout,
            own,
            expiry_of(spec, now, self._expiries.by_queue),
            None,  # it is not skipped
            (run.idempotency_key or format_run_id(run.id)) if payload is None else None,
            IdempotencyKey(
                key=redrive_key(run.id),
                request_hash=redrive_hash(
                    None if payload is None else canonical(payload),
                    is_newest=is_newest,
                    begin=FROM_FAILED if begin is None or payload is not None else begin,
                ),
                expires_at=now + (_KEPT_IF_DEAD if run.state is RunState.FAILED else _KEPT),
            ),
            None,  # it is not of a fire range
            is_newest,
            KeyMaker(job.id, spec).make(own) if spec.is_lined_up else (),
            None,  # like a fire, it passes by what the job says about submissions
            run.id,
        )


def _settle_begin(begin: RedriveFrom | None, payload: bytes | None) -> RedriveFrom | None:
    """Return where a workflow is taken up again; None: where nothing has to be said about it."""
    if payload is None:
        return begin
    if begin not in {None, FROM_START}:
        message = (
            f"goes with {FROM_START!r} only when a payload is given: what succeeded did so with the old one"
        )
        raise InvalidInput("from", message)
    return begin


def _why_hidden(run: Run, spec: JobSpec, payload: bytes | None) -> str | None:
    """Return why a run cannot be repeated here: what it needs cannot be decrypted. None: it can."""
    if has_encrypted(spec.target.params):
        return why_unreadable(spec.target.params)[0]
    if payload is not None or run.payload is None or not is_encrypted_bytes(run.payload):
        return None
    return f"the payload of {format_run_id(run.id)}: {json.loads(show_hidden(run.payload))}"


def _lane(run: Run, kept: JobSpec, spec: JobSpec) -> LaneKey:
    """Return the lane: with the tier that the run was submitted with, if it was one of its own."""
    has_own = run.lane.priority is not kept.priority
    return LaneKey(spec.queue, spec.route, run.tenant, run.lane.priority if has_own else spec.priority)


def _check(run: Run) -> None:
    if run.place is not None:
        flow = format_run_id(run.place.flow_id)
        raise Conflict("run", f"{format_run_id(run.id)} is of a step of {flow}; redrive that run")
    if run.state in REDRIVABLE:
        return
    if run.finished_at is None:
        raise Conflict("run", f"{format_run_id(run.id)} has not ended; it is {run.state.value}")
    message = f"{format_run_id(run.id)} is {run.state.value}; only FAILED and CANCELLED runs are redriven"
    raise Conflict("run", f"{message}. To run its job once more, submit it")


def _gone(run: Run) -> Conflict:
    return Conflict("job", f"the job of {format_run_id(run.id)} was deleted, so nothing can run")
