"""Rules about the order of what the store committed: S9, S11, S12. They need the events of a history."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from mainspring.core.ids import JobId, RunId, format_job_id, format_run_id
from mainspring.core.model import Overlap, RunKind
from mainspring.core.outcomes import AttemptOutcome
from mainspring.core.states import FINAL_STATES, RunState, is_legal
from tools.judge.model import Event, Grant, History, Violation
from tools.judge.runs import Runs

STORE_FAULTS = frozenset({"outage", "full"})
"""Faults of the store alone."""
_SKIPPING = frozenset({"skip", "queue_one", "cancel_running"})
"""Policies by which a fire may be skipped while a run is live."""
_FIRST = frozenset({RunState.PENDING, RunState.BLOCKED, RunState.SKIPPED})
HANDED_OVER = "handed_over"
"""What a recorder calls it when the engine takes over the lease of a workflow's run."""
_ENDINGS = frozenset(outcome.value for outcome in AttemptOutcome)


def judge_order(history: History, counts: Counter[str]) -> Iterator[Violation]:
    """S9, S11, S12: only legal steps, only by the holder of the newest token, who is never refused, and none after
    the end.
    """
    events: dict[RunId, list[Event]] = defaultdict(list)
    for event in history.events:
        if event.is_stale:
            counts["stale_writes_refused"] += 1
        if event.run_id is not None:
            events[event.run_id].append(event)
    on_record = {run.id: run.state for run in history.runs}
    for run_id, mine in events.items():
        steps = [event for event in mine if not event.is_stale]
        counts["transitions"] += len(steps)
        broken = _first_fault(mine)
        if broken is not None:
            rule, index, why = broken
            yield Violation(rule, format_run_id(run_id), (*map(_tell, mine[: index + 1]), why))
        elif run_id not in on_record:
            yield Violation("S3", format_run_id(run_id), (*map(_tell, mine), "committed, but not on record"))
        elif not steps or steps[-1].target is not on_record[run_id]:
            why = f"on record as {on_record[run_id]}"
            yield Violation("S11", format_run_id(run_id), (*map(_tell, mine), why))


def _first_fault(events: list[Event]) -> tuple[str, int, str] | None:
    state: RunState | None = None
    token, holder = 0, None
    for index, event in enumerate(events):
        if event.is_stale:
            if state is RunState.RUNNING and (event.token, event.session_id) == (token, holder):
                return "S9", index, "refused, though it was the holder's"
            continue
        if state in FINAL_STATES:
            return "S11", index, f"it had ended as {state}"
        if state is None:
            if event.target not in _FIRST:
                return "S12", index, f"{event.what} before it was recorded"
        elif not is_legal(state, event.target) or (
            state is event.target is RunState.RUNNING and event.what != HANDED_OVER
        ):
            return "S12", index, f"{state} to {event.target} is not a legal step"
        if event.what in {"claimed", HANDED_OVER}:
            if event.token <= token:
                return "S9", index, f"its token does not grow: {token} before"
            token, holder = event.token, event.session_id
        elif state is RunState.RUNNING and event.token != token:
            return "S9", index, f"applied under token {event.token}, but {token} is the holder's"
        elif state is RunState.RUNNING and event.what in _ENDINGS and event.session_id != holder:
            return "S9", index, f"applied for session {event.session_id}, but {holder} is the holder's"
        elif state is not RunState.RUNNING and event.what in _ENDINGS:
            return "S9", index, f"applied under token {event.token}, but nobody held it"
        state = event.target
    return None


def _tell(event: Event) -> str:
    return f"{event.at.isoformat()} {event.what} by {event.actor}: {event.target}, token {event.token}"


def judge_passed_over(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """S18, strictly: when a fire of a job with overlap `skip` was committed, it was skipped if and only if a run was
    live.
    """
    skipping = {change.job_id for change in history.changes if change.spec.overlap.value in _SKIPPING}
    live: dict[JobId, set[RunId]] = defaultdict(set)
    for event in history.events:
        if event.is_stale:
            continue
        mine = live[event.job_id]
        if event.what == "overlap":
            counts["overlaps_skipped"] += 1
            why = "nothing was live" if not mine else "its overlaps are allowed"
            if not mine or event.job_id not in skipping:
                yield Violation("S18", format_job_id(event.job_id), (_tell(event), why))
        if event.run_id is None or _is_backfilled(event.run_id, runs):
            continue
        if event.what == "fired" and mine and _skips(event.run_id, runs):
            others = ", ".join(format_run_id(run_id) for run_id in sorted(mine))
            yield Violation("S18", format_run_id(event.run_id), (_tell(event), f"still live: {others}"))
        (mine.discard if event.target in FINAL_STATES else mine.add)(event.run_id)


def _is_backfilled(run_id: RunId, runs: Runs) -> bool:
    """Say whether a run is a backfill's, which stands in the way of no fire."""
    run = runs.by_id.get(run_id)
    return run is not None and run.kind is RunKind.BACKFILL


def _skips(run_id: RunId, runs: Runs) -> bool:
    """Say whether the job version of a fire's run skips overlaps."""
    run = runs.by_id.get(run_id)
    spec = runs.spec_of(run) if run is not None else None
    return spec is not None and spec.overlap is Overlap.SKIP


def judge_grants(history: History, counts: Counter[str]) -> Iterator[Violation]:
    """S10: no write is accepted under a right that has since been given to another holder, or that has ended."""
    newest: dict[str, Grant] = {}
    for grant in history.grants:
        last = newest.get(grant.what)
        if grant.step == "used":
            counts["writes_under_a_right"] += 1
            if last is None:
                yield Violation("S10", grant.what, (_tell_grant(grant), "it was never given"))
            elif last.step in {"ended", "expired"} or last.epoch != grant.epoch or _is_anothers(last, grant):
                yield Violation("S10", grant.what, (_tell_grant(last), _tell_grant(grant)))
            continue
        if grant.step == "given" and last is not None and grant.epoch <= last.epoch:
            why = "its epoch does not grow"
            yield Violation("S10", grant.what, (_tell_grant(last), _tell_grant(grant), why))
        newest[grant.what] = grant


def judge_deaths(history: History, counts: Counter[str]) -> Iterator[Violation]:
    """S23: no worker is declared dead because the store is away or takes no writes. A worker declared dead had
    another fault.

    A session that its worker never heard of (the answer to its registration was lost) belongs to no one.
    """
    recovery = 3 * history.lease
    others = [fault for fault in history.faults if fault.kind not in STORE_FAULTS]
    used = {grant.what for grant in history.grants if grant.step == "used"}
    for grant in history.grants:
        if grant.step == "expired" and grant.what in used:
            counts["declared_dead_alive"] += 1
            if not any(fault.at <= grant.at <= fault.until + recovery for fault in others):
                why = "nothing had happened to its worker"
                yield Violation("S23", grant.what, (_tell_grant(grant), why))


def _is_anothers(last: Grant, used: Grant) -> bool:
    """Say whether a shard's holder is another one. A session's writes may come through any server."""
    return used.epoch > 0 and used.actor != last.actor


def _tell_grant(grant: Grant) -> str:
    return f"{grant.at.isoformat()} {grant.what}, epoch {grant.epoch}, {grant.step} by {grant.actor}"
