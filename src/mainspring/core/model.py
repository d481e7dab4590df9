"""The nouns of the glossary as frozen values (design 1 and 3.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Any

from mainspring.core.batching import TAKES_BATCHES, BatchRule
from mainspring.core.fields import MAX_PAYLOAD
from mainspring.core.ids import FireRangeId, JobId, LaneId, RunId, SessionId
from mainspring.core.limits import LINED_UP, JobLimit
from mainspring.core.notify import NotifyRule
from mainspring.core.once import DebounceRule, ThrottleRule, UniqueRule
from mainspring.core.pacing import CatchUpRule
from mainspring.core.retry import RetryPolicy
from mainspring.core.states import RunState
from mainspring.core.targets import TARGETS
from mainspring.core.values import value
from mainspring.core.workflows.places import StepPlace

if TYPE_CHECKING:
    from mainspring.core.triggers import Trigger

DEFAULT_QUEUE = "default"
DEFAULT_TIMEOUT = timedelta(hours=24)
"""The time limit of an attempt if its job sets none."""
INLINE_LIMIT = MAX_PAYLOAD
"""The most bytes of a payload or result that a row may hold (design 8)."""


class Priority(IntEnum):
    """The three tiers; a smaller number is claimed first."""

    HIGH = 0
    MEDIUM = 1
    LOW = 2


class Delivery(StrEnum):
    """How often a run may start (design 3)."""

    AT_LEAST_ONCE = "at_least_once"
    AT_MOST_ONCE = "at_most_once"
    EXACTLY_ONCE = "exactly_once"


class Overlap(StrEnum):
    """What happens to a fire while an earlier run of the job is still live."""

    ALLOW = "allow"
    SKIP = "skip"
    QUEUE_ONE = "queue_one"
    QUEUE_ALL = "queue_all"
    CANCEL_RUNNING = "cancel_running"

    @property
    def lines_up(self) -> bool:
        """Whether the job's runs stand in one line, and run one after the other."""
        return self not in _WITHOUT_LINE

    @property
    def keeps_line(self) -> bool:
        """Whether runs that stand in the job's line from before still run one after the other."""
        return self is not Overlap.ALLOW


_WITHOUT_LINE = (Overlap.ALLOW, Overlap.SKIP)


class Misfire(StrEnum):
    """What happens to fires that are late by more than the grace.

    - `skip`: they are recorded as skipped. Fires still within the grace become runs.
    - `fire_latest`: all overdue fires, including those within the grace, become one run for the newest.
    - `fire_all`: each becomes a run, at a bounded rate and within bounds of count and age. Fires within the grace
      fire as if on time.
    """

    SKIP = "skip"
    FIRE_LATEST = "fire_latest"
    FIRE_ALL = "fire_all"


class Roll(StrEnum):
    """To which date a fire moves that the job's calendars keep out."""

    NEXT = "next"
    PREVIOUS = "previous"


class RunKind(StrEnum):
    """Why a run exists."""

    SCHEDULED = "scheduled"
    MANUAL = "manual"
    EVENT = "event"
    BACKFILL = "backfill"
    WORKFLOW = "workflow"
    CHILD = "child"
    REDRIVE = "redrive"


class FireRangeKind(StrEnum):
    """What a fire range stands for: fires still to come, or fires that will never come."""

    CATCH_UP = "catch_up"
    BACKFILL = "backfill"
    GAP = "gap"


@value()
class Target:
    """What a job runs: the executor's name and its parameters (`url`, `function`, `command`…)."""

    type: str
    params: Mapping[str, Any] = field(default_factory=dict, hash=False)


@value(kw_only=True)
class MisfireRule:
    """What happens to missed fires.

    Attributes:
        policy: whether to skip them, fire only the latest, or fire all.
        grace: how late a fire may be and still count as on time.
        max_count: with `fire_all`, the most missed fires that become runs after one outage; the newest do.
        max_age: with `fire_all`, how old a missed fire may be when the scheduler finds that the outage is over.
    """

    policy: Misfire = Misfire.FIRE_LATEST
    grace: timedelta = timedelta(seconds=60)
    max_count: int = 1000
    max_age: timedelta = timedelta(days=7)


@value(kw_only=True)
class JobCalendars:
    """The calendars that let a job's fires through, or keep them out: each `NAME` or `NAME@VERSION`.

    Attributes:
        include: a fire must be in one of these; empty is no condition.
        exclude: a fire must be in none of these.
        roll: where a fire moves that does not get through; None leaves it out.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    roll: Roll | None = None

    def __bool__(self) -> bool:
        return bool(self.include or self.exclude)


NO_CALENDARS = JobCalendars()


@value(kw_only=True)
class JobSpec:
    """One kept version of a job's definition.

    Attributes:
        payload: JSON text in UTF-8 for the target, unless a run brings its own. None means no payload.
        labels: what a worker must offer to get these runs, sorted.
        timeout: hard limit of one attempt, after which it is killed.
        soft_timeout: when a function is asked to end (by a cancellation like that of `asyncio.timeout`), before the
            hard limit.
        jitter: each start is delayed by 0 to this much, by a hash of job and fire time.
        expires_after: a run not started this long after its due instant is skipped as expired.
        poison_limit: how many worker crashes while this run is quarantined make it FAILED.
        catch_up: how fast missed fires are made up for.
        max_fires: how many of its trigger's fires are to run; then it is finished. None is no maximum.
        concurrency: the limits under which its runs start, at most three.
        unique, debounce, throttle: which submissions make a run of their own; at most one of the three.
        pause_after_failures: after how many failed runs in a row the job is paused; None is never.
        batch: how many of its runs are given to one call of its function; None is one. Not beside
            `concurrency`, nor where runs follow one another.
        preempts: its waiting runs may take the slots of preemptible runs of lower tiers; None: if their tier is HIGH.
        preemptible: its runs may be stopped for more urgent work, to start again later.
        notify: who is told when it fails, is late or has recovered; None is nobody.
        metrics: its runs are counted in figures of its own.
    """

    name: str
    target: Target
    trigger: Trigger | None = None
    payload: bytes | None = None
    priority: Priority = Priority.MEDIUM
    queue: str = DEFAULT_QUEUE
    labels: tuple[str, ...] = ()
    retry: RetryPolicy = RetryPolicy()
    misfire: MisfireRule = MisfireRule()
    catch_up: CatchUpRule = CatchUpRule()
    overlap: Overlap = Overlap.ALLOW
    calendars: JobCalendars = NO_CALENDARS
    max_fires: int | None = None
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    timeout: timedelta = DEFAULT_TIMEOUT
    soft_timeout: timedelta | None = None
    jitter: timedelta = timedelta(0)
    expires_after: timedelta | None = None
    poison_limit: int = 3
    concurrency: tuple[JobLimit, ...] = ()
    unique: UniqueRule | None = None
    debounce: DebounceRule | None = None
    throttle: ThrottleRule | None = None
    pause_after_failures: int | None = None
    batch: BatchRule | None = None
    preempts: bool | None = None
    preemptible: bool = False
    notify: NotifyRule | None = None
    metrics: bool = False

    @property
    def is_lined_up(self) -> bool:
        """Whether its runs wait in lines: under limits, because one follows the other, or for a batch."""
        return bool(self.concurrency) or self.overlap.lines_up or self.batch is not None

    @property
    def route(self) -> str:
        """The lane's route: what the target's type says, the labels, and whether its runs wait in lines.

        `%` and `+` within a part are escaped. A target of a type that this process does not know has the type's name.
        """
        target = self.target
        known = TARGETS.by_name.get(target.type)
        base = target.type if known is None else known.route(target.params)
        needs = () if known is None else known.needs(target.params)
        parts: tuple[str, ...] = (base, *self.labels, *needs)
        if self.batch is not None:
            parts = (*parts, TAKES_BATCHES, LINED_UP)
        elif self.is_lined_up:
            parts = (*parts, LINED_UP)
        route = "+".join(parts)
        if "%" not in route and route.count("+") == len(parts) - 1:
            return route
        return "+".join(part.replace("%", "%25").replace("+", "%2B") for part in parts)


@value(kw_only=True)
class Job:
    """A stored job, with its newest version and its clock.

    Attributes:
        version: the number of the kept definition in `spec`; grows with each edit.
        revision: the clock's revision; grows with each edit, pause, resume and delete, and fences plans.
        next_fire_at: the next instant the trigger gives; None when paused, exhausted or finished.
        fired_through: the newest instant that was fired or skipped.
        fires_left: how many of its fires may still run, as `max_fires` has it; None if it has no maximum.
        pause_note: why Mainspring paused it by itself; None if it is not paused, or a user paused it.
        owner: the app whose code defines it, or did; None if a user made it.
        undefined_since: since when the owner's code does not define it any more; None if it does.
    """

    id: JobId
    tenant: str
    spec: JobSpec
    version: int
    revision: int
    is_paused: bool
    next_fire_at: datetime | None
    fired_through: datetime | None
    created_at: datetime
    updated_at: datetime
    fires_left: int | None = None
    pause_note: str | None = None
    owner: str | None = None
    undefined_since: datetime | None = None


@value()
class LaneKey:
    """The unit between which claims are shared fairly (design 6)."""

    queue: str
    route: str
    tenant: str
    priority: Priority


@value()
class Lane:
    """An interned lane, with what a claim needs to know about it.

    Attributes:
        earliest_ready_at: the earliest instant at which one of its runs may start; it may lie in the future. None if
            the lane is empty.
        earliest_quarantined_at: the same for its quarantined runs.
    """

    id: LaneId
    key: LaneKey
    earliest_ready_at: datetime | None
    earliest_quarantined_at: datetime | None = None


@value(kw_only=True)
class Run:
    """One occurrence of a job version, live or finished, as inspection shows it.

    Attributes:
        fire_at: the nominal instant of a scheduled or caught-up run; None for others.
        due_at: when it was due to start (fire time with jitter, or the submitter's `run_at`).
        ready_at: the instant from which it may be claimed (moves with retries); for an ended run, its `due_at`.
        attempt: the number of the attempt under way, or of the next one; for an ended run, of the last. From 1.
        token: the fencing token, as the newest claim or loss left it.
        crashes: attempts lost with their worker.
        is_cancel_requested: a cancel was requested for this live run. An ended run shows it by its state.
        reason: why it is FAILED, CANCELLED or SKIPPED.
        trace: its trace context, as `core.tracing` describes it; None if the run is not traced.
        place: of a run of a workflow's step, which of which flow; None for others.
    """

    id: RunId
    job_id: JobId
    version: int
    tenant: str
    lane: LaneKey
    kind: RunKind
    state: RunState
    fire_at: datetime | None
    due_at: datetime
    ready_at: datetime
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    attempt: int
    token: int
    crashes: int
    session_id: SessionId | None
    is_cancel_requested: bool
    reason: str | None
    error: str | None
    payload: bytes | None
    result: bytes | None
    output: str | None
    idempotency_key: str | None
    fire_range_id: FireRangeId | None
    redrive_of: RunId | None
    trace: bytes | None = None
    place: StepPlace | None = None


@value(kw_only=True)
class JobStatus:
    """A job's status as the API shows it (design 3.2).

    Attributes:
        state: the state of the newest run that is due or started; PENDING if there is none.
        last_run: that run; None if there is none.
        next_fire_at: the next fire; None when paused, exhausted, finished or without a trigger.
        retry_count: retries made by that run.
    """

    job: Job
    state: RunState
    last_run: Run | None
    next_fire_at: datetime | None
    retry_count: int


@value(kw_only=True)
class Attempt:
    """One try of a run. A run that succeeds at the first try leaves no attempt on record (design 3).

    Attributes:
        worker: the name of the worker that had it; empty if that is not known any more.
        host: where that worker ran; None if that is not known.
    """

    run_id: RunId
    token: int
    number: int
    outcome: str
    worker: str
    started_at: datetime
    finished_at: datetime
    error: str | None
    output: str | None
    host: str | None = None


@value(kw_only=True)
class FireRange:
    """A range of fire times of one job, handled as one record (design 5).

    It covers every fire time t of that job version with `from_at <= t <= to_at`; `to_at` None is open (a pause
    that lasts). Fires up to and including `cursor_at` are done.

    Attributes:
        calendars: what its fires go by, each as `NAME@VERSION`: first those that the definition includes, then those
            that it excludes. Empty if it has none, and for gaps.
    """

    id: FireRangeId
    job_id: JobId
    tenant: str
    version: int
    kind: FireRangeKind
    from_at: datetime
    to_at: datetime | None
    cursor_at: datetime | None
    reason: str
    is_open: bool
    created_at: datetime
    calendars: tuple[str, ...] = ()
