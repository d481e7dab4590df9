"""Use cases on objectives: how many runs are to start in time or to succeed, and how many do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from mainspring.core.actors import Actor
from mainspring.core.alerts import check_count
from mainspring.core.audit import Subject, entries, show_settings
from mainspring.core.fields import DAY, read_word
from mainspring.core.objectives import (
    HOUR,
    MOST_OBJECTIVES,
    OBJECTIVE_OPTIONS,
    SIX_HOURS,
    Objective,
    ObjectiveStatus,
    RunTotals,
    count_events,
    make_objective,
)
from mainspring.core.usage import UsageLine, UsageStep
from mainspring.errors import NotFound
from mainspring.ports.clock import Clock
from mainspring.ports.store import Store

_SLICE = 5 * DAY
"""What is read at once, so that nothing else waits for long."""
_Counts = dict[str, RunTotals]


class Objectives:
    """The objectives of tenants. How they do is counted from the usage that is on record."""

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def list_all(self, tenant: str) -> list[ObjectiveStatus]:
        """Return the objectives of a tenant and how they do, by name."""
        return await self._look_at(tenant, await self._store.list_objectives(tenant))

    async def get(self, tenant: str, name: str) -> ObjectiveStatus:
        """Return an objective and how it does.

        Raises:
            NotFound: there is none of that name.
        """
        [status] = await self._look_at(tenant, [await self._find(tenant, name)])
        return status

    async def put(
        self, tenant: str, name: str, body: Mapping[str, Any], *, by: Actor | None = None
    ) -> tuple[ObjectiveStatus, bool]:
        """Set what a body says, and the defaults for what it leaves out. Return how it does, and whether it is new.

        Raises:
            InvalidInput: a value is wrong. Nothing is stored.
            Conflict: the tenant has as many objectives as it may.
        """
        objective = make_objective(tenant, read_word(name, "slo"), body)
        others = await self._store.list_objectives(tenant)
        old = next((one for one in others if one.name == name), None)
        if old is None:
            check_count(len(others), MOST_OBJECTIVES, tenant, field="slo", noun="objectives")
        audit = entries(
            by,
            Subject(kind="slo", id=name, tenant=tenant),
            at=self._clock.now(),
            before=None if old is None else show_settings(OBJECTIVE_OPTIONS, old),
            after=show_settings(OBJECTIVE_OPTIONS, objective),
        )
        is_new = await self._store.put_objective(objective, audit=audit)
        [status] = await self._look_at(tenant, [objective])
        return status, is_new

    async def delete(self, tenant: str, name: str, *, by: Actor | None = None) -> None:
        """Delete an objective. Its alerts end.

        Raises:
            NotFound: there is none of that name.
        """
        old = await self._find(tenant, name)
        subject = Subject(kind="slo", id=name, tenant=tenant)
        before = show_settings(OBJECTIVE_OPTIONS, old)
        audit = entries(by, subject, at=self._clock.now(), before=before)
        if not await self._store.delete_objective(tenant, name, audit=audit):
            raise NotFound("slo", name)

    async def _find(self, tenant: str, name: str) -> Objective:
        for objective in await self._store.list_objectives(tenant):
            if objective.name == name:
                return objective
        raise NotFound("slo", name)

    async def _look_at(self, tenant: str, objectives: Sequence[Objective]) -> list[ObjectiveStatus]:
        """Count what is on record: within the last hour by the minute, and beyond by the hour."""
        if not objectives:
            return []
        now = self._clock.now()
        names = {objective.queue for objective in objectives}
        queues = None if None in names else sorted(name for name in names if name is not None)
        end = now + UsageStep.MINUTE.length  # also what began just now
        minutes = await self._read(tenant, queues, UsageStep.MINUTE, now - HOUR, end)
        hour: _Counts = {}
        _count(objectives, minutes, {objective.name: now - HOUR for objective in objectives}, hour)
        whole: _Counts = {}
        six_hours: _Counts = {}
        since = UsageStep.HOUR.start_of(now - max(objective.period for objective in objectives))
        while since < end:
            until = min(since + _SLICE, end)
            lines = await self._read(tenant, queues, UsageStep.HOUR, since, until)
            _count(objectives, lines, {one.name: now - one.period for one in objectives}, whole)
            _count(objectives, lines, {one.name: now - SIX_HOURS for one in objectives}, six_hours)
            since = until
        return [
            ObjectiveStatus(
                objective=objective,
                whole=whole.get(objective.name, RunTotals()),
                hour=hour.get(objective.name, RunTotals()),
                six_hours=six_hours.get(objective.name, RunTotals()),
            )
            for objective in objectives
        ]

    async def _read(
        self, tenant: str, queues: Sequence[str] | None, step: UsageStep, since: datetime, until: datetime
    ) -> list[UsageLine]:
        return await self._store.list_usage(step, since=since, until=until, tenant=tenant, queues=queues)


def _count(
    objectives: Iterable[Objective],
    lines: Iterable[UsageLine],
    since: Mapping[str, datetime],
    counts: _Counts,
) -> None:
    """Add to what was counted for each objective what lines say, from an instant on."""
    of_queue: dict[str, list[UsageLine]] = {}
    every = list(lines)
    for line in every:
        of_queue.setdefault(line.queue, []).append(line)
    for objective in objectives:
        begin = since[objective.name]
        found = every if objective.queue is None else of_queue.get(objective.queue, [])
        came = [count_events(objective, line.usage) for line in found if line.at >= begin]
        counts[objective.name] = sum(came, counts.get(objective.name, RunTotals()))
