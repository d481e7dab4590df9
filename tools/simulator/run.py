"""Runs one simulation, from its plan to its verdict."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import logging
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import structlog

from mainspring.core.audit import AuditFilter
from mainspring.core.checkpoints import Checkpoint
from mainspring.core.dead_letters import SettledLetter
from mainspring.core.definition.workflows import workflow_from_plain
from mainspring.core.ids import SHARDS, RunId
from mainspring.core.model import Attempt, FireRange, Run
from mainspring.core.notifications import AlertState
from mainspring.core.states import FINAL_STATES, RunState
from mainspring.core.workflows.maps import most_failures
from mainspring.core.workflows.places import StepPlace
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.state import FlowPhase, StepStatus
from mainspring.core.workflows.taken import Taken, unpack_items
from mainspring.engine.claiming import lane_rounds
from mainspring.errors import StoreUnavailable
from mainspring.ports.flow_codec import decode_flow_state
from mainspring.stores.memory import MemoryStore
from mainspring.testing.factories import START
from tools.judge import AlertStory, FlowStory, History, Verdict, judge
from tools.judge.ends import tell_ends
from tools.judge.starts import tell_starts
from tools.simulator.access_record import add_up
from tools.simulator.faults import Nemesis, margin
from tools.simulator.fitness import check_division
from tools.simulator.flowed import asked_by, count_items
from tools.simulator.loop import make_loop
from tools.simulator.nodes import ServerNode, WorkerNode
from tools.simulator.plan import Plan
from tools.simulator.recorder import Recorder
from tools.simulator.workload import Clients
from tools.simulator.world import World

_PATIENCE = 12
"""After this many times five seconds without any progress, what is left counts as stuck."""
_LONGEST = 2400.0
"""After this many seconds, a simulation in which things still happen counts as stuck."""
_TELLING = 5
_LONGEST_TELLING = 900
_AT_REST = 30
"""Seconds without a message after which nothing more is told: the watchdog has looked twice, and waited for others."""
_OPEN_STATES = tuple(state for state in RunState if state not in FINAL_STATES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of one simulation.

    Attributes:
        reached: how often each thing happened that campaigns must meet.
        log: one line per event.
        seconds: virtual time that passed.
        steps: handles run by the loop.
        errors: broken rules of servers, and uncaught errors.
    """

    plan: Plan
    verdict: Verdict
    reached: Mapping[str, int]
    log: tuple[str, ...]
    seconds: float
    steps: int
    errors: tuple[str, ...]

    @property
    def is_good(self) -> bool:
        """Whether no rule was broken and no error was left uncaught."""
        return self.verdict.is_good and not self.errors

    @property
    def digest(self) -> str:
        """A hash of the log: the same for the same plan, in any process."""
        return hashlib.sha256("\n".join(self.log).encode()).hexdigest()


def simulate(plan: Plan) -> Result:
    """Carry out a plan, and judge what happened."""
    if plan.store == "memory":
        return _simulate(plan, None)
    with tempfile.TemporaryDirectory(prefix="mainspring-simulation-") as folder:
        return _simulate(plan, Path(folder))


def _simulate(plan: Plan, folder: Path | None) -> Result:
    loop = make_loop()

    def time() -> datetime:
        return START + timedelta(seconds=loop.now)

    recorder = Recorder(time)
    world = World(
        plan=plan, loop=loop, time=time, store=MemoryStore(time=time), recorder=recorder, folder=folder
    )
    world.failure_rate = plan.failure_rate
    with _quiet(), _few_lanes(plan.few_lanes):
        try:
            history = loop.run_until_complete(_live(world))
        finally:
            loop.close()
            world.nodes.clear()
    verdict = judge(history)
    reached = dict(sorted(recorder.reached.items()))
    uncaught = [f"{item.get('message')}: {item.get('exception')!r}" for item in loop.errors]
    return Result(
        plan=plan,
        verdict=verdict,
        reached=reached,
        log=tuple(recorder.log),
        seconds=loop.time(),
        steps=loop.steps,
        errors=(*recorder.broken, *uncaught),
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the engine's log lines and the warnings about coroutines of killed processes."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
            yield
            gc.collect(0)  # everything made meanwhile is in the youngest generation
    finally:
        structlog.configure(**before)
        if was_enabled:
            gc.enable()


@contextmanager
def _few_lanes(count: int) -> Iterator[None]:
    """Let processes count as having many lanes from another number on."""
    before, lane_rounds.FEW = lane_rounds.FEW, count
    try:
        yield
    finally:
        lane_rounds.FEW = before


async def _live(world: World) -> History:
    plan = world.plan
    servers = [ServerNode(world, f"server-{index}") for index in range(plan.servers)]
    for index, is_near in enumerate(plan.workers):
        tenant = plan.tenants[index] if plan.tenants else ""
        WorkerNode(world, f"worker-{index}", servers, is_near=is_near, tenant=tenant or None)
    for node in world.nodes.values():
        node.boot()
    nemesis = Nemesis(world)
    clients = Clients(world, servers)
    await asyncio.gather(clients.run(), nemesis.run(), asyncio.sleep(plan.seconds))
    nemesis.heal()
    healed_at = world.time()
    await asyncio.sleep(5 + 3 * margin(plan.beat_period).total_seconds())
    figures = {server.name: server.figures for server in servers}
    owned = {shard for server in servers for shard in server.owned}
    world.recorder.broken += check_division(figures, owned, SHARDS)
    await clients.pause_all()
    await _until_done_or_stuck(world)
    if plan.judges_alerts:
        await _until_told(world)
    history = await _read(world, healed_at)
    if not world.recorder.faults and not world.recorder.flow_runs:
        nodes = [node for node in world.nodes.values() if isinstance(node, ServerNode | WorkerNode)]
        history.counted = add_up(one for node in nodes for one in node.usage)
    for node in world.nodes.values():
        node.kill()  # which also releases files
    return history


async def _until_done_or_stuck(world: World) -> None:
    """Wait until what is left has ended. Give up after a minute without any progress."""
    seen = -1
    end = world.loop.time() + _LONGEST
    while world.loop.time() < end and seen < _count_events(world):
        seen = _count_events(world)
        for _ in range(_PATIENCE):
            try:
                if not await _is_any_open(world):
                    return
            except StoreUnavailable:
                pass  # the server that has the file starts again
            await asyncio.sleep(5)


def _count_events(world: World) -> int:
    return len(world.recorder.events) + len(world.recorder.flow_events)


async def _is_any_open(world: World) -> bool:
    if await world.store.list_running_redrives(limit=1):
        return True
    if world.folder is not None:  # where each call takes time: the fewest calls
        return any(run.state not in FINAL_STATES for run in await _all_runs(world))
    for tenant in _tenants(world):
        for state in _OPEN_STATES:
            if await world.store.list_runs(tenant, state=state, limit=1):
                return True
    return False


async def _read(world: World, healed_at: datetime) -> History:
    recorder = world.recorder
    every = await _all_runs(world)
    runs = [run for run in every if run.place is None and run.id not in recorder.flow_runs]
    fire_ranges: list[FireRange] = []
    for job_id in dict.fromkeys(change.job_id for change in recorder.changes):
        fire_ranges += await world.store.list_fire_ranges(job_id, limit=100_000)
    attempts: dict[RunId, list[Attempt]] = {}
    for run in runs:
        attempts[run.id] = await world.store.list_attempts(run.id)
    return History(
        changes=tell_ends(tell_starts(recorder.changes, recorder.starts), runs),
        operations=recorder.operations,
        effects=recorder.effects,
        events=recorder.events,
        replacements=recorder.replacements,
        pausings=recorder.pausings,
        blackouts=recorder.blackouts,
        servers=tuple(f"server-{index}" for index in range(world.plan.servers)),
        lives=[life for life in recorder.lives.values() if life.node.startswith("server")],
        starts=recorder.starts,
        cappings=recorder.cappings,
        grants=recorder.grants,
        faults=recorder.faults,
        runs=runs,
        attempts=attempts,
        fire_ranges=fire_ranges,
        backfills=list(recorder.backfills.values()),
        redrives=[one for tenant in _tenants(world) for one in await world.store.list_redrives(tenant)],
        redrive_places=recorder.redrive_places,
        settled=await _read_settled(world, runs),
        discarded=recorder.discarded,
        judges_alerts=world.plan.judges_alerts,
        alerts=await _read_alerts(world) if world.plan.judges_alerts else [],
        told=recorder.told,
        noticed=recorder.noticed,
        requests=recorder.access.requests,
        committed=recorder.access.committed,
        audited=await _read_audit(world),
        bound=recorder.access.bound,
        uses=recorder.access.uses,
        revoked=recorder.access.revoked,
        read_at=world.time(),
        healed_at=healed_at,
        slack=2 * world.worst_clock + timedelta(milliseconds=1),
        slots=world.plan.slots * len(world.plan.workers),
        weights=recorder.weights if recorder.order == "fair" else dict.fromkeys(recorder.weights, 1),
        is_by_age=recorder.order == "fifo",
        reserves=recorder.reserves,
        promises=recorder.promises,
        limits=recorder.limits,
        expiries=recorder.expiries,
        rates=recorder.rates,
        permits=recorder.permits,
        askings=recorder.askings,
        flows=[await _read_flow(world, run) for run in every if run.id in recorder.flow_runs],
        flow_events=recorder.flow_events,
        steps=recorder.steps,
        kept={
            run_id: await _read_kept(world, run_id)
            for run_id in {note.run_id: None for note in recorder.steps}
        },
        flow_mail=len(await world.store.read_mail(range(SHARDS), lows={}, limit=100)),
        open_flows=sum(flow is not None for flow in await world.store.read_flows(sorted(recorder.flow_runs))),
        claim=world.plan.slots,
        matchers=world.plan.servers + sum(world.plan.workers),
        lease=margin(world.plan.beat_period),
    )


async def _read_flow(world: World, run: Run) -> FlowStory:
    """Return a run of a workflow with all that became of it."""
    (spec,) = await world.store.read_versions([(run.job_id, run.version)])
    assert spec is not None
    plan = FlowPlan.of(workflow_from_plain(spec.target.params))
    (kept,) = await world.store.read_flow_states([run.id])
    state = None if kept is None else decode_flow_state(kept)
    steps = None if state is None else state.steps
    whole, in_part = await _read_taken(world, () if state is None else state.taken)
    whens, givens = asked_by(plan.workflow.steps)
    return FlowStory(
        run=run,
        links=plan.graph.parents,
        rules=tuple(rule.value for rule in plan.rules),
        may_fail=frozenset(step for step, may in enumerate(plan.may_fail) if may),
        runs=tuple(await world.store.list_flow_runs(run.id, limit=1000)),
        steps=None if steps is None else tuple(StepStatus(byte).name for byte in steps),
        cancelled_at=world.recorder.flow_cancels.get(run.id),
        deadline=plan.workflow.deadline,
        maps={
            step: (count_items(own), own.max_parallel, most_failures(own, count_items(own)))
            for step, own in plan.maps.items()
        },
        pauses=tuple(world.recorder.flow_pauses.get(run.id, ())),
        at_end=frozenset(step for step, is_last in enumerate(plan.at_end) if is_last),
        has_skips=any(one in world.recorder.flow_skips for one in await _read_chain(world, run)),
        whens=whens,
        givens=givens,
        waits=world.recorder.waits_of(run, plan, kept),
        taken={step: one for step, one in whole.items() if step not in plan.maps}
        | {step: None for step in whole if step in plan.maps},
        taken_items=in_part,
        undoes=plan.undoes,
        ends=None if state is None else state.order_of_ends(),
        again=_steps_again(plan, world.recorder.flow_redrives.get(run.id)),
        has_begun=state is None or run.state not in FINAL_STATES or state.phase is FlowPhase.ENDED,
    )


async def _read_kept(world: World, run_id: RunId) -> list[Checkpoint]:
    return await world.store.list_checkpoints(run_id, limit=1000)


async def _read_taken(world: World, taken: Taken) -> tuple[dict[int, Run | None], dict[int, frozenset[int]]]:
    """Return the steps that were taken over, each with the run in which it succeeded, and those taken in part."""
    whole = [one for one in taken if one.is_whole]
    runs = await world.store.read_step_ends([StepPlace(one.flow_id, one.place) for one in whole])
    found = {one.step: run for one, run in zip(whole, runs, strict=True)}
    return found, {one.step: frozenset(unpack_items(one.items)) for one in taken if not one.is_whole}


async def _read_chain(world: World, run: Run) -> list[RunId]:
    """Return a run, the one that it repeats, and so on."""
    chain, at = [run.id], run.redrive_of
    while at is not None:
        chain.append(at)
        (before,) = await world.store.get_runs([at])
        at = None if before is None else before.redrive_of
    return chain


def _steps_again(plan: FlowPlan, names: frozenset[str] | None) -> frozenset[int] | None:
    return None if names is None else frozenset(plan.places[name] for name in names)


async def _until_told(world: World) -> None:
    """Wait until nothing more is told. What a server had taken that was killed is taken again after two minutes."""
    seen, idle = -1, 0
    for _ in range(_LONGEST_TELLING // _TELLING):
        await asyncio.sleep(_TELLING)
        has_told = len(world.recorder.told) > seen
        seen = len(world.recorder.told)
        idle = 0 if has_told or world.recorder.undelivered else idle + 1
        if idle * _TELLING >= _AT_REST:
            return


async def _read_alerts(world: World) -> list[AlertStory]:
    """Return the alerts that ever fired, the newest first."""
    states = [AlertState.FIRING, AlertState.RESOLVED]
    return [
        AlertStory(
            id=one.id,
            tenant=one.tenant,
            rule=one.rule,
            subject=one.subject,
            since=one.since,
            resolved_at=one.resolved_at,
            tells_end=one.telling.tells_end,
        )
        for one in await world.store.list_alerts(None, states=states, limit=100_000)
    ]


async def _read_audit(world: World) -> dict[str, int]:
    """Return how many rows about jobs the audit has of each request."""
    found: Counter[str] = Counter()
    before: int | None = None
    while page := await world.store.list_audit(AuditFilter(subject_kind="job"), before=before, limit=1000):
        found.update(kept.entry.request_id or "" for kept in page)
        before = page[-1].id
    return dict(found)


async def _read_settled(world: World, runs: Sequence[Run]) -> dict[RunId, SettledLetter]:
    """Return what became of dead letters; open ones are left out."""
    dead = [run.id for run in runs if run.state is RunState.FAILED]
    found = zip(dead, await world.store.read_settled(dead), strict=True)
    return {run_id: settled for run_id, settled in found if settled is not None}


async def _all_runs(world: World) -> list[Run]:
    runs: list[Run] = []
    for tenant in _tenants(world):
        before: RunId | None = None
        while page := await world.store.list_runs(tenant, before=before, limit=1000):
            runs += page
            before = page[-1].id
    return sorted(runs, key=lambda run: run.id)


def _tenants(world: World) -> list[str]:
    return list(dict.fromkeys(job.tenant for job in world.plan.jobs))
