"""All rows of a memory store, and the indexes over them.

A run's state alone decides which indexes it is in. To change a run, take it out with `unindex`, change it, and put it
back with `index`. Do this without an `await` in between, so that every verb is atomic.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from itertools import count
from uuid import UUID

from mainspring.core.admission import OVERLAP
from mainspring.core.applying import CancelVerdict, judge_cancel
from mainspring.core.audit import KeptEntry
from mainspring.core.audit_seals import AuditSeal
from mainspring.core.blackouts import Blackout
from mainspring.core.calendars.resolved import CalendarVersion
from mainspring.core.census import Census
from mainspring.core.ciphertexts import EncryptionKey
from mainspring.core.clocks import NextFire
from mainspring.core.fencing import ENGINE_SESSION, is_held
from mainspring.core.ids import (
    SHARDS,
    BackfillId,
    FireRangeId,
    JobId,
    LaneId,
    RedriveId,
    RunId,
    SessionId,
    job_shard,
    make_run_id,
)
from mainspring.core.ledger_check import LedgerCheck
from mainspring.core.model import Attempt, FireRangeKind, JobSpec, LaneKey, Overlap, Priority, RunKind
from mainspring.core.overlap import LiveOfJob, OverlapVerdict, judge_overlap
from mainspring.core.pauses import Pause, PauseKey
from mainspring.core.priorities import PriorityClass
from mainspring.core.queues import Queue
from mainspring.core.redrives import Redrive
from mainspring.core.states import FINAL_STATES, READY_STATES, RunState
from mainspring.core.tenants import Tenant
from mainspring.core.workflows.mail import FlowNotice, StepEnded
from mainspring.ports.store.calendars import CalendarUse, CalendarUses
from mainspring.ports.store.nodes import Epochs
from mainspring.ports.store.runs import NewRun
from mainspring.ports.store.schedule import FireResult, FireStatus, NewFireRange
from mainspring.ports.store.sessions import WorkerName
from mainspring.stores.memory.flow_tables import FlowTables
from mainspring.stores.memory.index import OrderedIndex
from mainspring.stores.memory.limit_tables import LimitTables
from mainspring.stores.memory.rows import (
    BackfillRow,
    FireRangeRow,
    JobIndex,
    JobRow,
    KeyRow,
    LaneRow,
    NodeRow,
    RunIndex,
    RunRow,
    SessionRow,
    ShardRow,
    UniqueKeyRow,
)


@dataclass(slots=True)
class CalendarTables:
    """Calendars by tenant and name, their revision, and which versions the clocks of jobs go by."""

    versions: dict[tuple[str, str], list[CalendarVersion]] = field(default_factory=dict)
    uses: dict[JobId, tuple[CalendarUse, ...]] = field(default_factory=dict)
    revision: int = 0


@dataclass(slots=True)
class RestrictionTables:
    """What is paused, and the policy epoch."""

    pauses: dict[PauseKey, Pause] = field(default_factory=dict)
    blackouts: dict[PauseKey, tuple[Blackout, ...]] = field(default_factory=dict)
    epoch: int = 0


@dataclass(slots=True)
class PolicyTables:
    """What is set for tenants and queues, by name, and its revision; what restricts claims; the permits of tenants."""

    restrictions: RestrictionTables = field(default_factory=RestrictionTables)
    tenants: dict[str, Tenant] = field(default_factory=dict)
    queues: dict[str, Queue] = field(default_factory=dict)
    classes: dict[str, PriorityClass] = field(default_factory=dict)
    permits: dict[str, tuple[float | None, datetime | None]] = field(default_factory=dict)
    revision: int = 0


@dataclass(slots=True)
class BackfillTables:
    """Backfills, and what old work needs to know: when versions of jobs were stored, and how many of a job's live runs
    are those of backfills, and how many are caught up.
    """

    rows: dict[BackfillId, BackfillRow] = field(default_factory=dict)
    version_times: dict[JobId, list[datetime]] = field(default_factory=dict)
    live_of_job: Counter[JobId] = field(default_factory=Counter)
    caught_up: Counter[JobId] = field(default_factory=Counter)


@dataclass(slots=True)
class AuditTables:
    """Entries of the audit and their seals, in order, and from when on they are kept."""

    entries: list[KeptEntry] = field(default_factory=list)
    seals: list[AuditSeal] = field(default_factory=list)
    kept_from: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    sequence: count[int] = field(default_factory=lambda: count(1))


class Tables:
    """The data of one memory store."""

    policies: PolicyTables
    calendars: CalendarTables
    limits: LimitTables
    backfills: BackfillTables
    flows: FlowTables
    redrives: dict[RedriveId, Redrive]
    audit: AuditTables
    ledger_check: LedgerCheck | None = None
    failure_watch: dict[JobId, JobRow]  # that pause after failures
    after_end: dict[JobId, JobRow]  # whose fires wait for the ends of runs
    encryption_keys: dict[str, EncryptionKey]
    tzdata: str | None
    census: Census | None
    archive_url: str | None
    changed_days: set[date]  # in which something has ended since the archive was asked for

    def __init__(self) -> None:
        self.jobs: dict[JobId, JobRow] = {}
        self.tenants: dict[JobId, str] = {}  # of deleted jobs, too
        self.names: dict[tuple[str, str], JobId] = {}
        self.jobs_of_tenant: dict[str, JobIndex] = defaultdict(OrderedIndex)
        self.versions: dict[tuple[JobId, int], JobSpec] = {}
        self.failure_watch, self.after_end, self.encryption_keys = {}, {}, {}
        self.due: dict[Priority, OrderedIndex[tuple[datetime, UUID]]] = {
            priority: OrderedIndex() for priority in Priority
        }

        self.fire_ranges: dict[FireRangeId, FireRangeRow] = {}
        self.fire_ranges_of_job: dict[JobId, list[FireRangeRow]] = defaultdict(list)
        self.open_fire_ranges: dict[FireRangeId, FireRangeRow] = {}

        self.lanes: dict[LaneId, LaneRow] = {}
        self.lane_ids: dict[LaneKey, LaneId] = {}

        self.runs: dict[RunId, RunRow] = {}
        self.runs_of_tenant: dict[str, RunIndex] = defaultdict(OrderedIndex)
        self.runs_of_job: dict[JobId, RunIndex] = defaultdict(OrderedIndex)
        self.live_of_job: Counter[JobId] = Counter()
        self.counts: dict[str, Counter[RunState]] = defaultdict(Counter)
        self.expiring: OrderedIndex[tuple[datetime, RunId]] = OrderedIndex()
        self.deadlines: OrderedIndex[tuple[datetime, RunId]] = OrderedIndex()
        self.history: OrderedIndex[tuple[datetime, RunId]] = OrderedIndex()
        self.attempts: dict[RunId, list[Attempt]] = {}
        self.keys: dict[tuple[str, str], KeyRow] = {}
        self.unique_keys: dict[tuple[str, JobId, bytes], UniqueKeyRow] = {}
        self.sessions: dict[SessionId, SessionRow] = {}
        self.past_sessions: dict[SessionId, tuple[WorkerName, datetime]] = {}  # whose rows are gone
        self.nodes: dict[str, NodeRow] = {}
        self.shards: list[ShardRow] = [ShardRow() for _ in range(SHARDS)]
        self.tzdata = self.census = self.archive_url = None
        self.changed_days, self.flows = set(), FlowTables()
        self.policies, self.calendars, self.audit = PolicyTables(), CalendarTables(), AuditTables()
        self.limits, self.backfills, self.redrives = LimitTables(), BackfillTables(), {}

        self._run_sequence, self._fire_range_sequence, self._lane_sequence = count(1), count(1), count(1)
        self.session_sequence: count[int] = count(1)

    # -- clocks and fire ranges --------------------------------------------------------------------------------------

    def set_next_fire(self, job: JobRow, next_fire: NextFire | None) -> None:
        """Move a job's clock."""
        if job.next_fire is not None:
            for index in self.due.values():  # an edit may have changed the priority
                index.discard((job.next_fire.due_at, job.id))
        job.next_fire = next_fire
        if next_fire is not None:
            self.due[job.spec.priority].add((next_fire.due_at, job.id))

    def add_fire_range(self, new: NewFireRange, *, now: datetime) -> FireRangeRow:
        """Insert a fire range. A gap with an end is a finished record; all others are open."""
        fire_range = self.add_section(new, now=now)
        if fire_range.is_open:
            self.open_fire_ranges[fire_range.id] = fire_range
        return fire_range

    def add_section(self, new: NewFireRange, *, now: datetime) -> FireRangeRow:
        """Insert a fire range that is not drained with the others, for a backfill."""
        is_record = new.kind is FireRangeKind.GAP and new.to_at is not None
        fire_range = FireRangeRow(
            id=FireRangeId(next(self._fire_range_sequence)),
            job_id=new.job_id,
            tenant=self.tenants[new.job_id],
            version=new.version,
            kind=new.kind,
            from_at=new.from_at,
            to_at=new.to_at,
            reason=new.reason,
            created_at=now,
            closed_at=now if is_record else None,
            calendars=new.calendars,
        )
        self.fire_ranges[fire_range.id] = fire_range
        self.fire_ranges_of_job[fire_range.job_id].append(fire_range)
        return fire_range

    def is_current(self, calendars: CalendarUses | None) -> bool:
        """Say whether calendars are still as they were read."""
        return calendars is None or calendars.revision == self.calendars.revision

    def use_calendars(self, job_id: JobId, calendars: CalendarUses | None) -> None:
        """Keep which calendars a job's clock goes by; None leaves that as it is."""
        if calendars is None:
            return
        self.calendars.uses.pop(job_id, None)
        if calendars.uses:
            self.calendars.uses[job_id] = tuple(sorted(calendars.uses, key=lambda use: use.name))

    def drop_empty_gaps(self, job_id: JobId, *, now: datetime) -> None:
        """Remove a job's open gaps that begin after now: they have nothing to record."""
        for fire_range in list(self.fire_ranges_of_job[job_id]):
            if fire_range.is_open and fire_range.kind is FireRangeKind.GAP and fire_range.from_at > now:
                self.fire_ranges_of_job[job_id].remove(fire_range)
                del self.fire_ranges[fire_range.id]
                del self.open_fire_ranges[fire_range.id]

    def close_fire_range(self, fire_range: FireRangeRow, *, now: datetime) -> None:
        """Close a fire range. If it has no end, it ends now."""
        fire_range.closed_at = now
        if fire_range.to_at is None:
            fire_range.to_at = now
        self.open_fire_ranges.pop(fire_range.id, None)

    def is_fenced(self, job_id: JobId, epochs: Epochs) -> bool:
        """Say whether a writer with these epochs has lost the job's shard."""
        shard = job_shard(job_id)
        return epochs.get(shard) != self.shards[shard].epoch

    # -- runs --------------------------------------------------------------------------------------------------

    def add_run(self, new: NewRun, *, now: datetime, skip_reason: str | None = None) -> RunRow:
        """Insert a run. It goes live or, if there is a reason to skip it, straight into the history."""
        reason = skip_reason or new.skip_reason
        run = RunRow(
            id=make_run_id(next(self._run_sequence), new.shard),
            job_id=new.job_id,
            version=new.version,
            tenant=new.lane.tenant,
            lane=self.lane_of(new.lane) if reason is None else LaneRow(id=LaneId(0), key=new.lane),
            kind=new.kind,
            state=RunState.PENDING if reason is None else RunState.SKIPPED,
            fire_at=new.fire_at,
            due_at=new.due_at,
            ready_at=max(new.due_at, now),
            created_at=now,
            timeout=new.timeout,
            expires_at=new.expires_at,
            payload=new.payload,
            target_key=new.target_key,
            fire_range_id=new.fire_range_id,
            redrive_of=new.redrive_of,
            trace=new.trace,
            place=new.place,
            flow_seed=new.flow_seed,
            finished_at=None if reason is None else now,
            reason=reason,
            keys=tuple(self.limits.key_of(new.lane.tenant, key).id for key in new.keys)
            if reason is None
            else (),
        )
        self.runs[run.id] = run
        self.runs_of_tenant[run.tenant].add((run.id,))
        self.runs_of_job[run.job_id].add((run.id,))
        if run.place is not None:
            self.flows.runs[run.place.flow_id].append(run.id)
        self.index(run)
        return run

    def insert_planned(self, runs: tuple[NewRun, ...], overlap: Overlap, *, now: datetime) -> FireResult:
        """Insert the runs of a fire or of a fire range's step, all of one job."""
        judged = OverlapVerdict(tuple(new.skip_reason for new in runs))
        if runs and overlap is not Overlap.ALLOW:
            fires = [(new.fire_at, new.skip_reason) for new in runs]
            judged = judge_overlap(overlap, fires, self._live_of_job(runs[0].job_id, overlap, now))
        for run_id in judged.cancels:
            self.cancel(run_id, reason=OVERLAP, now=now)
        added = [
            self.add_run(new, now=now, skip_reason=reason)
            for new, reason in zip(runs, judged.reasons, strict=True)
        ]
        live = tuple(run.id for run in added if run.state is RunState.PENDING)
        return FireResult(FireStatus.FIRED, live, judged.cancels)

    def _live_of_job(self, job_id: JobId, overlap: Overlap, now: datetime) -> LiveOfJob:
        """Return what an overlap policy asks for. A backfill's runs do not count: they are of another time."""
        if overlap is Overlap.SKIP or not self.live_of_job[job_id]:
            return LiveOfJob(is_any=self.live_of_job[job_id] > self.backfills.live_of_job[job_id])
        of_job = (self.runs[key[0]] for key in self.runs_of_job[job_id].below(None))
        live = [run for run in of_job if run.state not in FINAL_STATES and run.kind is not RunKind.BACKFILL]
        return LiveOfJob(
            is_any=True,
            is_any_waiting=any(
                run.token == 0 and (run.fire_at is not None or run.ready_at <= now) for run in live
            ),
            runs=tuple((run.id, run.fire_at) for run in live),
        )

    def lane_of(self, key: LaneKey) -> LaneRow:
        """Return the lane with this key. Intern it if it is new."""
        lane_id = self.lane_ids.get(key)
        if lane_id is None:
            lane_id = LaneId(next(self._lane_sequence))
            self.lane_ids[key] = lane_id
            self.lanes[lane_id] = LaneRow(id=lane_id, key=key)
        return self.lanes[lane_id]

    def add_attempt(self, attempt: Attempt) -> None:
        """Keep an attempt that has ended."""
        self.attempts.setdefault(attempt.run_id, []).append(attempt)
        self.changed_days.add(attempt.finished_at.astimezone(UTC).date())

    def index(self, run: RunRow) -> None:
        """Put a run into the indexes of its state."""
        self.counts[run.tenant][run.state] += 1
        if run.state in FINAL_STATES:
            assert run.finished_at is not None
            if run.state is not RunState.FAILED:
                self.history.add((run.finished_at, run.id))
                self.changed_days.add(run.finished_at.astimezone(UTC).date())
            self.tell_end(run)
            return
        run.lane.live += 1
        self.live_of_job[run.job_id] += 1
        self.backfills.live_of_job[run.job_id] += run.kind is RunKind.BACKFILL
        self.backfills.caught_up[run.job_id] += run.is_caught_up
        if run.state is RunState.RUNNING:
            if run.deadline_at is not None and run.session_id is not None:  # or the engine holds it
                self.sessions[run.session_id].running.add((run.id,))
                self.deadlines.add((run.deadline_at, run.id))
            return
        if run.state in READY_STATES:
            run.waiting_index.add((run.ready_at, run.id))
        if run.expires_at is not None and run.state in READY_STATES:
            self.expiring.add((run.expires_at, run.id))

    def unindex(self, run: RunRow) -> None:
        """Take a live run out of the indexes of its state, before it changes."""
        self.counts[run.tenant][run.state] -= 1
        run.lane.live -= 1
        self.live_of_job[run.job_id] -= 1
        self.backfills.live_of_job[run.job_id] -= run.kind is RunKind.BACKFILL
        self.backfills.caught_up[run.job_id] -= run.is_caught_up
        if run.state is RunState.RUNNING:
            if run.deadline_at is not None and run.session_id is not None:
                self.sessions[run.session_id].running.discard((run.id,))
                self.deadlines.discard((run.deadline_at, run.id))
            return
        if run.state in READY_STATES:
            run.waiting_index.discard((run.ready_at, run.id))
            if run.keys and not run.lane.lines.get(run.keys[0], True):
                del run.lane.lines[run.keys[0]]
        if run.expires_at is not None and run.state in READY_STATES:
            self.expiring.discard((run.expires_at, run.id))

    def cancel(self, run_id: RunId, *, reason: str, now: datetime) -> CancelVerdict:
        """End a waiting run, or ask a RUNNING one to stop."""
        run = self.runs.get(run_id)
        verdict = judge_cancel(None if run is None else run.state)
        if run is not None and verdict is CancelVerdict.CANCELLED:
            self.finish(run, RunState.CANCELLED, reason=reason, now=now)
        if run is not None and verdict is CancelVerdict.REQUESTED and not run.is_cancel_requested:
            run.is_cancel_requested = True
            run.cancel_reason = reason
            if run.session_id == ENGINE_SESSION:  # nobody but the engine asks for it
                self.flows.post(run_id, FlowNotice.CANCEL)
        return verdict

    def tell_end(self, run: RunRow) -> None:
        """Tell its flow that the run of a step has ended."""
        if run.place is not None and run.state in FINAL_STATES:
            self.flows.post(run.place.flow_id, StepEnded(run.place.step, run.state, run.place.item))

    def finish(self, run: RunRow, state: RunState, *, reason: str | None, now: datetime) -> None:
        """End a run for good."""
        self.unindex(run)
        run.state = state
        run.reason = reason
        run.finished_at = now
        run.deadline_at = None
        self.keep_seed(run)
        self.index(run)

    def keep_seed(self, run: RunRow) -> None:
        """Keep with what the flow of an ended run would have begun. If it has begun, its last state takes the place."""
        if run.flow_seed is not None:
            self.flows.ended[run.id] = run.flow_seed

    def remove_run(self, run: RunRow) -> None:
        """Remove a finished run."""
        assert run.finished_at is not None
        self.counts[run.tenant][run.state] -= 1
        self.history.discard((run.finished_at, run.id))
        self.runs_of_tenant[run.tenant].discard((run.id,))
        self.runs_of_job[run.job_id].discard((run.id,))
        if run.place is not None:
            self.flows.runs[run.place.flow_id].remove(run.id)
        self.flows.ended.pop(run.id, None)
        del self.runs[run.id]

    def is_held(self, run_id: RunId, token: int, session_id: SessionId) -> bool:
        """Say whether the run is RUNNING under this token, claimed by this session."""
        run = self.runs.get(run_id)
        return run is not None and is_held(run, token, session_id)
