"""Records the history as the store commits it, for any store."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from mainspring.core.admission import HELD_BACK, SubmissionVerdict
from mainspring.core.alerting import Verdict
from mainspring.core.applying import CancelVerdict
from mainspring.core.blackouts import Blackout
from mainspring.core.checkpoints import CheckpointVerdict, NewCheckpoint
from mainspring.core.clocks import ChangeVerdict
from mainspring.core.fencing import ENGINE_SESSION
from mainspring.core.ids import (
    BackfillId,
    JobId,
    RedriveId,
    RunId,
    SessionId,
    format_backfill_id,
    format_redrive_id,
    job_shard,
    run_shard,
)
from mainspring.core.model import JobSpec, Run
from mainspring.core.outcomes import Transition
from mainspring.core.pauses import PauseKey
from mainspring.core.states import RunState
from mainspring.core.triggers import AtStart
from mainspring.core.workflows.answers import StepAnswer
from mainspring.core.workflows.mail import SkipStep
from mainspring.core.workflows.places import is_workflow_route
from mainspring.core.workflows.plan import FlowPlan
from mainspring.core.workflows.state import STATUS_OF_END, StepStatus
from mainspring.core.workflows.step_jobs import is_step_job
from mainspring.errors import TooMany
from mainspring.ports.flow_codec import decode_flow_state
from mainspring.ports.store.alerts import AlertsSaved, SettledNotification
from mainspring.ports.store.backfills import AddedBackfill, BackfillStep, NewBackfill
from mainspring.ports.store.calendars import CalendarUses
from mainspring.ports.store.claims import ApplyResult, ClaimedRun, ClaimResult
from mainspring.ports.store.events import EventResult, EventStatus
from mainspring.ports.store.flows import FlowVerdict, PostVerdict
from mainspring.ports.store.jobs import AddResult
from mainspring.ports.store.limits import LineClaimResult
from mainspring.ports.store.restrictions import BlackoutsWritten
from mainspring.ports.store.runs import SubmitResult
from mainspring.ports.store.schedule import Fire, FireRangeStep, FireResult, FireStatus, fire_of
from mainspring.ports.store.sessions import BeatResult
from tools.judge import (
    AlertTold,
    Asking,
    BackfillMove,
    BackfillStory,
    BlackoutChange,
    Capping,
    Change,
    ChangeKind,
    ClusterStart,
    Effect,
    Event,
    Fault,
    Grant,
    Life,
    Operation,
    Pausing,
    Permit,
    Replacement,
    StepNote,
    StillWindow,
    WaitStory,
)
from tools.judge.oracle import ClosedFires
from tools.judge.order import HANDED_OVER
from tools.simulator.access_record import AccessRecord
from tools.simulator.bounded import BOUNDED

Window = tuple[datetime, datetime]
_ENDED = frozenset({*STATUS_OF_END.values(), StepStatus.UPSTREAM_FAILED})


def _read_wall(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


class Recorder:
    """Collects the contents of a `History`.

    Attributes:
        reached: how often each thing happened that a campaign must meet.
        alive: the names of processes that run or are paused.
        full_at: when a submission was last refused because a queue or a tenant was full.
        broken: broken rules of servers, which no history shows.
        workers: the worker of each session.
        leases: the token and session of each run that was claimed and is not known to have ended.
        flow_runs: the runs of workflows.
        flow_events, flow_effects: what the runs of workflows and of their steps have, which other rules leave alone.
        flow_cancels: when a cancel of a workflow's run was committed first.
        flow_pauses: from when on, and until when, a workflow's run was paused, by the turns that have read of it.
        flow_skips: the workflows' runs of which someone skipped a step.
        flow_answers: when the first answer to a step was committed.
        event_times: when events were added, by tenant and topic.
        flow_wait_ends: when the turn was decided that ended a wait, and how many events of flows there were by then.
        steps: what happened to the steps of durable functions, in order.
        flow_redrives: of workflows' runs that repeat others, the steps that were asked to run again.
        log: one line per event, in order. It is the same for the same seed, byte for byte.
    """

    def __init__(self, time: Callable[[], datetime]) -> None:
        self._time = time
        self.changes: list[Change] = []
        self.operations: list[Operation] = []
        self.weights: dict[str, int] = {}
        self.reserves: dict[str, int] = {}
        self.promises: dict[str, int] = {}
        self.limits: dict[str, Mapping[str, Any]] = {}
        self.order = "fair"
        self.expiries: dict[str, timedelta] = {}
        self.rates: dict[str, str] = {}
        self.permits: list[Permit] = []
        self.askings: list[Asking] = []
        self.full_at: datetime | None = None
        self.effects: list[Effect] = []
        self.flow_runs: set[RunId] = set()
        self.flow_events: list[Event] = []
        self.flow_effects: list[Effect] = []
        self.flow_cancels: dict[RunId, datetime] = {}
        self.flow_pauses: dict[RunId, list[tuple[datetime, datetime | None]]] = defaultdict(list)
        self.flow_skips: set[RunId] = set()
        self.flow_answers: dict[tuple[RunId, int], datetime] = {}
        self.event_times: dict[tuple[str, str], list[datetime]] = defaultdict(list)
        self.flow_wait_ends: dict[tuple[RunId, int], tuple[datetime, int]] = {}
        self.steps: list[StepNote] = []
        self.flow_redrives: dict[RunId, frozenset[str]] = {}
        self.events: list[Event] = []
        self.replacements: list[Replacement] = []
        self.pausings: list[Pausing] = []
        self.blackouts: list[BlackoutChange] = []
        self.cappings: list[Capping] = []
        self.faults: list[Fault] = []
        self.grants: list[Grant] = []
        self.backfills: dict[BackfillId, BackfillStory] = {}
        self.redrive_places: dict[RedriveId, int] = {}
        self.discarded: set[RunId] = set()
        self.told: list[AlertTold] = []
        self.noticed: dict[RunId, datetime] = {}
        self.access = AccessRecord(time)
        self._messages = 0
        self._settled_messages: set[int] = set()
        self.alive: set[str] = set()
        self.lives: dict[str, Life] = {}
        self.starts: list[ClusterStart] = []
        self.reached: Counter[str] = Counter()
        self.broken: list[str] = []
        self.log: list[str] = []
        self.workers: dict[SessionId, str] = {}
        self.leases: dict[RunId, tuple[int, SessionId]] = {}
        self._versions: dict[JobId, tuple[int, JobSpec]] = {}
        self._windows: dict[tuple[str, int], tuple[Window, ...]] = {}
        self._closed: dict[JobId, tuple[Window, ...]] = {}
        self._paused: set[JobId] = set()
        self._still: dict[PauseKey, list[Blackout]] = {}
        self._jobs: dict[RunId, JobId] = {}
        self._claimed: set[tuple[RunId, int]] = set()
        self._ended: set[tuple[RunId, int, str]] = set()
        self._cancel_requested: set[RunId] = set()
        self._fired: dict[tuple[JobId, datetime], str] = {}
        self._owners: dict[int, str] = {}
        self._notes: dict[str, Callable[[str, Any, Mapping[str, Any], Any], None]] = {
            "add_jobs": self._note_added,
            "edit_jobs": self._note_edited,
            "pause_jobs": self._note_paused,
            "pause_failing": self._note_failing,
            "resume_jobs": self._note_resumed,
            "delete_jobs": self._note_deleted,
            "write_calendars": self._note_calendars,
            "replan_jobs": self._note_replanned,
            "add_pauses": self._note_pauses,
            "lift_pauses": self._note_lifted,
            "set_blackouts": self._note_blackouts,
            "begin_blackouts": self._note_begun,
            "write_caps": self._note_caps,
            "record_fires": self._note_fires,
            "fire_outlined": self._note_set,
            "advance_fire_ranges": self._note_fire_ranges,
            "add_backfill": self._note_backfill,
            "advance_backfills": self._note_backfill_steps,
            "change_backfill": self._note_backfill_change,
            "add_redrive": self._note_redrive,
            "discard_dead": self._note_discarded,
            "save_alerts": self._note_alerts,
            "settle_notifications": self._note_deliveries,
            "submit_runs": self._note_submitted,
            "claim_runs": self._note_claims,
            "claim_lined_up": self._note_line_claims,
            "try_claim": self._note_speculative_claim,
            "submit_claimed": self._note_submitted_claimed,
            "apply": self._note_ends,
            "keep_checkpoints": self._note_kept,
            "start_flows": self._note_flow_starts,
            "post_mail": self._note_posts,
            "add_events": self._note_events,
            "turn_flows": self._note_turns,
            "cancel_runs": self._note_cancels,
            "expire_runs": self._note_expired,
            "add_sessions": self._note_sessions,
            "beat_sessions": self._note_beats,
            "expire_sessions": self._note_judged,
            "close_sessions": self._note_closed,
            "take_shards": self._note_taken,
            "start_cluster": self._note_start,
            "take_permits": self._note_permits,
            "request_preemptions": self._note_preemptions,
        }

    def note(
        self, verb: str, actor: str, args: tuple[Any, ...], given: Mapping[str, Any], result: Any
    ) -> None:
        """Note a store call that was committed."""
        self.access.note(verb, args[0] if args else None, given, result)
        noter = self._notes.get(verb)
        if noter is not None:
            noter(actor, args[0] if args else None, given, result)

    def say(self, line: str) -> None:
        """Write a line to the log."""
        self.log.append(f"{self._time().isoformat()} {line}")

    # -- jobs --------------------------------------------------------------------------------------------------

    def _change(self, job_id: JobId, kind: ChangeKind, now: datetime, *, is_by_itself: bool = False) -> None:
        version, spec = self._versions[job_id]
        if spec.trigger is not None and spec.calendars:
            spec = replace(spec, trigger=ClosedFires(spec.trigger, self._closed[job_id], spec.calendars.roll))
        # It is decided by the clock as it is then, not as it was read: a fire may have come before it. So it is with
        # the pause of a job at start that is carried out late: a start does not move its clock, which would refuse it.
        is_met = is_by_itself or (kind is ChangeKind.PAUSED and isinstance(spec.trigger, AtStart))
        change = Change(
            job_id=job_id,
            kind=kind,
            at=now,
            until=max(now, self._time()) if is_met else now,
            version=version,
            spec=spec,
            place=len(self.events),
            is_by_itself=is_by_itself,
        )
        self.changes.append(change)
        self.say(f"job {spec.name} {kind} version {version} {spec.trigger}")

    def _note_added(self, actor: str, jobs: Any, given: Mapping[str, Any], results: list[AddResult]) -> None:
        for job, result in zip(jobs, results, strict=True):
            if result is AddResult.ADDED:
                self._versions[job.id] = (1, job.spec)
                self._use(job.id, job.calendars)
                self._change(job.id, ChangeKind.CREATED, given["now"])

    def _note_edited(
        self, actor: str, edits: Any, given: Mapping[str, Any], results: list[ChangeVerdict]
    ) -> None:
        for edit, result in zip(edits, results, strict=True):
            if result is ChangeVerdict.DONE:
                self._versions[edit.job_id] = (self._versions[edit.job_id][0] + 1, edit.spec)
                self._use(edit.job_id, edit.calendars)
                self._change(edit.job_id, ChangeKind.EDITED, given["now"])
            elif result is ChangeVerdict.MOVED:
                self.reached["edit_lost_to_another_change"] += 1

    def _use(self, job_id: JobId, calendars: CalendarUses | None) -> None:
        if calendars is not None:
            used = (self._windows[use.name, use.version] for use in calendars.uses)
            self._closed[job_id] = tuple(window for windows in used for window in windows)

    def _note_calendars(self, actor: str, versions: Any, given: Mapping[str, Any], result: bool) -> None:
        """Read calendars from what users wrote, in a way of its own. Simulated ones have windows in UTC only."""
        for one in versions if result else ():
            self._windows[one.name, one.version] = tuple(
                (_read_wall(rule.plain["from"]), _read_wall(rule.plain["to"])) for rule in one.spec.rules
            )
            self.say(f"calendar {one.label} written")
        for key, blackouts in self._still.items() if result else ():
            self._follow(key, blackouts, {(one.tenant, one.name): one.version for one in versions})

    def _note_replanned(
        self, actor: str, plans: Any, given: Mapping[str, Any], results: list[ChangeVerdict]
    ) -> None:
        for plan, result in zip(plans, results, strict=True):
            if result is ChangeVerdict.DONE:
                self._use(plan.job_id, plan.calendars)
                self._change(plan.job_id, ChangeKind.EDITED, given["now"])
                self.reached["job_set_by_a_new_calendar"] += 1

    def _note_paused(
        self, actor: str, changes: Any, given: Mapping[str, Any], results: list[ChangeVerdict]
    ) -> None:
        for change, result in zip(changes, results, strict=True):
            if result is ChangeVerdict.DONE and change.job_id not in self._paused:
                self._paused.add(change.job_id)
                self._change(change.job_id, ChangeKind.PAUSED, given["now"])

    def _note_failing(self, actor: str, _: Any, given: Mapping[str, Any], job_ids: Sequence[JobId]) -> None:
        for job_id in job_ids:
            self._paused.add(job_id)
            self._change(job_id, ChangeKind.PAUSED, given["now"], is_by_itself=True)
            self.reached["job_paused_by_itself"] += 1

    def _note_resumed(
        self, actor: str, changes: Any, given: Mapping[str, Any], results: list[ChangeVerdict]
    ) -> None:
        for change, result in zip(changes, results, strict=True):
            if result is ChangeVerdict.DONE and change.job_id in self._paused:
                self._paused.discard(change.job_id)
                self._change(change.job_id, ChangeKind.RESUMED, given["now"])

    def _note_deleted(
        self, actor: str, changes: Any, given: Mapping[str, Any], results: list[ChangeVerdict]
    ) -> None:
        for change, result in zip(changes, results, strict=True):
            if result is ChangeVerdict.DONE:
                self._change(change.job_id, ChangeKind.DELETED, given["now"])

    def _note_pauses(self, actor: str, pauses: Any, given: Mapping[str, Any], older: list[str]) -> None:
        for pause in pauses:
            self._pause(pause.key, mode=pause.mode.value, since=pause.since, until=pause.until)
            self.reached["lane_paused"] += 1
            self.say(f"{pause.what} paused until {pause.until} with {pause.mode} by {actor}")

    def _note_lifted(self, actor: str, keys: Any, given: Mapping[str, Any], results: list[bool]) -> None:
        for key, was_on in zip(keys, results, strict=True):
            self._pause(key, since=given["now"], is_lifted=True)
            self.reached["pause_lifted"] += was_on
            self.say(f"{key.scope} {key.name} resumed by {actor}")

    def _note_blackouts(
        self, actor: str, key: PauseKey, given: Mapping[str, Any], result: BlackoutsWritten
    ) -> None:
        if result != BlackoutsWritten():
            self.reached["blackouts_met_other_calendars"] += result.is_moved
            return
        before = {(one.tenant, one.calendar): one for one in self._still.get(key, ())}
        blackouts = given["blackouts"]
        self._still[key] = [
            replace(one, since=min(old.since, one.since))  # the write of a later one may come first
            if (old := before.get((one.tenant, one.calendar))) is not None and old.mode is one.mode
            else one
            for one in blackouts
        ]
        self.reached["blackouts_set"] += 1
        self._note_still(key)

    def _follow(
        self, key: PauseKey, blackouts: Sequence[Blackout], newest: Mapping[tuple[str, str], int]
    ) -> None:
        """Have blackouts go by the new versions of calendars."""
        moved = [
            replace(one, version=newest.get((one.tenant, one.calendar), one.version)) for one in blackouts
        ]
        if moved != blackouts:
            self._still[key] = moved
            self.reached["blackout_follows_its_calendar"] += 1
            self._note_still(key)

    def _note_still(self, key: PauseKey) -> None:
        windows = tuple(
            StillWindow(low=low, high=high, mode=one.mode.value, since=one.since)
            for one in self._still[key]
            for low, high in self._windows[one.calendar, one.version]
        )
        self.blackouts.append(
            BlackoutChange(
                at=self._time(),
                place=len(self.events),
                scope=key.scope.value,
                name=key.name,
                windows=windows,
            )
        )
        self.say(f"{key.scope} {key.name} stands still by {windows}")

    def _note_begun(self, actor: str, begun_at: datetime, given: Mapping[str, Any], result: bool) -> None:
        self.reached["blackout_begun"] += result
        if result:
            self.say(f"{actor} comes first to the beginning of a blackout at {begun_at.isoformat()}")

    def _note_caps(self, actor: str, caps: Any, given: Mapping[str, Any], older: list[str]) -> None:
        for cap in caps:
            scope, name, place = cap.key.scope.value, cap.key.name, len(self.events)
            self.cappings.append(Capping(place=place, scope=scope, name=name, max_running=cap.max_running))
            self.reached["cap_unset" if cap.max_running is None else "cap_set"] += 1
            self.say(f"{cap.key.what} may have {cap.max_running} under way, says {actor}")

    def _pause(self, key: Any, **facts: Any) -> None:
        place, scope = len(self.events), key.scope.value
        self.pausings.append(Pausing(at=self._time(), place=place, scope=scope, name=key.name, **facts))

    # -- servers -----------------------------------------------------------------------------------------------

    def note_begin(self, process: str, node: str) -> None:
        """Note that a process begins."""
        self.alive.add(process)
        self.lives[process] = Life(process=process, node=node, since=self._time())

    def note_end(self, process: str) -> None:
        """Note that a process has ended."""
        self.alive.discard(process)
        self.lives[process].until = self._time()

    def _note_start(self, actor: str, node_id: str, given: Mapping[str, Any], result: bool) -> None:
        if not result:
            return
        now = given["now"]
        self.starts.append(ClusterStart(at=now, node=node_id))
        self.say(f"{node_id} starts the cluster")
        # A start finds the jobs as they are when it is committed, so it comes after changes with a later instant, too.
        for index, change in enumerate(self.changes):
            if isinstance(change.spec.trigger, AtStart) and change.at > now:
                self.changes[index] = replace(change, at=now)

    # -- fires -------------------------------------------------------------------------------------------------

    def _note_fires(
        self, actor: str, fires: Any, given: Mapping[str, Any], results: list[FireResult]
    ) -> None:
        for fire, result in zip(fires, results, strict=True):
            key = (fire.job_id, fire.fire_at)
            if result.status is FireStatus.FIRED:
                self._fired[key] = actor
                self.say(f"fire {self._versions[fire.job_id][1].name} {fire.fire_at.isoformat()} by {actor}")
                self._insert(fire, result, actor, given)
                continue
            self.reached[f"fire_{result.status}"] += 1
            if self._fired.get(key, actor) != actor:
                self.reached["two_nodes_planned_the_same_fire"] += 1

    def _note_set(self, actor: str, clocks: Any, given: Mapping[str, Any], results: list[FireResult]) -> None:
        self._note_fires(actor, [fire_of(clock) for clock in clocks], given, results)
        fired = sum(result.status is FireStatus.FIRED for result in results)
        self.reached["fires_in_a_set"] += fired > 1
        self.reached[f"fire_in_a_set_{FireStatus.LOST}"] += any(
            result.status is FireStatus.LOST for result in results
        )

    def _note_fire_ranges(
        self, actor: str, steps: Any, given: Mapping[str, Any], results: list[FireResult]
    ) -> None:
        for step, result in zip(steps, results, strict=True):
            if result.status is FireStatus.FIRED:
                self._insert(step, result, actor, given)

    def _note_backfill(
        self, actor: str, new: NewBackfill, given: Mapping[str, Any], result: AddedBackfill
    ) -> None:
        if not result.is_added:
            self.reached["backfill_in_the_way"] += result.other is not None
            return
        options = new.options
        self.reached["backfill_cut_by_an_edit"] += len(new.sections) > 1
        self.backfills[new.id] = BackfillStory(
            name=format_backfill_id(new.id),
            job_id=new.job_id,
            from_at=new.from_at,
            to_at=new.to_at,
            skip_done=options.skip_done.value,
            count=options.rate.count,
            per=options.rate.per,
            max_live=options.max_live,
            fires=new.fires,
            place=len(self.changes),
        )
        self.say(f"{format_backfill_id(new.id)} of {new.fires} fires made by {actor}")

    def _note_backfill_steps(
        self, actor: str, steps: Any, given: Mapping[str, Any], results: list[FireResult]
    ) -> None:
        for step, result in zip(steps, results, strict=True):
            if result.status is not FireStatus.FIRED:
                self.reached[f"backfill_step_{result.status}"] += 1
                continue
            self._insert(step, result, actor, given)
            story = self.backfills[step.id]
            if story.state != "open":
                self.broken.append(f"{story.name}: a step was taken, though it is {story.state}")
            fires = [run.fire_at for run in step.runs]
            story.steps.append(
                BackfillMove(
                    at=given["now"],
                    runs=tuple(zip(result.run_ids, fires, strict=True)),
                    skipped=step.skipped,
                )
            )
            if step.is_done:
                story.state = "done"
            self.say(f"{story.name} made {len(fires)} and skipped {step.skipped}")

    def _note_backfill_change(
        self, actor: str, backfill_id: BackfillId, given: Mapping[str, Any], result: bool
    ) -> None:
        story = self.backfills.get(backfill_id)
        if result and story is not None:
            story.state = given["change"].leads_to.value
            if story.state == "cancelled":
                story.cancelled_at = story.cancelled_at or given["now"]
            self.say(f"{story.name} {story.state} by {actor}")

    def _insert(
        self,
        fire: Fire | FireRangeStep | BackfillStep,
        result: FireResult,
        actor: str,
        given: Mapping[str, Any],
    ) -> None:
        now, epochs = given["now"], given["epochs"]
        shard = job_shard(fire.job_id)
        self._grant(f"shard {shard}", epochs[shard], "used", actor)
        for run_id in result.cancelled:
            if run_id in self.leases:
                self._cancel_requested.add(run_id)
                self.reached["fire_asked_a_run_to_stop"] += 1
            else:
                self._event(run_id, RunState.CANCELLED, 0, "cancel", actor, now)
                self.reached["fire_cancelled_a_waiting_run"] += 1
        for run_id in result.run_ids:
            self._jobs[run_id] = fire.job_id
            self._event(run_id, RunState.PENDING, 0, "fired", actor, now)
            if self._versions[fire.job_id][1].queue == BOUNDED and self._is_full():
                self.reached["fire_beside_a_full_queue"] += 1
        passed_over = sum(run.skip_reason is None for run in fire.runs) - len(result.run_ids)
        for _ in range(passed_over):
            event = Event(
                at=now,
                job_id=fire.job_id,
                run_id=None,
                target=RunState.SKIPPED,
                token=0,
                what="overlap",
                actor=actor,
                policy=fire.overlap.value,
            )
            self.events.append(event)

    # -- submissions that are bounded --------------------------------------------------------------------------

    def _note_permits(
        self, actor: str, requests: Any, given: Mapping[str, Any], results: list[datetime | None]
    ) -> None:
        for request, again_at in zip(requests, results, strict=True):
            if again_at is None:
                permit = Permit(at=given["now"], tenant=request.tenant, count=request.count)
                self.permits.append(permit)

    def _is_full(self) -> bool:
        return self.full_at is not None and self._time() - self.full_at < timedelta(seconds=1)

    def note_refusal(self, error: TooMany, count: int) -> None:
        """Note that a request to submit so many runs was refused for the time being."""
        by = "rate"
        if error.field == "max_queued":
            by = "full_queue" if " of queue " in error.message else "full_tenant"
            self.full_at = self._time()
        self.reached[f"refused_by_a_{by}"] += 1
        self.reached["bulk_refused_whole"] += count > 1
        self.say(f"{count} submissions refused by a {by}")

    # -- runs --------------------------------------------------------------------------------------------------

    def _event(
        self,
        run_id: RunId,
        target: RunState,
        token: int,
        what: str,
        actor: str,
        now: datetime,
        *,
        session_id: SessionId | None = None,
        is_stale: bool = False,
    ) -> None:
        event = Event(
            at=now,
            job_id=self._jobs[run_id],
            run_id=run_id,
            target=target,
            token=token,
            what=what,
            actor=actor,
            session_id=session_id,
            is_stale=is_stale,
            committed_at=self._time(),
        )
        is_flow = run_id in self.flow_runs or is_step_job(event.job_id)
        (self.flow_events if is_flow else self.events).append(event)
        self.say(f"run {run_id} {what} {target} token {token} by {actor}{' refused' if is_stale else ''}")

    def _note_redrive(self, actor: str, new: Any, given: Mapping[str, Any], _: None) -> None:
        self.redrive_places[new.id] = len(self.events)
        self.say(f"{format_redrive_id(new.id)} of {new.total} dead letters made by {actor}")

    def note_told(self, told: AlertTold) -> None:
        """Note that a channel took a message."""
        self.told.append(told)
        self.say(f"told {told.id} {told.kind} {told.alert_ids}")

    @property
    def undelivered(self) -> int:
        """How many messages have been saved that are neither delivered nor of no use any more."""
        return self._messages - len(self._settled_messages)

    def _note_alerts(
        self, actor: str, verdict: Verdict, given: Mapping[str, Any], saved: AlertsSaved
    ) -> None:
        if saved is not AlertsSaved.DONE:
            self.reached[f"alerts_{saved}"] += 1
            return
        self._messages += len(verdict.outgoing)
        self._settled_messages.update(verdict.dropped)
        for run_id in given.get("noticed", ()):
            self.noticed.setdefault(run_id, given["now"])
        self.say(f"alerts saved by {actor}: {len(verdict.added)} new, {len(verdict.outgoing)} messages")

    def _note_deliveries(
        self, actor: str, settled: Sequence[SettledNotification], given: Mapping[str, Any], is_owner: bool
    ) -> None:
        if not is_owner:
            self.reached["deliveries_fenced"] += 1
            return
        self._settled_messages.update(one.notification.id for one in settled if one.again_at is None)

    def _note_discarded(self, actor: str, _: Any, given: Mapping[str, Any], run_ids: list[RunId]) -> None:
        self.discarded.update(run_ids)
        self.say(f"{len(run_ids)} dead letters discarded by {actor}")

    def _note_submitted(
        self, actor: str, runs: Any, given: Mapping[str, Any], results: list[SubmitResult]
    ) -> None:
        for run, result in zip(runs, results, strict=True):
            if result.status is SubmissionVerdict.SUBMITTED and result.run_id is not None:
                self._jobs[result.run_id] = run.job_id
                if is_workflow_route(run.lane.route):
                    self.flow_runs.add(result.run_id)
                    self.reached["flow_redriven"] += run.redrive_of is not None
                    self.reached["flow_took_over"] += run.flow_seed is not None
                if result.skipped is not None:
                    self.reached["holder_skipped_as_expired"] += 1
                    self._event(result.skipped, RunState.SKIPPED, 0, "expired", actor, given["now"])
                self._event(result.run_id, RunState.PENDING, 0, "inserted", actor, given["now"])
            elif result.status is SubmissionVerdict.DUPLICATE:
                self.reached["submission_repeated"] += 1
                self.reached["submission_repeated_that_made_no_run"] += result.first in HELD_BACK
            elif result.status is SubmissionVerdict.SETTLED:
                self.reached["dead_letter_settled_before"] += 1
            elif result.status in HELD_BACK:
                self.reached[f"submission_{result.status}"] += 1
                self.say(f"run {result.run_id} {result.status} by {actor}")
                if result.status in {SubmissionVerdict.REPLACED, SubmissionVerdict.DEBOUNCED}:
                    assert result.run_id is not None
                    replacement = Replacement(
                        at=given["now"], run_id=result.run_id, payload=run.payload, place=len(self.events)
                    )
                    self.replacements.append(replacement)

    def _note_speculative_claim(
        self, actor: str, request: Any, given: Mapping[str, Any], result: ClaimResult | None
    ) -> None:
        if result is None:
            self.reached["speculative_claim_found_nothing"] += 1
        else:
            self.reached["speculative_claim"] += 1
            self._note_claims(actor, [request], given, [result])

    def _note_submitted_claimed(
        self, actor: str, run: Any, given: Mapping[str, Any], result: ClaimedRun | None
    ) -> None:
        if result is None:
            self.reached["submission_did_not_go_straight"] += 1
        else:
            self.reached["submission_went_straight"] += 1
            self._note_submitted(
                actor, [run], given, [SubmitResult(SubmissionVerdict.SUBMITTED, result.run_id)]
            )
            self._note_claims(actor, [given["request"]], given, [ClaimResult((result,))])

    def _note_line_claims(
        self, actor: str, requests: Any, given: Mapping[str, Any], results: list[LineClaimResult]
    ) -> None:
        self._note_claims(actor, requests, given, results)
        for request, result in zip(requests, results, strict=True):
            if request.are_batches:
                self.reached["claim_of_batches"] += bool(result.taken)
                continue
            for stop in result.stops.values():
                self.reached["line_stopped_by_a_rate" if stop.until else "line_stopped_by_a_cap"] += 1

    def _note_claims(
        self,
        actor: str,
        requests: Any,
        given: Mapping[str, Any],
        results: Sequence[ClaimResult | LineClaimResult],
    ) -> None:
        for request, result in zip(requests, results, strict=True):
            if not result.is_session_live:
                self.reached["claim_under_a_dead_session"] += 1
            elif result.is_policy_old:
                self.reached["claim_under_an_old_policy_epoch"] += 1
            elif result.runs:
                self._grant(f"session {request.session_id}", 0, "used", actor)
            for run in result.runs:
                if (run.run_id, run.token) in self._claimed:
                    self.reached["claim_answer_repeated"] += 1
                    continue
                self._claimed.add((run.run_id, run.token))
                self._jobs.setdefault(run.run_id, run.job_id)  # of a step's run, which a turn has made
                self.leases[run.run_id] = (run.token, request.session_id)
                holder = self.workers.get(request.session_id, "?")
                self._event(
                    run.run_id,
                    RunState.RUNNING,
                    run.token,
                    "claimed",
                    holder,
                    given["now"],
                    session_id=request.session_id,
                )

    def _note_ends(
        self,
        actor: str,
        transitions: Sequence[Transition],
        given: Mapping[str, Any],
        results: list[ApplyResult],
    ) -> None:
        for end, result in zip(transitions, results, strict=True):
            if result is ApplyResult.MISSING:
                continue
            key = (end.run_id, end.token, end.outcome.value)
            is_stale = result is ApplyResult.STALE
            if is_stale:
                self.reached["stale_write_refused"] += 1
            elif key in self._ended:
                self.reached["report_repeated"] += 1
                continue
            else:
                self._ended.add(key)
                self.leases.pop(end.run_id, None)
            target = end.to
            if end.run_id in self._cancel_requested and not is_stale:
                if target is RunState.SUCCEEDED:
                    self.reached["cancel_raced_completion"] += 1
                else:
                    target = RunState.CANCELLED
            self._event(
                end.run_id,
                target,
                end.token,
                end.outcome.value,
                actor,
                given["now"],
                session_id=end.session_id,
                is_stale=is_stale,
            )

    def _note_cancels(
        self, actor: str, run_ids: Any, given: Mapping[str, Any], results: list[CancelVerdict]
    ) -> None:
        for run_id, result in zip(run_ids, results, strict=True):
            if result is not CancelVerdict.FINISHED and run_id in self.flow_runs:
                self.flow_cancels.setdefault(run_id, self._time())
            if result is CancelVerdict.CANCELLED and run_id in self._jobs:
                self._event(run_id, RunState.CANCELLED, 0, "cancel", actor, given["now"])
            elif result is CancelVerdict.REQUESTED:
                self._cancel_requested.add(run_id)

    # -- durable functions ---------------------------------------------------------------------------------------------

    def note_step(self, note: StepNote, actor: str) -> None:
        """Note what happened to a step."""
        self.steps.append(note)
        value = "" if note.value is None else f" {note.value}"
        self.say(
            f"run {note.run_id} token {note.token} step {note.name} {note.number} {note.what}{value} on {actor}"
        )

    def _note_kept(
        self,
        actor: str,
        items: Sequence[NewCheckpoint],
        given: Mapping[str, Any],
        verdicts: list[CheckpointVerdict],
    ) -> None:
        for item, verdict in zip(items, verdicts, strict=True):
            self.reached[f"step_{verdict}"] += 1
            if verdict is CheckpointVerdict.KEPT:
                value = None if item.value is None else json.loads(item.value)
                note = StepNote(
                    run_id=item.run_id,
                    token=item.token,
                    name=item.name,
                    number=item.number,
                    what="kept",
                    at=given["now"],
                    value=value,
                )
                self.note_step(note, actor)

    # -- workflows -----------------------------------------------------------------------------------------------------

    def _note_flow_starts(
        self, actor: str, starts: Any, given: Mapping[str, Any], verdicts: list[FlowVerdict]
    ) -> None:
        for start, verdict in zip(starts, verdicts, strict=True):
            if verdict is not FlowVerdict.STARTED:
                self.reached["start_of_a_flow_stale"] += 1
                continue
            self.leases.pop(start.run_id, None)
            self.reached["flow_started"] += 1
            running, now = RunState.RUNNING, given["now"]
            token = start.token + 1
            self._event(start.run_id, running, token, HANDED_OVER, actor, now, session_id=ENGINE_SESSION)

    def _note_posts(
        self, actor: str, mails: Any, given: Mapping[str, Any], verdicts: list[PostVerdict]
    ) -> None:
        del actor, given
        for posted, verdict in zip(mails, verdicts, strict=True):
            self.reached[f"flow_mail_{verdict}"] += 1
            if isinstance(posted.mail, SkipStep):
                self.flow_skips.add(posted.flow_id)
            if isinstance(posted.mail, StepAnswer) and verdict is PostVerdict.POSTED:
                self.flow_answers.setdefault((posted.flow_id, posted.mail.step), self._time())

    def _note_events(
        self, actor: str, events: Any, given: Mapping[str, Any], results: list[EventResult]
    ) -> None:
        del actor, given
        for new, result in zip(events, results, strict=True):
            if result.status is EventStatus.ADDED:
                self.event_times[new.event.tenant, new.event.topic].append(self._time())
                self.reached["flow_event_before_its_wait"] += not result.released
                self.reached["flow_event_in_its_wait"] += result.released > 0

    def waits_of(self, run: Run, plan: FlowPlan, kept: bytes | None) -> dict[int, WaitStory]:
        """Return what is known of the steps of a workflow's run that wait."""
        states = {} if kept is None else {one.step: one for one in decode_flow_state(kept).waits}
        found: dict[int, WaitStory] = {}
        for step, wait in plan.waits.items():
            ended_at, place = self.flow_wait_ends.get((run.id, step), (None, 0))
            told_at = self.flow_answers.get((run.id, step))
            if wait.event is not None:
                times = self.event_times.get((run.tenant, wait.event.topic), ())
                told_at = next((time for time in times if time >= run.due_at), None)
            found[step] = WaitStory(
                sleep=wait.sleep,
                timeout=wait.timeout,
                since=states[step].since if step in states else None,
                told_at=told_at,
                ended_at=ended_at,
                place=place,
            )
        return found

    def _note_turns(
        self, actor: str, turns: Any, given: Mapping[str, Any], verdicts: list[FlowVerdict]
    ) -> None:
        for turned, verdict in zip(turns, verdicts, strict=True):
            self.reached[f"flow_{verdict}"] += 1
            self.reached["flow_cancelled_its_steps"] += bool(turned.cancels)
            if verdict is not FlowVerdict.TURNED:
                continue
            shard, epochs = run_shard(turned.flow_id), given["epochs"]
            self._grant(f"shard {shard}", epochs[shard], "used", actor)
            state = decode_flow_state(turned.state)
            is_paused = state.is_paused
            for wait in state.waits:
                self.reached["flow_answered_early"] += wait.since is None
                if state.steps[wait.step] in _ENDED:
                    ended = given["now"], len(self.flow_events)
                    self.flow_wait_ends.setdefault((turned.flow_id, wait.step), ended)
            pauses = self.flow_pauses[turned.flow_id]
            if is_paused and not (pauses and pauses[-1][1] is None):
                pauses.append((given["now"], None))
                self.reached["flow_paused"] += 1
            elif not is_paused and pauses and pauses[-1][1] is None:
                pauses[-1] = pauses[-1][0], given["now"]
            if turned.end is not None:
                self._note_ends(actor, [turned.end], given, [ApplyResult.APPLIED])

    def _note_preemptions(
        self,
        actor: str,
        requests: Any,
        given: Mapping[str, Any],
        results: list[tuple[tuple[RunId, int], ...]],
    ) -> None:
        for request, leases in zip(requests, results, strict=True):
            by = {(victim.run_id, victim.token): victim.mark.by for victim in request.victims}
            for run_id, token in leases:
                self.reached["preemption_requested"] += 1
                words = by[run_id, token]
                self.askings.append(Asking(at=given["now"], run_id=run_id, token=token, by=words))
                self.say(f"run {run_id} token {token} asked by {actor} to make room for {words}")
            self.reached["preemption_refused"] += not leases

    def _note_expired(self, actor: str, _: Any, given: Mapping[str, Any], run_ids: list[RunId]) -> None:
        for run_id in run_ids:
            self._event(run_id, RunState.SKIPPED, 0, "expired", actor, given["now"])

    def _note_sessions(
        self, actor: str, sessions: Any, given: Mapping[str, Any], ids: list[SessionId]
    ) -> None:
        for session, session_id in zip(sessions, ids, strict=True):
            self.workers[session_id] = session.worker
            self._grant(f"session {session_id}", 0, "given", actor)

    # -- rights ------------------------------------------------------------------------------------------------

    def _grant(self, what: str, epoch: int, step: str, actor: str) -> None:
        self.grants.append(Grant(at=self._time(), what=what, epoch=epoch, step=step, actor=actor))

    def _note_taken(self, actor: str, node_id: Any, given: Mapping[str, Any], taken: dict[int, int]) -> None:
        if taken:
            self.say(f"{len(taken)} shards taken by {actor}")
            if {self._owners.get(shard, node_id) for shard in taken} & self.alive - {node_id}:
                self.reached["shards_taken_from_a_living_node"] += 1
            self._owners |= dict.fromkeys(taken, node_id)
        for shard, epoch in taken.items():
            self._grant(f"shard {shard}", epoch, "given", actor)

    def _note_beats(
        self, actor: str, beats: Any, given: Mapping[str, Any], results: list[BeatResult]
    ) -> None:
        for beat, result in zip(beats, results, strict=True):
            if result.is_session_live:
                self._grant(f"session {beat.session_id}", 0, "used", actor)
            if result.lost:
                self.reached["holder_told_of_a_loss"] += 1
            if result.unknown:
                self.reached["lease_unknown_to_its_worker"] += 1

    def _note_judged(self, actor: str, judged: Any, given: Mapping[str, Any], results: list[bool]) -> None:
        for (session_id, _), is_dead in zip(judged, results, strict=True):
            if is_dead:
                is_alive = self.workers[session_id] in self.alive
                self._grant(f"session {session_id}", 0, "expired" if is_alive else "ended", actor)
                self.say(f"session {session_id} of {self.workers[session_id]} declared dead by {actor}")
                if is_alive:
                    self.reached["lease_expired_while_its_holder_lives"] += 1

    def _note_closed(self, actor: str, ids: Any, given: Mapping[str, Any], result: None) -> None:
        for session_id in ids:
            self._grant(f"session {session_id}", 0, "ended", actor)
