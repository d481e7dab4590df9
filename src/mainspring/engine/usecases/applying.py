"""Makes jobs what a list of definitions says, or says what that would change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from mainspring.core.clocks import ChangeVerdict
from mainspring.core.definition.options import NAME
from mainspring.core.ids import JobId
from mainspring.core.model import Job, JobSpec
from mainspring.engine.common.calendars import CalendarReader
from mainspring.engine.common.wakeups import Wakeups
from mainspring.engine.usecases.clock_changes import edit_clock, new_job
from mainspring.engine.usecases.definitions import Accepted, DefinitionReader
from mainspring.engine.usecases.intake import Intake
from mainspring.engine.usecases.limits import check_limits
from mainspring.engine.usecases.scheduled import Scheduled, Scheduling
from mainspring.errors import InvalidInput, StoreUnavailable
from mainspring.ports.clock import Clock, IdSource
from mainspring.ports.store import Store
from mainspring.ports.store.jobs import AddResult

_TRIES = 20


class Outcome(StrEnum):
    """What becomes of a job that is to have a definition."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedJob:
    """A job that is to have a definition.

    Attributes:
        before: the job as it was; None if it is new.
        spec: the definition that it is to have.
    """

    outcome: Outcome
    before: Job | None
    spec: JobSpec


@dataclass(frozen=True, slots=True)
class _Plan:
    job: Job | None
    scheduled: Scheduled

    @property
    def outcome(self) -> Outcome:
        if self.job is None:
            return Outcome.CREATED
        return Outcome.UNCHANGED if self.job.spec == self.scheduled.own else Outcome.CHANGED


class Applying:
    """The use case of jobs that are kept in files. Every method acts for one tenant."""

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
    ) -> None:
        self._store, self._clock, self._ids = store, clock, ids
        self._wakeups, self._intake = wakeups, intake
        self._definitions = DefinitionReader(store, accepted)
        self._scheduling = Scheduling(store, calendars)

    async def diff(self, tenant: str, bodies: Sequence[Mapping[str, Any]]) -> list[AppliedJob]:
        """Say what `apply` would do. Nothing is stored.

        Raises:
            InvalidInput, Conflict: as for `apply`.
        """
        bodies, functions = await self._prepare(bodies)
        return _told(await self._plan(tenant, bodies, functions, self._clock.now()))

    async def apply(self, tenant: str, bodies: Sequence[Mapping[str, Any]]) -> list[AppliedJob]:
        """Create the jobs that do not exist, and give the others these definitions. What fits already stays as it is.

        All are read and checked before any is stored. New jobs are stored in one transaction, changed ones in another.

        Raises:
            InvalidInput: a body is wrong, and nothing is stored. The field starts with `[index].`.
            Conflict: the tenant may not have so many jobs, and nothing is stored.
        """
        bodies, functions = await self._prepare(bodies)
        first: list[AppliedJob] | None = None
        for _ in range(_TRIES):
            now = self._clock.now()
            plans = await self._plan(tenant, bodies, functions, now)
            first = first or _told(plans)
            if await self._write(tenant, plans, now):
                return first
        raise StoreUnavailable("the jobs kept changing")

    async def _prepare(
        self, bodies: Sequence[Mapping[str, Any]]
    ) -> tuple[list[Mapping[str, Any]], frozenset[str]]:
        seen: dict[str, int] = {}
        for index, body in enumerate(bodies):
            if "name" not in body:
                raise InvalidInput(f"[{index}].name", "is missing; every job has a name")
            name = NAME.read(body["name"], f"[{index}].name")
            if name in seen:
                raise InvalidInput(f"[{index}].name", f"{name!r} is the name of [{seen[name]}], too")
            seen[name] = index
        return await self._definitions.prepare(bodies, are_numbered=True)

    async def _plan(
        self, tenant: str, bodies: Sequence[Mapping[str, Any]], functions: frozenset[str], now: datetime
    ) -> list[_Plan]:
        names = [str(body["name"]) for body in bodies]
        jobs = await self._store.find_jobs(tenant, names)
        specs = [
            self._definitions.read(
                body,
                now=now,
                functions=functions,
                tenant=tenant,
                index=index,
                old=None if job is None else job.spec.trigger,
            )
            for index, (body, job) in enumerate(zip(bodies, jobs, strict=True))
        ]
        await check_limits(self._store, tenant, specs, are_numbered=True)
        await self._intake.admit_jobs(tenant, names)
        return [
            _Plan(job, await self._scheduling.schedule(tenant, spec, now=now, old=job, index=index))
            for index, (spec, job) in enumerate(zip(specs, jobs, strict=True))
        ]

    async def _write(self, tenant: str, plans: Sequence[_Plan], now: datetime) -> bool:
        """Store what differs; False if some of it has changed meanwhile. The rest is stored."""
        new = [
            new_job(JobId(self._ids.new_uuid()), tenant, plan.scheduled, now)
            for plan in plans
            if plan.job is None
        ]
        changed = [
            (plan.job, plan.scheduled)
            for plan in plans
            if plan.job is not None and plan.outcome is Outcome.CHANGED
        ]
        edits = [
            edit_clock(
                job,
                scheduled.own,
                before=await self._scheduling.before(job),
                after=scheduled.spec,
                calendars=scheduled.calendars,
                now=now,
            )
            for job, scheduled in sorted(changed, key=lambda each: each[0].id)
        ]
        added = await self._store.add_jobs(new, now=now) if new else []
        edited = await self._store.edit_jobs(edits, now=now) if edits else []
        if new or edits:
            self._wakeups.clocks_changed()
        if any(job.spec.is_lined_up for job, _ in changed):
            self._wakeups.room_made(None)
        return set(added) <= {AddResult.ADDED} and set(edited) <= {ChangeVerdict.DONE}


def _told(plans: Sequence[_Plan]) -> list[AppliedJob]:
    return [AppliedJob(outcome=plan.outcome, before=plan.job, spec=plan.scheduled.own) for plan in plans]
