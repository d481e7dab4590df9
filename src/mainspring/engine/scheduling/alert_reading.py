"""Reads from the store what the rules of alerts judge by: only what rules that are enabled need."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

import structlog

from mainspring.core.access import EndingToken
from mainspring.core.alert_facts import looks_ahead_for, looks_at_lanes_for
from mainspring.core.alert_seen import LostWorker, OverdueFire, ReadyLane, SchedulerFacts, Seen, StuckRun
from mainspring.core.alerts import AlertRule, RuleKind
from mainspring.core.census import Census
from mainspring.core.ids import LaneId, format_job_id
from mainspring.core.ledger_check import LedgerCheck
from mainspring.core.monitors import Monitor
from mainspring.core.serving import is_of_engine
from mainspring.core.usage_facts import DAY, UsageSeen
from mainspring.engine.common.calendars import CalendarReader
from mainspring.engine.common.capacity import Capacity, CapacityReader
from mainspring.engine.common.restrictions import RestrictionFollower
from mainspring.engine.scheduling.usage_reading import RecentUsage
from mainspring.errors import StoreUnavailable
from mainspring.ports.store import Store
from mainspring.ports.store.sessions import SessionFacts

_log = structlog.get_logger(__name__)
_T = TypeVar("_T")
_SLICE = 1000
_MOST_OVERDUE = 1000
_MOST_STUCK = 5000
_MOST_TOKENS = 1000
_MOST_MONITORS = 1000
_USAGE = frozenset({RuleKind.START_LAG, RuleKind.DURATION_SPIKE, RuleKind.FAILURE_RATE})
_BY_USAGE = _USAGE | {RuleKind.BUDGET}
_WORKERS = frozenset({RuleKind.NO_WORKERS, RuleKind.WORKER_LOST})
_LONGEST = timedelta(days=365)
_EXPECTED_FOR = timedelta(minutes=10)


class AlertReader:
    """Reads what there is to judge. What cannot be read in time is left out: it neither fires nor ends anything."""

    def __init__(
        self,
        store: Store,
        restrictions: RestrictionFollower,
        calendars: CalendarReader,
        *,
        kept: timedelta,
    ) -> None:
        self._store = store
        self._restrictions = restrictions
        self._usage = RecentUsage(store)
        self._capacity = CapacityReader(store, calendars, kept=kept)
        self._expected: tuple[datetime, Capacity | None] | None = None

    async def read(self, rules: Sequence[AlertRule], now: datetime) -> Seen:
        """Return what these rules need."""
        enabled = [rule for rule in rules if rule.enabled]
        kinds = {rule.kind for rule in enabled}
        looks_at_lanes = [rule for rule in enabled if looks_at_lanes_for(rule)]
        needs_census = RuleKind.DEAD_LETTERS in kinds or looks_at_lanes
        census = await try_read("census", self._store.read_census()) if needs_census else None
        missed = await try_read("overdue", self._read_missed(now)) if RuleKind.MISSED_RUN in kinds else None
        stuck = await try_read("stuck", self._read_stuck(enabled, now))
        tokens = await try_read("tokens", self._read_tokens(enabled, now))
        monitors = await try_read("monitors", self._read_monitors(now)) if RuleKind.MONITOR in kinds else None
        usage = await try_read("usage", self._read_usage(enabled, now)) if _BY_USAGE & kinds else None
        objectives = self._usage.objectives if usage is not None and RuleKind.BUDGET in kinds else None
        looks_ahead = any(looks_ahead_for(rule) for rule in enabled)
        expected = await try_read("capacity", self._expect(now)) if looks_ahead else None
        storage = await try_read("storage", self._store.read_storage()) if RuleKind.DISK in kinds else None
        limits: list[tuple[RuleKind, Sequence[object] | None, int]] = [
            (RuleKind.STUCK_RUN, stuck, _MOST_STUCK),
            (RuleKind.TOKEN_EXPIRY, tokens, _MOST_TOKENS),
            (RuleKind.MONITOR, monitors, _MOST_MONITORS),
        ]
        return Seen(
            dead=None if census is None else census.dead,
            lanes=await try_read("lanes", self._read_lanes(looks_at_lanes, census, now)),
            workers=await try_read("workers", self._read_workers()) if _WORKERS & kinds else None,
            overdue=None if missed is None else missed[0],
            knows_overdue=missed is not None,
            ledger=None if missed is None else missed[1],
            lost=await try_read("lost", self._read_lost(enabled, now)),
            stuck=stuck,
            tokens=tokens,
            scheduler=await try_read("scheduler", self._read_scheduler(enabled, now)),
            monitors=monitors,
            usage=usage,
            objectives=objectives,
            disk=None if storage is None else storage.disk,
            knows_disk=storage is not None and not storage.is_disk_slow,
            shortages=None if expected is None else expected.queues,
            disk_to_come=None if expected is None else expected.disk,
            cut=frozenset(kind for kind, found, most in limits if found is not None and len(found) >= most),
        )

    async def _read_workers(self) -> list[SessionFacts]:
        return [session for session in await self._store.list_sessions() if not is_of_engine(session)]

    async def _read_lanes(
        self, rules: Sequence[AlertRule], census: Census | None, now: datetime
    ) -> list[ReadyLane]:
        """Return the lanes with ready runs, of the queues where a run may have waited for so long.

        The last census says which these are, or that there is none. It is read in slices, so that what else is read
        over the same connection, such as the lanes for claims, waits for one slice only.
        """
        if not rules:
            return []
        period = min(rule.period or timedelta(0) for rule in rules)
        queues = None if census is None else census.queues_that_wait(period, now)
        if queues is not None and not queues:
            return []
        pauses = self._restrictions.current.pauses
        found: list[ReadyLane] = []
        after: LaneId | None = None
        while True:
            lanes = await self._store.read_lanes(queues or (), after=after, limit=_SLICE)
            for lane in lanes:
                ready = [
                    at for at in (lane.earliest_ready_at, lane.earliest_quarantined_at) if at is not None
                ]
                if ready and min(ready) <= now and not pauses.is_held(lane.key, now):
                    found.append(ReadyLane(lane.key, min(ready)))
            if len(lanes) < _SLICE:
                return found
            after = lanes[-1].id

    async def _read_missed(self, now: datetime) -> tuple[OverdueFire | None, LedgerCheck | None]:
        found = await self._store.count_overdue(before=now, limit=_MOST_OVERDUE)
        oldest = found.oldest_due_at
        overdue = None if oldest is None else OverdueFire(found.clocks, oldest)
        return overdue, await self._store.read_ledger_check()

    async def _read_lost(self, rules: Sequence[AlertRule], now: datetime) -> list[LostWorker] | None:
        period = _longest(rules, RuleKind.WORKER_LOST)
        if period is None:
            return None
        found = await self._store.list_lost_sessions(since=now - period)
        return [LostWorker(one.worker, one.host, one.ended_at) for one in found]

    async def _read_stuck(self, rules: Sequence[AlertRule], now: datetime) -> list[StuckRun] | None:
        periods = [rule.period or timedelta(0) for rule in rules if rule.kind is RuleKind.STUCK_RUN]
        if not periods:
            return None
        held = await self._store.list_overdue(now=now - min(periods), limit=_MOST_STUCK)
        ids = list({one.job_id for one in held})
        jobs = dict(zip(ids, await self._store.get_jobs(ids), strict=True))
        runs = await self._store.get_runs([one.run_id for one in held if jobs[one.job_id] is None])
        tenants = {run.id: run.tenant for run in runs if run is not None}
        found = []
        for one in held:
            job = jobs[one.job_id]
            tenant = tenants.get(one.run_id, "") if job is None else job.tenant
            name = format_job_id(one.job_id) if job is None else job.spec.name
            found.append(StuckRun(one.run_id, tenant, name, one.deadline_at))
        return found

    async def _read_tokens(self, rules: Sequence[AlertRule], now: datetime) -> list[EndingToken] | None:
        period = _longest(rules, RuleKind.TOKEN_EXPIRY)
        if period is None:
            return None
        return await self._store.list_expiring_tokens(after=now, before=now + period, limit=_MOST_TOKENS)

    async def _read_monitors(self, now: datetime) -> list[Monitor]:
        return await self._store.list_overdue_monitors(now=now, limit=_MOST_MONITORS)

    async def _read_usage(self, rules: Sequence[AlertRule], now: datetime) -> UsageSeen:
        periods = (rule.period or DAY for rule in rules if rule.kind in _BY_USAGE)
        return await self._usage.read(now, longest=DAY + max(periods))

    async def _expect(self, now: datetime) -> Capacity | None:
        """Return what is to be expected. It changes by the hour, and is read anew a few times in one.

        What could not be read is not known until then: it is weeks of hours, and all alerts wait for it.
        """
        known = self._expected
        if known is None or not known[0] <= now < known[0] + _EXPECTED_FOR:
            self._expected = now, None
            found = await self._capacity.read(None, now)
            known = self._expected = now, None if found.is_disk_slow else found
        return known[1]

    async def _read_scheduler(self, rules: Sequence[AlertRule], now: datetime) -> SchedulerFacts | None:
        period = _longest(rules, RuleKind.SCHEDULER)
        if period is None:
            return None
        failovers = await self._store.list_failovers(since=now - period)
        shards = await self._store.read_shards()
        nodes = (await self._store.read_cluster()).nodes
        return SchedulerFacts(
            free_shards=sum(shard.node_beats is None for shard in shards),
            refused=tuple(
                (f"{node.facts.host}-{node.facts.pid}", _REFUSALS[node.refusal.value])
                for node in nodes
                if node.refusal is not None
            ),
            lost=tuple((one.noticed_at, one.runs_lost) for one in failovers),
        )


_REFUSALS = {"clock": "clock", "tzdata": "time zone data"}


async def try_read(facts: str, reading: Awaitable[_T]) -> _T | None:
    """Return what is read, or None if the store stops it or is too busy: then it was not looked at."""
    try:
        return await reading
    except StoreUnavailable as error:
        _log.warning("alert_facts_missing", facts=facts, error=str(error))
        return None


def _longest(rules: Sequence[AlertRule], kind: RuleKind) -> timedelta | None:
    """Return the longest period of rules of a kind; None if there is none."""
    return max((rule.period or _LONGEST for rule in rules if rule.kind is kind), default=None)
