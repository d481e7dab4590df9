"""Reads calendars, and gives jobs the triggers that their calendars make of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeVar

import structlog

from mainspring.core.calendars.joined import with_calendars
from mainspring.core.calendars.resolved import CalendarVersion, ResolvedCalendar, resolve
from mainspring.core.calendars.sieve import make_sieve
from mainspring.core.calendars.spec import CalendarRef, read_ref
from mainspring.core.ids import JobId, format_job_id
from mainspring.core.model import FireRange, JobCalendars, JobSpec
from mainspring.core.triggers import UnknownTrigger
from mainspring.errors import InvalidInput
from mainspring.ports.store import Store
from mainspring.ports.store.calendars import CalendarUse, CalendarUses

_log = structlog.get_logger(__name__)
_MOST_KEPT = 1000
"""Versions of calendars kept in memory."""
_MOST_SPECS = 10_000
"""Definitions with calendars kept in memory."""
K = TypeVar("K")
V = TypeVar("V")


class CalendarReader:
    """Looks up versions of calendars, and what jobs use of them. A version never changes, so it is read only once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._versions: dict[tuple[str, str, int], CalendarVersion] = {}
        self._resolved: dict[tuple[str, str, int], ResolvedCalendar] = {}
        self._specs: dict[tuple[JobId, int, int], JobSpec] = {}

    async def reach(
        self, tenant: str, keys: Iterable[tuple[str, int]]
    ) -> dict[tuple[str, int], CalendarVersion]:
        """Return versions by name and number, and all that they refer to. What does not exist is left out."""
        found: dict[tuple[str, int], CalendarVersion] = {}
        waiting = list(dict.fromkeys(keys))
        while waiting:
            missing = [key for key in waiting if (tenant, *key) not in self._versions]
            for one in await self._store.read_calendars(tenant, missing):
                if one is not None:
                    _keep(self._versions, (tenant, one.name, one.version), one, _MOST_KEPT)
                    found[one.name, one.version] = one
            for key in waiting:
                if (known := self._versions.get((tenant, *key))) is not None:
                    found[key] = known
            named = (each for key in waiting if key in found for each in found[key].named())
            waiting = [key for key in dict.fromkeys(named) if key not in found]
        return found

    async def resolve(
        self, tenant: str, keys: Iterable[tuple[str, int]]
    ) -> dict[tuple[str, int], ResolvedCalendar]:
        """Return calendars that can be asked, by name and number.

        Raises:
            InvalidInput: one does not exist.
        """
        wanted = list(dict.fromkeys(keys))
        if all((tenant, *key) in self._resolved for key in wanted):
            return {key: self._resolved[(tenant, *key)] for key in wanted}
        versions = await self.reach(tenant, wanted)

        def find(key: tuple[str, int]) -> ResolvedCalendar:
            known = self._resolved.get((tenant, *key))
            if known is None:
                if key not in versions:
                    raise InvalidInput("calendars", f"there is no calendar {key[0]}@{key[1]}")
                known = resolve(versions[key], find)
                _keep(self._resolved, (tenant, *key), known, _MOST_KEPT)
            return known

        return {key: find(key) for key in wanted}

    async def choose(self, tenant: str, calendars: JobCalendars) -> CalendarUses:
        """Return the versions that a definition means now.

        Raises:
            InvalidInput: there is no such calendar.
        """
        # The revision first: if something is written in between, it no longer fits, and the write of the job fails.
        revision = await self._store.read_calendar_revision()
        fields = [
            (field, read_ref(text, f"calendars.{field}"))
            for field, texts in (("include", calendars.include), ("exclude", calendars.exclude))
            for text in texts
        ]
        keys = [(ref.name, ref.version) for _, ref in fields]
        found = await self._store.read_calendars(tenant, keys)
        uses: list[CalendarUse] = []
        for (field, ref), version in zip(fields, found, strict=True):
            if version is None or (ref.version is None and version.is_deleted):
                raise InvalidInput(
                    f"calendars.{field}", f"there is no calendar {str(ref)!r}; create it, or take it away"
                )
            uses.append(CalendarUse(ref.name, version.version, ref.version is not None))
        return CalendarUses(revision, tuple(sorted(uses, key=lambda use: use.name)))

    async def apply(self, tenant: str, spec: JobSpec, uses: Sequence[CalendarUse]) -> JobSpec:
        """Return a definition with the trigger that its calendars make of its own.

        A calendar of which no use is known is taken in its newest version; a version of a job that was edited since may
        name such ones.
        """
        if not spec.calendars or spec.trigger is None or isinstance(spec.trigger, UnknownTrigger):
            return spec
        known = {use.name: use.version for use in uses}
        refs = _refs((*spec.calendars.include, *spec.calendars.exclude))
        unknown = [ref for ref in refs if ref.version is None and ref.name not in known]
        for newest in await self._store.read_calendars(tenant, [(ref.name, None) for ref in unknown]):
            if newest is not None:
                known[newest.name] = newest.version

        return await self._apply_versions(
            tenant,
            spec,
            [(ref.name, known.get(ref.name, 0) if ref.version is None else ref.version) for ref in refs],
        )

    async def _apply_versions(self, tenant: str, spec: JobSpec, keys: Sequence[tuple[str, int]]) -> JobSpec:
        """Do the same with given versions: first of what the definition includes, then of what it excludes."""
        assert spec.trigger is not None
        found = await self.resolve(tenant, keys)
        calendars = [found[key] for key in keys]
        border = len(spec.calendars.include)
        sieve = make_sieve(
            spec.trigger, tuple(calendars[:border]), tuple(calendars[border:]), spec.calendars.roll
        )
        return replace(spec, trigger=with_calendars(spec.trigger, sieve))

    async def apply_to_ranges(
        self, specs: dict[tuple[JobId, int], JobSpec], fire_ranges: Sequence[FireRange]
    ) -> list[JobSpec | None]:
        """Return the definition of each fire range, with the calendars by which the range was planned.

        None if it is unknown here, or its calendars cannot be read.
        """
        made: list[JobSpec | None] = []
        for one in fire_ranges:
            spec = specs.get((one.job_id, one.version))
            if spec is not None and one.calendars and not isinstance(spec.trigger, UnknownTrigger):
                keys = [(ref.name, ref.version or 0) for ref in _refs(one.calendars)]
                try:
                    spec = await self._apply_versions(one.tenant, spec, keys)
                except ValueError:  # a calendar or a zone is unknown here
                    _log.exception(
                        "calendars_cannot_be_read", job=format_job_id(one.job_id), version=one.version
                    )
                    spec = None
            made.append(spec)
        return made

    async def apply_to_jobs(self, jobs: Sequence[tuple[JobId, str, JobSpec]]) -> list[JobSpec]:
        """Return the definitions of jobs, given by id and tenant, by the calendars that their clocks go by.

        Those without calendars cost nothing.
        """
        concerned = [job_id for job_id, _, spec in jobs if spec.calendars]
        if not concerned:
            return [spec for _, _, spec in jobs]
        uses = dict(zip(concerned, await self._store.read_calendar_uses(concerned), strict=True))
        return [
            await self.apply(tenant, spec, uses[job_id]) if spec.calendars else spec
            for job_id, tenant, spec in jobs
        ]

    async def apply_to_clocks(
        self,
        specs: dict[tuple[JobId, int], JobSpec],
        clocks: Sequence[tuple[JobId, int, int | None, str]],
    ) -> dict[tuple[JobId, int], JobSpec]:
        """Return definitions by job and version, with calendars where they have some.

        A job whose calendars cannot be read is left out, so that it does not hold up others.

        Args:
            clocks: job, version, revision of the clock, and tenant. With a revision, what was read once is kept: the
                versions that a clock goes by change only with its revision, and a plan by other ones loses. A clock's
                revision is read before the versions, never after.
        """
        concerned = [
            clock for clock in clocks if (spec := specs.get(clock[:2])) is not None and spec.calendars
        ]
        if not concerned:
            return specs
        made = {**specs}
        unknown: list[tuple[JobId, int, int | None, str]] = []
        for job_id, version, revision, tenant in concerned:
            kept = None if revision is None else self._specs.get((job_id, version, revision))
            if kept is None:
                unknown.append((job_id, version, revision, tenant))
            else:
                made[job_id, version] = kept
        found = await self._store.read_calendar_uses([job_id for job_id, _, _, _ in unknown])
        for (job_id, version, revision, tenant), uses in zip(unknown, found, strict=True):
            try:
                spec = await self.apply(tenant, specs[job_id, version], uses)
            except ValueError:  # a calendar or a zone is unknown here
                _log.exception("calendars_cannot_be_read", job=format_job_id(job_id), version=version)
                del made[job_id, version]
                continue
            made[job_id, version] = spec
            if revision is not None:
                _keep(self._specs, (job_id, version, revision), spec, _MOST_SPECS)
        return made


def _refs(texts: Iterable[str]) -> list[CalendarRef]:
    return [read_ref(text, "calendars") for text in texts]


def _keep(kept: dict[K, V], key: K, one: V, most: int) -> None:
    """Remember one thing, and forget the oldest if there are too many."""
    if len(kept) >= most:
        for old in list(islice(kept, most // 10)):
            del kept[old]
    kept[key] = one
