"""Reads what is known of the work to come and of the disk."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

from mainspring.core.capacity import (
    AHEAD,
    DAY,
    WEEKS,
    DiskForecast,
    QueueForecast,
    SlotPool,
    count_ends,
    expect,
    forecast_disk,
    forecast_queues,
    sum_to_queues,
)
from mainspring.core.model import Job
from mainspring.core.planned_fires import PlannedFires
from mainspring.core.serving import is_of_engine
from mainspring.core.states import READY_STATES
from mainspring.core.usage import UsageLine, UsageStep
from mainspring.core.values import value
from mainspring.engine.common.calendars import CalendarReader
from mainspring.engine.common.pacing import give_way
from mainspring.errors import StoreUnavailable
from mainspring.ports.store import Store

_PAGE = 100
_STEPS = 200
"""Fires of one job that are gone through before others get their turn."""


@value()
class Capacity:
    """How busy workers will be, and how long the disk lasts; None where it is not asked for.

    Attributes:
        is_disk_slow: whether the disk has not answered in time, so that nothing is known of it now.
    """

    queues: list[QueueForecast]
    disk: DiskForecast | None
    is_disk_slow: bool = False


class CapacityReader:
    """Looks back at weeks of usage, and at the workers, the backlog and the disk of now.

    Args:
        kept: how long runs that have ended are kept.
    """

    def __init__(self, store: Store, calendars: CalendarReader, *, kept: timedelta) -> None:
        self._store = store
        self._calendars = calendars
        self._kept = kept

    async def read(self, tenant: str | None, now: datetime) -> Capacity:
        """Return the capacity for a tenant's runs, or for those of all; only the latter comes with the disk."""
        lines = await self._read_hours(tenant, now)
        sessions = await self._store.list_sessions()
        slots: Counter[frozenset[str]] = Counter()
        for one in sessions:
            if (tenant is None or one.tenant in {None, tenant}) and not is_of_engine(one):
                slots[frozenset(one.queues)] += one.slots
        census = await self._store.read_census()
        waiting: Counter[str] = Counter()
        for line in () if census is None else census.live:
            if line.state in READY_STATES and tenant in {None, line.tenant} and line.earliest_ready_at <= now:
                waiting[line.queue] += line.runs
        pools = [SlotPool(count, queues) for queues, count in slots.items()]
        planned = await self._plan(tenant, now)
        queues = forecast_queues(expect(lines, now, planned), pools, waiting, now)
        if tenant is not None:
            return Capacity(queues, None)
        storage = await self._store.read_storage()
        rows = storage.rows
        if rows is None:
            rows = 0 if census is None else census.total
        disk = forecast_disk(storage, runs_per_day=count_ends(lines, now), rows=rows, keep=self._kept)
        return Capacity(queues, disk, storage.is_disk_slow)

    async def _plan(self, tenant: str | None, now: datetime) -> PlannedFires:
        """Count the fires to come, of as many jobs as may be looked at."""
        planned = PlannedFires(now, AHEAD)
        page: list[Job] = []
        while planned.has_room:
            if tenant is None:
                after = (page[-1].tenant, page[-1].id) if page else None
                page = await self._store.page_jobs(after=after, limit=_PAGE)
            else:
                page = await self._store.list_jobs(tenant, after=page[-1].id if page else None, limit=_PAGE)
            for job in page:
                await self._add(planned, job)
            if len(page) < _PAGE:
                return planned
        planned.is_whole = False
        return planned

    async def _add(self, planned: PlannedFires, job: Job) -> None:
        before = planned.steps
        try:
            [spec] = await self._calendars.apply_to_jobs([(job.id, job.tenant, job.spec)])
            planned.add(job, spec.trigger)
        except StoreUnavailable:
            raise
        except Exception:  # noqa: BLE001 - a calendar or zone is unknown here: the past has to tell
            planned.leave_out(job)
        if planned.steps - before > _STEPS:
            await give_way()

    async def _read_hours(self, tenant: str | None, now: datetime) -> list[UsageLine]:
        """Return the hours on record by queue, a day at a time: so nothing else waits long, and little is held."""
        lines: list[UsageLine] = []
        since = UsageStep.HOUR.start_of(now) - WEEKS * 7 * DAY
        while since < now:
            until = min(since + DAY, now)
            found = await self._store.list_usage(UsageStep.HOUR, since=since, until=until, tenant=tenant)
            lines += sum_to_queues(found)
            since = until
        return lines
