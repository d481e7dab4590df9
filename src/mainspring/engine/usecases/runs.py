"""Use cases on runs: submit, cancel, inspect."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Protocol

from mainspring.core.admission import SubmissionVerdict
from mainspring.core.applying import CancelVerdict
from mainspring.core.fields import read_instant
from mainspring.core.ids import JobId, RunId, format_job_id, format_run_id
from mainspring.core.model import INLINE_LIMIT, Attempt, Job, LaneKey, Priority, Run, RunKind
from mainspring.core.states import RunState
from mainspring.core.values import value
from mainspring.engine.common.group_commit import GroupCommit
from mainspring.engine.common.wakeups import Wakeups, lanes_of
from mainspring.engine.usecases.browsing import BUDGET, FoundRuns, RunBrowser, RunFilter
from mainspring.errors import Conflict, InvalidInput, NotFound, PayloadTooLarge, TookTooLong
from mainspring.ports.clock import Clock
from mainspring.ports.store import Store
from mainspring.ports.store.runs import IdempotencyKey, NewRun, SubmitResult
from mainspring.ports.telemetry import Measure

KEY_LIFETIME = timedelta(hours=24)
MAX_KEY_LENGTH = 255
QUICK = timedelta(milliseconds=20)
"""If the last census took no longer than this, whoever asks for counts gets them counted anew."""
FEW = 10_000
"""So many runs are quick to count, even if the last census met with a pause of the machine and took longer."""
_JOB_CHANGED = SubmitResult(SubmissionVerdict.JOB_CHANGED)
MOST_TOGETHER = 1000
"""Runs of different requests in one transaction, at most."""
MOST_KNOWN = 10_000
"""Jobs whose definitions are remembered, at most."""


@value(kw_only=True)
class Submission:
    """A request to run a job.

    Attributes:
        payload: the run's own payload, as JSON text in UTF-8; None uses the job's.
        run_at: the earliest instant to start; None means at once.
        delay: the same, as a time from the store's now; give only one of the two.
        priority: the run's own; None uses the job's.
        idempotency_key: the same key returns the same run, for as long as it is remembered (24 h by default).
    """

    job_id: JobId
    payload: bytes | None = None
    run_at: datetime | None = None
    delay: timedelta | None = None
    priority: Priority | None = None
    idempotency_key: str | None = None


@value()
class Submitted:
    """The run of a submission. `is_new` is False if the key was used before."""

    run_id: RunId
    is_new: bool


@value()
class Counts:
    """How many runs are in each state.

    Attributes:
        by_state: states without runs are left out.
        age: how long ago they were counted, for the last census; zero if they were counted for this call.
    """

    by_state: Mapping[RunState, int]
    age: timedelta


class WaitingSlots(Protocol):
    """Where workers of this process's engine wait for runs."""

    async def submit_claimed(self, run: NewRun, *, now: datetime) -> RunId | None:
        """Submit a plain run straight to a worker that waits, and return its id.

        None: no worker can take it at once, and nothing has happened.
        """
        ...


class Runs:
    """Use cases on runs. Every method acts for one tenant.

    Args:
        slots: takes what can start at once. Without it, every run waits to be claimed.
        key_lifetime: how long an idempotency key is remembered after its use.
        list_budget: how long a list looks before it answers what it has found.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        wakeups: Wakeups,
        slots: WaitingSlots | None = None,
        key_lifetime: timedelta = KEY_LIFETIME,
        list_budget: timedelta = BUDGET,
    ) -> None:
        self._browser = RunBrowser(store, clock=clock, budget=list_budget)
        self._key_lifetime = key_lifetime
        self._store = store
        self._clock = clock
        self._wakeups = wakeups
        self._slots = slots
        # Many clients may submit one run each. One commit for each of them would take up all the time there is.
        self._submits: GroupCommit[NewRun, SubmitResult] = GroupCommit(self._submit_all, most=MOST_TOGETHER)
        self._reads: GroupCommit[JobId, Job | None] = GroupCommit(self._read_jobs, most=MOST_TOGETHER)
        self._known: dict[JobId, _Form] = {}  # may be outdated; the store says so if a job has changed since

    def measures(self) -> Iterator[Measure]:
        """Yield how many submissions, and how many reads for them, shared a call."""
        yield Measure("group_commit_items", self._submits.sizes.read(), ("submit",))
        yield Measure("group_commit_items", self._reads.sizes.read(), ("read_jobs",))

    async def submit(self, tenant: str, submission: Submission) -> Submitted:
        """Insert one run.

        Raises:
            InvalidInput, PayloadTooLarge: the submission is wrong. Nothing is stored.
            NotFound: the job does not exist.
            Conflict: the idempotency key was used for another request.
        """
        now = self._clock.now()
        result = _JOB_CHANGED
        form = self._known.get(submission.job_id)
        if form is not None and form.job.tenant == tenant:
            (result,) = await self._submits([_new_run(form, submission, now=now, must_be_newest=True)])
        if result.status is SubmissionVerdict.JOB_CHANGED:
            form = (await self._forms(tenant, [submission])).get(submission.job_id)
            if form is None:
                raise NotFound("job", format_job_id(submission.job_id))
            self._remember(form)
            (result,) = await self._submits([_new_run(form, submission, now=now)])
        if result.status is SubmissionVerdict.JOB_MISSING or result.run_id is None:
            raise NotFound("job", format_job_id(submission.job_id))
        if result.status is SubmissionVerdict.KEY_MISMATCH:
            message = f"key {submission.idempotency_key!r} was used for another request; use a new key"
            raise Conflict("idempotency_key", message)
        return Submitted(result.run_id, result.status is SubmissionVerdict.SUBMITTED)

    async def submit_many(self, tenant: str, submissions: Sequence[Submission]) -> list[SubmitResult]:
        """Insert runs in one transaction. A repeated or mismatched key affects only its own item.

        Raises:
            InvalidInput, PayloadTooLarge: one of them is wrong, or its job does not exist. Nothing is stored. The
                field starts with `[index].`.
        """
        now = self._clock.now()
        forms = await self._forms(tenant, submissions)
        runs = []
        for index, submission in enumerate(submissions):
            form = forms.get(submission.job_id)
            if form is None:
                message = f"there is no job {format_job_id(submission.job_id)}"
                raise InvalidInput(f"[{index}].job_id", message)
            try:
                runs.append(_new_run(form, submission, now=now))
            except InvalidInput as error:
                raise type(error)(f"[{index}].{error.field}", error.message) from None
        return list(await self._submits(runs))

    async def _submit_all(self, runs: Sequence[NewRun]) -> list[SubmitResult]:
        now = self._clock.now()
        if self._slots is not None and len(runs) == 1 and runs[0].is_plain and runs[0].due_at <= now:
            run_id = await self._slots.submit_claimed(runs[0], now=now)
            if run_id is not None:  # nobody else has to hear of it
                return [SubmitResult(SubmissionVerdict.SUBMITTED, run_id)]
        lanes = lanes_of(runs)
        notice = self._wakeups.notice_of_runs(lanes)
        is_told = False
        try:
            results = await self._store.submit_runs(runs, now=self._clock.now(), notice=notice)
            is_told = notice is not None and any(
                result.status is SubmissionVerdict.SUBMITTED for result in results
            )
        finally:
            if notice is not None and not is_told:
                self._wakeups.take_back_notice()
        self._wakeups.runs_ready(lanes, is_told=is_told)
        return results

    async def _read_jobs(self, job_ids: Sequence[JobId]) -> list[Job | None]:
        wanted = list(dict.fromkeys(job_ids))
        found = dict(zip(wanted, await self._store.get_jobs(wanted), strict=True))
        return [found[job_id] for job_id in job_ids]

    async def _forms(self, tenant: str, submissions: Sequence[Submission]) -> dict[JobId, _Form]:
        wanted = list(dict.fromkeys(submission.job_id for submission in submissions))
        jobs = await self._reads(wanted)
        return {
            job.id: _Form(job, self._key_lifetime) for job in jobs if job is not None and job.tenant == tenant
        }

    def _remember(self, form: _Form) -> None:
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[form.job.id] = form

    async def get(self, tenant: str, run_id: RunId) -> Run:
        """Return a run, live or finished.

        Raises:
            NotFound: this tenant has no run with that id.
        """
        (run,) = await self._store.get_runs([run_id])
        if run is None or run.tenant != tenant:
            raise NotFound("run", format_run_id(run_id))
        return run

    async def attempts(self, tenant: str, run_id: RunId) -> list[Attempt]:
        """Return a run's attempt rows. A run that succeeded at the first attempt has none."""
        await self.get(tenant, run_id)
        return await self._store.list_attempts(run_id)

    async def list_page(
        self,
        tenant: str,
        wanted: RunFilter,
        *,
        before: RunId | None = None,
        limit: int = 100,
        is_brief: bool = False,
    ) -> FoundRuns:
        """Return a page of runs, the newest first; see `RunBrowser.find`."""
        return await self._browser.find(tenant, wanted, before=before, limit=limit, is_brief=is_brief)

    async def name_jobs(self, runs: Sequence[Run]) -> dict[JobId, str]:
        """Return the names of the jobs of runs, of deleted jobs too."""
        return await self._store.read_job_names(list({run.job_id: None for run in runs}))

    async def cancel(self, tenant: str, run_id: RunId) -> CancelVerdict:
        """Cancel a run. A waiting run ends at once; a RUNNING one is asked to stop.

        Raises:
            NotFound: this tenant has no run with that id.
        """
        await self.get(tenant, run_id)
        (result,) = await self._store.cancel_runs([run_id], reason="cancelled", now=self._clock.now())
        if result is CancelVerdict.MISSING:
            raise NotFound("run", format_run_id(run_id))
        if result is CancelVerdict.REQUESTED:
            self._wakeups.cancel_requested()
        return result

    async def counts(self, tenant: str) -> Counts:
        """Return how many runs are in each state: counted now if that is quick, else by the last census.

        Raises:
            TookTooLong: there are too many to be counted now, and no census has been taken yet.
        """
        census = await self._store.read_census()
        if census is None or census.took <= QUICK or census.total <= FEW or census.is_cut:
            try:
                return Counts(await self._store.count_runs(tenant), timedelta(0))
            except TookTooLong:
                if census is None:
                    raise
        age = max(self._clock.now() - census.taken_at, timedelta(0))
        return Counts(census.of_tenant(tenant), age)


class _Form:
    """What the runs of a job have in common.

    Attributes:
        lane: the lane of runs without a priority of their own.
    """

    __slots__ = ("expires_after", "job", "key_lifetime", "lane", "timeout")

    def __init__(self, job: Job, key_lifetime: timedelta) -> None:
        spec = job.spec
        self.job = job
        self.key_lifetime = key_lifetime
        self.lane = LaneKey(spec.queue, spec.route, job.tenant, spec.priority)
        self.timeout = spec.timeout
        self.expires_after = spec.expires_after


def _new_run(form: _Form, submission: Submission, *, now: datetime, must_be_newest: bool = False) -> NewRun:
    if submission.payload is not None and len(submission.payload) > INLINE_LIMIT:
        size = len(submission.payload)
        message = f"{size} bytes; at most {INLINE_LIMIT} fit, put large data elsewhere and pass a link"
        raise PayloadTooLarge("payload", message)
    due_at = _due_at(submission, now)
    lane = form.lane
    if submission.priority is not None:
        lane = LaneKey(lane.queue, lane.route, lane.tenant, submission.priority)
    return NewRun(
        job_id=form.job.id,
        version=form.job.version,
        lane=lane,
        kind=RunKind.MANUAL,
        fire_at=None,
        due_at=due_at,
        timeout=form.timeout,
        payload=submission.payload,
        expires_at=due_at + form.expires_after if form.expires_after is not None else None,
        target_key=submission.idempotency_key,
        submit_key=_submit_key(submission, due_at, now, form.key_lifetime),
        must_be_newest=must_be_newest,
    )


def _due_at(submission: Submission, now: datetime) -> datetime:
    if submission.run_at is None:
        return now if submission.delay is None else now + submission.delay
    if submission.delay is not None:
        raise InvalidInput("delay", "says the same as 'run_at'; give one of them")
    return read_instant(submission.run_at, "run_at")


def _submit_key(
    submission: Submission, due_at: datetime, now: datetime, lifetime: timedelta
) -> IdempotencyKey | None:
    key = submission.idempotency_key
    if key is None:
        return None
    if not 1 <= len(key) <= MAX_KEY_LENGTH or not key.isprintable():
        raise InvalidInput("idempotency_key", f"must be 1 to {MAX_KEY_LENGTH} printable characters")
    digest = sha256(submission.job_id.bytes)
    digest.update(_canonical(submission.payload) if submission.payload is not None else b"\xff")
    run_at = None if submission.run_at is None else due_at  # in UTC: the same instant is the same request
    digest.update(f"|{run_at}|{submission.priority}".encode())
    if submission.delay is not None:  # not the resulting instant, which differs at each repeat
        digest.update(f"|{submission.delay}".encode())
    return IdempotencyKey(key=key, request_hash=digest.digest(), expires_at=now + lifetime)


def _canonical(payload: bytes) -> bytes:
    """Return JSON text that is the same for the same value, because clients write keys in any order."""
    try:
        return json.dumps(json.loads(payload), sort_keys=True, separators=(",", ":")).encode()
    except (ValueError, RecursionError):  # numbers with thousands of digits, or too deep a nesting
        return payload
