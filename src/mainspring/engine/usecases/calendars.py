"""Use cases on calendars: write, show, delete, and the days that one holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

from mainspring.core.actors import Actor
from mainspring.core.audit import AuditEntry, Subject, entries
from mainspring.core.calendars.days import CalendarDay, list_days
from mainspring.core.calendars.resolved import CalendarVersion
from mainspring.core.calendars.spec import CalendarSpec, read_calendar
from mainspring.core.calendars.writing import plan_write
from mainspring.core.fields import read_word
from mainspring.core.values import value
from mainspring.engine.common.calendars import CalendarReader
from mainspring.engine.common.wakeups import Wakeups
from mainspring.engine.scheduling.calendars import Replanned, Replanner
from mainspring.errors import Conflict, NotFound, StoreUnavailable
from mainspring.ports.clock import Clock
from mainspring.ports.store import Store
from mainspring.ports.store.calendars import CalendarDeletion

_TRIES = 20
_PAGE = 1000
_MOST_NAMED = 3
"""Jobs that the refusal of a delete names."""


@value()
class Written:
    """What a write of a calendar did.

    Attributes:
        is_new: there was no calendar of that name.
        followers: `NAME@VERSION` of calendars that name this one, and so have a new version, too.
    """

    version: CalendarVersion
    is_new: bool
    followers: tuple[str, ...]
    replanned: Replanned


class Calendars:
    """Use cases on calendars. Every method acts for one tenant."""

    def __init__(self, store: Store, reader: CalendarReader, *, clock: Clock, wakeups: Wakeups) -> None:
        self._store = store
        self._reader = reader
        self._clock = clock
        self._wakeups = wakeups
        self._replanner = Replanner(store, reader, clock=clock, wakeups=wakeups)

    async def put(
        self, tenant: str, name: str, body: Mapping[str, Any], *, by: Actor | None = None
    ) -> Written:
        """Give the calendar of that name this definition, as a new version, and set the clocks of its jobs.

        The same definition again makes no new version.

        Raises:
            InvalidInput: a field is wrong. Nothing is stored.
        """
        return await self.write(tenant, name, read_calendar(body), by=by)

    async def write(self, tenant: str, name: str, spec: CalendarSpec, *, by: Actor | None = None) -> Written:
        """Give the calendar of that name a definition that was read already."""
        read_word(name, "calendar")
        for _ in range(_TRIES):
            revision = await self._store.read_calendar_revision()
            newest = await self._newest(tenant)
            (last,) = await self._store.read_calendars(tenant, [(name, None)])
            keys = [key for one in newest.values() for key in one.named()]
            keys += [(ref.name, ref.version) for ref in spec.refs() if ref.version is not None]
            known = await self._reader.reach(tenant, keys)
            known |= {(one.name, one.version): one for one in newest.values()}
            now = self._clock.now()
            versions = plan_write(
                tenant=tenant,
                name=name,
                spec=spec,
                newest=newest,
                last=0 if last is None else last.version,
                known=known,
                now=now,
            )
            audit = _told(by, newest.get(name), versions, now)
            if await self._store.write_calendars(versions, revision=revision, audit=audit):
                self._wakeups.restrictions_changed()  # if blackouts follow it
                replanned = await self._replanner.replan()
                followers = tuple(one.label for one in versions[1:])
                version = versions[0] if versions else newest[name]
                return Written(version, name not in newest, followers, replanned)
        raise StoreUnavailable("the calendars kept changing")

    async def get(self, tenant: str, name: str, version: int | None = None) -> CalendarVersion:
        """Return a version of a calendar, by default the newest.

        Raises:
            NotFound: there is no such calendar, or it was deleted and no version is given.
        """
        (found,) = await self._store.read_calendars(tenant, [(name, version)])
        if found is None or (version is None and found.is_deleted):
            raise NotFound("calendar", name if version is None else f"{name}@{version}")
        return found

    async def list_page(
        self, tenant: str, *, after: str | None = None, limit: int = 100
    ) -> list[CalendarVersion]:
        """Return a page of the tenant's calendars, by name."""
        return await self._store.list_calendars(tenant, after=after, limit=limit)

    async def versions(
        self, tenant: str, name: str, *, before: int | None = None, limit: int = 100
    ) -> list[CalendarVersion]:
        """Return a page of a calendar's versions, the newest first.

        Raises:
            NotFound: there never was such a calendar.
        """
        found = await self._store.list_calendar_versions(tenant, name, before=before, limit=limit)
        if not found and before is None:
            raise NotFound("calendar", name)
        return found

    async def days(
        self, tenant: str, name: str, from_date: date | None, to_date: date | None, version: int | None = None
    ) -> list[CalendarDay]:
        """Return the dates of a range that a calendar holds at least in part; by default of a year from today.

        Raises:
            NotFound: there is no such calendar.
            InvalidInput: the range is too long.
        """
        found = await self.get(tenant, name, version)
        key = (found.name, found.version)
        calendar = (await self._reader.resolve(tenant, [key]))[key]
        return list_days(calendar, from_date, to_date, now=self._clock.now())

    async def delete(self, tenant: str, name: str, *, by: Actor | None = None) -> None:
        """Delete a calendar that nothing uses. Its versions stay readable by their numbers.

        Raises:
            NotFound: there is no such calendar.
            Conflict: a job or a blackout uses it, or another calendar names it.
        """
        for _ in range(_TRIES):
            revision = await self._store.read_calendar_revision()
            users = [one.name for one in (await self._newest(tenant)).values() if name in _names(one)]
            if users:
                raise Conflict(
                    "calendar", f"{name!r} is named by the calendar {users[0]!r}; change that first"
                )
            subject = Subject(kind="calendar", id=name, tenant=tenant)
            audit = entries(by, subject, at=self._clock.now())
            result = await self._store.delete_calendar(tenant, name, revision=revision, audit=audit)
            if result is CalendarDeletion.DELETED:
                return
            if result is CalendarDeletion.MISSING:
                raise NotFound("calendar", name)
            if result is CalendarDeletion.IN_USE:
                users_named = await self._blackouts_of(tenant, name) or await self._jobs_of(tenant, name)
                raise Conflict("calendar", f"{name!r} is used by {users_named}; take it away there first")
        raise StoreUnavailable("the calendars kept changing")

    async def _newest(self, tenant: str) -> dict[str, CalendarVersion]:
        found: dict[str, CalendarVersion] = {}
        after: str | None = None
        while page := await self._store.list_calendars(tenant, after=after, limit=_PAGE):
            found |= {one.name: one for one in page}
            after = page[-1].name
        return found

    async def _blackouts_of(self, tenant: str, name: str) -> str:
        restrictions = await self._store.read_restrictions()
        assert restrictions is not None, "nothing is known, so all is read"
        for one in restrictions.blackouts:
            if (one.tenant, one.calendar) == (tenant, name):
                return (
                    f"a blackout of {one.key.scope} {one.name!r}" if one.name else "a blackout of everything"
                )
        return ""

    async def _jobs_of(self, tenant: str, name: str) -> str:
        job_ids = await self._store.list_jobs_of_calendar(tenant, name, limit=_MOST_NAMED + 1)
        jobs = [job.spec.name for job in await self._store.get_jobs(job_ids) if job is not None]
        more = " and others" if len(jobs) > _MOST_NAMED else ""
        return f"the job {', '.join(map(repr, jobs[:_MOST_NAMED]))}{more}" if jobs else "a job"


def _told(
    by: Actor | None, old: CalendarVersion | None, versions: Sequence[CalendarVersion], now: datetime
) -> tuple[AuditEntry, ...]:
    if not versions:
        return ()
    new, *followers = versions
    return entries(
        by,
        Subject(kind="calendar", id=new.name, tenant=new.tenant),
        at=now,
        before=None if old is None else {"version": old.version},
        after={"version": new.version, "followers": [one.label for one in followers]},
    )


def _names(version: CalendarVersion) -> set[str]:
    return {ref.name for ref in version.spec.refs()}
