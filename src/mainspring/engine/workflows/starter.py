"""The engine's own worker for workflows: it claims their runs as any worker would, and begins their flows."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol

import structlog

from mainspring.core.ids import RunId, SessionId, format_run_id
from mainspring.core.model import Job, RunKind
from mainspring.core.outcomes import Failure
from mainspring.core.targets import WORKFLOW
from mainspring.core.workflows.places import is_workflow_route
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.state import FlowPhase, UnreadableFlow
from mainspring.core.workflows.timers import earliest
from mainspring.core.workflows.turn import FlowTurn, begin_flow
from mainspring.engine.common.definitions import Definitions
from mainspring.engine.common.queue_expiries import QueueExpiryFollower
from mainspring.engine.common.run_counts import RunCounts
from mainspring.engine.common.wakeups import RunsNews, Wakeups, lanes_of
from mainspring.engine.workflows.job_lookup import JobLookup
from mainspring.engine.workflows.seeds import SeedReader, TakenSeed
from mainspring.engine.workflows.step_runs import FlowFacts, make_step_runs
from mainspring.engine.workflows.turns import waits_of
from mainspring.engine.workflows.values import FlowValues, values_to_keep
from mainspring.ports.clock import Clock, Waiter
from mainspring.ports.executor import Snooze
from mainspring.ports.expressions import Expressions
from mainspring.ports.flow_codec import encode_flow_state
from mainspring.ports.gateway import (
    BeatReply,
    ClaimCall,
    ClaimReply,
    Lease,
    Registration,
    Report,
    ReportResult,
    Session,
    Stopped,
)
from mainspring.ports.store import Store
from mainspring.ports.store.flows import FlowStart, FlowValue, FlowVerdict
from mainspring.ports.store.restrictions import TELLS_FLOWS
from mainspring.ports.store.runs import NewRun
from mainspring.ports.telemetry import Measure

_log = structlog.get_logger(__name__)
PERIOD = 1.0
"""Seconds between two looks for workflows of which no hint tells."""
BATCH = 100
"""Runs that are claimed together."""
_LOOK_PERIOD = 5.0
"""Seconds for which it is believed that no program of an earlier release is alive."""
MOST_RUNS = 500
"""Runs of steps that are made in one transaction, unless one flow alone begins with more."""
UNREADABLE_WAIT = timedelta(seconds=30)
"""How long a workflow waits whose definition this program cannot read. Meanwhile another server may begin it."""


class FlowGateway(Protocol):
    """What the engine's own worker needs of the gateway."""

    async def enroll(self, registration: Registration) -> Session:
        """Open a session that may offer what only the engine carries out."""
        ...

    async def claim(self, call: ClaimCall) -> ClaimReply:
        """Take leases."""
        ...

    async def beat(self, session_id: SessionId, held: tuple[tuple[RunId, int], ...]) -> BeatReply:
        """Show that the session is alive."""
        ...

    async def report(self, session_id: SessionId, reports: tuple[Report, ...]) -> tuple[ReportResult, ...]:
        """Say how attempts ended."""
        ...

    async def leave(self, session_id: SessionId) -> None:
        """End the session."""
        ...

    def note_handed_over(self, leases: Sequence[tuple[RunId, int]]) -> None:
        """Note that attempts hold no slot of a worker any more, though they go on."""
        ...


class ReadyLanes(Protocol):
    """Knows in which lanes something is ready, and serves claims."""

    async def find_ready(self, fits: Callable[[str], bool], now: datetime) -> tuple[datetime, ...]:
        """Return from when on lanes of some routes have runs to start."""
        ...

    def has_call_of(self, session_id: SessionId) -> bool:
        """Say whether a claim of a session waits."""
        ...

    async def tick(self, now: datetime) -> float:
        """Serve the claims that wait."""
        ...


class FlowStarter:
    """Begins the flows of workflows whose runs are due, in the order in which claims are served.

    So priorities, caps, pauses and expiries hold for workflows as for all runs. It opens its session with the first
    run that it finds, and holds leases only until they are handed over to the engine. If it dies before that, the
    reaper gives the runs back.

    Args:
        lanes: the matcher.
        host, pid: of the process, for the session.
    """

    name = "flow_starts"

    def __init__(
        self,
        store: Store,
        gateway: FlowGateway,
        lanes: ReadyLanes,
        *,
        definitions: Definitions,
        expiries: QueueExpiryFollower,
        clock: Clock,
        wakeups: Wakeups,
        waiter: Waiter,
        counts: RunCounts,
        host: str,
        pid: int,
        expressions: Expressions | None = None,
    ) -> None:
        self._store = store
        self._seeds = SeedReader(store)
        self._gateway = gateway
        self._lanes = lanes
        self._definitions = definitions
        self._expiries = expiries
        self._clock = clock
        self._wakeups = wakeups
        self._counts = counts
        self._expressions = expressions
        self._offer = Registration(
            name=f"engine-{host}-{pid}", host=host, pid=pid, slots=BATCH, types=(WORKFLOW,)
        )
        self.waiter = waiter
        self._session: Session | None = None
        self._number = 0
        self._beat_due = 0.0
        self._held: tuple[Lease, ...] = ()
        self._knows_lanes = False
        self._looks_at = -1.0e9
        self._waits_for: tuple[str, ...] = ()
        self._started = 0
        wakeups.subscribe_runs(self._on_runs_ready)

    def measures(self) -> Iterator[Measure]:
        """Yield how many flows were begun."""
        yield Measure("flows_started_total", self._started)

    def _on_runs_ready(self, news: RunsNews) -> None:
        if news.lanes is not None and not (self._knows_lanes and news.keys != ()):
            if any(is_workflow_route(lane.route) for lane in news.lanes()):
                self.waiter.signal()
        elif self._knows_lanes:  # else the next look is soon enough
            self.waiter.signal()

    async def tick(self, now: datetime) -> float:
        """Begin the flows of what is ready."""
        await self._stay_alive()
        if self._held:
            await self._begin(now)
        ready = await self._lanes.find_ready(is_workflow_route, now)
        self._knows_lanes = bool(ready)
        first = min(ready, default=None)
        if first is None or first > now:
            return PERIOD if first is None else min((first - now).total_seconds(), PERIOD)
        if await self._must_wait():
            return PERIOD
        await self._claim(now)
        if not self._held:
            return PERIOD  # limits, or others were first
        await self._begin(self._clock.now())
        return 0.0

    async def _must_wait(self) -> bool:
        """Say whether programs of an earlier release live, which would end steps without telling their flows."""
        at = self._clock.monotonic()
        if at < self._looks_at:
            return False
        older = await self._store.list_older_programs(protocol=TELLS_FLOWS)
        if not older:
            self._looks_at, self._waits_for = at + _LOOK_PERIOD, ()
            return False
        if tuple(older) != self._waits_for:
            self._waits_for = tuple(older)
            meaning = "workflows wait until no server or worker of an earlier release is alive"
            _log.warning("workflows_wait", programs=older, meaning=meaning)
        return True

    async def _stay_alive(self) -> None:
        session = self._session
        if session is None or self._clock.monotonic() < self._beat_due:
            return
        self._beat_due = self._clock.monotonic() + session.beat_period.total_seconds()
        reply = await self._gateway.beat(session.id, self._leases())
        if not reply.is_session_live:
            self._forget()

    def _leases(self) -> tuple[tuple[RunId, int], ...]:
        return tuple((lease.run_id, lease.token) for lease in self._held)

    def _forget(self) -> None:
        """Note that the session is over: others get what it held."""
        self._session, self._number, self._held = None, 0, ()

    async def _claim(self, now: datetime) -> None:
        """Take leases of what is ready. If that fails, the next call repeats the request."""
        if self._session is None:
            self._session = await self._gateway.enroll(self._offer)
            self._beat_due = self._clock.monotonic() + self._session.beat_period.total_seconds()
        call = ClaimCall(
            session_id=self._session.id,
            number=self._number + 1,
            limit=BATCH,
            wait=timedelta(0),
            is_idle=True,
        )
        asking = asyncio.ensure_future(self._gateway.claim(call))
        try:
            await asyncio.wait([asking], timeout=0)  # until it stands among the claims
            while self._lanes.has_call_of(self._session.id):
                await self._lanes.tick(now)
            reply = await asking
        finally:
            asking.cancel()
        if not reply.is_session_live:
            self._forget()
            return
        self._number = call.number
        self._held = reply.leases

    async def _begin(self, now: datetime) -> None:
        """Hand over the leases that are held, and begin their flows."""
        batch: list[FlowStart] = []
        lookup = JobLookup(self._store)
        seeds = await self._seeds.find(self._held)
        for lease in self._held:
            start = await self._plan(lease, seeds.get(lease.run_id), now, lookup)
            if isinstance(start, Report):
                await self._gateway.report(self._session_id, (start,))
                self._held = tuple(one for one in self._held if one is not lease)
                continue
            if batch and sum(len(one.runs) for one in batch) + len(start.runs) > MOST_RUNS:
                await self._write(batch, now)
                batch = []
            batch.append(start)
        await self._write(batch, now)

    async def _plan(
        self, lease: Lease, kept_seed: bytes | None, now: datetime, lookup: JobLookup
    ) -> FlowStart | Report:
        """Return how a flow begins; a report instead if its run was cancelled, or cannot be begun by this program."""
        if lease.is_cancel_requested:
            return Report(lease.run_id, lease.token, Stopped())
        try:
            plan = self._definitions.plans.find((lease.job_id, lease.version), lease.spec)
            seed = await self._seeds.read(plan, kept_seed)
            begun, runs = await self._take_first(lease, plan, seed, now, lookup)
        except UnreadableFlow as error:  # as of a later release: one that can read it decides about it
            meaning = "it waits for a server that can read it"
            _log.error(
                "workflow_unreadable", run=format_run_id(lease.run_id), why=str(error), meaning=meaning
            )
            return Report(lease.run_id, lease.token, Snooze(UNREADABLE_WAIT))
        except ValueError as error:
            return Report(lease.run_id, lease.token, Failure(error=str(error), is_retryable=False))
        # One that no step runs of ends with its next turn, as all flows end with one.
        state = begun.state if begun.end is None else replace(begun.state, phase=FlowPhase.OPEN)
        return FlowStart(
            run_id=lease.run_id,
            token=lease.token,
            session_id=self._session_id,
            state=encode_flow_state(state),
            live=begun.state.live,
            runs=runs,
            goes_on=begun.goes_on or begun.end is not None,
            wake_at=earliest(begun.state.timers),
            waits=waits_of(begun, lease.tenant, lease.due_at),
            values=_values_of(plan, begun, seed),
        )

    async def _take_first(
        self, lease: Lease, plan: FlowPlan, seed: TakenSeed | None, now: datetime, lookup: JobLookup
    ) -> tuple[FlowTurn, tuple[NewRun, ...]]:
        """Return the first turn of a flow, and the runs that it makes."""
        facts, values = _facts_of(lease), None
        if plan.asks:
            values = FlowValues(self._expressions, plan, lease.spec, facts, attempt=lease.attempt)
            values.known |= dict.fromkeys(plan.waits)  # one that is over at once has returned nothing
            values.known |= {} if seed is None else seed.values

        def decide(refused: Mapping[int, str]) -> FlowTurn:
            taken = None if seed is None else seed.state
            return begin_flow(plan, now=now, evaluate=values, refused=refused, seed=taken)

        def make(decided: FlowTurn, jobs: Mapping[str, Job]) -> tuple[NewRun, ...]:
            expiries = self._expiries.by_queue
            return make_step_runs(facts, lease.spec, plan, decided, now=now, jobs=jobs, expiries=expiries)

        return await lookup.take(lease.tenant, lease.run_id, plan, decide, make)

    @property
    def _session_id(self) -> SessionId:
        assert self._session is not None, "what is held was claimed by a session"
        return self._session.id

    async def _write(self, starts: Sequence[FlowStart], now: datetime) -> None:
        if not starts:
            return
        verdicts = await self._store.start_flows(starts, now=now)
        begun = [
            start for start, verdict in zip(starts, verdicts, strict=True) if verdict is FlowVerdict.STARTED
        ]
        over = {start.run_id for start in starts}
        self._held = tuple(lease for lease in self._held if lease.run_id not in over)
        self._gateway.note_handed_over([(start.run_id, start.token) for start in starts])
        self._started += len(begun)
        runs = [run for start in begun for run in start.runs]
        note_step_runs(self._counts, runs)
        if runs:
            self._wakeups.runs_ready(lanes_of(runs))
        if any(start.goes_on or start.waits for start in begun):
            self._wakeups.flows_told()

    async def stop(self) -> None:
        """End the session, if there is one. Whatever it holds goes back."""
        if self._session is not None:
            session = self._session
            self._forget()
            await self._gateway.leave(session.id)


def note_step_runs(counts: RunCounts, runs: Sequence[NewRun]) -> None:
    """Count runs of steps that were made."""
    for (tenant, queue), count in Counter((run.lane.tenant, run.lane.queue) for run in runs).items():
        counts.note_made(tenant, queue, RunKind.WORKFLOW, count)


def _values_of(plan: FlowPlan, begun: FlowTurn, seed: TakenSeed | None) -> tuple[FlowValue, ...]:
    """Return what later turns may ask for of what was taken over."""
    if seed is None:
        return ()
    return values_to_keep(plan, begun.state.steps, seed.values, seed.values)


def _facts_of(lease: Lease) -> FlowFacts:
    return FlowFacts(
        run_id=lease.run_id,
        job_id=lease.job_id,
        version=lease.version,
        tenant=lease.tenant,
        fire_at=lease.fire_at,
        target_key=lease.target_key,
        payload=lease.payload if lease.payload is not lease.spec.payload else None,
        trace=lease.trace,
    )
