"""What the rules of alerts judge by, as it was read from the store."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from typing import Any, Protocol

from mainspring.core.access import EndingToken
from mainspring.core.alerts import AlertRule, RuleKind
from mainspring.core.capacity import DiskForecast, QueueForecast
from mainspring.core.census import DeadLine
from mainspring.core.ids import RunId
from mainspring.core.ledger_check import LedgerCheck
from mainspring.core.model import LaneKey
from mainspring.core.monitors import Monitor
from mainspring.core.objectives import Objective
from mainspring.core.rights import ALL_TENANTS
from mainspring.core.serving import Offer
from mainspring.core.storage import Disk
from mainspring.core.usage_facts import UsageSeen
from mainspring.core.values import value


class WorkerOffer(Offer, Protocol):
    """What a live worker offers, and how much of it."""

    @property
    def worker(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def slots(self) -> int: ...
    @property
    def started_at(self) -> datetime: ...


@value()
class ReadyLane:
    """A lane that gives out runs, and since when its first run has been ready."""

    key: LaneKey
    since: datetime


@value()
class OverdueFire:
    """How many fires are overdue, and since when the first of them has been due."""

    fires: int
    since: datetime


@value()
class LostWorker:
    """A worker that was declared dead."""

    worker: str
    host: str
    at: datetime


@value()
class StuckRun:
    """A run that goes on after its deadline. The job is named by its id if it is deleted."""

    run_id: RunId
    tenant: str
    job: str
    deadline_at: datetime


@value(kw_only=True)
class SchedulerFacts:
    """How the servers do.

    Attributes:
        free_shards: how many shards no living server owns.
        refused: the servers that may own none, each with the reason.
        lost: failovers of the database, each with when it was noticed and how many runs it lost.
    """

    free_shards: int = 0
    refused: tuple[tuple[str, str], ...] = ()
    lost: tuple[tuple[datetime, int], ...] = ()


@value(kw_only=True)
class Seen:
    """What was read from the store, in one look. None is what could not be read: nothing is judged by it.

    Attributes:
        dead: the open dead letters, as the last census counted them.
        lanes: those with ready runs that nothing holds back; none if no rule that judges by them tells a channel.
        overdue: None if nothing is overdue; then `knows_overdue` says whether that is known.
        stuck: runs past their deadline, the worst first.
        monitors: those that may be broken.
        usage: what became of runs of late.
        objectives: those of all tenants.
        disk: None if it cannot be known how full it is; `knows_disk` says whether it was looked at.
        shortages: how busy the workers of queues will be; `disk_to_come` is how long the disk lasts.
        cut: kinds of rules for which there was more than was read.
        firing: the alerts that fire, by the tenant and name of their rule: of which tenant, and of what.
    """

    dead: Sequence[DeadLine] | None = None
    lanes: Sequence[ReadyLane] | None = None
    workers: Sequence[WorkerOffer] | None = None
    overdue: OverdueFire | None = None
    knows_overdue: bool = False
    ledger: LedgerCheck | None = None
    lost: Sequence[LostWorker] | None = None
    stuck: Sequence[StuckRun] | None = None
    tokens: Sequence[EndingToken] | None = None
    scheduler: SchedulerFacts | None = None
    monitors: Sequence[Monitor] | None = None
    usage: UsageSeen | None = None
    objectives: Sequence[Objective] | None = None
    disk: Disk | None = None
    knows_disk: bool = False
    shortages: Sequence[QueueForecast] | None = None
    disk_to_come: DiskForecast | None = None
    cut: Collection[RuleKind] = ()
    firing: Mapping[tuple[str, str], Collection[tuple[str, str]]] = field(default_factory=dict)

    def firing_of(self, rule: AlertRule) -> Collection[tuple[str, str]]:
        """Return of which tenants and subjects a rule fires."""
        return self.firing.get((rule.tenant, rule.name), ())


class SeenByTenant:
    """What was read, by tenant: so a rule of a tenant looks through nothing of others."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._parts: dict[str, dict[str, list[Any]]] = {}
        parts: tuple[tuple[str, Iterable[tuple[str, Any]]], ...] = (
            ("dead", ((line.tenant, line) for line in seen.dead or ())),
            ("lanes", ((lane.key.tenant, lane) for lane in seen.lanes or ())),
            ("stuck", ((run.tenant, run) for run in seen.stuck or ())),
            ("monitors", ((monitor.tenant, monitor) for monitor in seen.monitors or ())),
            ("objectives", ((objective.tenant, objective) for objective in seen.objectives or ())),
        )
        for name, pairs in parts:
            for tenant, one in pairs:
                self._parts.setdefault(tenant, {}).setdefault(name, []).append(one)

    def of(self, tenant: str) -> Seen:
        """Return what a tenant's rules judge by; those of `*` judge by everything."""
        if tenant == ALL_TENANTS:
            return self._seen
        own = self._parts.get(tenant, {})
        known: dict[str, Any] = {
            name: own.get(name, ())
            for name in ("dead", "lanes", "stuck", "monitors", "objectives")
            if getattr(self._seen, name) is not None
        }
        if self._seen.usage is not None:
            known["usage"] = self._seen.usage.of(tenant)
        return replace(self._seen, **known)
