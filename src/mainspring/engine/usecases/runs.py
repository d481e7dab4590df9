"""Use cases on runs: submit, cancel, inspect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from mainspring.core.actors import Actor
from mainspring.core.admission import HELD_BACK, SubmissionVerdict
from mainspring.core.applying import CancelVerdict
from mainspring.core.audit import AuditEntry
from mainspring.core.ids import JobId, RunId, format_job_id, format_run_id
from mainspring.core.model import Attempt, Job, Run
from mainspring.core.states import RunState
from mainspring.core.values import value
from mainspring.core.why import Why
from mainspring.core.workflows.step_jobs import is_step_job, workflow_job_id
from mainspring.engine.common.group_commit import GroupCommit
from mainspring.engine.common.queue_expiries import QueueExpiryFollower
from mainspring.engine.common.restrictions import RestrictionReader
from mainspring.engine.common.run_counts import RunCounts
from mainspring.engine.common.traces import RunTraces
from mainspring.engine.common.wakeups import Wakeups, lanes_of
from mainspring.engine.usecases import auditing
from mainspring.engine.usecases.browsing import BUDGET, FoundRuns, RunBrowser, RunFilter
from mainspring.engine.usecases.editing import refuse_unreadable
from mainspring.engine.usecases.intake import Intake
from mainspring.engine.usecases.priority_classes import with_tiers
from mainspring.engine.usecases.submissions import JobForm, Submission, make_submitted_run
from mainspring.engine.usecases.submitted_traces import SubmittedTraces
from mainspring.engine.usecases.waits import WaitReader
from mainspring.errors import Conflict, InvalidInput, NotFound, TookTooLong
from mainspring.ports.clock import Clock
from mainspring.ports.store import Store
from mainspring.ports.store.runs import NewRun, SubmitResult
from mainspring.ports.store.sessions import WorkerName
from mainspring.ports.telemetry import Measure

KEY_LIFETIME = timedelta(hours=24)
_JOB_CHANGED = SubmitResult(SubmissionVerdict.JOB_CHANGED)
MOST_TOGETHER = 1000
"""Runs of different requests in one transaction, at most."""
MOST_KNOWN = 10_000
"""Jobs whose definitions are remembered, at most."""


@value()
class Submitted:
    """What became of a submission.

    Attributes:
        run_id: the run that it made or joined. If it was throttled, the run that was let through last.
        is_new: the submission made the run just now.
        status: a repeat under the same idempotency key has that of the first submission.
    """

    run_id: RunId
    is_new: bool
    status: SubmissionVerdict = SubmissionVerdict.SUBMITTED


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
        intake: refuses submissions for the time being. Without it, nothing is.
        expiries: the expiries of queues. Without them, none has one.
        restrictions: reads what is paused.
        counts: counts the runs that are made. Without it, nobody is told of them.
        slots: takes what can start at once. Without it, every run waits to be claimed.
        traces: decides which runs are traced. Without it, those of callers who pass a trace on.
        key_lifetime: how long an idempotency key is remembered after its use.
        list_budget: how long a list looks before it answers what it has found.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        wakeups: Wakeups,
        intake: Intake | None = None,
        expiries: QueueExpiryFollower | None = None,
        restrictions: RestrictionReader | None = None,
        counts: RunCounts | None = None,
        slots: WaitingSlots | None = None,
        traces: RunTraces | None = None,
        key_lifetime: timedelta = KEY_LIFETIME,
        list_budget: timedelta = BUDGET,
    ) -> None:
        self._browser = RunBrowser(store, clock=clock, budget=list_budget)
        self._key_lifetime = key_lifetime
        self._store = store
        self._clock = clock
        self._wakeups = wakeups
        self._intake = intake or Intake(store, clock=clock)
        self._expiries = expiries or QueueExpiryFollower()
        self._waits = WaitReader(store, restrictions, clock=clock)
        self._slots = slots
        self._counts = counts or RunCounts()
        self._traces = traces or RunTraces()
        # Many clients may submit one run each. One commit for each of them would take up all the time there is.
        self._submits: GroupCommit[NewRun, SubmitResult] = GroupCommit(self._submit_all, most=MOST_TOGETHER)
        # What waits for the holder of a key holds up no others.
        self._guarded: GroupCommit[NewRun, SubmitResult] = GroupCommit(self._submit_all, most=MOST_TOGETHER)
        self._reads: GroupCommit[JobId, Job | None] = GroupCommit(self._read_jobs, most=MOST_TOGETHER)
        self._held_back = dict.fromkeys(HELD_BACK, 0)
        # They may be outdated; the store says so if a job has changed since.
        self._known: dict[JobId, JobForm] = {}

    def measures(self) -> Iterator[Measure]:
        """Yield how many submissions, and how many reads for them, shared a call."""
        yield Measure("group_commit_items", self._submits.sizes.read(), ("submit",))
        yield Measure("group_commit_items", self._guarded.sizes.read(), ("submit_once",))
        yield Measure("group_commit_items", self._reads.sizes.read(), ("read_jobs",))
        for verdict, count in self._held_back.items():
            yield Measure("submissions_held_back_total", count, (verdict.value,))

    async def submit(self, tenant: str, submission: Submission) -> Submitted:
        """Insert one run, unless a rule of the job says that it joins another or is dropped.

        Raises:
            InvalidInput, PayloadTooLarge: the submission is wrong. Nothing is stored.
            NotFound: the job does not exist.
            Conflict: the idempotency key was used for another request, or the job's rule rejects a second run.
            TooMany: a queue or the tenant is full, or the tenant's rate is used up. Nothing is stored.
        """
        if isinstance(submission.priority, str):
            [submission] = await with_tiers(self._store, [submission])
        now = self._clock.now()
        begun = self._traces.begin(submission.traceparent)
        result, is_admitted = _JOB_CHANGED, False
        run: NewRun | None = None
        form = self._known.get(submission.job_id)
        if form is not None and form.job.tenant == tenant:
            run = make_submitted_run(
                form, submission, now=now, expiries=self._expiries.by_queue, must_be_newest=True
            )
            run = run if begun is None else self._traces.give(begun, run, now)
            if not self._intake.is_open:
                await self._intake.admit(tenant, [run])
            is_admitted = True
            (result,) = await (self._submits if run.once is None else self._guarded)([run])
        if result.status is SubmissionVerdict.JOB_CHANGED:
            form = (await self._forms(tenant, [submission])).get(submission.job_id)
            if form is None:
                raise NotFound("job", format_job_id(submission.job_id))
            self._remember(form)
            run = make_submitted_run(form, submission, now=now, expiries=self._expiries.by_queue)
            run = run if begun is None else self._traces.give(begun, run, now)
            if not self._intake.is_open and not is_admitted:
                await self._intake.admit(tenant, [run])
            (result,) = await (self._submits if run.once is None else self._guarded)([run])
        if begun is not None and form is not None and run is not None:
            self._traces.end_submission(
                begun, run, form.job.spec.name, run_id=result.run_id, status=result.status.value
            )
        if result.run_id is not None and result.status is SubmissionVerdict.SUBMITTED:  # as nearly always
            return Submitted(result.run_id, is_new=True)
        return self._answer(submission, result)

    def _answer(self, submission: Submission, result: SubmitResult) -> Submitted:
        """Return the answer to a submission that made no run, or raise why it is refused."""
        self._count_held_back([result])
        if result.run_id is None:
            raise NotFound("job", format_job_id(submission.job_id))
        if result.status is SubmissionVerdict.KEY_MISMATCH:
            message = f"key {submission.idempotency_key!r} was used for another request; use a new key"
            raise Conflict("idempotency_key", message)
        if result.status is SubmissionVerdict.REJECTED:
            holder = format_run_id(result.run_id)
            raise Conflict("unique", f"{holder} has the same key, and the job lets no second run in")
        is_repeat = result.status is SubmissionVerdict.DUPLICATE
        return Submitted(result.run_id, is_new=False, status=result.first if is_repeat else result.status)

    async def submit_many(self, tenant: str, submissions: Sequence[Submission]) -> list[SubmitResult]:
        """Insert runs in one transaction. A repeated or mismatched key, or a rejected run, affects only its own item.

        Raises:
            InvalidInput, PayloadTooLarge: one of them is wrong, or its job does not exist. Nothing is stored. The
                field starts with `[index].`.
            TooMany: as for `submit`; it refuses all of them.
        """
        if any(isinstance(submission.priority, str) for submission in submissions):
            submissions = await with_tiers(self._store, submissions, are_numbered=True)
        now = self._clock.now()
        calls = SubmittedTraces(self._traces, submissions)
        forms = await self._forms(tenant, submissions)
        runs = []
        for index, submission in enumerate(submissions):
            form = forms.get(submission.job_id)
            if form is None:
                message = f"there is no job {format_job_id(submission.job_id)}"
                raise InvalidInput(f"[{index}].job_id", message)
            try:
                run = make_submitted_run(form, submission, now=now, expiries=self._expiries.by_queue)
            except InvalidInput as error:
                raise type(error)(f"[{index}].{error.field}", error.message) from None
            runs.append(calls.give(index, run, now))
        if not self._intake.is_open:
            await self._intake.admit(tenant, runs)
        is_plain = all(form.once is None for form in forms.values())
        results = list(await (self._submits if is_plain else self._guarded)(runs))
        calls.end(runs, results, forms)
        if not is_plain:
            self._count_held_back(results)
        return results

    async def insert(
        self, runs: Sequence[NewRun], audit: Sequence[AuditEntry] = ()
    ) -> Sequence[SubmitResult]:
        """Insert runs that another use case has made, and wake the workers.

        Args:
            audit: the entries about them. What has some is inserted in a transaction of its own.
        """
        return await (self._submit_all(runs, audit) if audit else self._guarded(runs))

    async def _submit_all(
        self, runs: Sequence[NewRun], audit: Sequence[AuditEntry] = ()
    ) -> list[SubmitResult]:
        now = self._clock.now()
        if self._slots is not None and len(runs) == 1 and runs[0].is_plain and runs[0].due_at <= now:
            run_id = await self._slots.submit_claimed(runs[0], now=now)
            if run_id is not None:  # nobody else has to hear of it
                straight = [SubmitResult(SubmissionVerdict.SUBMITTED, run_id)]
                self._counts.note_submissions(runs, straight)
                return straight
        lanes = lanes_of(runs)
        notice = self._wakeups.notice_of_runs(lanes)
        is_told = False
        try:
            results = await self._store.submit_runs(runs, now=self._clock.now(), notice=notice, audit=audit)
            is_told = notice is not None and any(
                result.status is SubmissionVerdict.SUBMITTED for result in results
            )
        finally:
            if notice is not None and not is_told:
                self._wakeups.take_back_notice()
        self._wakeups.runs_ready(lanes, is_told=is_told)
        self._counts.note_submissions(runs, results)
        return results

    def _count_held_back(self, results: Sequence[SubmitResult]) -> None:
        for result in results:
            if result.status in self._held_back:
                self._held_back[result.status] += 1

    async def _read_jobs(self, job_ids: Sequence[JobId]) -> list[Job | None]:
        wanted = list(dict.fromkeys(job_ids))
        found = dict(zip(wanted, await self._store.get_jobs(wanted), strict=True))
        return [found[job_id] for job_id in job_ids]

    async def _forms(self, tenant: str, submissions: Sequence[Submission]) -> dict[JobId, JobForm]:
        wanted = list(dict.fromkeys(submission.job_id for submission in submissions))
        jobs = await self._reads(wanted)
        for job in jobs:
            if job is not None and job.tenant == tenant:
                refuse_unreadable(job)
        return {
            job.id: JobForm(job, self._key_lifetime)
            for job in jobs
            if job is not None and job.tenant == tenant
        }

    def _remember(self, form: JobForm) -> None:
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

    async def why(self, tenant: str, run_id: RunId, *, hides_keys: bool = False) -> Why:
        """Say why a run has not started, or what became of it.

        Args:
            hides_keys: keys of limits are not named, because they may come out of payloads.

        Raises:
            NotFound: this tenant has no run with that id.
        """
        return await self._waits.explain(await self.get(tenant, run_id), hides_keys=hides_keys)

    async def worker(self, run: Run) -> WorkerName | None:
        """Return who has the run's last attempt, or had it; None if that is not known."""
        if run.session_id is None:
            return None
        return (await self._store.find_workers([run.session_id])).get(run.session_id)

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
        """Return the names of the jobs of runs, of deleted jobs too. Runs of steps have that of their workflow."""
        owners = {run.job_id: _owner_of(run.job_id) for run in runs}
        names = await self._store.read_job_names(list(dict.fromkeys(owners.values())))
        return {job_id: names[owner] for job_id, owner in owners.items() if owner in names}

    async def cancel(self, tenant: str, run_id: RunId, *, by: Actor | None = None) -> CancelVerdict:
        """Cancel a run. A waiting run ends at once; a RUNNING one is asked to stop.

        Raises:
            NotFound: this tenant has no run with that id.
        """
        run = await self.get(tenant, run_id)
        now = self._clock.now()
        audit = auditing.run_changed(by, run, now)
        (result,) = await self._store.cancel_runs([run_id], reason="cancelled", now=now, audit=audit)
        if result is CancelVerdict.MISSING:
            raise NotFound("run", format_run_id(run_id))
        if result is CancelVerdict.REQUESTED:
            self._wakeups.cancel_requested()
        if run.place is not None:
            self._wakeups.flows_told()
        if result is not CancelVerdict.REQUESTED and run.state is RunState.RETRYING:
            self._wakeups.room_made(None)  # with `hold: run`, it has kept its place until now
        return result

    async def counts(self, tenant: str) -> Counts:
        """Return how many runs are in each state: counted now if that is quick, else by the last census.

        Raises:
            TookTooLong: there are too many to be counted now, and no census has been taken yet.
        """
        census = await self._store.read_census()
        if census is None or census.is_quick:
            try:
                return Counts(await self._store.count_runs(tenant), timedelta(0))
            except TookTooLong:
                if census is None:
                    raise
        age = max(self._clock.now() - census.taken_at, timedelta(0))
        return Counts(census.of_tenant(tenant), age)


def _owner_of(job_id: JobId) -> JobId:
    return workflow_job_id(job_id) if is_step_job(job_id) else job_id
