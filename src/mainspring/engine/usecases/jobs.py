"""Use cases on jobs: create, edit, pause, resume, delete, inspect."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from mainspring.core.actors import Actor
from mainspring.core.calendars.preview import next_made, preview_fire, preview_fires
from mainspring.core.clocks import ChangeVerdict
from mainspring.core.definition import names_target, read_timing, warn_of_definition
from mainspring.core.ends import LastFire, after_end_of, first_of_all
from mainspring.core.fire_counts import keeps_count, take_left
from mainspring.core.ids import JobId, RunId, format_job_id
from mainspring.core.model import FireRange, Job, JobSpec, JobStatus
from mainspring.core.states import LIVE_STATES, RunState
from mainspring.core.triggers import Trigger
from mainspring.engine.common.calendars import CalendarReader
from mainspring.engine.common.group_commit import GroupCommit
from mainspring.engine.common.last_fires import read_last_fire
from mainspring.engine.common.restrictions import RestrictionReader
from mainspring.engine.common.wakeups import Wakeups
from mainspring.engine.scheduling.reading import WINDOW
from mainspring.engine.usecases import auditing
from mainspring.engine.usecases.alerts import check_notify
from mainspring.engine.usecases.clock_changes import (
    added_job,
    delete_clock,
    new_job,
    pause_clock,
    resume_clock,
)
from mainspring.engine.usecases.definitions import Accepted, DefinitionReader
from mainspring.engine.usecases.editing import decide_edit, makes_room, refuse_unreadable
from mainspring.engine.usecases.intake import Intake
from mainspring.engine.usecases.limits import check_limits
from mainspring.engine.usecases.previews import AfterEndPreviews, JobPreview, NextFires, SkippedFires
from mainspring.engine.usecases.scheduled import Scheduled, Scheduling
from mainspring.errors import Conflict, NotFound, StoreUnavailable
from mainspring.ports.clock import Clock, IdSource
from mainspring.ports.store import Store
from mainspring.ports.store.jobs import AddResult, ClockChange

_TRIES = 20
"""An edit loses only to another write on the same job. If it loses this often in a row, something is wrong."""
_Addition = tuple[str, Scheduled, Actor | None]
"""Whose job is to be added, the job, and who adds it."""
_MOST_TOGETHER = 1000
"""New jobs of different requests in one transaction, at most."""


class Jobs:
    """Use cases on jobs. Every method acts for one tenant; what changes something is audited as done `by` somebody."""

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
        restrictions: RestrictionReader,
    ) -> None:
        self._store, self._intake = store, intake
        self._reader, self._skipped = calendars, SkippedFires(restrictions)
        self._calendars = Scheduling(store, calendars)
        self._clock, self._ids = clock, ids
        self._wakeups = wakeups
        self._definitions = DefinitionReader(store, accepted)
        # Many clients may add one job each. One commit for each of them would take up all the time there is.
        self._adds: GroupCommit[_Addition, Job | AddResult] = GroupCommit(self._add_all, most=_MOST_TOGETHER)

    async def create(self, tenant: str, body: Mapping[str, Any], *, by: Actor | None = None) -> Job:
        """Add a job from a user's definition, in short or full forms.

        Raises:
            InvalidInput, Conflict: the body is wrong, the name is taken, or the tenant may have no further job.
        """
        (body,), functions = await self._definitions.prepare(tenant, [body])
        for _ in range(_TRIES):
            now = self._clock.now()
            spec = self._definitions.read(body, now=now, functions=functions, tenant=tenant)
            await check_limits(self._store, tenant, [spec])
            await check_notify(self._store, tenant, [spec])
            await self._intake.admit_jobs(tenant, [spec.name])
            scheduled = await self._calendars.schedule(tenant, spec, now=now)
            (job,) = await self._adds([(tenant, scheduled, by)])
            if isinstance(job, Job):
                return job
            if job is AddResult.NAME_TAKEN:
                name = body["name"]
                raise Conflict(
                    "name", f"a job named {name!r} already exists; choose another name or edit that job"
                )
        raise StoreUnavailable("the calendars or limits of the job kept changing")

    async def create_many(
        self, tenant: str, bodies: Sequence[Mapping[str, Any]], *, by: Actor | None = None
    ) -> list[Job | None]:
        """Add jobs in one transaction. The result is None for each job whose name is taken.

        Jobs whose calendars or limits change meanwhile are added in a further one.

        Raises:
            InvalidInput: a body is wrong, and nothing is stored. The field starts with `[index].`.
            Conflict: the tenant may not have so many jobs, and nothing is stored.
        """
        now = self._clock.now()
        bodies, functions = await self._definitions.prepare(tenant, bodies, are_numbered=True)
        specs = [
            self._definitions.read(body, now=now, functions=functions, tenant=tenant, index=index)
            for index, body in enumerate(bodies)
        ]
        await self._intake.admit_jobs(tenant, [spec.name for spec in specs])
        made: dict[int, Job | None] = {}
        for _ in range(_TRIES):
            left = [index for index in range(len(specs)) if index not in made]
            if not left:
                return [made[index] for index in range(len(specs))]
            await check_limits(self._store, tenant, specs, are_numbered=True)
            await check_notify(self._store, tenant, specs, are_numbered=True)
            wanted: list[_Addition] = [
                (tenant, await self._calendars.schedule(tenant, specs[index], now=now, index=index), by)
                for index in left
            ]
            # Not in a group commit: a call that fills a transaction by itself would only wait for others.
            for index, job in zip(left, await self._add_all(wanted, are_one=True), strict=True):
                if isinstance(job, Job) or job is AddResult.NAME_TAKEN:
                    made[index] = job if isinstance(job, Job) else None
        raise StoreUnavailable("the calendars or limits of the jobs kept changing")

    async def _add_all(self, wanted: Sequence[_Addition], *, are_one: bool = False) -> list[Job | AddResult]:
        # One instant for all, not the arrival of each: their clocks start at the instant stored as their creation.
        now = self._clock.now()
        new = [
            new_job(JobId(self._ids.new_uuid()), tenant, scheduled, now) for tenant, scheduled, _ in wanted
        ]
        actors = [by for _, _, by in wanted]
        audit = (
            auditing.jobs_added_together(actors[0], new, now)
            if are_one
            else auditing.jobs_added(actors, new, now)
        )
        results = await self._store.add_jobs(new, now=now, audit=audit)
        jobs: list[Job | AddResult] = [
            added_job(one, now) if result is AddResult.ADDED else result
            for one, result in zip(new, results, strict=True)
        ]
        # The planner finds clocks further ahead by itself.
        horizon = now + 2 * WINDOW
        if any(
            isinstance(job, Job) and job.next_fire_at is not None and job.next_fire_at < horizon
            for job in jobs
        ):
            self._wakeups.clocks_changed()
        return jobs

    async def upsert(
        self, tenant: str, body: Mapping[str, Any], *, by: Actor | None = None
    ) -> tuple[Job, bool]:
        """Create the job of that name, or give the existing one this definition. Return it, and whether it is new.

        The definition may be as old as the code that brings it: a trigger whose last fire has passed is kept as it is,
        on a new store, too, and the job does not fire.
        """
        (body,), functions = await self._definitions.prepare(tenant, [body])
        name, since = str(body.get("name", "")), self._clock.now()
        for _ in range(_TRIES):
            (job,) = await self._store.find_jobs(tenant, [name])
            now = self._clock.now()
            # An interval that names no anchor keeps that of the job.
            old = job.spec.trigger if job is not None else None
            spec = self._definitions.read(
                body, now=now, functions=functions, tenant=tenant, old=old, may_be_over=True
            )
            await check_limits(self._store, tenant, [spec])
            await check_notify(self._store, tenant, [spec])
            if job is None:
                await self._intake.admit_jobs(tenant, [name])
                scheduled = await self._calendars.schedule(tenant, spec, now=now)
                (added,) = await self._adds([(tenant, replace(scheduled, since=since), by)])
                if isinstance(added, Job):
                    return added, True
            elif job.spec == spec:
                return job, False
            elif await self._try_edit(job, spec, now, since=since, by=by):
                return (await self._existing([job.id]))[0], False
        raise StoreUnavailable(f"job {body.get('name')!r} kept changing")

    async def edit(
        self,
        tenant: str,
        job_id: JobId,
        body: Mapping[str, Any],
        *,
        version: int | None = None,
        is_whole: bool = False,
        by: Actor | None = None,
    ) -> Job:
        """Change a job by a merge patch, which makes a new version. A new trigger also sets the clock again.

        Then the old version settles its fires that were due but not yet made: the misfire policy decides which become
        a catch-up fire range, and which a gap.

        Args:
            version: the version that was read; None is any.
            is_whole: `body` is the whole definition that the job is to have.

        Raises:
            Conflict: the job has another version by now, or the name is taken.
            CannotDecrypt: what is to be changed cannot be decrypted here. A whole definition can take its place.
        """
        (body,), functions = await self._definitions.prepare(tenant, [body])
        read = self._definitions.replace if is_whole else self._definitions.edit
        for _ in range(_TRIES):
            job = await self.get(tenant, job_id)
            if version not in {None, job.version}:
                raise Conflict("version", f"the job has version {job.version} by now, not {version}")
            if not is_whole:
                refuse_unreadable(job)
            now = self._clock.now()
            spec = read(job.spec, body, now=now, functions=functions, tenant=tenant)
            await check_limits(self._store, tenant, [spec])
            await check_notify(self._store, tenant, [spec])
            if spec == job.spec or await self._try_edit(job, spec, now, by=by):
                return (await self._existing([job_id]))[0]
        raise StoreUnavailable(f"job {format_job_id(job_id)} kept changing")

    async def _try_edit(
        self, job: Job, spec: JobSpec, now: datetime, *, since: datetime | None = None, by: Actor | None
    ) -> bool:
        scheduled = await self._calendars.schedule(job.tenant, spec, old=job, now=now)
        edit = await decide_edit(self._store, self._calendars, job, replace(scheduled, since=since), now=now)
        audit = auditing.job_edited(by, job, scheduled.own, now)
        (result,) = await self._store.edit_jobs([edit], now=now, audit=audit)
        if result is ChangeVerdict.NAME_TAKEN:
            raise Conflict("name", f"a job named {spec.name!r} already exists; choose another name")
        if result is ChangeVerdict.MISSING:
            raise NotFound("job", format_job_id(job.id))
        self._wakeups.clocks_changed()
        if makes_room(job.spec, spec):
            self._wakeups.room_made(None)
        return result is ChangeVerdict.DONE

    async def pause(self, tenant: str, job_id: JobId, *, by: Actor | None = None) -> Job:
        """Stop a job's clock. One fire range with the reason `paused` records the fires that do not happen."""
        return await self._change(
            tenant, job_id, self._store.pause_jobs, lambda job, spec, _, now: pause_clock(job, spec, now), by
        )

    async def resume(self, tenant: str, job_id: JobId, *, by: Actor | None = None) -> Job:
        """Start a job's clock again, from now on."""
        return await self._change(tenant, job_id, self._store.resume_jobs, resume_clock, by)

    async def _change(
        self,
        tenant: str,
        job_id: JobId,
        verb: Callable[..., Awaitable[list[ChangeVerdict]]],
        decide: Callable[[Job, JobSpec, LastFire, datetime], ClockChange],
        by: Actor | None,
    ) -> Job:
        for _ in range(_TRIES):
            job = await self.get(tenant, job_id)
            spec = await self._calendars.before(job)
            last = await read_last_fire(self._store, job, job.spec.trigger)
            now = self._clock.now()
            audit = auditing.job_changed(by, job, now)
            (result,) = await verb([decide(job, spec, last, now)], now=now, audit=audit)
            if result is ChangeVerdict.DONE:
                self._wakeups.clocks_changed()
                return (await self._existing([job_id]))[0]
        raise StoreUnavailable(f"job {format_job_id(job_id)} kept changing")

    async def delete(self, tenant: str, job_id: JobId, *, by: Actor | None = None) -> None:
        """Delete a job. Its name is free at once, its waiting runs are cancelled, and all its runs stay readable."""
        for _ in range(_TRIES):
            if await self._try_delete(await self.get(tenant, job_id), by):
                return
        raise StoreUnavailable(f"job {format_job_id(job_id)} kept changing")

    async def delete_undefined(self, tenant: str, job_id: JobId, *, by: Actor | None = None) -> bool:
        """Delete a job that its owner does not define any more; return False if it does by now, or if it is gone.

        That it is defined again raises the clock's revision, so a deletion decided before changes nothing.
        """
        for _ in range(_TRIES):
            (job,) = await self._store.get_jobs([job_id])
            if job is None or job.tenant != tenant or job.undefined_since is None:
                return False
            if await self._try_delete(job, by):
                return True
        raise StoreUnavailable(f"job {format_job_id(job_id)} kept changing")

    async def _try_delete(self, job: Job, by: Actor | None) -> bool:
        spec = await self._calendars.before(job)
        now = self._clock.now()
        audit = auditing.job_deleted(by, job, now)
        (result,) = await self._store.delete_jobs([delete_clock(job, spec, now)], now=now, audit=audit)
        if result is not ChangeVerdict.DONE:
            return False
        self._wakeups.clocks_changed()
        await self.cancel_waiting(job.tenant, job.id)
        return True

    async def cancel_waiting(self, tenant: str, job_id: JobId) -> None:
        """Cancel the waiting runs of a job that was deleted."""
        for state in sorted(LIVE_STATES - {RunState.RUNNING}):
            before: RunId | None = None
            while page := await self._store.list_runs(
                tenant, job_id=job_id, state=state, before=before, limit=1000
            ):
                ids = sorted(run.id for run in page)
                await self._store.cancel_runs(ids, reason="job_deleted", now=self._clock.now())
                before = ids[0]

    async def get(self, tenant: str, job_id: JobId) -> Job:
        """Return a job.

        Raises:
            NotFound: this tenant has no job with that id, or it was deleted.
        """
        (job,) = await self._store.get_jobs([job_id])
        if job is None or job.tenant != tenant:
            raise NotFound("job", format_job_id(job_id))
        return job

    async def find(self, tenant: str, name: str) -> Job:
        """Return a job by name.

        Raises:
            NotFound: this tenant has no job with that name.
        """
        (job,) = await self._store.find_jobs(tenant, [name])
        if job is None:
            raise NotFound("job", name)
        return job

    async def find_all(self, tenant: str, names: Sequence[str]) -> list[Job]:
        """Return the jobs of these names that exist."""
        return [job for job in await self._store.find_jobs(tenant, names) if job is not None]

    async def list_page(self, tenant: str, *, after: JobId | None, limit: int) -> list[Job]:
        """Return a page of jobs in order of creation."""
        return await self._store.list_jobs(tenant, after=after, limit=limit)

    async def status(self, tenant: str, job_id: JobId) -> JobStatus:
        """Return a job's status."""
        job = await self.get(tenant, job_id)
        (trigger,) = await self.triggers([job])
        (run,) = await self._store.newest_runs([job_id], now=self._clock.now())
        return JobStatus(
            job=job,
            state=run.state if run is not None else RunState.PENDING,
            last_run=run,
            next_fire_at=next_made(trigger, job.next_fire_at),
            retry_count=run.attempt - 1 if run is not None else 0,
        )

    async def triggers(self, jobs: Sequence[Job]) -> list[Trigger | None]:
        """Return the triggers of jobs, with calendars where they have some."""
        specs = await self._reader.apply_to_jobs([(job.id, job.tenant, job.spec) for job in jobs])
        return [spec.trigger for spec in specs]

    async def fires(self, tenant: str, job_id: JobId, *, after: datetime | None, count: int) -> NextFires:
        """Return a job's next fires, those that its calendars keep out or move among them.

        If the job has a maximum of fires, there are no more than are left.
        """
        job = await self.get(tenant, job_id)
        (trigger,) = await self.triggers([job])
        now = self._clock.now()
        start = now if after is None else after
        if trigger is None:
            found = NextFires(fires=[])
        elif after_end_of(trigger) is not None:
            found = await AfterEndPreviews(self._store).next_fires(job, trigger, after=after, now=now)
        else:
            found = NextFires(fires=preview_fires(trigger, start, count))
        marked = await self._skipped.mark(found.fires, job.spec, tenant, job.id)
        return replace(found, fires=take_left(marked, trigger, job.fires_left, now=now, after=start))

    async def preview(
        self, tenant: str, body: Mapping[str, Any], *, after: datetime | None, count: int
    ) -> JobPreview:
        """Return what a body would make of the job of its name, or of a new one, and when that would fire.

        Args:
            body: a whole job, or only what says when it fires.

        Raises:
            InvalidInput: a field is wrong, or a body without a target gives no trigger.
        """
        name, is_whole = body.get("name"), names_target(body)
        (job,) = await self._store.find_jobs(tenant, [name]) if isinstance(name, str) else [None]
        old = None if job is None else job.spec.trigger
        (body,), functions = await self._definitions.prepare(tenant, [body])
        now = self._clock.now()
        if is_whole:
            spec = self._definitions.read(body, now=now, functions=functions, tenant=tenant, old=old)
            await check_limits(self._store, tenant, [spec])
            await check_notify(self._store, tenant, [spec])
        else:
            spec = read_timing(body, now=now, old=old, tenant=tenant)
        made = (await self._calendars.schedule(tenant, spec, now=now)).spec.trigger
        start = now if after is None else after
        if made is not None and job is None and after_end_of(made) is not None:
            found = preview_fire(made, first_of_all(made, now=now))
        else:
            found = [] if made is None else preview_fires(made, start, count)
        job_id = None if job is None else job.id
        marked = await self._skipped.mark(found, spec, tenant, job_id, is_whole=is_whole)
        left = job.fires_left if job is not None and keeps_count(job.spec, spec) else spec.max_fires
        return JobPreview(
            spec=spec,
            is_whole=is_whole,
            job_id=job_id,
            fires=take_left(marked, made, left, now=now, after=start),
            warnings=warn_of_definition(body, spec, now=now),
        )

    async def fire_ranges(self, tenant: str, job_id: JobId, *, limit: int = 100) -> list[FireRange]:
        """Return a job's fire ranges, the newest first."""
        await self.get(tenant, job_id)
        return await self._store.list_fire_ranges(job_id, limit=limit)

    async def _existing(self, job_ids: Sequence[JobId]) -> list[Job]:
        jobs = await self._store.get_jobs(job_ids)
        for job_id, job in zip(job_ids, jobs, strict=True):
            if job is None:  # somebody else has just deleted it
                raise NotFound("job", format_job_id(job_id))
        return [job for job in jobs if job is not None]
