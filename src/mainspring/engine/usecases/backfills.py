"""Use cases on backfills: plan, make, show, pause, resume and cancel them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from mainspring.core.actors import Actor
from mainspring.core.audit import AuditEntry, Subject, entries
from mainspring.core.backfill import (
    Backfill,
    BackfillChange,
    BackfillPlan,
    BackfillState,
    Section,
    cut_sections,
    plan_backfill,
)
from mainspring.core.backfill_settings import BackfillLimits, BackfillRequest, check_rights, read_backfill
from mainspring.core.calendars.joined import has_no_rule
from mainspring.core.ids import (
    BackfillId,
    JobId,
    format_backfill_id,
    format_job_id,
    make_backfill_id,
)
from mainspring.core.priorities import class_named
from mainspring.core.rights import ALL_RIGHTS, Right
from mainspring.core.times import write_instant
from mainspring.core.triggers import Trigger
from mainspring.core.values import value
from mainspring.engine.common.calendars import CalendarReader
from mainspring.engine.common.definitions import Definitions
from mainspring.engine.scheduling.backfill_fires import BackfillFires
from mainspring.engine.usecases.priority_classes import find_tier
from mainspring.errors import Conflict, InvalidInput, NotFound
from mainspring.ports.clock import Clock, IdSource
from mainspring.ports.store import Store
from mainspring.ports.store.backfills import NewBackfill

REASON = "backfill_cancelled"
"""Why a run is CANCELLED whose backfill was cancelled before it started."""
MOST_SECTIONS = 1000
_PAGE = 1000


@value()
class PlannedBackfill:
    """A backfill that was asked for, what it does, and itself; None after a dry run."""

    request: BackfillRequest
    plan: BackfillPlan
    backfill: Backfill | None


class Backfills:
    """Use cases on backfills. Every method acts for one tenant."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        ids: IdSource,
        calendars: CalendarReader,
        limits: BackfillLimits,
    ) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._limits = limits
        self._fires = BackfillFires(store, Definitions(store), calendars)

    async def create(
        self,
        tenant: str,
        job_id: JobId,
        body: Mapping[str, Any],
        *,
        rights: frozenset[Right] = ALL_RIGHTS,
        by: Actor | None = None,
    ) -> PlannedBackfill:
        """Plan a backfill of a job, and make it, unless it is a dry run.

        Args:
            rights: what the caller may do.
            by: who does it, for the audit.

        Raises:
            InvalidInput: the body is wrong, or the job has no trigger there, or the range has no fire, or too many.
            NeedsRight: the rate or the number of live runs is higher than the caller may ask for.
            NotFound: there is no such job.
            Conflict: another backfill of the job is under way in a part of the range, or the job has a trigger of a
                type that is unknown here.
        """
        now = self._clock.now()
        request = await self._read(body, rights, now)
        plan = await self._plan(tenant, job_id, request)
        if request.is_dry_run:
            return PlannedBackfill(request, plan, None)
        if not plan.fires:
            raise InvalidInput(
                "from", "the job has no fire between `from` and `to`, so there is nothing to make"
            )
        backfill_id = make_backfill_id(self._ids.new_uuid(), job_id)
        new = NewBackfill(
            id=backfill_id,
            job_id=job_id,
            tenant=tenant,
            from_at=request.from_at,
            to_at=request.to_at,
            options=request.options,
            fires=plan.fires,
            sections=tuple(plan.sections),
        )
        added = await self._store.add_backfill(new, now=now, audit=_made(by, new, now))
        if added.other is not None:
            other = format_backfill_id(added.other)
            raise Conflict(
                "from", f"{other} is under way in a part of this range; wait for it, or cancel it first"
            )
        if not added.is_added:
            raise NotFound("job", format_job_id(job_id))
        return PlannedBackfill(request, plan, await self.get(tenant, backfill_id))

    async def _read(
        self, body: Mapping[str, Any], rights: frozenset[Right], now: datetime
    ) -> BackfillRequest:
        named = class_named(body.get("priority"))
        if named is not None:
            body = {**body, "priority": await find_tier(self._store, named)}
        request = read_backfill(body, self._limits, now=now)
        check_rights(request.options, self._limits, rights)
        return request

    async def _plan(self, tenant: str, job_id: JobId, request: BackfillRequest) -> BackfillPlan:
        (job,) = await self._store.get_jobs([job_id])
        if job is None or job.tenant != tenant:
            raise NotFound("job", format_job_id(job_id))
        versions = await self._store.list_version_times(job_id)
        options = request.options
        sections = cut_sections(versions, request.from_at, request.to_at, options.definition)
        if len(sections) > MOST_SECTIONS:
            raise InvalidInput(
                "from",
                f"the job changed more than {MOST_SECTIONS:,} times between `from` and `to`; make several backfills",
            )
        triggers = await self._triggers(tenant, job_id, sections)
        done = await self._fires.done(job_id, sections[0].from_at, sections[-1].to_at, options.skip_done)
        plan = BackfillPlan()
        for grown in plan_backfill(sections, triggers, done, most=self._limits.most_fires):
            plan = grown
            await _let_others_run()
        return plan

    async def _triggers(self, tenant: str, job_id: JobId, sections: list[Section]) -> dict[int, Trigger]:
        specs = await self._fires.specs((job_id, section.version, tenant) for section in sections)
        for section in sections:
            if (job_id, section.version) not in specs:
                raise Conflict(
                    "trigger.type",
                    f"that of version {section.version}, or one of its calendars, is not known here;"
                    " install the package that adds it, or begin later",
                )
        found = {section.version: specs[job_id, section.version].trigger for section in sections}
        triggers = {version: trigger for version, trigger in found.items() if trigger is not None}
        if not triggers:
            raise InvalidInput(
                "from",
                "the job has no trigger between `from` and `to`, so there are no fires to make; submit its runs, or"
                " give it a trigger and backfill by the definition of now",
            )
        if all(has_no_rule(trigger) for trigger in triggers.values()):
            raise InvalidInput(
                "from",
                "no rule tells when the job should have fired between `from` and `to`: its trigger goes by starts of"
                " the scheduler, by ends of runs or by events; submit its runs instead",
            )
        return triggers

    async def get(self, tenant: str, backfill_id: BackfillId) -> Backfill:
        """Return a backfill, and how far it has come.

        Raises:
            NotFound: this tenant has no such backfill.
        """
        (backfill,) = await self._store.get_backfills([backfill_id])
        if backfill is None or backfill.tenant != tenant:
            raise NotFound("backfill", format_backfill_id(backfill_id))
        return backfill

    async def list_page(
        self, tenant: str, *, job_id: JobId | None = None, before: BackfillId | None = None, limit: int = 100
    ) -> list[Backfill]:
        """Return a page of backfills, of one job or of all, the newest first."""
        return await self._store.list_backfills(tenant, job_id=job_id, before=before, limit=limit)

    async def change(
        self, tenant: str, backfill_id: BackfillId, change: BackfillChange, *, by: Actor | None = None
    ) -> Backfill:
        """Pause, resume or cancel a backfill; in the wanted state it may be already.

        A cancel also cancels the runs that wait. Those under way go on.

        Raises:
            NotFound: this tenant has no such backfill.
            Conflict: it is over.
        """
        backfill = await self.get(tenant, backfill_id)
        is_over = backfill.state is BackfillState.DONE and not backfill.live
        now = self._clock.now()
        audit = entries(
            by,
            _subject(tenant, backfill_id),
            at=now,
            before={"state": backfill.state.value},
            after={"state": change.leads_to.value},
        )
        if is_over or not await self._store.change_backfill(backfill_id, change=change, now=now, audit=audit):
            raise Conflict("state", f"the backfill is {backfill.state.value} already")
        if change is BackfillChange.CANCEL:
            await self._cancel_waiting(backfill_id)
        return await self.get(tenant, backfill_id)

    async def _cancel_waiting(self, backfill_id: BackfillId) -> None:
        while run_ids := await self._store.list_waiting_of_backfill(backfill_id, limit=_PAGE):
            await self._store.cancel_runs(sorted(run_ids), reason=REASON, now=self._clock.now())


def _subject(tenant: str, backfill_id: BackfillId) -> Subject:
    return Subject(kind="backfill", id=format_backfill_id(backfill_id), tenant=tenant)


def _made(by: Actor | None, new: NewBackfill, now: datetime) -> tuple[AuditEntry, ...]:
    after = {
        "job": format_job_id(new.job_id),
        "from": write_instant(new.from_at),
        "to": write_instant(new.to_at),
        "fires": new.fires,
        "note": new.options.note,
    }
    return entries(by, _subject(new.tenant, new.id), at=now, after=after)


async def _let_others_run() -> None:
    """Give the event loop a turn in the midst of a long plan."""
    loop = asyncio.get_running_loop()
    turn = loop.create_future()
    loop.call_soon(turn.set_result, None)
    await turn
