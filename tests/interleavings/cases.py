"""One state of the tables, and verbs to carry out on it from two sides."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from mainspring.core import outcomes
from mainspring.core.backfill import BackfillChange
from mainspring.core.batching import BatchRule
from mainspring.core.blackouts import Blackout
from mainspring.core.checkpoints import NewCheckpoint
from mainspring.core.events.model import Event
from mainspring.core.fencing import ENGINE_SESSION
from mainspring.core.ids import DEFAULT_TENANT, BackfillId, FireRangeId, JobId, RunId, SessionId
from mainspring.core.lane_caps import CapKey, CapScope, LaneCap
from mainspring.core.limits import JobLimit, LimitRule
from mainspring.core.model import Job, LaneKey, Overlap, Priority, RunKind
from mainspring.core.once import OnceGuard, OnConflict, UniqueRule, UniqueScope
from mainspring.core.outcomes import Failure, Transition
from mainspring.core.outlines import RunOutline
from mainspring.core.pauses import Pause, PauseScope
from mainspring.core.preemption import PreemptionMark, Victim
from mainspring.core.priorities import PriorityClass
from mainspring.core.queues import Queue, QueueOrder
from mainspring.core.rates import Rate
from mainspring.core.run_logs import LogPart, RunProgress, deflate
from mainspring.core.tenants import Tenant
from mainspring.core.triggers import OnEvent
from mainspring.core.workflows.mail import StepEnded
from mainspring.ports.store.applying import JobsChange, OwnedNames
from mainspring.ports.store.backfills import BackfillStep
from mainspring.ports.store.calendars import CalendarDeletion, CalendarUse, CalendarUses, Replan
from mainspring.ports.store.claims import ClaimResult, HeldRun
from mainspring.ports.store.ends import FollowingFire
from mainspring.ports.store.events import EventStart, EventStatus, Listener, NewEvent
from mainspring.ports.store.flows import FlowValue, FlowVerdict, MailPlace, TurnedFlow
from mainspring.ports.store.limits import LineQuota
from mainspring.ports.store.policies import PermitRequest
from mainspring.ports.store.preemption import PreemptionRequest
from mainspring.ports.store.restrictions import BlackoutsWritten
from mainspring.ports.store.run_logs import LogEntry
from mainspring.ports.store.runs import IdempotencyKey, NewRun
from mainspring.ports.store.schedule import DueClock, FireRangeStep
from mainspring.ports.store.sessions import Beat
from mainspring.stores.postgres import PostgresStore
from mainspring.testing.conformance.backfills import make_backfill
from mainspring.testing.conformance.calendars import make_calendar
from mainspring.testing.conformance.events import guard_of, make_event, make_new_event, payload_of
from mainspring.testing.conformance.flows import make_start, make_step_run
from mainspring.testing.factories import (
    START,
    add_job,
    add_session,
    all_lanes,
    at,
    claim_lined_up,
    facts_of,
    lane_of,
    make_change,
    make_claim,
    make_edit,
    make_fire,
    make_fire_range,
    make_new_job,
    make_new_run,
    make_next_fire,
    make_node,
    make_pause,
    make_scheduled_run,
    make_spec,
    own_shards,
    read_held,
    read_job,
    running_run,
    submit,
)
from mainspring.testing.factories import claim as claim_runs

NOW = at(60)
"""The instant of nearly all verbs."""

EXPIRY = at(70)
"""When the waiting run expires."""

SHARD = 7
RATE = Rate(2, timedelta(hours=1))
HOLIDAYS = CalendarUses(0, (CalendarUse("holidays", 1, is_pinned=False),))
"""Uses by the revision that a fresh store has."""
AGAIN = 1_000_000
PAID = "orders.paid"
FIRST_NEW = 1_000_000 * 256
"""The first id that a run can get which the scene has not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What the fixture holds.

    Attributes:
        job: due now; `waiting`, `held`, `other` and `quarantined` are its runs, each in a lane of its own.
        quiet: due now too, with an open fire range and an interned lane without runs; skips fires while it has a live
            run.
        paused: has an open gap.
        limited: may have one run at a time by itself, and three by the limit `crm`; `first` holds `limited_held`, and
            two more wait in `lines`.
        backfill: one of `quiet`, with one open section, `section`.
        batched: its runs are taken two at a time; three wait in `batch_lines`.
        workflow: `flow` is a run of it that the engine holds. Of its steps, `step` is held by `first`, the second one
            waits, and the end of the third one is told. `to_start` is another one, which `first` holds.
        listening: events of a topic start it; one was received, whose id is free again, and its run waits.
        listening_once: so does it, and skips events while it has a live run, or has runs cancelled: as a verb says.
        first: the session that holds `held` and `other`.
        second: another one, without runs.
        node_beats: the counter of node-1.
        epochs: of node-1, which owns all shards; node-2 owns none.
    """

    job: Job
    quiet: Job
    paused: Job
    waiting: RunId
    held: HeldRun
    other: HeldRun
    quarantined: RunId
    limited: Job
    limited_held: HeldRun
    lines: tuple[LineQuota, ...]
    batched: Job
    batch_lines: tuple[LineQuota, ...]
    workflow: Job
    flow: RunId
    flow_mail: tuple[MailPlace, ...]
    step: HeldRun
    to_start: HeldRun
    listening: Job
    listening_once: Job
    first: SessionId
    second: SessionId
    beats: int
    node_beats: int
    fire_range: FireRangeId
    backfill: BackfillId
    section: FireRangeId
    epochs: dict[int, int]
    lanes: tuple[Any, ...]
    lane_ids: dict[LaneKey, Any]


async def set_scene(store: PostgresStore, execute: Callable[[str], Awaitable[Any]]) -> Scene:
    """Make the fixture in an empty database."""
    epochs = await own_shards(store)
    await store.beat_node(make_node("node-2"), now=START)
    job = await add_job(store, make_spec(name="job"), next_fire_at=START, shard=SHARD)
    quiet = await add_job(store, make_spec(name="quiet", queue="quiet"), next_fire_at=START, shard=SHARD)
    paused = await add_job(
        store, make_spec(name="paused", queue="paused"), next_fire_at=START, shard=SHARD + 1
    )
    await store.pause_jobs([make_pause(paused)], now=START)
    paused = await read_job(store, paused.id)
    await store.add_fire_ranges([make_fire_range(quiet)], now=START)
    [fire_range] = await store.list_fire_ranges(quiet.id)
    backfill = make_backfill(quiet)
    await store.add_backfill(backfill, now=START)
    section = (await store.list_fire_ranges(quiet.id))[0]
    first, second = await add_session(store), await add_session(store, worker="worker-2")
    crashed = await running_run(store, job, session_id=first, lane=_lane("quarantined"))
    await store.apply([outcomes.lost(facts_of(crashed), job.spec, now=START)], now=START)
    held = await running_run(
        store, job, session_id=first, lane=_lane("held"), once=_guard("held", UniqueRule())
    )
    other = await running_run(store, job, session_id=first, lane=_lane("other"))
    [waiting] = await submit(
        store, job, lane=_lane("waiting"), expires_at=EXPIRY, once=_guard("waiting", REPLACE)
    )
    key = IdempotencyKey(key="old", request_hash=b"before", expires_at=at(5))
    ended = await submit(store, quiet, submit_key=key, once=_guard("over", UniqueRule()))
    await store.cancel_runs(ended, reason="test", now=START)
    rules = [LimitRule(name="crm", max_running=3), LimitRule(name="free", max_running=9)]
    await store.write_limits("default", rules)
    await store.write_tenants([Tenant(name="acme", submit_rate=RATE), Tenant(name="shop", submit_rate=RATE)])
    limits = (JobLimit(limit=1), JobLimit(use="crm"))
    limited = await add_job(store, make_spec(name="limited", queue="limited", concurrency=limits))
    # Which is the first in a line does not depend on its place.
    for place in range(3):
        await submit(store, limited, due_at=at(0.001 * place))
    [limited_run] = (await claim_lined_up(store, first)).runs
    lines = tuple(LineQuota(line.key, START, 3) for line in await store.read_lines(limit=9))
    batched = await add_job(store, make_spec(name="batched", queue="batched", batch=BatchRule(size=2)))
    for place in range(3):
        await submit(store, batched, due_at=at(0.001 * place))
    known = {line.key for line in lines}
    others = [line for line in await store.read_lines(limit=9) if line.key not in known]
    batch_lines = tuple(LineQuota(line.key, START, 1) for line in others)
    workflow = await add_job(store, make_spec(name="workflow", queue="workflow"), shard=SHARD)
    flow, flow_mail, step = await _start_flow(store, workflow, first)
    [to_start] = await submit(store, workflow, lane=_lane("to_start"))
    await claim_of(store, first, "to_start")
    listening, listening_once = await _start_by_event(store)
    await execute("SELECT setval('run_sequence', 1000000)")
    lanes = await store.read_lanes([])
    [beats] = [facts.beats for facts in await store.list_sessions() if facts.id == first]
    return Scene(
        job=job,
        quiet=quiet,
        paused=paused,
        waiting=waiting,
        held=await read_held(store, held.run_id),
        other=await read_held(store, other.run_id),
        quarantined=crashed.run_id,
        limited=limited,
        limited_held=await read_held(store, limited_run.run_id),
        lines=lines,
        batched=batched,
        batch_lines=batch_lines,
        workflow=workflow,
        flow=flow,
        flow_mail=flow_mail,
        step=await read_held(store, step),
        to_start=await read_held(store, to_start),
        listening=listening,
        listening_once=listening_once,
        first=first,
        second=second,
        beats=beats,
        node_beats=(await store.read_cluster()).nodes[0].beats,
        fire_range=fire_range.id,
        backfill=backfill.id,
        section=section.id,
        epochs=epochs,
        lanes=await all_lanes(store),
        lane_ids={lane.key: lane.id for lane in lanes},
    )


async def _start_flow(
    store: PostgresStore, workflow: Job, first: SessionId
) -> tuple[RunId, tuple[MailPlace, ...], RunId]:
    """Start a flow. Return it, its mail, and the run of its first step."""
    [flow] = await submit(store, workflow)
    await claim_of(store, first, "workflow")
    runs = [make_step_run(workflow, flow, step, lane=_lane(f"step{step}")) for step in range(3)]
    start = make_start(workflow, await read_held(store, flow), runs=tuple(runs), live=3)
    await store.start_flows([start], now=START)
    [step, _, ended] = await store.list_flow_runs(flow)
    await store.cancel_runs([ended.id], reason="test", now=START)
    await claim_of(store, first, "step0")
    mails = await store.read_mail([SHARD], lows={}, limit=10)
    return flow, tuple(mail.place for mail in mails), step.id


async def _start_by_event(store: PostgresStore) -> tuple[Job, Job]:
    """Make two jobs that listen to a topic, and start the first of them by an event."""
    first, second = [
        await add_job(store, make_spec(name=name, queue=name, trigger=OnEvent(PAID)))
        for name in ("listening", "listening_once")
    ]
    old = make_event(1)
    new = await make_new_event(store, first, event=old, guard=guard_of(old, b"old", expires_at=at(5)))
    await store.add_events([new], now=START)
    return first, second


async def claim_of(store: PostgresStore, session_id: SessionId, queue: str) -> None:
    """Claim the one run that waits in a queue."""
    [lane] = [lane.id for lane in await store.read_lanes([queue])]
    [_] = await claim_runs(store, session_id, lanes=[lane])


def _lane(queue: str) -> LaneKey:
    return LaneKey(queue, "function", "default", Priority.MEDIUM)


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb of the store with its arguments.

    Attributes:
        idle: it passes over rows that somebody else holds, and then answers this; None for one that waits.
        knows_lanes: its store remembers the scene's lanes.
    """

    name: str
    call: Callable[[PostgresStore, Scene], Awaitable[Any]]
    idle: Any = None
    knows_lanes: bool = True

    @property
    def touches(self) -> frozenset[str]:
        """What kinds of rows it reads in order to write, or writes."""
        return next(kinds for names, kinds in _TOUCHES if self.name in names)


_TOUCHES = tuple(
    (frozenset(names.split()), frozenset(kinds.split()))
    for names, kinds in {
        "claim claim_again claim_first speculative_claim claim_quarantined claim_batch": "run session",
        "succeed fail bury hand_back lose apply_batch apply_backwards": "run",
        "claim_lined_up_second claim_lined_up_first": "run session limit",
        "claim_batches_second claim_batches_first": "run session limit",
        "submit_to_batch": "job lane limit",
        "end_limited lose_limited": "run limit",
        "submit_lined_up": "job lane limit",
        "set_limit delete_limit": "limit",
        "add_with_limit edit_with_limit": "job limit run",
        "prune_limits": "limit",
        "beat beat_batch": "run session",
        "expire_session close_sessions": "session",
        "cancel cancel_batch expire_runs write_logs": "run",
        "keep_steps keep_steps_backwards keep_steps_late": "run",
        "start_flow": "run session lane mail",
        "end_step fail_step cancel_step cancel_flow": "run mail",
        "turn_flow turn_anew end_flow": "run mail lane shard",
        "drop_mail reconcile_flows": "run mail",
        "submit_plain": "job lane",
        "submit_straight submit_straight_first": "job lane run session",
        "submit_keyed submit_old_key submit_new_lanes": "job lane key",
        "submit_once submit_successor": "job lane unique",
        "submit_beside_held submit_replacing submit_once_batch": "job lane unique run",
        "prune_unique_keys": "unique",
        "edit edit_batch rename rename_other add_fresh pause pause_quiet resume delete delete_batch": "job",
        "fire fire_batch fire_outlined fire_outlined_batch advance": "job lane shard",
        "fire_cancelling": "job lane shard run",
        "edit_into_line": "job run limit",
        "pause_failing": "job",
        "apply_jobs apply_crossing own": "job",
        "follow_ends": "job shard",
        "take take_batch release leave beat_node expire_node": "shard",
        "record_tzdata": "cluster",
        "set_tenants set_tenants_backwards set_queues set_queues_backwards": "policies",
        "take_permits take_permits_backwards": "policies",
        "publish publish_batch publish_backwards publish_cancelling": "job lane run key events",
        "listen stop_listening": "job events",
        "prune_events prune_keys": "key events",
        "preempt preempt_backwards": "run lane",
        "set_classes set_classes_backwards delete_classes": "classes",
        "pause_queues pause_all resume_queues": "session restrictions",
        "set_blackouts begin_blackouts": "session restrictions calendars",
        "cap_queues cap_queues_backwards uncap_queues": "session restrictions run limit",
        "write_calendar write_other_calendar delete_calendar": "calendars",
        "replan edit_calendars add_with_calendars": "job calendars",
        "settle_calendars": "calendars",
        "advance_backfill": "job lane shard backfill",
        "pause_backfill cancel_backfill": "backfill",
        "add_backfill": "job backfill",
        "prune_lanes": "lane run",
        "prune_sessions": "session run",
    }.items()
)

VERBS: dict[str, Verb] = {}


def _verb(idle: Any = None, *, knows_lanes: bool = True) -> Callable[[Any], Any]:
    def register(call: Any) -> Any:
        VERBS[call.__name__] = Verb(call.__name__, call, idle, knows_lanes)
        return call

    return register


# -- workers ---------------------------------------------------------------------------------------------------


@_verb()
async def claim(store: PostgresStore, scene: Scene) -> Any:
    return await store.claim_runs([make_claim(scene.second, scene.lanes, limit=3)], now=NOW)


@_verb()
async def claim_again(store: PostgresStore, scene: Scene) -> Any:
    """The same request from both sides: a worker that asked once more because the first answer was lost."""
    return await store.claim_runs([make_claim(scene.second, scene.lanes, number=AGAIN)], now=NOW)


@_verb()
async def claim_first(store: PostgresStore, scene: Scene) -> Any:
    return await store.claim_runs([make_claim(scene.first, scene.lanes, limit=3)], now=NOW)


@_verb(idle=[])
async def speculative_claim(store: PostgresStore, scene: Scene) -> Any:
    result = await store.try_claim(make_claim(scene.second, scene.lanes, limit=3), now=NOW)
    return [] if result is None else [result]


@_verb()
async def claim_quarantined(store: PostgresStore, scene: Scene) -> Any:
    return await store.claim_runs([make_claim(scene.second, scene.lanes, is_quarantined=True)], now=NOW)


@_verb()
async def claim_batch(store: PostgresStore, scene: Scene) -> Any:
    requests = [make_claim(session, scene.lanes) for session in (scene.second, scene.first)]
    return await store.claim_runs(requests, now=NOW)


@_verb()
async def succeed(store: PostgresStore, scene: Scene) -> Any:
    end = outcomes.succeeded(scene.held.run_id, scene.held.token, scene.held.session_id, b"1")
    return await store.apply([end], now=NOW)


def failure_of(scene: Scene) -> Transition:
    return outcomes.failed(
        facts_of(scene.held), scene.job.spec, Failure(error="no"), now=NOW, random=random.Random(1).random
    )


@_verb()
async def fail(store: PostgresStore, scene: Scene) -> Any:
    return await store.apply([failure_of(scene)], now=NOW)


@_verb()
async def bury(store: PostgresStore, scene: Scene) -> Any:
    failure = Failure(error="never", is_retryable=False)
    end = outcomes.failed(
        facts_of(scene.held), scene.job.spec, failure, now=NOW, random=random.Random(1).random
    )
    return await store.apply([end], now=NOW)


@_verb()
async def hand_back(store: PostgresStore, scene: Scene) -> Any:
    end = outcomes.handed_back(facts_of(scene.held), scene.job.spec, now=NOW, was_started=False)
    return await store.apply([end], now=NOW)


@_verb()
async def lose(store: PostgresStore, scene: Scene) -> Any:
    return await store.apply([outcomes.lost(facts_of(scene.held), scene.job.spec, now=NOW)], now=NOW)


@_verb()
async def apply_batch(store: PostgresStore, scene: Scene) -> Any:
    ends = [
        outcomes.succeeded(scene.other.run_id, scene.other.token, scene.other.session_id, b"1"),
        outcomes.handed_back(facts_of(scene.held), scene.job.spec, now=NOW, was_started=False),
    ]
    return await store.apply(ends, now=NOW)


@_verb()
async def apply_backwards(store: PostgresStore, scene: Scene) -> Any:
    ends = [outcomes.lost(facts_of(run), scene.job.spec, now=NOW) for run in (scene.held, scene.other)]
    return await store.apply(ends, now=NOW)


@_verb()
async def write_logs(store: PostgresStore, scene: Scene) -> Any:
    """What the holders of two runs have written: kept while they hold them, and refused to who comes late."""
    entries = [
        LogEntry(
            run.run_id, run.token, run.session_id, (LogPart(0, 4, deflate(b"one\n")),), None, RunProgress(1.0)
        )
        for run in (scene.other, scene.held)
    ]
    return await store.add_run_logs(entries, now=NOW)


def steps_of(*runs: HeldRun, value: bytes) -> list[NewCheckpoint]:
    """Return the same step of each lease, and what it has come to."""
    return [NewCheckpoint(run.run_id, run.token, run.session_id, "charge", 0, False, value) for run in runs]


@_verb()
async def keep_steps(store: PostgresStore, scene: Scene) -> Any:
    return await store.keep_checkpoints(steps_of(scene.held, scene.other, value=b"1"), now=NOW)


@_verb()
async def keep_steps_backwards(store: PostgresStore, scene: Scene) -> Any:
    """The same steps, which have come to something else."""
    return await store.keep_checkpoints(steps_of(scene.other, scene.held, value=b"2"), now=NOW)


@_verb()
async def keep_steps_late(store: PostgresStore, scene: Scene) -> Any:
    """The step of a lease from before, beside one of a lease that is held."""
    late = replace(scene.held, token=scene.held.token - 1, session_id=scene.second)
    return await store.keep_checkpoints(steps_of(late, scene.other, value=b"3"), now=NOW)


@_verb()
async def beat(store: PostgresStore, scene: Scene) -> Any:
    held = ((scene.held.run_id, scene.held.token),)
    return await store.beat_sessions([Beat(session_id=scene.first, held=held)], now=NOW)


@_verb()
async def beat_batch(store: PostgresStore, scene: Scene) -> Any:
    beats = [Beat(session_id=session, held=()) for session in (scene.second, scene.first)]
    return await store.beat_sessions(beats, now=NOW)


@_verb(idle=[False])
async def expire_session(store: PostgresStore, scene: Scene) -> Any:
    return await store.expire_sessions([(scene.first, scene.beats)], now=NOW)


@_verb()
async def close_sessions(store: PostgresStore, scene: Scene) -> Any:
    return await store.close_sessions([scene.second, scene.first], now=NOW)


# -- runs ------------------------------------------------------------------------------------------------------


@_verb()
async def cancel(store: PostgresStore, scene: Scene) -> Any:
    return await store.cancel_runs([scene.waiting], reason="test", now=NOW)


@_verb()
async def cancel_batch(store: PostgresStore, scene: Scene) -> Any:
    runs = [scene.waiting, scene.held.run_id, scene.quarantined, scene.other.run_id]
    return await store.cancel_runs(runs, reason="test", now=NOW)


@_verb(idle=[])
async def expire_runs(store: PostgresStore, scene: Scene) -> Any:
    return await store.expire_runs(now=at(80), limit=10)


# -- flows -----------------------------------------------------------------------------------------------------


@_verb()
async def start_flow(store: PostgresStore, scene: Scene) -> Any:
    runs = (make_step_run(scene.workflow, scene.to_start.run_id, 0, lane=_lane("workflow")),)
    start = make_start(scene.workflow, scene.to_start, runs=runs, live=1)
    return await store.start_flows([start], now=NOW)


@_verb()
async def end_step(store: PostgresStore, scene: Scene) -> Any:
    """The last step but one that waits: what a turn about it does not know yet."""
    end = outcomes.succeeded(scene.step.run_id, scene.step.token, scene.step.session_id, b"1")
    return await store.apply([end], now=NOW)


@_verb()
async def fail_step(store: PostgresStore, scene: Scene) -> Any:
    failure = Failure(error="never", is_retryable=False)
    spec, draw = scene.workflow.spec, random.Random(1).random
    return await store.apply(
        [outcomes.failed(facts_of(scene.step), spec, failure, now=NOW, random=draw)], now=NOW
    )


@_verb()
async def cancel_step(store: PostgresStore, scene: Scene) -> Any:
    return await store.cancel_runs([scene.step.run_id], reason="test", now=NOW)


@_verb()
async def cancel_flow(store: PostgresStore, scene: Scene) -> Any:
    return await store.cancel_runs([scene.flow, scene.to_start.run_id], reason="test", now=NOW)


def turn_of(scene: Scene, **overrides: Any) -> TurnedFlow:
    """Make the turn about the mail of the scene: the third step has ended."""
    values: dict[str, Any] = {
        "flow_id": scene.flow,
        "revision": 0,
        "state": b"turned",
        "live": 2,
        "mails": scene.flow_mail,
    }
    return TurnedFlow(**values | overrides)


@_verb()
async def turn_flow(store: PostgresStore, scene: Scene) -> Any:
    """It makes a run. Two owners may have read the mail."""
    run = make_step_run(scene.workflow, scene.flow, 3, lane=_lane("step0"))
    values = (FlowValue(2, b"[3]"),)
    return await store.turn_flows(
        [turn_of(scene, live=3, runs=(run,), goes_on=True, values=values)], epochs=scene.epochs, now=NOW
    )


@_verb()
async def turn_anew(store: PostgresStore, scene: Scene) -> Any:
    """It reads what there is, and cancels the steps whose runs are live."""
    mails = await store.read_mail([SHARD], lows={}, limit=10)
    mine = [mail for mail in mails if mail.flow_id == scene.flow and mail.revision is not None]
    ended = {mail.mail.step for mail in mine if isinstance(mail.mail, StepEnded)}
    [flow] = await store.read_flows([scene.flow])
    if flow is None or flow.revision or any(mail.revision != flow.revision for mail in mine):
        return [FlowVerdict.LOST]
    turn = turn_of(
        scene,
        live=len({0, 1, 2} - ended),
        mails=tuple(mail.place for mail in mine),
        cancels=tuple({0, 1, 2} - ended),
        cancel_reason="test",
    )
    return await store.turn_flows([turn], epochs=scene.epochs, now=NOW)


@_verb()
async def end_flow(store: PostgresStore, scene: Scene) -> Any:
    """It ends the flow while runs of its steps are live, as no engine would."""
    end = outcomes.succeeded(scene.flow, 2, ENGINE_SESSION, b"1")
    return await store.turn_flows([turn_of(scene, end=end, drops_values=True)], epochs=scene.epochs, now=NOW)


@_verb()
async def drop_mail(store: PostgresStore, scene: Scene) -> Any:
    return await store.drop_mail(scene.flow_mail)


@_verb()
async def reconcile_flows(store: PostgresStore, scene: Scene) -> Any:
    return await store.reconcile_flows([SHARD], now=NOW, limit=10)


# -- submissions -----------------------------------------------------------------------------------------------


@_verb()
async def submit_plain(store: PostgresStore, scene: Scene) -> Any:
    return await store.submit_runs([make_new_run(scene.quiet, due_at=NOW)], now=NOW)


@_verb(idle=[])
async def submit_straight(store: PostgresStore, scene: Scene) -> Any:
    return await _submit_straight(store, scene, scene.second)


@_verb(idle=[])
async def submit_straight_first(store: PostgresStore, scene: Scene) -> Any:
    """The same to a session that runs something already."""
    return await _submit_straight(store, scene, scene.first)


async def _submit_straight(store: PostgresStore, scene: Scene, session_id: SessionId) -> Any:
    lane = lane_of(scene.quiet)
    run = make_new_run(scene.quiet, due_at=NOW, must_be_newest=True)
    request = make_claim(session_id, (scene.lane_ids[lane],))
    claimed = await store.submit_claimed(run, request=request, now=NOW)
    return [] if claimed is None else [ClaimResult((claimed,))]


@_verb(knows_lanes=False)
async def submit_keyed(store: PostgresStore, scene: Scene) -> Any:
    run = make_new_run(scene.quiet, due_at=NOW, submit_key=_key("key"))
    return await store.submit_runs([run], now=NOW)


@_verb()
async def submit_old_key(store: PostgresStore, scene: Scene) -> Any:
    run = make_new_run(scene.job, due_at=NOW, submit_key=_key("old"))
    return await store.submit_runs([run], now=NOW)


@_verb(knows_lanes=False)
async def submit_new_lanes(store: PostgresStore, scene: Scene) -> Any:
    lanes = (_lane("new-2"), lane_of(scene.quiet), _lane("new-1"))
    keys = ("key-2", "key", "key-1")
    runs = [
        make_new_run(scene.job, due_at=NOW, lane=lane, submit_key=_key(key))
        for lane, key in zip(lanes, keys, strict=True)
    ]
    return await store.submit_runs(runs, now=NOW)


def _key(key: str) -> IdempotencyKey:
    return IdempotencyKey(key=key, request_hash=b"hash", expires_at=at(3600))


REPLACE = UniqueRule(scope=UniqueScope.QUEUED, on_conflict=OnConflict.REPLACE)


def _guard(key: str, rule: UniqueRule) -> OnceGuard:
    return OnceGuard(key.encode().ljust(16, b"-"), rule)


def _guarded(scene: Scene, key: str, rule: UniqueRule, job: Job) -> NewRun:
    return make_new_run(
        job, due_at=NOW, lane=lane_of(scene.quiet), payload=b'"newer"', once=_guard(key, rule)
    )


@_verb()
async def submit_once(store: PostgresStore, scene: Scene) -> Any:
    """A key that is free."""
    return await store.submit_runs([_guarded(scene, "fresh", UniqueRule(), scene.quiet)], now=NOW)


@_verb()
async def submit_successor(store: PostgresStore, scene: Scene) -> Any:
    """A key whose holder has ended."""
    return await store.submit_runs([_guarded(scene, "over", UniqueRule(), scene.quiet)], now=NOW)


@_verb()
async def submit_beside_held(store: PostgresStore, scene: Scene) -> Any:
    """A key whose holder is running."""
    return await store.submit_runs([_guarded(scene, "held", UniqueRule(), scene.job)], now=NOW)


@_verb()
async def submit_replacing(store: PostgresStore, scene: Scene) -> Any:
    """A key whose holder waits, and gets the payload."""
    return await store.submit_runs([_guarded(scene, "waiting", REPLACE, scene.job)], now=NOW)


@_verb()
async def submit_once_batch(store: PostgresStore, scene: Scene) -> Any:
    runs = [
        _guarded(scene, "waiting", REPLACE, scene.job),
        _guarded(scene, "held", UniqueRule(), scene.job),
        _guarded(scene, "over", UniqueRule(), scene.quiet),
        _guarded(scene, "fresh", UniqueRule(), scene.quiet),
    ]
    return await store.submit_runs(runs, now=NOW)


# -- jobs ------------------------------------------------------------------------------------------------------


@_verb()
async def edit(store: PostgresStore, scene: Scene) -> Any:
    return await store.edit_jobs([make_edit(scene.job, next_fire_at=at(90))], now=NOW)


@_verb()
async def edit_into_line(store: PostgresStore, scene: Scene) -> Any:
    """What is live has places in the line that begins."""
    spec = make_spec(name="quiet", queue="quiet", overlap=Overlap.QUEUE_ALL)
    return await store.edit_jobs([make_edit(scene.quiet, spec, next_fire_at=at(90))], now=NOW)


@_verb()
async def pause_failing(store: PostgresStore, scene: Scene) -> Any:
    """It locks what it looks at."""
    return await store.pause_failing([make_pause(scene.quiet), make_pause(scene.job)], now=NOW)


@_verb()
async def follow_ends(store: PostgresStore, scene: Scene) -> Any:
    """Both clocks stand nowhere; one job has no next fire."""
    following = [
        FollowingFire(
            job_id=scene.limited.id, revision=scene.limited.revision, next_fire=make_next_fire(NOW)
        ),
        FollowingFire(job_id=scene.batched.id, revision=scene.batched.revision, next_fire=None),
    ]
    return await store.follow_ends(following, epochs=scene.epochs, now=NOW)


@_verb()
async def edit_batch(store: PostgresStore, scene: Scene) -> Any:
    edits = [make_edit(job, next_fire_at=at(95)) for job in (scene.paused, scene.quiet, scene.job)]
    return await store.edit_jobs(edits, now=NOW)


@_verb()
async def rename(store: PostgresStore, scene: Scene) -> Any:
    return await store.edit_jobs([make_edit(scene.job, make_spec(name="fresh"))], now=NOW)


@_verb()
async def rename_other(store: PostgresStore, scene: Scene) -> Any:
    return await store.edit_jobs([make_edit(scene.quiet, make_spec(name="fresh"))], now=NOW)


@_verb()
async def add_fresh(store: PostgresStore, scene: Scene) -> Any:
    names = ("fresh", "job")
    jobs = [make_new_job(make_spec(name=name), next_fire_at=at(120), shard=SHARD) for name in names]
    return await store.add_jobs(jobs, now=NOW)


@_verb()
async def pause(store: PostgresStore, scene: Scene) -> Any:
    return await store.pause_jobs([make_pause(scene.job, from_at=NOW)], now=NOW)


@_verb()
async def pause_quiet(store: PostgresStore, scene: Scene) -> Any:
    return await store.pause_jobs([make_pause(scene.quiet, from_at=NOW)], now=NOW)


@_verb()
async def resume(store: PostgresStore, scene: Scene) -> Any:
    return await store.resume_jobs([make_change(scene.paused, next_fire_at=at(100))], now=NOW)


@_verb()
async def delete(store: PostgresStore, scene: Scene) -> Any:
    return await store.delete_jobs([make_change(scene.job)], now=NOW)


@_verb()
async def delete_batch(store: PostgresStore, scene: Scene) -> Any:
    changes = [make_change(job) for job in (scene.paused, scene.quiet, scene.job)]
    return await store.delete_jobs(changes, now=NOW)


@_verb()
async def apply_jobs(store: PostgresStore, scene: Scene) -> Any:
    """It adds a name that others take, edits what they edit, deletes what they delete, and owns the rest."""
    new = make_new_job(make_spec(name="fresh"), next_fire_at=at(120), shard=SHARD)
    change = JobsChange(
        tenant=DEFAULT_TENANT,
        adds=[new],
        edits=[make_edit(scene.job, next_fire_at=at(90))],
        deletes=[make_change(scene.quiet)],
        owners=[OwnedNames("shop", ("fresh", "job", "paused"))],
    )
    return await store.apply_jobs(change, now=NOW)


@_verb()
async def apply_crossing(store: PostgresStore, scene: Scene) -> Any:
    """It edits what the other one deletes, and takes what the other one owns."""
    change = JobsChange(
        tenant=DEFAULT_TENANT,
        edits=[make_edit(job, next_fire_at=at(95)) for job in (scene.quiet, scene.paused)],
        owners=[OwnedNames("mail", ("quiet", "job")), OwnedNames("shop", ())],
    )
    return await store.apply_jobs(change, now=NOW)


@_verb()
async def own(store: PostgresStore, scene: Scene) -> Any:
    del scene
    return await store.own_jobs(DEFAULT_TENANT, "mail", ["job", "paused"], now=NOW)


# -- fires and shards ------------------------------------------------------------------------------------------


@_verb()
async def fire(store: PostgresStore, scene: Scene) -> Any:
    return await store.record_fires([make_fire(scene.job)], epochs=scene.epochs, now=NOW)


@_verb()
async def fire_cancelling(store: PostgresStore, scene: Scene) -> Any:
    """It ends what waits, and asks what is RUNNING to stop."""
    fires = [make_fire(scene.job, overlap=Overlap.CANCEL_RUNNING)]
    return await store.record_fires(fires, epochs=scene.epochs, now=NOW)


@_verb()
async def fire_batch(store: PostgresStore, scene: Scene) -> Any:
    fires = [make_fire(scene.quiet, overlap=Overlap.SKIP), make_fire(scene.job, overlap=Overlap.SKIP)]
    return await store.record_fires(fires, epochs=scene.epochs, now=NOW)


def _clock(job: Job, queue: str) -> DueClock:
    """Return the clock of a job as it was read, with an outline."""
    assert job.next_fire_at is not None
    outline = RunOutline(
        version=job.version,
        queue=queue,
        route="function",
        timeout=job.spec.timeout,
        grace=job.spec.misfire.grace,
    )
    return DueClock(
        job_id=job.id,
        tenant=job.tenant,
        version=job.version,
        priority=job.spec.priority,
        revision=job.revision,
        fire_at=job.next_fire_at,
        due_at=job.next_fire_at,
        fired_through=job.fired_through,
        outline=outline,
    )


@_verb()
async def fire_outlined(store: PostgresStore, scene: Scene) -> Any:
    """One statement, because the lane is known: the one without runs."""
    return await store.fire_outlined([_clock(scene.job, "quiet")], epochs=scene.epochs, now=NOW)


@_verb()
async def fire_outlined_batch(store: PostgresStore, scene: Scene) -> Any:
    """A transaction, because one of the lanes is new."""
    clocks = [_clock(scene.quiet, "quiet"), _clock(scene.job, "new")]
    return await store.fire_outlined(clocks, epochs=scene.epochs, now=NOW)


@_verb()
async def advance(store: PostgresStore, scene: Scene) -> Any:
    passed = at(-300)
    runs: tuple[NewRun, ...] = (make_scheduled_run(scene.quiet, passed, fire_range_id=scene.fire_range),)
    step = FireRangeStep(
        fire_range_id=scene.fire_range,
        job_id=JobId(scene.quiet.id),
        cursor_from=None,
        cursor_to=passed,
        runs=runs,
        is_done=False,
        overlap=Overlap.SKIP,
    )
    return await store.advance_fire_ranges([step], epochs=scene.epochs, now=NOW)


@_verb()
async def advance_backfill(store: PostgresStore, scene: Scene) -> Any:
    passed = at(-300)
    run = make_scheduled_run(scene.quiet, passed, kind=RunKind.BACKFILL, fire_range_id=scene.section)
    step = BackfillStep(
        id=scene.backfill,
        job_id=scene.quiet.id,
        fire_range_id=scene.section,
        cursor_from=None,
        cursor_to=passed,
        runs=(run,),
        skipped=1,
        is_section_done=False,
        is_done=False,
        level=1.0,
        level_at=NOW,
    )
    return await store.advance_backfills([step], epochs=scene.epochs, now=NOW)


@_verb()
async def pause_backfill(store: PostgresStore, scene: Scene) -> Any:
    return await store.change_backfill(scene.backfill, BackfillChange.PAUSE, now=NOW)


@_verb()
async def cancel_backfill(store: PostgresStore, scene: Scene) -> Any:
    return await store.change_backfill(scene.backfill, BackfillChange.CANCEL, now=NOW)


@_verb()
async def add_backfill(store: PostgresStore, scene: Scene) -> Any:
    new = make_backfill(scene.quiet, 2)
    return (await store.add_backfill(new, now=NOW)).is_added


@_verb(idle={})
async def take(store: PostgresStore, scene: Scene) -> Any:
    return await store.take_shards("node-2", {SHARD: scene.epochs[SHARD]}, now=NOW)


@_verb(idle={})
async def take_batch(store: PostgresStore, scene: Scene) -> Any:
    expected = {shard: scene.epochs[shard] for shard in (SHARD + 1, SHARD)}
    return await store.take_shards("node-2", expected, now=NOW)


@_verb()
async def release(store: PostgresStore, scene: Scene) -> Any:
    epochs = {shard: scene.epochs[shard] for shard in (SHARD + 1, SHARD)}
    return await store.release_shards("node-1", epochs, now=NOW)


@_verb()
async def leave(store: PostgresStore, scene: Scene) -> Any:
    epochs = {shard: scene.epochs[shard] for shard in (SHARD + 1, SHARD)}
    return await store.leave_shards("node-1", epochs, now=NOW)


@_verb()
async def beat_node(store: PostgresStore, scene: Scene) -> Any:
    return await store.beat_node(make_node("node-1"), now=NOW)


@_verb(idle=[False])
async def expire_node(store: PostgresStore, scene: Scene) -> Any:
    return await store.expire_nodes([("node-1", scene.node_beats)], now=NOW)


@_verb()
async def record_tzdata(store: PostgresStore, scene: Scene) -> Any:
    return await store.record_tzdata("2026b", expected=None, now=NOW)


# -- events ----------------------------------------------------------------------------------------------------


async def _publish(
    store: PostgresStore,
    scene: Scene,
    *events: Event,
    overlap: Overlap = Overlap.SKIP,
    digest: bytes = b"same",
) -> Any:
    """Decide by the listeners that there are, and anew when these have changed, as a server does."""
    while True:
        [listeners] = await store.list_listeners([(DEFAULT_TENANT, PAID)])
        new = []
        for event in events:
            starts = tuple(
                EventStart(
                    one.job_id,
                    (_event_run(one, event),),
                    Overlap.ALLOW if one.job_id == scene.listening.id else overlap,
                )
                for one in listeners
            )
            guard = guard_of(event, digest) if event.key is not None else None
            new.append(NewEvent(event, guard, listeners, starts))
        results = await store.add_events(new, now=NOW)
        if results[0].status is not EventStatus.MOVED:
            return results


def _event_run(listener: Listener, event: Event) -> NewRun:
    return NewRun(
        job_id=listener.job_id,
        version=listener.version,
        lane=_lane("waiting" if listener.version == 1 else "of the edited"),
        kind=RunKind.EVENT,
        fire_at=None,
        due_at=NOW,
        timeout=timedelta(minutes=5),
        target_key=event.id,
        payload=payload_of(event),
        skip_reason="paused" if listener.is_paused else None,
    )


@_verb()
async def publish(store: PostgresStore, scene: Scene) -> Any:
    """The id was used before, and is free again."""
    return await _publish(store, scene, make_event(1, received_at=NOW))


@_verb()
async def publish_batch(store: PostgresStore, scene: Scene) -> Any:
    """One id twice, and an event that nobody can send twice."""
    events = [make_event(number, received_at=NOW) for number in (1, 2, 1)]
    return await _publish(store, scene, *events, make_event(3, key=None, received_at=NOW))


@_verb()
async def publish_backwards(store: PostgresStore, scene: Scene) -> Any:
    """The same ids the other way round, for other events."""
    events = [make_event(number, data=b"null", received_at=NOW) for number in (2, 1)]
    return await _publish(store, scene, *events, digest=b"other")


@_verb()
async def publish_cancelling(store: PostgresStore, scene: Scene) -> Any:
    """It ends what waits of one of its jobs."""
    return await _publish(store, scene, make_event(4, received_at=NOW), overlap=Overlap.CANCEL_RUNNING)


@_verb()
async def listen(store: PostgresStore, scene: Scene) -> Any:
    """A new job listens, and one that did not comes to do so."""
    spec = make_spec(name="quiet", queue="quiet", trigger=OnEvent(PAID))
    new = make_new_job(make_spec(name="new listener", trigger=OnEvent(PAID)), shard=SHARD)
    edit = make_edit(scene.quiet, spec, next_fire_at=at(90))
    return await store.apply_jobs(JobsChange(tenant=DEFAULT_TENANT, adds=[new], edits=[edit]), now=NOW)


@_verb()
async def stop_listening(store: PostgresStore, scene: Scene) -> Any:
    """One is edited away from the topic, the other one deleted."""
    edited = make_edit(scene.listening, make_spec(name="listening", trigger=OnEvent("orders.sent")))
    change = JobsChange(tenant=DEFAULT_TENANT, edits=[edited], deletes=[make_change(scene.listening_once)])
    return await store.apply_jobs(change, now=NOW)


@_verb(idle=0)
async def prune_events(store: PostgresStore, scene: Scene) -> Any:
    return await store.prune_events(before=NOW, limit=10)


# -- operators -------------------------------------------------------------------------------------------------


@_verb()
async def set_tenants(store: PostgresStore, scene: Scene) -> Any:
    return await store.write_tenants([Tenant(name="acme", weight=7), Tenant(name="shop", weight=2)])


@_verb()
async def set_tenants_backwards(store: PostgresStore, scene: Scene) -> Any:
    return await store.write_tenants([Tenant(name="shop", weight=3), Tenant(name="acme")])


@_verb(idle=False)
async def write_calendar(store: PostgresStore, scene: Scene) -> Any:
    return await store.write_calendars([make_calendar("holidays")], revision=0)


@_verb(idle=False)
async def write_other_calendar(store: PostgresStore, scene: Scene) -> Any:
    return await store.write_calendars([make_calendar("office"), make_calendar("base")], revision=0)


@_verb(idle=CalendarDeletion.MOVED)
async def delete_calendar(store: PostgresStore, scene: Scene) -> Any:
    """A delete of what is not there yet: it raises the revision, as any other."""
    return await store.delete_calendar(DEFAULT_TENANT, "holidays", revision=0)


@_verb()
async def replan(store: PostgresStore, scene: Scene) -> Any:
    plans = [
        Replan(
            job_id=job.id,
            revision=job.revision,
            fire_at=job.next_fire_at,
            next_fire=make_next_fire(at(600)),
            calendars=HOLIDAYS,
            ends_gap=True,
        )
        for job in (scene.quiet, scene.job)
    ]
    return await store.replan_jobs(plans, now=NOW)


@_verb()
async def edit_calendars(store: PostgresStore, scene: Scene) -> Any:
    return await store.edit_jobs([make_edit(scene.job, calendars=HOLIDAYS)], now=NOW)


@_verb()
async def add_with_calendars(store: PostgresStore, scene: Scene) -> Any:
    new = make_new_job(make_spec(name="with-calendars"), next_fire_at=at(600), shard=SHARD)
    return await store.add_jobs([replace(new, calendars=HOLIDAYS)], now=NOW)


@_verb()
async def settle_calendars(store: PostgresStore, scene: Scene) -> Any:
    return await store.settle_calendars()


@_verb()
async def set_queues(store: PostgresStore, scene: Scene) -> Any:
    return await store.write_queues(
        [Queue(name="bulk", order=QueueOrder.FIFO), Queue(name="mail", aging_share=0.2)]
    )


@_verb()
async def preempt(store: PostgresStore, scene: Scene) -> Any:
    """Two lanes at once; the second finds one run asked already."""
    return await store.request_preemptions(
        [_preemption(scene, "waiting", scene.held), _preemption(scene, "held", scene.held, scene.other)],
        now=NOW,
    )


@_verb()
async def preempt_backwards(store: PostgresStore, scene: Scene) -> Any:
    return await store.request_preemptions(
        [_preemption(scene, "held", scene.other), _preemption(scene, "waiting", scene.held)], now=NOW
    )


def _preemption(scene: Scene, lane: str, *victims: HeldRun) -> PreemptionRequest:
    return PreemptionRequest(
        lane_id=scene.lane_ids[_lane(lane)],
        sought_before=START,
        victims=tuple(
            Victim(
                run_id=held.run_id,
                token=held.token,
                mark=PreemptionMark(token=held.token, at=NOW, by=lane, times=1),
                old=None,
            )
            for held in victims
        ),
    )


@_verb()
async def set_classes(store: PostgresStore, scene: Scene) -> Any:
    return await store.write_priority_classes([_class("calm", Priority.LOW), _class("night", Priority.LOW)])


@_verb()
async def set_classes_backwards(store: PostgresStore, scene: Scene) -> Any:
    return await store.write_priority_classes([_class("night", Priority.HIGH), _class("calm", Priority.HIGH)])


@_verb()
async def delete_classes(store: PostgresStore, scene: Scene) -> Any:
    return await store.delete_priority_classes(["night", "calm"])


def _class(name: str, tier: Priority) -> PriorityClass:
    return PriorityClass(name=name, tier=tier)


@_verb()
async def set_queues_backwards(store: PostgresStore, scene: Scene) -> Any:
    return await store.write_queues([Queue(name="mail"), Queue(name="bulk", order=QueueOrder.ROUND_ROBIN)])


@_verb()
async def take_permits(store: PostgresStore, scene: Scene) -> Any:
    return await store.take_permits([PermitRequest("shop", 1), PermitRequest("acme", 2)], now=NOW)


@_verb()
async def take_permits_backwards(store: PostgresStore, scene: Scene) -> Any:
    return await store.take_permits([PermitRequest("acme", 1), PermitRequest("shop", 2)], now=NOW)


# -- pauses ----------------------------------------------------------------------------------------------------


@_verb()
async def pause_queues(store: PostgresStore, scene: Scene) -> Any:
    """Claims of the scene are chosen before it: each of them comes first, or gives nothing."""
    return await store.add_pauses([_queue_pause("waiting"), _queue_pause("limited")], now=NOW)


@_verb()
async def pause_all(store: PostgresStore, scene: Scene) -> Any:
    pause = Pause(scope=PauseScope.ALL, name="", made_by="ann", since=NOW, until=EXPIRY)
    return await store.add_pauses([pause, _queue_pause("waiting")], now=NOW)


@_verb()
async def resume_queues(store: PostgresStore, scene: Scene) -> Any:
    return await store.lift_pauses([_queue_pause("limited").key, _queue_pause("waiting").key], now=NOW)


@_verb(idle=BlackoutsWritten(is_moved=True))
async def set_blackouts(store: PostgresStore, scene: Scene) -> Any:
    """The calendars are as they were read, or nothing is written."""
    blackout = Blackout(
        scope=PauseScope.QUEUE,
        name="waiting",
        tenant=DEFAULT_TENANT,
        calendar="holidays",
        version=1,
        made_by="ann",
        since=NOW,
    )
    return await store.set_blackouts(blackout.key, [blackout], revision=0, now=NOW)


@_verb(idle=False)
async def begin_blackouts(store: PostgresStore, scene: Scene) -> Any:
    """Claims of the scene are chosen before it."""
    return await store.begin_blackouts(NOW, now=NOW)


def _queue_pause(queue: str) -> Pause:
    return Pause(scope=PauseScope.QUEUE, name=queue, made_by="ann", since=NOW)


# -- caps ------------------------------------------------------------------------------------------------------


@_verb()
async def cap_queues(store: PostgresStore, scene: Scene) -> Any:
    """What runs has places under them, whatever claims and ends are under way."""
    return await store.write_caps([_cap("waiting", 1), _cap("limited", 1), _cap("default", 1)], now=NOW)


@_verb()
async def cap_queues_backwards(store: PostgresStore, scene: Scene) -> Any:
    return await store.write_caps([_cap("default", 3), _cap("waiting", 2)], now=NOW)


@_verb()
async def uncap_queues(store: PostgresStore, scene: Scene) -> Any:
    return await store.write_caps([_cap("waiting", None), _cap("limited", None)], now=NOW)


def _cap(queue: str, most: int | None) -> LaneCap:
    return LaneCap(CapKey(CapScope.QUEUE, queue), most)


# -- limits ----------------------------------------------------------------------------------------------------


async def _claim_lined_up(store: PostgresStore, scene: Scene, session_id: SessionId) -> Any:
    result = await claim_lined_up(store, session_id, now=NOW, limit=2, lines=scene.lines)
    return [ClaimResult(result.runs, result.is_session_live, is_policy_old=result.is_policy_old)]


@_verb()
async def claim_lined_up_second(store: PostgresStore, scene: Scene) -> Any:
    return await _claim_lined_up(store, scene, scene.second)


@_verb()
async def claim_lined_up_first(store: PostgresStore, scene: Scene) -> Any:
    return await _claim_lined_up(store, scene, scene.first)


async def _claim_batches(store: PostgresStore, scene: Scene, session_id: SessionId) -> Any:
    result = await claim_lined_up(
        store, session_id, now=NOW, limit=1, lines=scene.batch_lines, are_batches=True
    )
    return [ClaimResult(result.runs, result.is_session_live)]


@_verb()
async def claim_batches_second(store: PostgresStore, scene: Scene) -> Any:
    return await _claim_batches(store, scene, scene.second)


@_verb()
async def claim_batches_first(store: PostgresStore, scene: Scene) -> Any:
    return await _claim_batches(store, scene, scene.first)


@_verb()
async def submit_to_batch(store: PostgresStore, scene: Scene) -> Any:
    return await store.submit_runs([make_new_run(scene.batched, due_at=NOW)], now=NOW)


@_verb()
async def end_limited(store: PostgresStore, scene: Scene) -> Any:
    held = scene.limited_held
    return await store.apply([outcomes.succeeded(held.run_id, held.token, held.session_id)], now=NOW)


@_verb()
async def lose_limited(store: PostgresStore, scene: Scene) -> Any:
    return await store.apply(
        [outcomes.lost(facts_of(scene.limited_held), scene.limited.spec, now=NOW)], now=NOW
    )


@_verb()
async def submit_lined_up(store: PostgresStore, scene: Scene) -> Any:
    return await store.submit_runs([make_new_run(scene.limited, due_at=NOW)], now=NOW)


@_verb()
async def set_limit(store: PostgresStore, scene: Scene) -> Any:
    return await store.write_limits("default", [LimitRule(name="crm", max_running=1)])


@_verb()
async def delete_limit(store: PostgresStore, scene: Scene) -> Any:
    """Nobody uses it, unless a job comes to use it at the same time."""
    return await store.delete_limit("default", "free")


@_verb()
async def add_with_limit(store: PostgresStore, scene: Scene) -> Any:
    spec = make_spec(name="with limit", concurrency=(JobLimit(use="free"),))
    return await store.add_jobs([make_new_job(spec, shard=SHARD)], now=NOW)


@_verb()
async def edit_with_limit(store: PostgresStore, scene: Scene) -> Any:
    spec = make_spec(name="quiet", queue="quiet", concurrency=(JobLimit(use="free"),))
    return await store.edit_jobs([make_edit(scene.quiet, spec, next_fire_at=at(90))], now=NOW)


@_verb(idle=0)
async def prune_limits(store: PostgresStore, scene: Scene) -> Any:
    return await store.prune_limits(now=NOW, limit=10)


# -- the janitor -----------------------------------------------------------------------------------------------


@_verb(idle=0)
async def prune_lanes(store: PostgresStore, scene: Scene) -> Any:
    return await store.prune_lanes(limit=10)


@_verb(idle=0)
async def prune_keys(store: PostgresStore, scene: Scene) -> Any:
    return await store.prune_keys(now=NOW, limit=10)


@_verb(idle=(0, None))
async def prune_unique_keys(store: PostgresStore, scene: Scene) -> Any:
    return await store.prune_unique_keys(now=NOW, after=None, limit=10)


@_verb(idle=0)
async def prune_sessions(store: PostgresStore, scene: Scene) -> Any:
    before: datetime = at(1000)
    return await store.prune_sessions(before=before, limit=10)
