"""Says in one sentence why a run has not started, or what became of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum

from mainspring.core.admission import OVERLAP
from mainspring.core.blackouts import BlackoutState
from mainspring.core.fields import show
from mainspring.core.ids import RunId, format_run_id
from mainspring.core.lane_caps import CapKey, CapScope
from mainspring.core.limits import job_of_limit, overlap_limit_name
from mainspring.core.model import Attempt, Run
from mainspring.core.outcomes import AttemptOutcome
from mainspring.core.pauses import Pause
from mainspring.core.rates import Rate
from mainspring.core.rivals import RivalFacts, explain_rivals
from mainspring.core.serving import Gap
from mainspring.core.states import FINAL_STATES, RunState
from mainspring.core.times import write_instant
from mainspring.core.values import value

MOST_AHEAD = 1000
"""Up to so many runs before a run are counted."""
_SECOND = timedelta(seconds=1)
_OVERLAPPED: Mapping[tuple[RunState, str], str] = {
    (RunState.SKIPPED, OVERLAP): ": other runs of the job were in its way when it fired",
    (RunState.CANCELLED, OVERLAP): ": it made way for a later fire of its job",
}


class WhyCode(StrEnum):
    """What a run waits for, or what became of it. The first that holds is told."""

    ENDED = "ended"
    RUNNING = "running"
    NOT_DUE = "not_due"
    BACKING_OFF = "backing_off"
    SNOOZED = "snoozed"
    PAUSED = "paused"
    BLACKOUT = "blackout"
    NO_WORKER = "no_worker"
    BATCH = "batch"
    KEY_FULL = "key_full"
    RATE = "rate"
    QUEUE_FULL = "queue_full"
    TENANT_FULL = "tenant_full"
    LABEL_FULL = "label_full"
    QUARANTINED = "quarantined"
    BEHIND = "behind"
    READY = "ready"


_FULL = {
    CapScope.QUEUE: WhyCode.QUEUE_FULL,
    CapScope.TENANT: WhyCode.TENANT_FULL,
    CapScope.LABEL: WhyCode.LABEL_FULL,
}


@value(kw_only=True)
class KeyFacts:
    """A key of a run, and how much of it is taken.

    Attributes:
        limit: the limit's name.
        key: empty for jobs that name none; None if it is hidden from who asks.
        is_of_cluster: all tenants share it.
        held: how many other runs have a place under it.
        holders: some of them that belong to the same tenant, at most five.
        next_permit_at: when its rate allows the next start; None if it allows one now, or there is no rate.
    """

    limit: str
    key: str | None
    max_running: int | None
    rate: Rate | None
    held: int
    holders: tuple[RunId, ...]
    next_permit_at: datetime | None
    is_of_cluster: bool = False

    @property
    def is_full(self) -> bool:
        """Whether no further run has room under it."""
        return self.max_running is not None and self.held >= self.max_running

    @property
    def is_line(self) -> bool:
        """Whether it is the line of a job whose runs follow one another."""
        job_id = job_of_limit(self.limit)
        return job_id is not None and self.limit == overlap_limit_name(job_id)

    @property
    def words(self) -> str:
        """The key as it stands in a sentence."""
        owner = "the job's limit" if job_of_limit(self.limit) is not None else f"limit {self.limit}"
        owner = f"the cluster's {owner}" if self.is_of_cluster else owner
        if self.key is None:
            return f"{owner} for its key"
        return f"{owner} for {self.key!r}" if self.key else owner

    def hidden(self) -> KeyFacts:
        """Return the same without what the key is made of, which may come out of the payload."""
        return replace(self, key=None) if self.key else self


@value(kw_only=True)
class BatchFacts:
    """The batch for which a run waits.

    Attributes:
        size: the most runs of it.
        ready: how many are ready in the run's line, not counted beyond that.
        until: when it starts even if it is not full.
    """

    size: int
    ready: int
    until: datetime


@value(kw_only=True)
class CapFacts:
    """A cap of a run's lane, and how much of it is taken.

    Attributes:
        held: how many runs have a place under it.
        holders: some of them that belong to the same tenant, at most five.
    """

    key: CapKey
    max_running: int
    held: int
    holders: tuple[RunId, ...]


@value(kw_only=True)
class WaitFacts:
    """What a waiting run waits for, as the store knows it.

    Attributes:
        keys: what it is counted under.
        ahead: how many ready runs stand before it in its lane or line; not counted beyond `MOST_AHEAD`.
        expires_at: when it is too late to start it; None if it never is.
        batch: the batch for which it waits; None if its job takes runs one by one, or if it must be alone.
    """

    keys: tuple[KeyFacts, ...] = ()
    ahead: int = 0
    expires_at: datetime | None = None
    batch: BatchFacts | None = None

    def without_keys(self) -> WaitFacts:
        """Return the same for who may not see what keys are made of."""
        return replace(self, keys=tuple(key.hidden() for key in self.keys))


@value(kw_only=True)
class ReserveFacts:
    """How a run's tenant stands to reserved slots.

    Attributes:
        reserved: the slots that are reserved for it; 0: none are.
        running: the slots that it has, if some are reserved for it.
        has_others: another tenant has fewer slots than are reserved for it, and something to run.
    """

    reserved: int
    running: int
    has_others: bool


@value(kw_only=True)
class FlowProgress:
    """How far the steps of a workflow's run have come.

    Attributes:
        live: how many have a run that has not ended.
        is_paused: no more of them start.
    """

    steps: int
    ended: int
    live: int
    is_paused: bool = False

    @property
    def words(self) -> str:
        """The progress as a sentence."""
        runs = "1 is under way or waits" if self.live == 1 else f"{self.live} are under way or wait"
        paused = " It is paused: no more start until it is resumed." if self.is_paused else ""
        return f"Its steps run: {self.ended} of {self.steps} have ended, and {runs} for a worker.{paused}"


@value(kw_only=True)
class Why:
    """The answer.

    Attributes:
        ahead: how many runs stand before it; None if that does not matter.
        until: when it may start, as far as that is known.
        holders: runs that stand in its way.
    """

    code: WhyCode
    sentence: str
    ahead: int | None = None
    until: datetime | None = None
    holders: tuple[RunId, ...] = ()


def explain(
    run: Run,
    wait: WaitFacts | None,
    *,
    gap: Gap | None,
    now: datetime,
    pause: Pause | None = None,
    blackout: BlackoutState | None = None,
    pause_note: str | None = None,
    reserve: ReserveFacts | None = None,
    caps: Sequence[CapFacts] = (),
    last: Attempt | None = None,
    rivals: RivalFacts | None = None,
    flow: FlowProgress | None = None,
) -> Why:
    """Return why a run waits, or what became of it.

    Args:
        wait: what it waits for; None if it does not wait.
        gap: why no live worker can execute it; None if one can.
        now: the store's time.
        pause: what stops its lane; None: nothing does.
        blackout: what stops it by a calendar; None: nothing does.
        reserve: how its tenant stands to reserved slots; None: nobody has any.
        caps: those of its lane.
        pause_note: why Mainspring paused the job of a run that FAILED; None if it did not.
        last: its last attempt; None if it has had none.
        rivals: what else waits for the same workers; None: nothing is known of it.
        flow: how far the steps have come of a workflow's run that the engine holds; None for others.
    """
    if run.state in FINAL_STATES:
        reason = f" ({run.reason}{_OVERLAPPED.get((run.state, run.reason), '')})" if run.reason else ""
        ended = "" if run.finished_at is None else f" at {write_instant(run.finished_at)}"
        paused = "" if pause_note is None else f" Its job is paused: {pause_note}."
        return Why(code=WhyCode.ENDED, sentence=f"It has ended: {run.state}{reason}{ended}.{paused}")
    if run.state is RunState.RUNNING or wait is None:
        return Why(code=WhyCode.RUNNING, sentence=_tell_running(run, flow))
    halt = _explain_halt(pause, blackout)
    why = _explain_wait(run, wait, gap=gap, now=now, halt=halt, caps=caps, last=last)
    if why.code in (WhyCode.BEHIND, WhyCode.READY):
        more = "" if reserve is None else _explain_reserve(reserve)
        why = replace(
            why, sentence=why.sentence + (more or ("" if rivals is None else explain_rivals(rivals)))
        )
    if last is not None and last.outcome == AttemptOutcome.PREEMPTED:
        told = f"It was {last.error} at {write_instant(last.finished_at)}."
        why = replace(why, sentence=f"{why.sentence} {told}")
    if wait.expires_at is None:
        return why
    return replace(
        why,
        sentence=f"{why.sentence} It is skipped if it has not started by {write_instant(wait.expires_at)}.",
    )


def _tell_running(run: Run, flow: FlowProgress | None) -> str:
    if flow is not None:
        return f"{flow.words}{' It was asked to stop.' if run.is_cancel_requested else ''}"
    since = "" if run.started_at is None else f" since {write_instant(run.started_at)}"
    asked = "; it was asked to stop" if run.is_cancel_requested else ""
    return f"Attempt {run.attempt} is under way{since}{asked}."


def _explain_wait(
    run: Run,
    wait: WaitFacts,
    *,
    gap: Gap | None,
    now: datetime,
    halt: Why | None,
    caps: Sequence[CapFacts],
    last: Attempt | None,
) -> Why:
    if run.ready_at > now:
        return _explain_time(run, last, now)
    if halt is not None:
        return halt
    if gap is not None:
        return Why(code=WhyCode.NO_WORKER, sentence=gap.sentence)
    batch = wait.batch
    if batch is not None and batch.ready < batch.size and batch.until > now:
        sentence = (
            f"It waits for its batch: {batch.ready} of {batch.size}, until {write_instant(batch.until)}."
        )
        return Why(code=WhyCode.BATCH, sentence=sentence, ahead=wait.ahead, until=batch.until)
    full = _explain_key(wait.keys, wait.ahead) or _explain_cap(caps, wait.ahead)
    return full or _explain_place(run, wait.ahead)


def _explain_halt(pause: Pause | None, blackout: BlackoutState | None) -> Why | None:
    """Return what stops a lane: a pause, or else a blackout. None: nothing does."""
    if pause is not None:
        return _explain_pause(pause)
    if blackout is None:
        return None
    one = blackout.blackout
    until = "" if blackout.until is None else f" until {write_instant(blackout.until)}"
    note = f": {one.note}" if one.note else ""
    sentence = f"{one.what} is in a blackout by calendar {one.label}{until}{note}."
    return Why(code=WhyCode.BLACKOUT, sentence=sentence, until=blackout.until)


def _explain_pause(pause: Pause) -> Why:
    until = "" if pause.until is None else f" until {write_instant(pause.until)}"
    note = f": {pause.note}" if pause.note else ""
    sentence = f"{pause.what} is paused{until} by {pause.made_by}, since {write_instant(pause.since)}{note}."
    return Why(code=WhyCode.PAUSED, sentence=sentence, until=pause.until)


def _explain_time(run: Run, last: Attempt | None, now: datetime) -> Why:
    when = f"{write_instant(run.ready_at)}, in {show(max(run.ready_at - now, _SECOND) // _SECOND * _SECOND)}"
    if run.state is RunState.RETRYING:
        if last is not None and last.outcome == AttemptOutcome.SNOOZED:
            sentence = f"It was snoozed at {write_instant(last.finished_at)}, and sleeps until {when}."
            return Why(code=WhyCode.SNOOZED, sentence=sentence, until=run.ready_at)
        number = run.attempt - 1 if last is None else last.number
        sentence = f"Attempt {number} did not succeed; the next one may start at {when}."
        return Why(code=WhyCode.BACKING_OFF, sentence=sentence, until=run.ready_at)
    return Why(code=WhyCode.NOT_DUE, sentence=f"It may start at {when}.", until=run.ready_at)


def _explain_key(keys: Sequence[KeyFacts], ahead: int) -> Why | None:
    """Return which limit has no room; None if all have."""
    for key in keys:
        if key.is_full:
            holders = ", ".join(map(format_run_id, key.holders))
            if key.is_line:
                sentence = (
                    f"The job's runs follow one another, and {holders} has not ended; {_before(ahead)}."
                )
                return Why(code=WhyCode.KEY_FULL, sentence=sentence, ahead=ahead, holders=key.holders)
            taken = f"{key.held} of {key.max_running} places under {key.words} are taken"
            sentence = f"{taken}{_by(key.holders, key.held)}; {_before(ahead)}."
            return Why(code=WhyCode.KEY_FULL, sentence=sentence, ahead=ahead, holders=key.holders)
        if key.next_permit_at is not None and key.rate is not None:
            at = write_instant(key.next_permit_at)
            begin = f"The rate {key.rate.text} of {key.words} allows the next start at {at}"
            sentence = f"{begin}; {_before(ahead)}."
            return Why(code=WhyCode.RATE, sentence=sentence, ahead=ahead, until=key.next_permit_at)
    return None


def _explain_cap(caps: Sequence[CapFacts], ahead: int) -> Why | None:
    """Return which cap of its lane is full; None if none is."""
    for cap in caps:
        if cap.held >= cap.max_running:
            taken = f"{cap.held} of {cap.max_running} places of {cap.key.what} are taken"
            return Why(
                code=_FULL[cap.key.scope],
                sentence=f"{taken}{_by(cap.holders, cap.held)}; {_before(ahead)}.",
                ahead=ahead,
                holders=cap.holders,
            )
    return None


def _by(holders: Sequence[RunId], held: int) -> str:
    """Say who has the places, as far as they may be named."""
    named = ", ".join(map(format_run_id, holders))
    if not named:
        return " by runs of other tenants"
    return f" by {named}{' and others' if held > len(holders) else ''}"


def _explain_place(run: Run, ahead: int) -> Why:
    if run.crashes:
        sentence = f"It crashed a worker, and waits for one that runs nothing else; {_before(ahead)}."
        return Why(code=WhyCode.QUARANTINED, sentence=sentence, ahead=ahead)
    if ahead:
        where = f"in queue {run.lane.queue!r} with its priority, {run.lane.priority.name}, and for the same workers"
        return Why(code=WhyCode.BEHIND, sentence=f"{_count(ahead)} before it {where}.", ahead=ahead)
    return Why(
        code=WhyCode.READY,
        sentence="It is the next one, and starts as soon as a worker has a free slot.",
        ahead=0,
    )


def _explain_reserve(reserve: ReserveFacts) -> str:
    """Return the sentence that says who gets the next free slots because of a reserve; an empty one if nobody does."""
    if reserve.running < reserve.reserved:
        has = f"{reserve.running} of its {reserve.reserved} reserved slots"
        return f" Its tenant has {has}, and gets the next free one."
    if reserve.has_others:
        return " Before it come tenants that have fewer slots than are reserved for them."
    return ""


def _before(ahead: int) -> str:
    return f"{_count(ahead)} before it" if ahead else "it is the next one"


def _count(ahead: int) -> str:
    if ahead >= MOST_AHEAD:
        return f"{MOST_AHEAD:,} or more wait"
    return "1 waits" if ahead == 1 else f"{ahead} wait"
