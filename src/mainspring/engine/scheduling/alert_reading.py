"""Reads from the store what the rules of alerts judge by: only what rules that are enabled need."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from mainspring.core.access import AccessToken
from mainspring.core.alert_facts import LostWorker, OverdueFire, ReadyLane, SchedulerFacts, Seen, StuckRun
from mainspring.core.alerts import AlertRule, RuleKind
from mainspring.core.census import Census
from mainspring.core.ids import format_job_id
from mainspring.core.monitors import Monitor
from mainspring.engine.common.restrictions import RestrictionFollower
from mainspring.errors import TookTooLong
from mainspring.ports.store import Store
from mainspring.ports.store.sessions import SessionFacts

_MOST_OVERDUE = 1000
_MOST_STUCK = 100
_MOST_TOKENS = 1000
_MOST_MONITORS = 1000
_LANES = frozenset({RuleKind.NO_WORKERS, RuleKind.OLDEST_READY})
_WORKERS = frozenset({RuleKind.NO_WORKERS, RuleKind.WORKER_LOST})
_LONGEST = timedelta(days=365)


class AlertReader:
    """Reads what there is to judge. What the store is too busy for is left out."""

    def __init__(self, store: Store, restrictions: RestrictionFollower) -> None:
        self._store = store
        self._restrictions = restrictions

    async def read(self, rules: Sequence[AlertRule], now: datetime) -> Seen:
        """Return what these rules need."""
        enabled = [rule for rule in rules if rule.enabled]
        kinds = {rule.kind for rule in enabled}
        needs_census = RuleKind.DEAD_LETTERS in kinds or _LANES & kinds
        census = await self._store.read_census() if needs_census else None
        overdue, knows_overdue = await self._read_overdue(kinds, now)
        return Seen(
            dead=None if census is None else census.dead,
            lanes=await self._read_lanes(enabled, census, now) if _LANES & kinds else None,
            workers=await self._read_workers() if _WORKERS & kinds else None,
            overdue=overdue,
            knows_overdue=knows_overdue,
            ledger=await self._store.read_ledger_check() if RuleKind.MISSED_RUN in kinds else None,
            lost=await self._read_lost(enabled, now),
            stuck=await self._read_stuck(enabled, now),
            tokens=await self._read_tokens(enabled, now),
            scheduler=await self._read_scheduler() if RuleKind.SCHEDULER in kinds else None,
            monitors=await self._read_monitors(now) if RuleKind.MONITOR in kinds else None,
        )

    async def _read_lanes(
        self, rules: Sequence[AlertRule], census: Census | None, now: datetime
    ) -> list[ReadyLane]:
        """Return the lanes with ready runs; none if the last census shows that no run has waited for so long."""
        periods = [rule.period or timedelta(0) for rule in rules if rule.kind in _LANES]
        if census is not None and not census.may_wait(min(periods), now):
            return []
        pauses = self._restrictions.current.pauses
        found = []
        for lane in await self._store.read_lanes(()):
            ready = [at for at in (lane.earliest_ready_at, lane.earliest_quarantined_at) if at is not None]
            if ready and min(ready) <= now and not pauses.is_held(lane.key, now):
                found.append(ReadyLane(lane.key, min(ready)))
        return found

    async def _read_workers(self) -> list[SessionFacts]:
        return await self._store.list_sessions()

    async def _read_overdue(
        self, kinds: Collection[RuleKind], now: datetime
    ) -> tuple[OverdueFire | None, bool]:
        if RuleKind.MISSED_RUN not in kinds:
            return None, False
        try:
            found = await self._store.count_overdue(before=now, limit=_MOST_OVERDUE)
        except TookTooLong:
            return None, False
        if found.oldest_due_at is None:
            return None, True
        return OverdueFire(found.clocks, found.oldest_due_at), True

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
        jobs = await self._store.get_jobs([one.job_id for one in held])
        runs = await self._store.get_runs(
            [one.run_id for one, job in zip(held, jobs, strict=True) if job is None]
        )
        tenants = {run.id: run.tenant for run in runs if run is not None}
        return [
            StuckRun(
                one.run_id,
                tenants.get(one.run_id, "") if job is None else job.tenant,
                format_job_id(one.job_id) if job is None else job.spec.name,
                one.deadline_at,
            )
            for one, job in zip(held, jobs, strict=True)
        ]

    async def _read_tokens(self, rules: Sequence[AlertRule], now: datetime) -> list[AccessToken] | None:
        period = _longest(rules, RuleKind.TOKEN_EXPIRY)
        if period is None:
            return None
        return await self._store.list_expiring_tokens(after=now, before=now + period, limit=_MOST_TOKENS)

    async def _read_monitors(self, now: datetime) -> list[Monitor]:
        return await self._store.list_overdue_monitors(now=now, limit=_MOST_MONITORS)

    async def _read_scheduler(self) -> SchedulerFacts:
        shards = await self._store.read_shards()
        nodes = (await self._store.read_cluster()).nodes
        return SchedulerFacts(
            free_shards=sum(shard.node_beats is None for shard in shards),
            refused=tuple(
                (f"{node.facts.host}-{node.facts.pid}", _REFUSALS[node.refusal.value])
                for node in nodes
                if node.refusal is not None
            ),
            lost=tuple((one.noticed_at, one.runs_lost) for one in self._store.failovers),
        )


_REFUSALS = {"clock": "clock", "tzdata": "time zone data"}


def _longest(rules: Sequence[AlertRule], kind: RuleKind) -> timedelta | None:
    """Return the longest period of rules of a kind; None if there is none."""
    return max((rule.period or _LONGEST for rule in rules if rule.kind is kind), default=None)
