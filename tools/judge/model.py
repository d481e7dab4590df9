"""The contents of a history.

All instants are in the store's time unless a name says otherwise. Lists are in the order of events.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from mainspring.core.ids import JobId, RunId, SessionId
from mainspring.core.model import Attempt, FireRange, JobSpec, Run
from mainspring.core.states import RunState

if TYPE_CHECKING:  # workers of earlier releases, which know of none of it, import the judge, too
    from mainspring.core.checkpoints import Checkpoint
    from mainspring.core.dead_letters import SettledLetter
    from mainspring.core.ids import RedriveId
    from mainspring.core.redrives import Redrive


class ChangeKind(StrEnum):
    """What a change did to a job's clock."""

    CREATED = "created"
    EDITED = "edited"
    PAUSED = "paused"
    RESUMED = "resumed"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of a job. It took effect at `at`, or at some instant up to `until` that a client cannot know.

    Attributes:
        spec: the definition from then on.
        place: how many events had been committed before, if that is known.
        is_by_itself: the job was paused because its runs had failed.
    """

    job_id: JobId
    kind: ChangeKind
    at: datetime
    until: datetime
    version: int
    spec: JobSpec
    place: int | None = None
    is_by_itself: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A client's request and the answer.

    Attributes:
        kind: `submit` or `cancel`; requests about jobs appear as changes.
        outcome: `ok`, `fail` or `refused` (surely not done; refused for the time being), or `unknown` (no answer came).
        answer: for `cancel` the word of the answer; None for `submit`.
        run_id: the run that the answer names, or that was to be cancelled.
        status: for `submit`, what became of it; only `submitted` asks for a run of its own.
        payload: what was submitted, where rules about the newest payload are judged from outside.
        is_probe: it was made when all was over, so nothing may have been in its way.
    """

    kind: str
    job_id: JobId
    asked_at: datetime
    answered_at: datetime
    outcome: str
    key: str | None = None
    run_id: RunId | None = None
    answer: str | None = None
    status: str = "submitted"
    payload: Mapping[str, Any] | None = None
    is_probe: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """A committed submission that gave its payload to a run that waits.

    Attributes:
        place: how many events had been committed before.
    """

    at: datetime
    run_id: RunId
    payload: bytes | None
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertStory:
    """An alert as it is on record in the end.

    Attributes:
        tells_end: whether it is told that it has ended.
    """

    id: int
    tenant: str
    rule: str
    subject: str
    since: datetime
    resolved_at: datetime | None = None
    tells_end: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertTold:
    """A message that a channel took; with one id it may come twice.

    Attributes:
        kind: firing, repeat or resolved.
    """

    at: datetime
    id: str
    kind: str
    alert_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequest:
    """A change of a job that a client asked for, once.

    Attributes:
        id: of no other request.
        outcome: `ok`; `fail`, it was refused; `unknown`, no answer came.
    """

    id: str
    kind: str
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUse:
    """An access token that a server was shown, and whether it let the caller in.

    Attributes:
        token: its prefix.
        server: the name under which faults hit it.
    """

    at: datetime
    token: str
    server: str
    is_admitted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Permit:
    """Permits that a request to submit runs got, by the time that it brought with it."""

    at: datetime
    tenant: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """A committed request to a run that it give up its slot; `by` begins with the tier of what waits."""

    at: datetime
    run_id: RunId
    token: int
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pausing:
    """A committed pause of a queue, a tenant or everything, or the lifting of one.

    Attributes:
        at: when it was committed, or the first instant at which it may have been.
        by: when it had surely been committed, if that is not known to the instant.
        place: how many events had been committed before.
        since: fires that fell due from then on are its own.
        until: when it ends by itself.
    """

    at: datetime
    place: int
    scope: str
    name: str
    mode: str = "hold"
    since: datetime
    until: datetime | None = None
    is_lifted: bool = False
    by: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A setting of a limit that jobs share. It took effect at `at`, or at some instant up to `until`.

    Attributes:
        cap: how many runs may be under way; None is no cap.
        per_second: how many permits come in; None is no rate.
        burst: how many permits there are at most.
    """

    name: str
    at: datetime
    until: datetime
    cap: int | None = None
    per_second: float | None = None
    burst: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StillWindow:
    """A stretch from `low` up to `high` in which a calendar stops something.

    Attributes:
        since: fires that fell due from then on are its own.
    """

    low: datetime
    high: datetime
    mode: str = "hold"
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class BlackoutChange:
    """A committed change of what calendars stop: all windows of a queue, a tenant or everything from then on.

    Attributes:
        place: how many events had been committed before.
    """

    at: datetime
    place: int
    scope: str
    name: str
    windows: tuple[StillWindow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Capping:
    """A committed change of the cap of a queue, a tenant or a label; None: there is no cap from then on.

    Attributes:
        place: how many events had been committed before.
    """

    place: int
    scope: str
    name: str
    max_running: int | None


@dataclass(slots=True, kw_only=True)
class Effect:
    """One execution, as the job itself recorded it in its first and its last act.

    Attributes:
        ending: how the job itself says it ended (`done`, `failed`, `snoozed`); None if it never reached its end.
        cause: the built-in exception that the job raised, by its name.
        call: what those have in common, on one worker, that were given to one call; None for a call of its own.
    """

    run_id: RunId
    job_id: JobId
    token: int
    attempt: int
    worker: str
    started_at: datetime
    ended_at: datetime | None = None
    ending: str | None = None
    cause: str | None = None
    call: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A change of a run's state as the store committed it, or a write that it refused (`is_stale`).

    Attributes:
        run_id: None for a fire that was skipped because a run was live (`overlap`).
        token: the token of the request (for a claim, the token that it gave).
        what: `claimed`, the attempt's outcome, or how the run began or ended: `inserted`, `fired`, `cancel`,
            `expired`, `overlap`.
        actor: the process that made the request.
        policy: for `overlap`, the overlap policy by which it was skipped.
        session_id: for a claim and for an attempt's end, the worker session.
        committed_at: when it was committed, if that is known. `at` is the time that the request brought with it, which
            a process that stood still may send late.
    """

    at: datetime
    job_id: JobId
    run_id: RunId | None
    target: RunState
    token: int
    what: str
    actor: str
    policy: str = "skip"
    session_id: SessionId | None = None
    is_stale: bool = False
    committed_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A right to write, of a scheduler over a shard or of a worker session: it was given, used, or ended.

    Attributes:
        what: `shard 7` or `session 12`.
        epoch: the shard's epoch; 0 for sessions, which are never given twice.
        step: `given`, `used` (a write under it was accepted), `ended`, or `expired` (its holder was declared dead,
            but was alive).
    """

    at: datetime
    what: str
    epoch: int
    step: str
    actor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that was done to the system. `until` is its end, including the restart."""

    kind: str
    target: str
    at: datetime
    until: datetime


@dataclass(slots=True, kw_only=True)
class Life:
    """The life of one server process: from its start until it ended or was killed.

    Attributes:
        process: its own name.
        node: the name under which faults hit it.
        until: None if it lives.
    """

    process: str
    node: str
    since: datetime
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStart:
    """A committed start of the cluster, at the instant that is the fire of jobs at start."""

    at: datetime
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillMove:
    """A committed step of a backfill.

    Attributes:
        runs: the runs that it made, each with its fire time.
    """

    at: datetime
    runs: tuple[tuple[RunId, datetime], ...]
    skipped: int


@dataclass(slots=True, kw_only=True)
class BackfillStory:
    """A backfill as it was made, and what came of it.

    Attributes:
        count, per: its rate: so many runs in each period.
        fires: how many fires its plan found.
        place: how many changes of jobs had been committed before.
        cancelled_at: when it was cancelled first, if it was.
    """

    name: str
    job_id: JobId
    from_at: datetime
    to_at: datetime
    skip_done: str
    count: int
    per: timedelta
    max_live: int
    fires: int
    place: int
    state: str = "open"
    cancelled_at: datetime | None = None
    steps: list[BackfillMove] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepNote:
    """What happened to a step of a durable function.

    Attributes:
        what: `began`, when its body did; `kept`, when the store had committed it; `given`, when its function got it.
        value: what it returned; of a sleep, its seconds.
    """

    run_id: RunId
    token: int
    name: str
    number: int
    what: str
    at: datetime
    value: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowStory:
    """A run of a workflow, with the runs of its steps as they are in the end.

    Attributes:
        links: for each step, by its place, the places of the steps that it comes after.
        rules: of each step, by their names.
        may_fail: which steps may fail without making the workflow fail.
        runs: of the steps, each with its `place`.
        steps: how each step has ended, by the words of `StepStatus`; None if that is not on record.
        cancelled_at: when a cancel of it was committed first; None: it never was.
        deadline: how long it may take; None: as long as it takes.
        maps: for the steps that run once for each of many items, how many there are, how many may be live at once
            (None: all), and how many may fail.
        at_end: the steps that run once all others have ended.
        pauses: from when on, and until when, it was paused.
        has_skips: someone asked for steps to be skipped.
        whens: of steps that run only if another one has not returned an even number, that other one.
        givens: of steps that get what another one has returned, that other one.
        waits: of the steps that wait.
        taken: of a run that repeats another one, the steps that it has taken over, each with the run in which it
            succeeded; None where it ran for many items.
        taken_items: of steps that it has taken over in part, the items.
        again: the steps that were asked to run again; None: nobody knows what was asked for.
        undoes: of the steps that undo others, which ones. They are in `at_end`, too.
        ends: the steps that have ended, in that order, with those that were taken over first; None if that is not on
            record.
        has_begun: its flow has begun. If it has not, `steps` says only what that would have taken over.
    """

    run: Run
    links: tuple[tuple[int, ...], ...]
    rules: tuple[str, ...]
    may_fail: frozenset[int]
    runs: tuple[Run, ...]
    steps: tuple[str, ...] | None
    cancelled_at: datetime | None
    deadline: timedelta | None = None
    maps: Mapping[int, tuple[int, int | None, int]] = field(default_factory=dict)
    pauses: tuple[tuple[datetime, datetime | None], ...] = ()
    has_skips: bool = False
    at_end: frozenset[int] = frozenset()
    whens: Mapping[int, int] = field(default_factory=dict)
    givens: Mapping[int, int] = field(default_factory=dict)
    waits: Mapping[int, WaitStory] = field(default_factory=dict)
    taken: Mapping[int, Run | None] = field(default_factory=dict)
    taken_items: Mapping[int, frozenset[int]] = field(default_factory=dict)
    again: frozenset[int] | None = None
    undoes: Mapping[int, int] = field(default_factory=dict)
    ends: tuple[int, ...] | None = None
    has_begun: bool = True


@dataclass(slots=True, kw_only=True)
class WaitStory:
    """A step that waits, as it is in the end.

    Attributes:
        sleep: how long it sleeps; None: it waits for a signal or an event.
        timeout: how long it waits for that.
        since: when it started; None: it never did.
        told_at: when the first signal or event for it was committed; None: there was none.
        ended_at: when the turn was decided that has ended it; None: nobody saw it.
        place: how many events there had been by then.
    """

    sleep: timedelta | None
    timeout: timedelta | None
    since: datetime | None
    told_at: datetime | None
    ended_at: datetime | None
    place: int


@dataclass(slots=True, kw_only=True)
class History:
    """Everything that the judge examines.

    Attributes:
        events: empty if the transitions were not recorded; then the rules about them are not judged.
        replacements: in the order of their commits, as the events.
        pausings: likewise.
        blackouts: likewise.
        servers: the names of the servers.
        lives: of their processes, in order.
        starts: of the cluster, in order.
        cappings: likewise.
        runs: the final read, made after the quiet period at `read_at`.
        redrives: as they are in the end.
        redrive_places: how many events had been committed when they were made.
        settled: what became of dead letters; open ones are left out.
        discarded: dead letters that were discarded, as it was answered.
        judges_alerts: whether alerts were judged.
        alerts: as they are in the end.
        told: what channels took, in order.
        noticed: when alerts were saved that take note of failed runs.
        requests: changes that clients asked for.
        committed: how often each of them took place, as it was committed.
        audited: how many rows in the audit each of them has; None if that is not known.
        bound: the tenants of sessions that are bound to one.
        counted: how many runs have ended by the counters of all processes; None if any of these was hurt.
        uses: when servers were shown access tokens.
        revoked: when tokens were revoked.
        healed_at: when the last fault had ended.
        slack: how far the system's clocks may differ.
        lease: how long a worker may be silent before it is declared dead.
        slots: how many attempts all workers together can run at a time.
        weights: the shares of tenants, of those that were set before they had anything to run.
        reserves: the slots that are reserved for tenants, of those for which that was set before they had work.
        promises: the same, of all for which it was asked.
        limits: the bounds of limits that jobs share, by name.
        bounds: the same where they change, in order.
        seen: by run and token, the number in the payload that the attempt was given.
        limits: the bounds of limits that jobs share, by name; with the scope `cluster` all tenants do.
        expiries: how long runs of a queue may wait, of queues for which that was set before anything was in them.
        rates: how often tenants may submit, of those for which that was set before they did.
        permits: what requests of tenants with a rate got.
        flows: the runs of workflows, which are in no other list, nor are those of their steps.
        flow_events: theirs, in order.
        flow_mail: how much mail is left in the end.
        open_flows: how many flows are left in the end.
        steps: what happened to the steps of durable functions, in order.
        kept: what is kept of them in the end, of runs that have any.
        is_by_age: the queue of these tenants serves the oldest run first, so their weights do not count.
        claim: how many attempts one worker can run at a time.
        matchers: how many processes give out runs, each by what it knows.
    """

    changes: list[Change] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    replacements: list[Replacement] = field(default_factory=list)
    pausings: list[Pausing] = field(default_factory=list)
    blackouts: list[BlackoutChange] = field(default_factory=list)
    servers: tuple[str, ...] = ()
    lives: list[Life] = field(default_factory=list)
    starts: list[ClusterStart] = field(default_factory=list)
    cappings: list[Capping] = field(default_factory=list)
    grants: list[Grant] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    attempts: Mapping[RunId, list[Attempt]] = field(default_factory=dict)
    fire_ranges: list[FireRange] = field(default_factory=list)
    backfills: list[BackfillStory] = field(default_factory=list)
    redrives: list[Redrive] = field(default_factory=list)
    redrive_places: Mapping[RedriveId, int] = field(default_factory=dict)
    settled: Mapping[RunId, SettledLetter] = field(default_factory=dict)
    discarded: AbstractSet[RunId] = frozenset()
    judges_alerts: bool = False
    alerts: list[AlertStory] = field(default_factory=list)
    told: list[AlertTold] = field(default_factory=list)
    noticed: Mapping[RunId, datetime] = field(default_factory=dict)
    requests: list[ChangeRequest] = field(default_factory=list)
    committed: Mapping[str, int] = field(default_factory=dict)
    audited: Mapping[str, int] | None = None
    bound: Mapping[SessionId, str] = field(default_factory=dict)
    counted: Mapping[RunState, int] | None = None
    uses: list[TokenUse] = field(default_factory=list)
    revoked: Mapping[str, datetime] = field(default_factory=dict)
    read_at: datetime
    healed_at: datetime
    slack: timedelta
    lease: timedelta
    slots: int
    weights: Mapping[str, int] = field(default_factory=dict)
    reserves: Mapping[str, int] = field(default_factory=dict)
    promises: Mapping[str, int] = field(default_factory=dict)
    limits: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    bounds: list[Bound] = field(default_factory=list)
    seen: Mapping[tuple[RunId, int], int] = field(default_factory=dict)
    expiries: Mapping[str, timedelta] = field(default_factory=dict)
    rates: Mapping[str, str] = field(default_factory=dict)
    permits: list[Permit] = field(default_factory=list)
    askings: list[Asking] = field(default_factory=list)
    flows: list[FlowStory] = field(default_factory=list)
    flow_events: list[Event] = field(default_factory=list)
    flow_mail: int = 0
    open_flows: int = 0
    steps: list[StepNote] = field(default_factory=list)
    kept: Mapping[RunId, list[Checkpoint]] = field(default_factory=dict)
    is_by_age: bool = False
    claim: int = 1
    matchers: int = 1

    def count_faults(self, low: datetime, high: datetime) -> int:
        """Return how many faults there were at some instant between these two."""
        return sum(fault.at <= high and low <= fault.until for fault in self.faults)


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule, with the shortest story that shows it."""

    rule: str
    subject: str
    story: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([f"{self.rule} broken by {self.subject}:", *(f"  {line}" for line in self.story)])


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of judging a history.

    Attributes:
        counts: how much was examined, and what was found to be allowed, by name. A history in which nothing happened
            proves nothing.
    """

    violations: tuple[Violation, ...]
    counts: Mapping[str, int]

    @property
    def is_good(self) -> bool:
        """Whether no rule was broken."""
        return not self.violations

    def as_plain(self) -> dict[str, Any]:
        """Return the verdict as plain values for JSON."""
        return {
            "violations": [
                {"rule": found.rule, "subject": found.subject, "story": list(found.story)}
                for found in self.violations
            ],
            "counts": dict(self.counts),
        }
