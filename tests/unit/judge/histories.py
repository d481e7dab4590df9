"""Histories for tests of the judge: a story is told job by job and run by run, and comes out consistent.

Whoever wants a bad history takes a good one and changes the one thing that is wrong with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from mainspring.core.ids import FireRangeId, JobId, RunId
from mainspring.core.model import (
    Attempt,
    FireRange,
    FireRangeKind,
    JobSpec,
    Misfire,
    MisfireRule,
    Run,
    RunKind,
)
from mainspring.core.retry import Backoff, RetryPolicy
from mainspring.core.states import FINAL_STATES, RunState
from mainspring.core.triggers import Interval, Trigger
from mainspring.testing.factories import START, IdSequence, at, lane_of, make_new_job, make_spec
from tools.judge import (
    Change,
    ChangeKind,
    Effect,
    Event,
    Fault,
    Grant,
    History,
    Operation,
    judge,
)
from tools.judge.oracle import ClosedFires

SLACK = timedelta(milliseconds=10)
LEASE = timedelta(seconds=3)
SOON = timedelta(milliseconds=100)
WORK = timedelta(milliseconds=500)
RETRY = RetryPolicy(max_retries=1, backoff=Backoff.FIXED, delay=timedelta(seconds=1), jitter=0.0)
_STATES = {
    "done": RunState.SUCCEEDED,
    "failed": RunState.RETRYING,
    "timed_out": RunState.RETRYING,
    "snoozed": RunState.RETRYING,
    "lost": RunState.PENDING,
    "handed_back": RunState.PENDING,
    "preempted": RunState.PENDING,
}


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def every(number: float) -> Interval:
    return Interval(every=seconds(number), anchor=START)


def grace(number: float, policy: str = "fire_latest", **rule: Any) -> MisfireRule:
    return MisfireRule(policy=Misfire(policy), grace=seconds(number), **rule)


def closed_fires(own: Trigger, *windows: tuple[float, float]) -> ClosedFires:
    """Return a trigger whose fires in these windows, in seconds after `START`, a calendar keeps out."""
    return ClosedFires(own, tuple((at(low), at(high)) for low, high in windows))


class Story:
    """A history in the making; all times are seconds after `START`."""

    def __init__(self, *, read_at: float = 60.0) -> None:
        self._ids = IdSequence()
        self._specs: dict[JobId, tuple[int, JobSpec]] = {}
        self.attempts: dict[RunId, list[Attempt]] = {}
        self.history = History(
            read_at=at(read_at), healed_at=START, slack=SLACK, lease=LEASE, slots=10, attempts=self.attempts
        )
        self.grant("shard 1", "given", epoch=1)
        self.grant("session 1", "given")

    # -- jobs --------------------------------------------------------------------------------------------------

    def job(self, trigger: Trigger | None = None, when: float = 0.0, **spec: Any) -> JobId:
        job_id = self._ids.new_job_id(shard=1)
        self._specs[job_id] = (1, make_spec(trigger=trigger, **{"retry": RETRY} | spec))
        self._change(job_id, ChangeKind.CREATED, when)
        return job_id

    def edit(self, job_id: JobId, when: float, **changes: Any) -> None:
        version, spec = self._specs[job_id]
        self._specs[job_id] = (version + 1, replace(spec, **changes))
        self._change(job_id, ChangeKind.EDITED, when)

    def write_calendar(self, job_id: JobId, when: float, *windows: tuple[float, float]) -> None:
        """Give the job's calendar these windows, without another version of the job."""
        version, spec = self._specs[job_id]
        own = spec.trigger.own if isinstance(spec.trigger, ClosedFires) else spec.trigger
        assert own is not None
        self._specs[job_id] = (version, replace(spec, trigger=closed_fires(own, *windows)))
        self._change(job_id, ChangeKind.EDITED, when)

    def pause(self, job_id: JobId, when: float) -> None:
        self._change(job_id, ChangeKind.PAUSED, when)

    def resume(self, job_id: JobId, when: float) -> None:
        self._change(job_id, ChangeKind.RESUMED, when)

    def delete(self, job_id: JobId, when: float) -> None:
        self._change(job_id, ChangeKind.DELETED, when)

    def _change(self, job_id: JobId, kind: ChangeKind, when: float) -> None:
        version, spec = self._specs[job_id]
        change = Change(job_id=job_id, kind=kind, at=at(when), until=at(when), version=version, spec=spec)
        self.history.changes.append(change)

    # -- runs --------------------------------------------------------------------------------------------------

    def fires(self, job_id: JobId, *instants: float, **facts: Any) -> list[RunId]:
        """Fire a job at each instant, on time."""
        return [self.fire(job_id, instant, **facts) for instant in instants]

    def fire(self, job_id: JobId, instant: float, *tries: str, late: float = 0.02, **facts: Any) -> RunId:
        """Fire a job, so many seconds late, and let its tries end like that."""
        run_id = self._add_run(
            job_id,
            kind=RunKind.SCHEDULED,
            fire_at=at(instant),
            due_at=facts.pop("due_at", at(instant)),
            created_at=at(instant + late),
            **facts,
        )
        self.grant("shard 1", "used", epoch=1, when=instant + late)
        return self._begin(run_id, "fired", tries, is_skipped="reason" in facts)

    def submit(self, job_id: JobId, when: float, *tries: str, key: str | None = None, **facts: Any) -> RunId:
        """Submit a run, acknowledged at once, and let its tries end like that."""
        run_id = self._add_run(
            job_id,
            kind=RunKind.MANUAL,
            fire_at=None,
            due_at=facts.pop("due_at", at(when)),
            created_at=at(when),
            **facts,
        )
        self.ask("submit", job_id, when, key=key, run_id=run_id)
        return self._begin(run_id, "inserted", tries, is_skipped=False)

    def redrive(self, run_id: RunId, when: float, *tries: str) -> RunId:
        """Run a run again, without a word about it in the record of its dead letter."""
        run = self.run(run_id)
        repeat = self._add_run(
            run.job_id,
            kind=RunKind.REDRIVE,
            fire_at=run.fire_at,
            due_at=at(when),
            created_at=at(when),
            redrive_of=run_id,
        )
        return self._begin(repeat, "inserted", tries, is_skipped=False)

    def ask(self, kind: str, job_id: JobId, when: float, outcome: str = "ok", **facts: Any) -> None:
        """Note what a client asked for and was told."""
        self.history.operations.append(
            Operation(
                kind=kind, job_id=job_id, asked_at=at(when), answered_at=at(when), outcome=outcome, **facts
            )
        )

    def cancel(self, run_id: RunId, when: float, answer: str) -> None:
        self.ask("cancel", self.run(run_id).job_id, when, run_id=run_id, answer=answer)

    def _add_run(self, job_id: JobId, **facts: Any) -> RunId:
        version, spec = self._specs[job_id]
        version = facts.pop("version", version)
        run_id = RunId((len(self.history.runs) + 1) * 256 + 1)
        is_skipped = "reason" in facts
        values: dict[str, Any] = {
            "state": RunState.SKIPPED if is_skipped else RunState.PENDING,
            "ready_at": max(facts["due_at"], facts["created_at"]),
            "finished_at": facts["created_at"] if is_skipped else None,
            "reason": None,
            "fire_range_id": None,
            "payload": None,
            "redrive_of": None,
        }
        run = Run(
            id=run_id,
            job_id=job_id,
            version=version,
            tenant="default",
            lane=lane_of(make_new_job(spec)),
            started_at=None,
            attempt=1,
            token=0,
            crashes=0,
            session_id=None,
            is_cancel_requested=False,
            error=None,
            result=None,
            output=None,
            idempotency_key=None,
            **values | facts,
        )
        self.history.runs.append(run)
        return run_id

    def _begin(self, run_id: RunId, what: str, tries: Sequence[str], *, is_skipped: bool) -> RunId:
        run = self.run(run_id)
        if is_skipped:
            if run.reason == "overlap":
                self.event(run.created_at, run, RunState.SKIPPED, "overlap", is_unnamed=True)
            return run_id
        self.event(run.created_at, run, RunState.PENDING, what)
        for ending in tries or ("done",):
            if ending != "waiting":
                self.attempt(run_id, ending)
        return run_id

    def attempt(
        self, run_id: RunId, ending: str, *, work: timedelta = WORK, after: timedelta = SOON
    ) -> Effect:
        """Let a run be claimed and carried out once; `killed` is the last loss, `spent` the last failure."""
        run = self.run(run_id)
        token = run.token + 1
        start = run.ready_at + after
        self.grant("session 1", "used", when=(start - START).total_seconds())
        self.event(start, run, RunState.RUNNING, "claimed", token=token)
        effect = Effect(
            run_id=run_id,
            job_id=run.job_id,
            token=token,
            attempt=run.attempt,
            worker="worker-1",
            started_at=start,
        )
        self.history.effects.append(effect)
        end = start + (2 * LEASE if ending in {"lost", "killed"} else work)
        if ending in {"done", "failed", "snoozed", "spent", "refused"}:
            effect.ended_at = end
            effect.ending = "failed" if ending in {"spent", "refused"} else ending
        self._end(run, token, start, end, ending)
        return effect

    def _end(self, run: Run, token: int, start: datetime, end: datetime, ending: str) -> None:
        outcome = {"done": "succeeded", "killed": "lost", "spent": "failed", "refused": "failed"}.get(
            ending, ending
        )
        state = _STATES.get(ending, RunState.CANCELLED if ending == "cancelled" else RunState.FAILED)
        self.event(end, run, state, outcome, token=token)
        if outcome != "succeeded" or run.id in self.attempts:
            row = Attempt(
                run_id=run.id,
                token=token,
                number=run.attempt,
                outcome=outcome,
                worker="worker-1",
                started_at=start,
                finished_at=end,
                error=None,
                output=None,
            )
            self.attempts.setdefault(run.id, []).append(row)
        reasons = {"killed": "poison", "spent": "retries_exhausted", "refused": "not_retryable"}
        if state in FINAL_STATES:
            self.alter(
                run.id,
                state=state,
                token=token,
                finished_at=end,
                started_at=start,
                crashes=run.crashes + (outcome == "lost"),
                reason=reasons.get(ending, "cancelled" if ending == "cancelled" else None),
                error=None if ending in {"done", "cancelled"} else "it went wrong",
                result=str(token).encode() if ending == "done" else None,
            )
            return
        is_failure = outcome in {"failed", "timed_out"}
        self.alter(
            run.id,
            state=state,
            token=token + 1,
            ready_at=end + (self._specs[run.job_id][1].retry.delay if is_failure else timedelta(0)),
            attempt=run.attempt + is_failure,
            crashes=run.crashes + (outcome == "lost"),
        )

    def run(self, run_id: RunId) -> Run:
        return self.history.runs[self._index(run_id)]

    def alter(self, run_id: RunId, **changes: Any) -> None:
        """Change a run as the final read shows it."""
        index = self._index(run_id)
        self.history.runs[index] = replace(self.history.runs[index], **changes)

    def _index(self, run_id: RunId) -> int:
        runs = self.history.runs
        return next(index for index in reversed(range(len(runs))) if runs[index].id == run_id)

    def alter_attempt(self, run_id: RunId, index: int, **changes: Any) -> None:
        rows = self.attempts[run_id]
        rows[index] = replace(rows[index], **changes)

    def alter_event(self, index: int, **changes: Any) -> None:
        self.history.events[index] = replace(self.history.events[index], **changes)

    def expire(self, run_id: RunId, when: float) -> None:
        """End a run that waits because its time is over."""
        run = self.run(run_id)
        self.event(at(when), run, RunState.SKIPPED, "expired")
        self.alter(run_id, state=RunState.SKIPPED, reason="expired", finished_at=at(when))

    def cancel_waiting(self, run_id: RunId, when: float, reason: str = "cancelled") -> None:
        """End a run that waits because that was asked for."""
        run = self.run(run_id)
        self.event(at(when), run, RunState.CANCELLED, "cancel")
        self.alter(run_id, state=RunState.CANCELLED, reason=reason, finished_at=at(when))

    # -- the rest ----------------------------------------------------------------------------------------------

    def fire_range(
        self,
        job_id: JobId,
        kind: FireRangeKind,
        from_at: float,
        to_at: float | None,
        reason: str,
        *,
        when: float,
        **facts: Any,
    ) -> FireRangeId:
        """Record a fire range, closed and with its cursor at its end unless told otherwise."""
        fire_range_id = FireRangeId(len(self.history.fire_ranges) + 1)
        is_gap = kind is FireRangeKind.GAP
        values: dict[str, Any] = {
            "version": self._specs[job_id][0],
            "cursor_at": None if is_gap or to_at is None else at(to_at),
            "is_open": False,
        }
        fire_range = FireRange(
            id=fire_range_id,
            job_id=job_id,
            tenant="default",
            kind=kind,
            from_at=at(from_at),
            to_at=None if to_at is None else at(to_at),
            reason=reason,
            created_at=at(when),
            **values | facts,
        )
        self.history.fire_ranges.append(fire_range)
        return fire_range_id

    def gap(
        self, job_id: JobId, from_at: float, to_at: float | None, reason: str, when: float
    ) -> FireRangeId:
        return self.fire_range(job_id, FireRangeKind.GAP, from_at, to_at, reason, when=when)

    def catch_up(
        self, job_id: JobId, from_at: float, to_at: float, reason: str, when: float, **facts: Any
    ) -> FireRangeId:
        return self.fire_range(job_id, FireRangeKind.CATCH_UP, from_at, to_at, reason, when=when, **facts)

    def make_up(self, job_id: JobId, fire_range_id: FireRangeId, instant: float, when: float) -> RunId:
        """Carry out one fire of a catch-up."""
        return self.fire(job_id, instant, late=when - instant, due_at=at(when), fire_range_id=fire_range_id)

    def fault(self, start: float, end: float, kind: str = "outage") -> None:
        self.history.faults.append(Fault(kind=kind, target="", at=at(start), until=at(end)))
        self.history.healed_at = max(self.history.healed_at, at(end))

    def grant(
        self, what: str, step: str, *, epoch: int = 0, when: float = 0.0, actor: str = "server-1"
    ) -> None:
        self.history.grants.append(Grant(at=at(when), what=what, epoch=epoch, step=step, actor=actor))

    def event(
        self,
        when: datetime,
        run: Run,
        target: RunState,
        what: str,
        *,
        token: int = 0,
        is_unnamed: bool = False,
    ) -> None:
        self.history.events.append(
            Event(
                at=when,
                job_id=run.job_id,
                run_id=None if is_unnamed else run.id,
                target=target,
                token=token,
                what=what,
                actor="worker-1" if what == "claimed" else "server-1",
            )
        )

    # -- the verdict -------------------------------------------------------------------------------------------

    @property
    def broken(self) -> set[str]:
        """The rules that the judge finds broken."""
        self.history.events.sort(key=lambda event: event.at)
        return {found.rule for found in judge(self.history).violations}

    @property
    def told(self) -> str:
        """Everything that the judge has to say."""
        return "\n".join(map(str, judge(self.history).violations))
