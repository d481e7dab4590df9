"""Makes jobs what a list of definitions says, or says what that would change."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from mainspring.core.actors import Actor
from mainspring.core.definition.options import NAME
from mainspring.core.ids import JobId
from mainspring.core.model import Job, JobSpec
from mainspring.core.owners import OwnerChange
from mainspring.core.values import value
from mainspring.engine.common.calendars import CalendarReader
from mainspring.engine.common.wakeups import Wakeups
from mainspring.engine.usecases import auditing
from mainspring.engine.usecases.alerts import check_notify
from mainspring.engine.usecases.clock_changes import added_job, delete_clock, new_job, pause_clock
from mainspring.engine.usecases.definitions import Accepted, DefinitionReader
from mainspring.engine.usecases.editing import decide_edit, makes_room
from mainspring.engine.usecases.intake import Intake
from mainspring.engine.usecases.limits import check_limits
from mainspring.engine.usecases.owners import OwnerReport, Owners
from mainspring.engine.usecases.scheduled import Scheduled, Scheduling
from mainspring.errors import Conflict, InvalidInput, StoreUnavailable
from mainspring.ports.clock import Clock, IdSource
from mainspring.ports.store import Store
from mainspring.ports.store.applying import JobsChange, OwnedNames
from mainspring.ports.store.jobs import ClockChange, JobEdit, NewJob

_TRIES = 20
"""An apply loses to a fire, an edit, or a change of calendars. If it loses this often in a row, something is wrong."""


class Outcome(StrEnum):
    """What becomes of a job that is to have a definition."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


@value(kw_only=True)
class AppliedJob:
    """A job that is to have a definition.

    Attributes:
        before: the job as it was; None if it is new.
        job_id: None if it is new and not stored.
        spec: the definition that it is to have.
        made_at: the instant at which that was read.
    """

    outcome: Outcome
    before: Job | None
    job_id: JobId | None
    spec: JobSpec
    made_at: datetime


@value()
class AppliedJobs:
    """What became of jobs that are to have definitions, and of the other jobs of their owners."""

    jobs: list[AppliedJob]
    owners: list[OwnerReport]


@value()
class _Plan:
    job: Job | None
    job_id: JobId
    scheduled: Scheduled

    @property
    def name(self) -> str:
        return self.scheduled.own.name

    @property
    def outcome(self) -> Outcome:
        if self.job is None:
            return Outcome.CREATED
        return Outcome.UNCHANGED if self.job.spec == self.scheduled.own else Outcome.CHANGED


class Applying:
    """The use case of jobs that are kept in files or code. Every method acts for one tenant."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        ids: IdSource,
        wakeups: Wakeups,
        accepted: Accepted,
        calendars: CalendarReader,
        intake: Intake,
        owners: Owners,
    ) -> None:
        self._store, self._clock, self._ids = store, clock, ids
        self._wakeups, self._intake, self._owners = wakeups, intake, owners
        self._definitions = DefinitionReader(store, accepted)
        self._scheduling = Scheduling(store, calendars)

    async def diff(self, tenant: str, bodies: Sequence[Mapping[str, Any]]) -> list[AppliedJob]:
        """Say what `apply` would do. Nothing is stored.

        Raises:
            InvalidInput, Conflict: as for `apply`.
        """
        bodies, functions = await self._prepare(tenant, bodies)
        since = self._clock.now()
        return _told(*await self._plan(tenant, bodies, functions, since), is_stored=False)

    async def apply(
        self,
        tenant: str,
        bodies: Sequence[Mapping[str, Any]],
        *,
        owners: Sequence[OwnedNames] = (),
        prune: bool = False,
        paused: Collection[str] = (),
        are_of_code: bool = False,
        by: Actor | None = None,
    ) -> AppliedJobs:
        """Create the jobs that do not exist, and give the others these definitions. What fits already stays as it is.

        All of it is one transaction, so that it is done as a whole or not at all.

        Args:
            owners: all jobs that these owners define; their others are noted as undefined.
            are_of_code: an app defines them at its start. Then they may name channels that do not exist yet, or no
                server could start for which they are to be set.
            prune: delete those, as `Owners.define` does. The first 1,000 are deleted in the same transaction.
            paused: names of jobs that are to be paused if they are new.
            by: who does it, for the audit.

        As by `Jobs.upsert`, a trigger whose last fire has passed is kept as it is.

        Raises:
            InvalidInput: a body is wrong, and nothing is stored. The field starts with `[index].`.
            Conflict: the tenant may not have so many jobs, an owner's job does not exist, or someone else has changed
                one of the jobs meanwhile; nothing is stored.
        """
        bodies, functions = await self._prepare(tenant, bodies)
        first: list[_Plan] | None = None
        since = self._clock.now()
        for _ in range(_TRIES):
            plans, now = await self._plan(tenant, bodies, functions, since)
            if not are_of_code:
                specs = [plan.scheduled.own for plan in plans]
                await check_notify(self._store, tenant, specs, are_numbered=True)
            first = first or plans
            _refuse_edits_of_others(first, plans)
            await self._check_owned(tenant, plans, owners)
            gone = await self._owners.find_gone(tenant, owners, keep={plan.name for plan in plans})
            deletes = gone.deletable() if prune else []
            change = JobsChange(
                tenant=tenant,
                adds=self._adds(tenant, plans, now),
                edits=await self._edits(plans, now),
                pauses=_pauses(plans, paused, now),
                deletes=[delete_clock(job, await self._scheduling.before(job), now) for job in deletes],
                owners=owners,
            )
            was = [*(plan.job for plan in plans if plan.job is not None), *deletes]
            audit = auditing.jobs_applied(by, change, was, now)
            owned = await self._store.apply_jobs(change, now=now, audit=audit)
            if owned is not None:
                self._wake(change, plans, owned)
                reports = await self._owners.settle(tenant, owned, gone, deletes, prune=prune, by=by)
                return AppliedJobs(_told(plans, now, is_stored=True), reports)
        raise StoreUnavailable("the jobs kept changing")

    async def _prepare(
        self, tenant: str, bodies: Sequence[Mapping[str, Any]]
    ) -> tuple[list[Mapping[str, Any]], frozenset[str]]:
        seen: dict[str, int] = {}
        for index, body in enumerate(bodies):
            if "name" not in body:
                raise InvalidInput(f"[{index}].name", "is missing; every job has a name")
            name = NAME.read(body["name"], f"[{index}].name")
            if name in seen:
                raise InvalidInput(f"[{index}].name", f"{name!r} is the name of [{seen[name]}], too")
            seen[name] = index
        return await self._definitions.prepare(tenant, bodies, are_numbered=True)

    async def _plan(
        self,
        tenant: str,
        bodies: Sequence[Mapping[str, Any]],
        functions: frozenset[str],
        since: datetime,
    ) -> tuple[list[_Plan], datetime]:
        """Return what is to be done, and the instant that it is decided for: after the last change of a job."""
        names = [str(body["name"]) for body in bodies]
        jobs = await self._store.find_jobs(tenant, names)
        now = self._clock.now()
        specs = [
            self._definitions.read(
                body,
                now=now,
                functions=functions,
                tenant=tenant,
                index=index,
                old=None if job is None else job.spec.trigger,
                may_be_over=True,
            )
            for index, (body, job) in enumerate(zip(bodies, jobs, strict=True))
        ]
        await check_limits(self._store, tenant, specs, are_numbered=True)
        await self._intake.admit_jobs(tenant, names)
        plans = [
            _Plan(
                job,
                JobId(self._ids.new_uuid()) if job is None else job.id,
                replace(
                    await self._scheduling.schedule(tenant, spec, now=now, old=job, index=index),
                    since=since,
                ),
            )
            for index, (spec, job) in enumerate(zip(specs, jobs, strict=True))
        ]
        return plans, now

    async def _check_owned(self, tenant: str, plans: Sequence[_Plan], owners: Sequence[OwnedNames]) -> None:
        """Refuse names of an owner's jobs that neither exist nor are applied."""
        applied = {plan.name for plan in plans}
        others = [name for each in owners for name in each.names if name not in applied]
        found = await self._store.find_jobs(tenant, others)
        missing = [name for name, job in zip(others, found, strict=True) if job is None]
        if missing:
            told = ", ".join(map(repr, missing[:5]))
            raise Conflict("owners", f"name jobs that do not exist: {told}; apply them, too")

    def _adds(self, tenant: str, plans: Sequence[_Plan], now: datetime) -> list[NewJob]:
        return [new_job(plan.job_id, tenant, plan.scheduled, now) for plan in plans if plan.job is None]

    async def _edits(self, plans: Sequence[_Plan], now: datetime) -> list[JobEdit]:
        changed = [(plan.job, plan.scheduled) for plan in plans if plan.outcome is Outcome.CHANGED]
        edits = [
            await decide_edit(self._store, self._scheduling, job, scheduled, now=now)
            for job, scheduled in changed
            if job is not None
        ]
        return sorted(edits, key=lambda edit: edit.job_id)

    def _wake(self, change: JobsChange, plans: Sequence[_Plan], owned: Sequence[OwnerChange]) -> None:
        if change.adds or change.edits or change.deletes or any(one.defined for one in owned):
            self._wakeups.clocks_changed()
        if any(plan.job is not None and makes_room(plan.job.spec, plan.scheduled.own) for plan in plans):
            self._wakeups.room_made(None)


def _pauses(plans: Sequence[_Plan], paused: Collection[str], now: datetime) -> list[ClockChange]:
    return [
        pause_clock(added_job(new_job(plan.job_id, "", plan.scheduled, now), now), plan.scheduled.spec, now)
        for plan in plans
        if plan.job is None and plan.name in paused
    ]


def _refuse_edits_of_others(first: Sequence[_Plan], plans: Sequence[_Plan]) -> None:
    """Refuse to overwrite what someone else has made of a job since it was read first."""
    for index, (before, plan) in enumerate(zip(first, plans, strict=True)):
        if _version(before.job) != _version(plan.job) and plan.outcome is not Outcome.UNCHANGED:
            message = f"someone else has just changed job {plan.name!r}; nothing was changed, apply again"
            raise Conflict(f"[{index}].version", message)


def _version(job: Job | None) -> tuple[JobId, int] | None:
    return None if job is None else (job.id, job.version)


def _told(plans: Sequence[_Plan], now: datetime, *, is_stored: bool) -> list[AppliedJob]:
    return [
        AppliedJob(
            outcome=plan.outcome,
            before=plan.job,
            job_id=plan.job_id if is_stored or plan.job is not None else None,
            spec=plan.scheduled.own,
            made_at=now,
        )
        for plan in plans
    ]
