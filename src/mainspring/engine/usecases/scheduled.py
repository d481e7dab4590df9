"""Gives definitions the triggers that their calendars make of their own, and refuses those that could never fire."""

from __future__ import annotations

from datetime import datetime, timedelta

from mainspring.core.calendars.rolling import MOST_ROLLED, RolledTrigger, is_too_frequent
from mainspring.core.model import Job, JobSpec
from mainspring.core.triggers import Once
from mainspring.core.values import value
from mainspring.engine.common.calendars import CalendarReader
from mainspring.errors import InvalidInput
from mainspring.ports.store import Store
from mainspring.ports.store.calendars import CalendarUses

_TICK = timedelta(microseconds=1)


@value()
class Scheduled:
    """A definition, ready to set a clock.

    Attributes:
        own: as it is kept.
        spec: with the trigger that its calendars make.
        calendars: the versions that they mean; None if it has none, and none had to be taken away.
        since: a single instant does not fire if it is not after this one. None: it was found to be ahead.
    """

    own: JobSpec
    spec: JobSpec
    calendars: CalendarUses | None
    since: datetime | None = None


class Scheduling:
    """Looks up the calendars of definitions. A definition without any costs nothing."""

    def __init__(self, store: Store, calendars: CalendarReader) -> None:
        self._store = store
        self._calendars = calendars

    async def before(self, job: Job) -> JobSpec:
        """Return a job's definition with the trigger by which its clock was set."""
        (spec,) = await self._calendars.apply_to_jobs([(job.id, job.tenant, job.spec)])
        return spec

    async def schedule(
        self,
        tenant: str,
        spec: JobSpec,
        *,
        now: datetime,
        old: Job | None = None,
        index: int | None = None,
    ) -> Scheduled:
        """Return a new definition with the trigger that its calendars make.

        Args:
            old: the job that is to get it.
            index: its place among several, for errors.

        Raises:
            InvalidInput: a calendar does not exist, or the calendars let no fire through.
        """
        if not spec.calendars:
            has_old = old is not None and bool(old.spec.calendars)
            none = CalendarUses(await self._store.read_calendar_revision(), ()) if has_old else None
            return Scheduled(spec, spec, none)
        try:
            uses = await self._calendars.choose(tenant, spec.calendars)
            made = await self._calendars.apply(tenant, spec, uses.uses)
            fires = old is None or (old.spec.trigger, old.spec.calendars) != (spec.trigger, spec.calendars)
            if fires:
                _check_fires(spec, made, now)
        except InvalidInput as error:
            if index is None:
                raise
            raise error.renamed(lambda field: f"[{index}].{field}") from error
        return Scheduled(spec, made, uses)


def _check_fires(own: JobSpec, made: JobSpec, now: datetime) -> None:
    """Refuse calendars that let no fire through, and jobs that fire too often for their fires to move."""
    assert own.trigger is not None, "calendars without a trigger are refused"
    assert made.trigger is not None
    is_once = isinstance(own.trigger, Once)
    after = own.trigger.at - _TICK if isinstance(own.trigger, Once) else now
    first = own.trigger.next_after(after)
    if isinstance(made.trigger, RolledTrigger):
        if first is not None and is_too_frequent(own.trigger, first):
            message = f"is for jobs that fire at most {MOST_ROLLED} times a day; this one fires more often"
            raise InvalidInput("calendars.roll", message)
        if isinstance(own.trigger, Once) and made.trigger.moved(own.trigger.at) is not None:
            return
    if first is not None and (is_once and isinstance(made.trigger, RolledTrigger)):
        raise InvalidInput("calendars", "let the job's fire through on no date within a year")
    if first is not None and made.trigger.next_after(after) is None:
        raise InvalidInput("calendars", "let no fire of the job through within the next hundred years")
