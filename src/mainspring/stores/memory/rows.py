"""The rows of the memory store: what the tables of design 3.2 hold. They are mutable, and never leave the store."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from mainspring.core.admission import KnownKey
from mainspring.core.backfill import BackfillState
from mainspring.core.claiming import is_ready, must_be_alone
from mainspring.core.clocks import NextFire
from mainspring.core.dead_letters import SettledLetter
from mainspring.core.fencing import ENGINE_SESSION
from mainspring.core.ids import FireRangeId, JobId, KeyId, LaneId, RunId, SessionId, job_shard
from mainspring.core.model import FireRange, FireRangeKind, Job, JobSpec, LaneKey, Run, RunKind
from mainspring.core.preemption import PreemptionMark
from mainspring.core.shards import Refusal
from mainspring.core.states import FINAL_STATES, RunState
from mainspring.core.values import value
from mainspring.core.workflows.places import StepPlace
from mainspring.ports.store.backfills import NewBackfill
from mainspring.ports.store.claims import HeldRun
from mainspring.ports.store.nodes import NodeFacts, NodeState
from mainspring.ports.store.preemption import SeatedRun
from mainspring.ports.store.sessions import NewSession, SessionFacts
from mainspring.stores.memory.index import OrderedIndex

ReadyIndex = OrderedIndex[tuple[datetime, RunId]]
RunIndex = OrderedIndex[tuple[RunId]]
JobIndex = OrderedIndex[tuple[UUID]]


@dataclass(slots=True, kw_only=True)
class JobRow:
    """A job that exists, with its clock.

    Attributes:
        level, level_at: the permits of its catch-up's rate.
    """

    id: JobId
    tenant: str
    spec: JobSpec
    version: int
    revision: int
    is_paused: bool
    next_fire: NextFire | None
    fired_through: datetime | None
    created_at: datetime
    updated_at: datetime
    pause_note: str | None = None
    owner: str | None = None
    undefined_since: datetime | None = None
    level: float | None = None
    level_at: datetime | None = None
    fires_left: int | None = None

    @property
    def next_fire_at(self) -> datetime | None:
        return self.next_fire.fire_at if self.next_fire is not None else None

    def view(self) -> Job:
        return Job(
            id=self.id,
            tenant=self.tenant,
            spec=self.spec,
            version=self.version,
            revision=self.revision,
            is_paused=self.is_paused,
            next_fire_at=self.next_fire_at,
            fired_through=self.fired_through,
            created_at=self.created_at,
            updated_at=self.updated_at,
            fires_left=self.fires_left,
            pause_note=self.pause_note,
            owner=self.owner,
            undefined_since=self.undefined_since,
        )


@dataclass(slots=True, kw_only=True)
class LaneRow:
    """A lane with its ready runs.

    Attributes:
        quarantined: those that crashed a worker.
        lines: of the others, those with keys, by the first key.
        ready: all others.
    """

    id: LaneId
    key: LaneKey
    ready: ReadyIndex = field(default_factory=OrderedIndex)
    quarantined: ReadyIndex = field(default_factory=OrderedIndex)
    lines: dict[KeyId, ReadyIndex] = field(default_factory=dict)
    live: int = 0
    preempted_at: datetime | None = None


@dataclass(slots=True, kw_only=True)
class RunRow:
    """A run, live or finished; `keys` has what it is counted under, that of its line first."""

    id: RunId
    job_id: JobId
    version: int
    tenant: str
    lane: LaneRow
    kind: RunKind
    state: RunState
    fire_at: datetime | None
    due_at: datetime
    ready_at: datetime
    created_at: datetime
    timeout: timedelta
    expires_at: datetime | None
    payload: bytes | None
    target_key: str | None
    fire_range_id: FireRangeId | None
    keys: tuple[KeyId, ...] = ()
    redrive_of: RunId | None = None
    trace: bytes | None = None
    place: StepPlace | None = None
    flow_seed: bytes | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    deadline_at: datetime | None = None
    attempt: int = 1
    token: int = 0
    crashes: int = 0
    quarantined_crashes: int = 0
    is_quarantined: bool = False
    session_id: SessionId | None = None
    claim_number: int = 0
    is_cancel_requested: bool = False
    mark: PreemptionMark | None = None
    settled: SettledLetter | None = None
    is_unnoticed: bool = False
    cancel_reason: str | None = None
    reason: str | None = None
    error: str | None = None
    result: bytes | None = None
    output: str | None = None

    @property
    def takes_slot(self) -> bool:
        """Whether it is RUNNING at a worker: what the engine holds takes no slot."""
        return self.state is RunState.RUNNING and self.session_id != ENGINE_SESSION

    @property
    def is_caught_up(self) -> bool:
        """Whether it makes up for a missed fire."""
        return self.fire_range_id is not None and self.kind is RunKind.SCHEDULED

    @property
    def waiting_index(self) -> ReadyIndex:
        """Where it stands while it waits for its time, or for room under its limits."""
        if must_be_alone(self.crashes):
            return self.lane.quarantined
        if not is_ready(self.state, is_parked=bool(self.keys)):
            return self.lane.lines.setdefault(self.keys[0], OrderedIndex())
        return self.lane.ready

    def view(self) -> Run:
        has_ended = self.state in FINAL_STATES
        return Run(
            id=self.id,
            job_id=self.job_id,
            version=self.version,
            tenant=self.tenant,
            lane=self.lane.key,
            kind=self.kind,
            state=self.state,
            fire_at=self.fire_at,
            due_at=self.due_at,
            ready_at=self.due_at if has_ended else self.ready_at,
            created_at=self.created_at,
            started_at=self.started_at,
            finished_at=self.finished_at,
            attempt=self.attempt,
            token=self.token,
            crashes=self.crashes,
            session_id=self.session_id,
            is_cancel_requested=self.is_cancel_requested and not has_ended,
            reason=self.reason,
            error=self.error,
            payload=self.payload,
            result=self.result,
            output=self.output,
            idempotency_key=self.target_key,
            fire_range_id=self.fire_range_id,
            redrive_of=self.redrive_of,
            trace=self.trace,
            place=self.place,
        )

    def held(self) -> HeldRun:
        """Return the facts about a RUNNING run."""
        assert self.session_id is not None
        assert self.started_at is not None
        assert self.deadline_at is not None
        return HeldRun(
            run_id=self.id,
            token=self.token,
            job_id=self.job_id,
            version=self.version,
            attempt=self.attempt,
            is_quarantined=self.is_quarantined,
            quarantined_crashes=self.quarantined_crashes,
            is_cancel_requested=self.is_cancel_requested,
            session_id=self.session_id,
            started_at=self.started_at,
            deadline_at=self.deadline_at,
            mark=self.mark,
            trace=self.trace,
        )

    def seated(self) -> SeatedRun:
        """Return what preemption asks of a RUNNING run."""
        assert self.session_id is not None
        assert self.started_at is not None
        return SeatedRun(
            run_id=self.id,
            token=self.token,
            session_id=self.session_id,
            job_id=self.job_id,
            version=self.version,
            tenant=self.lane.key.tenant,
            tier=self.lane.key.priority,
            claim_number=self.claim_number,
            key_id=self.keys[0] if self.keys else None,
            is_quarantined=self.is_quarantined,
            is_cancel_requested=self.is_cancel_requested,
            started_at=self.started_at,
            mark=self.mark,
        )


@dataclass(slots=True, kw_only=True)
class FlowRow:
    """A flow; `live` is how many runs its state counts as live."""

    state: bytes
    live: int
    wake_at: datetime | None
    revision: int = 0


@dataclass(slots=True, kw_only=True)
class FireRangeRow:
    """A fire range; `closed_at` is when it stopped being open."""

    id: FireRangeId
    job_id: JobId
    tenant: str
    version: int
    kind: FireRangeKind
    from_at: datetime
    to_at: datetime | None
    reason: str
    created_at: datetime
    closed_at: datetime | None
    cursor_at: datetime | None = None
    calendars: tuple[str, ...] = ()

    @property
    def is_open(self) -> bool:
        return self.closed_at is None

    @property
    def shard(self) -> int:
        return job_shard(self.job_id)

    def view(self) -> FireRange:
        return FireRange(
            id=self.id,
            job_id=self.job_id,
            tenant=self.tenant,
            version=self.version,
            kind=self.kind,
            from_at=self.from_at,
            to_at=self.to_at,
            cursor_at=self.cursor_at,
            reason=self.reason,
            is_open=self.is_open,
            created_at=self.created_at,
            calendars=self.calendars,
        )


@dataclass(slots=True, kw_only=True)
class SessionRow:
    """A worker session; `missing` has the leases that its last heartbeat did not name, `is_lost` says how it ended."""

    id: SessionId
    offer: NewSession
    started_at: datetime
    last_beat_at: datetime
    ended_at: datetime | None = None
    beats: int = 0
    claim_number: int = -1
    policy_epoch: int = 0
    claimed: tuple[tuple[RunId, int], ...] = ()
    missing: frozenset[tuple[RunId, int]] = frozenset()
    running: RunIndex = field(default_factory=OrderedIndex)
    is_lost: bool = False

    @property
    def is_live(self) -> bool:
        return self.ended_at is None

    def view(self) -> SessionFacts:
        offer = self.offer
        return SessionFacts(
            id=self.id,
            worker=offer.worker,
            host=offer.host,
            pid=offer.pid,
            slots=offer.slots,
            queues=offer.queues,
            types=offer.types,
            functions=offer.functions,
            labels=offer.labels,
            beat_period=offer.beat_period,
            beats=self.beats,
            started_at=self.started_at,
            last_beat_at=self.last_beat_at,
            tenant=offer.tenant,
        )


@dataclass(slots=True)
class NodeRow:
    """A scheduler node."""

    facts: NodeFacts
    period: timedelta | None
    refusal: Refusal | None
    started_at: datetime
    last_beat_at: datetime
    served: bytes | None
    is_member: bool
    beats: int = 0

    def view(self) -> NodeState:
        """Return the node as the store shows it."""
        return NodeState(
            facts=self.facts,
            beats=self.beats,
            period=self.period,
            refusal=self.refusal,
            started_at=self.started_at,
            last_beat_at=self.last_beat_at,
            served=self.served,
            is_member=self.is_member,
        )


@dataclass(slots=True)
class ShardRow:
    """Who owns a shard."""

    epoch: int = 0
    node_id: str | None = None


@value()
class KeyRow:
    """An idempotency key, and the run that was submitted with it."""

    run_id: RunId
    known: KnownKey


@dataclass(slots=True, kw_only=True)
class LimitKeyRow:
    """A key under which runs are counted, with its places: the token of each run when it took one."""

    id: KeyId
    tenant: str
    limit: str
    key: str
    level: float | None = None
    level_at: datetime | None = None
    holds: dict[RunId, int] = field(default_factory=dict)


@value()
class UniqueKeyRow:
    """A key of what runs once, with the run that took it last."""

    run_id: RunId
    expires_at: datetime | None


@dataclass(slots=True, kw_only=True)
class BackfillRow:
    """A backfill, with the ids of its sections, in order."""

    new: NewBackfill
    state: BackfillState
    sections: list[FireRangeId]
    created_at: datetime
    closed_at: datetime | None = None
    made: int = 0
    skipped: int = 0
    level: float | None = None
    level_at: datetime | None = None
