"""What a cluster does and what is wrong with it, read at a glance: a bounded number of small reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from mainspring.core.attention import LATE, Attention, ClusterFacts, ServerFacts, judge_cluster
from mainspring.core.blackouts import BlackoutState, state_of
from mainspring.core.census import DeadLine, LiveLine, add_up
from mainspring.core.job_findings import JobFindings
from mainspring.core.ledger_check import LedgerCheck
from mainspring.core.notifications import AlertState, Severity
from mainspring.core.notify import split_summary
from mainspring.core.pauses import LanePauses, Pause, PauseKey, PauseScope
from mainspring.core.rights import ALL_TENANTS
from mainspring.core.serving import is_of_engine
from mainspring.core.states import RunState
from mainspring.core.values import value
from mainspring.engine.common.restrictions import RestrictionReader
from mainspring.errors import TookTooLong
from mainspring.ports.clock import Clock
from mainspring.ports.store import Store
from mainspring.ports.store.browse import JobCounts
from mainspring.ports.store.nodes import NodeState
from mainspring.ports.store.sessions import SessionFacts

MOST_JOBS = 100_000
"""Jobs that are counted, at most: so many take some 20 ms."""
MOST_WORKERS = 1000
"""Workers that are added up, at most."""
MOST_OVERDUE = 1000
MOST_ALERTS = 1000


@value(kw_only=True)
class Overview:
    """What a cluster does.

    Attributes:
        runs: how many runs the tenant has in each state; `age` is how long ago they were counted.
        lines: the tenant's live runs, by queue and state.
        dead: the tenant's open dead letters, by queue.
        jobs: the tenant's jobs, of at most `MOST_JOBS`.
        workers: live workers, at most `MOST_WORKERS`; `held` is how many runs each holds.
        servers: those that schedule, as their last heartbeats left them.
        pauses, blackouts: what is paused now.
        ledger: what the last check of all ledgers came to.
    """

    now: datetime
    runs: Mapping[RunState, int]
    age: timedelta
    lines: Sequence[LiveLine]
    dead: Sequence[DeadLine]
    jobs: JobCounts
    workers: Sequence[SessionFacts]
    held: Sequence[int]
    servers: Sequence[NodeState]
    pauses: Sequence[Pause]
    blackouts: Sequence[BlackoutState]
    ledger: LedgerCheck | None
    attention: Sequence[Attention]

    @property
    def are_jobs_cut(self) -> bool:
        """Whether there may be more jobs than were counted."""
        return sum(self.jobs) >= MOST_JOBS


class OverviewReader:
    """Reads overviews. Each read is bounded: by a census, or by a number."""

    def __init__(self, store: Store, restrictions: RestrictionReader, *, clock: Clock) -> None:
        self._store = store
        self._restrictions = restrictions
        self._clock = clock

    async def read(
        self, tenant: str, findings: JobFindings | None = None, *, is_of_all: bool = True
    ) -> Overview:
        """Return what the cluster does, for a tenant.

        Args:
            findings: what the last look at all jobs has found.
            is_of_all: whether workers of other tenants count, too.

        Raises:
            TookTooLong: there are too many runs to be counted now, and no census has been taken yet.
        """
        store, now = self._store, self._clock.now()
        restrictions = await self._restrictions.read()
        assert restrictions is not None, "nothing is known, so all is read"
        pauses = restrictions.pauses
        workers = await self._read_workers(None if is_of_all else tenant)
        cluster = await store.read_cluster()
        runs, lines, dead, age = await self._count(tenant, now)
        overdue = await store.count_overdue(before=now - LATE, limit=MOST_OVERDUE)
        facts = ClusterFacts(
            servers=tuple(_server_facts(node) for node in cluster.nodes),
            lines=tuple(lines),
            served=tuple(worker.queues for worker in workers if worker.tenant in {None, tenant}),
            paused_queues=_paused_queues(pauses, tenant, lines, now),
            overdue=overdue.clocks,
            overdue_since=overdue.oldest_due_at,
            runs_lost=sum(failover.runs_lost for failover in store.failovers),
            findings=findings,
            ledger=await store.read_ledger_check(),
            alerts=await self._firing(tenant),
        )
        return Overview(
            now=now,
            runs=runs,
            age=age,
            lines=lines,
            dead=dead,
            jobs=await store.count_job_states(tenant, limit=MOST_JOBS),
            workers=workers,
            held=await store.count_held([worker.id for worker in workers]),
            servers=cluster.nodes,
            pauses=pauses.on(now),
            blackouts=[state_of(window, now) for window in pauses.blackouts if window.is_on(now)],
            ledger=facts.ledger,
            attention=judge_cluster(facts, now),
        )

    async def _firing(self, tenant: str) -> tuple[str, ...]:
        """Return what the alerts of a tenant, and about what all tenants share, say, without errors of runs."""
        found = await self._store.list_alerts(
            [tenant, ALL_TENANTS], states=[AlertState.FIRING], limit=MOST_ALERTS
        )
        worst = sorted(found, key=lambda alert: alert.severity is not Severity.CRITICAL)
        return tuple(split_summary(alert.rule, alert.subject, alert.summary)[0] for alert in worst)

    async def _read_workers(self, tenant: str | None) -> list[SessionFacts]:
        """Return the workers that work for a tenant, or all."""
        sessions = await self._store.page_sessions(limit=MOST_WORKERS)
        return [
            session
            for session in sessions
            if not is_of_engine(session) and (tenant is None or session.tenant in {None, tenant})
        ]

    async def _count(
        self, tenant: str, now: datetime
    ) -> tuple[Mapping[RunState, int], list[LiveLine], list[DeadLine], timedelta]:
        """Count a tenant's runs, or take them from the last census."""
        census = await self._store.read_census()
        if census is None or census.is_quick:
            try:
                counted = await self._store.count_lines(tenant)
            except TookTooLong:
                if census is None:
                    raise
            else:
                runs = add_up([*counted.live, *counted.ended])
                return runs, list(counted.live), list(counted.dead), timedelta(0)
        age = max(now - census.taken_at, timedelta(0))
        return census.of_tenant(tenant), census.lines_of(tenant), census.dead_of(tenant), age


def _server_facts(node: NodeState) -> ServerFacts:
    return ServerFacts(
        name=f"{node.facts.host}-{node.facts.pid}",
        period=node.period,
        last_beat_at=node.last_beat_at,
        refusal=node.refusal,
    )


def _paused_queues(
    pauses: LanePauses, tenant: str, lines: Sequence[LiveLine], now: datetime
) -> frozenset[str]:
    """Return the queues in which the tenant's runs are held back."""
    keys = {pause.key for pause in pauses.on(now)}
    keys |= {window.blackout.key for window in pauses.blackouts if window.is_on(now)}
    if PauseKey(PauseScope.ALL, "") in keys or PauseKey(PauseScope.TENANT, tenant) in keys:
        return frozenset(line.queue for line in lines)
    return frozenset(key.name for key in keys if key.scope is PauseScope.QUEUE)
