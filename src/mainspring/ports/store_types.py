"""What goes into and comes out of the store's verbs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from mainspring.core.ids import JobId, LaneId, RunId, SessionId, SpanId
from mainspring.core.model import JobSpec, LaneKey, RunKind, SpanKind
from mainspring.core.shards import Refusal
from mainspring.core.values import value

Epochs = Mapping[int, int]
"""Shard -> epoch under which the writer believes to own it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCapabilities:
    """What a store can do, as data that engine and conformance suite check.

    Attributes:
        concurrent_writers: several processes may write at once (row locks, SKIP LOCKED).
        is_durable: what was acknowledged survives the process.
        time_precision: the finest difference that a stored instant keeps.
        carries_hints: a `HintChannel` to other processes on it can be had; else they find by polling what was done.
    """

    concurrent_writers: bool
    is_durable: bool
    time_precision: timedelta
    carries_hints: bool = False


# -- jobs ------------------------------------------------------------------------------------------------------


@value(kw_only=True)
class NewJob:
    """A job to insert. `next_fire_at` is None when it has no trigger."""

    id: JobId
    tenant: str
    spec: JobSpec
    next_fire_at: datetime | None


class AddResult(StrEnum):
    """What became of an insert."""

    ADDED = "added"
    NAME_TAKEN = "name_taken"


class EditResult(StrEnum):
    """What became of an edit."""

    EDITED = "edited"
    MOVED = "moved"
    NAME_TAKEN = "name_taken"
    MISSING = "missing"


class ChangeResult(StrEnum):
    """What became of a pause, resume or delete."""

    DONE = "done"
    MOVED = "moved"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSpan:
    """A span to insert; `to_at` None is open-ended (a pause that lasts)."""

    job_id: JobId
    version: int
    kind: SpanKind
    from_at: datetime
    to_at: datetime | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEdit:
    """A new definition for a job, decided on a clock row with this `revision` and `fire_at`.

    Attributes:
        fire_at: the `next_fire_at` that was read (None: none).
        next_fire_at: the new one; None for a paused job or one without a trigger.
        spans: records of fires that were due but not yet made; of a paused job, the gap of its new trigger.
        ends_gap: the open gap ends now (as by a resume), because it was the old trigger's.
    """

    job_id: JobId
    revision: int
    fire_at: datetime | None
    spec: JobSpec
    next_fire_at: datetime | None
    spans: tuple[NewSpan, ...] = ()
    ends_gap: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockChange:
    """A pause, resume or delete, decided on a clock row with this `revision` and `fire_at`."""

    job_id: JobId
    revision: int
    fire_at: datetime | None
    next_fire_at: datetime | None = None
    spans: tuple[NewSpan, ...] = ()


# -- fires -----------------------------------------------------------------------------------------------------


@value(kw_only=True)
class DueClock:
    """A clock row whose instant is near or past."""

    job_id: JobId
    tenant: str
    version: int
    revision: int
    fire_at: datetime
    fired_through: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyKey:
    """A submitter's key: at most one run per tenant and key until it expires."""

    key: str
    request_hash: bytes
    expires_at: datetime


@value(kw_only=True)
class NewRun:
    """A run to insert.

    Attributes:
        due_at: the instant at which it is to start; its first rank is this or `now`, whichever is later.
        payload: the run's own; None is the job's.
        skip_reason: set: the run is recorded as SKIPPED with this reason and never becomes live.
        target_key: the idempotency key handed to the target; None is the run's id.
        submit_key: guards the submission itself.
        must_be_newest: it is submitted only while `version` is the job's newest.
    """

    job_id: JobId
    version: int
    lane: LaneKey
    kind: RunKind
    fire_at: datetime | None
    due_at: datetime
    timeout: timedelta
    payload: bytes | None = None
    expires_at: datetime | None = None
    skip_reason: str | None = None
    target_key: str | None = None
    submit_key: IdempotencyKey | None = None
    span_id: SpanId | None = None
    must_be_newest: bool = False


@value(kw_only=True)
class Fire:
    """A planned fire of one job.

    Attributes:
        fire_at: the `next_fire_at` that the plan was made from.
        next_fire_at: the following one; None when the trigger is exhausted.
        fired_through: the newest instant that this fire accounts for.
        runs: runs to insert, those with a `skip_reason` as SKIPPED records.
        spans: stretches that this fire accounts for otherwise.
        skip_if_live: overlap policy skip.
    """

    job_id: JobId
    revision: int
    fire_at: datetime
    next_fire_at: datetime | None
    fired_through: datetime
    runs: tuple[NewRun, ...] = ()
    spans: tuple[NewSpan, ...] = ()
    skip_if_live: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanStep:
    """One step of draining a span; `cursor_from` is the cursor that was read (None: at the start)."""

    span_id: SpanId
    job_id: JobId
    cursor_from: datetime | None
    cursor_to: datetime
    runs: tuple[NewRun, ...]
    is_done: bool
    skip_if_live: bool = False


class FireStatus(StrEnum):
    """What became of a fire or a span's step."""

    FIRED = "fired"
    LOST = "lost"
    FENCED = "fenced"


@value()
class FireResult:
    """What became of a fire, and the ids of the runs that went live (not of skipped ones)."""

    status: FireStatus
    run_ids: tuple[RunId, ...] = ()


# -- runs ------------------------------------------------------------------------------------------------------


class SubmitStatus(StrEnum):
    """What became of a submission."""

    SUBMITTED = "submitted"
    DUPLICATE = "duplicate"
    KEY_MISMATCH = "key_mismatch"
    JOB_MISSING = "job_missing"
    JOB_CHANGED = "job_changed"


@value()
class SubmitResult:
    """What became of a submission; `run_id` for SUBMITTED, DUPLICATE and KEY_MISMATCH."""

    status: SubmitStatus
    run_id: RunId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """A session's request for work; see `RunStore.claim_runs`.

    Attributes:
        number: the session's request number; the same as the last one is a repeat.
        lanes: in order of preference.
        lows: lower bounds of rank, so that dead index entries are not walked (design 6); a lane without one is walked
            from its beginning.
    """

    session_id: SessionId
    number: int
    lanes: tuple[LaneId, ...]
    limit: int
    lows: Mapping[LaneId, datetime] = field(default_factory=dict)
    is_alone: bool = False


@value()
class ClaimedRun:
    """What a claim returns of a run; the gateway adds the definition. Positional for speed.

    Attributes:
        is_cancel_requested: only in a repeated answer: the cancel was asked for after the first one.
    """

    run_id: RunId
    token: int
    job_id: JobId
    version: int
    attempt: int
    fire_at: datetime | None
    due_at: datetime
    payload: bytes | None
    target_key: str | None
    is_alone: bool
    is_cancel_requested: bool
    tenant: str


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """The leases given to one request."""

    runs: tuple[ClaimedRun, ...]
    is_session_live: bool = True


@value(kw_only=True)
class HeldRun:
    """The facts of a RUNNING run, for deciding what its end brings."""

    run_id: RunId
    token: int
    job_id: JobId
    version: int
    attempt: int
    is_alone: bool
    alone_crashes: int
    is_cancel_requested: bool
    session_id: SessionId
    started_at: datetime
    deadline_at: datetime


@dataclass(frozen=True, slots=True)
class Followup:
    """A run to insert in the transaction that applies its parent's transition."""

    parent: RunId
    run: NewRun


class ApplyResult(StrEnum):
    """What became of a transition."""

    APPLIED = "applied"
    STALE = "stale"
    MISSING = "missing"


class CancelResult(StrEnum):
    """What became of a cancel."""

    CANCELLED = "cancelled"
    REQUESTED = "requested"
    FINISHED = "finished"
    MISSING = "missing"


# -- sessions and nodes ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """A worker session to open, with what it offers.

    Attributes:
        beat_period: how far apart its heartbeats are to be, as its worker is told; it is judged by that.
    """

    worker: str
    host: str
    pid: int
    slots: int
    queues: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    beat_period: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts:
    """A live session; `beats` is the counter that its heartbeats raise.

    Attributes:
        beat_period: as it was opened with; None of one that an earlier release has opened.
    """

    id: SessionId
    worker: str
    host: str
    pid: int
    slots: int
    queues: tuple[str, ...]
    types: tuple[str, ...]
    functions: tuple[str, ...]
    labels: tuple[str, ...]
    beat_period: timedelta | None
    beats: int
    started_at: datetime
    last_beat_at: datetime


class SessionPulse(NamedTuple):
    """How a live session's heartbeats stand; see `SessionFacts`."""

    beats: int
    beat_period: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """A heartbeat: the session and the leases that it holds.

    Attributes:
        answered: the number of the last claim whose answer had arrived when `held` was read; None where the worker
            does not say. What a later claim was given is not missed: its answer may still be on its way.
    """

    session_id: SessionId
    held: tuple[tuple[RunId, int], ...]
    answered: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BeatResult:
    """What a heartbeat brings back; see `SessionStore.beat_sessions`."""

    is_session_live: bool
    lost: tuple[tuple[RunId, int], ...] = ()
    cancel: tuple[tuple[RunId, int], ...] = ()
    unknown: tuple[HeldRun, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverFacts:
    """A failover of the database, and what is known to be lost by it.

    Attributes:
        noticed_at: when this process came to know of it, by the clock of the present server.
        from_timeline, to_timeline: of the former and of the present server.
        last_position: bytes of WAL that the former server was last seen to have written.
        shared_position: up to which of them the present server surely has the same.
        missing_wal: how many bytes of WAL, at least, the former server had and the present one has not.
        runs_checked: how many acknowledged submissions and fires were looked for.
        are_all_checked: whether those were all of the last minute.
        runs_lost: how many of them the present server does not have.
        lost_run_ids: the first of those.
    """

    noticed_at: datetime
    from_timeline: int
    to_timeline: int
    last_position: int
    shared_position: int
    missing_wal: int
    runs_checked: int
    are_all_checked: bool
    runs_lost: int
    lost_run_ids: tuple[RunId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """A scheduler node."""

    id: str
    host: str
    pid: int
    version: str
    tzdata: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """A node as its last heartbeat left it; `beats` is the counter that its heartbeats raise.

    Attributes:
        period: how far apart its heartbeats are, as it says; None of a release that does not say.
        refusal: why it owns no shards; None where nothing speaks against it.
    """

    facts: NodeFacts
    beats: int
    period: timedelta | None
    refusal: Refusal | None
    started_at: datetime
    last_beat_at: datetime


@dataclass(frozen=True, slots=True)
class Cluster:
    """What the store knows of its nodes as a whole.

    Attributes:
        tzdata: the version of the zone data that nodes must have to own shards; None before the first one.
        nodes: in order of id, dead ones that nobody has found yet among them.
    """

    tzdata: str | None
    nodes: tuple[NodeState, ...]


class ShardLease(NamedTuple):
    """Who owns a shard; `node_beats` is the owner's counter, None where there is no such node.

    A tuple, because every node makes one for each of the shards with each of its beats.
    """

    shard: int
    epoch: int
    node_id: str | None
    node_beats: int | None
