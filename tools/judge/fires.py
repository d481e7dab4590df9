"""Rules about fires: each is recorded exactly once (S1), none without reason (S2), and each for its own instant."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from mainspring.core.ids import JobId, format_job_id, format_run_id
from mainspring.core.model import FireRange, FireRangeKind, JobSpec, Misfire, Run, RunKind
from mainspring.core.states import RunState
from tools.judge.model import ChangeKind, History, Violation
from tools.judge.oracle import is_closed, is_moved
from tools.judge.owed import committed_at
from tools.judge.runs import Runs
from tools.judge.trigger_periods import TriggerPeriod, read_trigger_periods

_PAUSES = frozenset({"paused", "failures"})
"""Reasons of the gaps of jobs that a user paused, and of those that paused themselves."""


@dataclass(frozen=True, slots=True)
class _Records:
    """The records of one job's fires."""

    job_id: JobId
    runs: dict[datetime, list[Run]]
    fire_ranges: list[FireRange]
    periods: list[TriggerPeriod]
    deleted_at: datetime | None


def judge_fires(history: History, counts: Counter[str]) -> Iterator[Violation]:
    """S1 and S2: expected and recorded fires are the same set, each fire once."""
    runs: dict[JobId, dict[datetime, list[Run]]] = defaultdict(lambda: defaultdict(list))
    for run in history.runs:
        if run.fire_at is not None and run.kind is RunKind.SCHEDULED:
            runs[run.job_id][run.fire_at].append(run)
    fire_ranges: dict[JobId, list[FireRange]] = defaultdict(list)
    for fire_range in history.fire_ranges:
        if fire_range.kind is not FireRangeKind.BACKFILL:
            fire_ranges[fire_range.job_id].append(fire_range)
    deleted = {change.job_id: change.until for change in history.changes if change.kind is ChangeKind.DELETED}
    for job_id, periods in read_trigger_periods(history).items():
        records = _Records(job_id, runs[job_id], fire_ranges[job_id], periods, deleted.get(job_id))
        yield from _judge_job(history, records, counts)


def _judge_job(history: History, records: _Records, counts: Counter[str]) -> Iterator[Violation]:
    sure: set[datetime] = set()
    possible: dict[datetime, list[TriggerPeriod]] = defaultdict(list)
    for period in records.periods:
        owed, allowed = period.expected(history.slack)
        if period.is_paused:
            counts["fires_paused"] += len(owed)
            yield from _judge_pause(history, records, period, owed)
            continue
        sure |= owed
        for at in allowed:
            possible[at].append(period)
    counts["fires_expected"] += len(sure)
    for at in sorted(sure | set(records.runs)):
        yield from _judge_fire(history, records, at, possible.get(at, []), counts, is_sure=at in sure)


def _judge_pause(
    history: History, records: _Records, pause: TriggerPeriod, owed: set[datetime]
) -> Iterator[Violation]:
    """Fires that fell into a pause are on record as one gap, that of this pause (law 4)."""
    for at in sorted(owed):
        covering = [
            fire_range
            for fire_range in records.fire_ranges
            if _covers(fire_range, at) and fire_range.version in pause.versions
        ]
        if [(found.kind, found.reason in _PAUSES) for found in covering] != [(FireRangeKind.GAP, True)]:
            yield _violation("S1", at, records, [], covering, history)


def _judge_fire(
    history: History,
    records: _Records,
    at: datetime,
    periods: list[TriggerPeriod],
    counts: Counter[str],
    *,
    is_sure: bool,
) -> Iterator[Violation]:
    mine = records.runs.get(at, [])
    if not _held_then(history, periods, mine, at):
        if mine:
            yield _violation("S2", at, records, mine, [], history)
        return
    covering = [fire_range for fire_range in records.fire_ranges if _claims(fire_range, at, periods)]
    if not mine and not covering and any(is_closed(period.trigger, at) for period in records.periods):
        # What a calendar kept out of a catch-up has no run: the range itself is the record.
        covering = [
            found
            for found in records.fire_ranges
            if found.to_at is not None and found.from_at <= at <= found.to_at
        ]
    holding = [fire_range for fire_range in covering if _holds(history, records, fire_range, at)]
    is_missed = is_sure and not mine and not holding
    if mine and not _fits_calendars(records, mine[0], at):
        yield _violation("S2", at, records, mine, covering, history)
        return
    if is_missed or len(mine) > 1 or (mine and covering) or (len(covering) > 1 and is_sure):
        yield _violation("S1", at, records, mine, covering, history)
    elif covering:
        counts["fires_in_fire_ranges"] += 1
        counts["fires_left_out_by_a_calendar"] += any(_is_calendars(one) for one in covering)
    elif mine:
        counts["fires_left_out_by_a_calendar"] += mine[0].reason == "calendar"
        counts["fires_moved_by_a_calendar"] += any(is_moved(period.trigger, at) for period in periods)
        counts["fires_skipped" if mine[0].state is RunState.SKIPPED else "fires_run"] += 1


def _fits_calendars(records: _Records, run: Run, at: datetime) -> bool:
    """Say whether a calendar that was valid for the run's version did with the fire as the run says.

    A new version of a calendar may come between the fire and its record, so any that was valid counts.
    """
    closed = {is_closed(period.trigger, at) for period in records.periods if run.version in period.versions}
    return not closed or (run.reason == "calendar") in closed


def _is_calendars(fire_range: FireRange) -> bool:
    return fire_range.reason.split(":")[0] == "calendar" and fire_range.kind is FireRangeKind.GAP


def _held_then(history: History, periods: list[TriggerPeriod], runs: list[Run], at: datetime) -> bool:
    """Say whether the trigger gives this instant, and no run's version had been replaced by then."""
    return bool(periods) and all(
        any(
            run.version in period.versions and at <= period.versions[run.version] + history.slack
            for period in periods
        )
        for run in runs
    )


def _covers(fire_range: FireRange, at: datetime) -> bool:
    is_within = fire_range.from_at <= at and (fire_range.to_at is None or at <= fire_range.to_at)
    is_to_come = (
        fire_range.kind is FireRangeKind.GAP or fire_range.cursor_at is None or at > fire_range.cursor_at
    )
    return is_within and is_to_come


def _claims(fire_range: FireRange, at: datetime, periods: list[TriggerPeriod]) -> bool:
    """Say whether a fire range claims to be the record of a fire, rightly or not."""
    is_mine = any(fire_range.version in period.versions for period in periods)
    return _covers(fire_range, at) and (
        is_mine or (fire_range.kind is FireRangeKind.GAP and fire_range.reason in _PAUSES)
    )


def _holds(history: History, records: _Records, fire_range: FireRange, at: datetime) -> bool:
    """Say whether a fire range may be the record of a fire, for the reason that it gives (misfires have their own
    rule).
    """
    slack = history.slack
    if fire_range.kind is not FireRangeKind.GAP:
        return True
    if fire_range.reason in _PAUSES:
        # The record covers fires that were due but not made when the pause began, and none after the pause.
        return any(
            pause.is_paused
            and pause.began_after - slack <= fire_range.created_at <= pause.began_by + slack
            and at <= pause.ended_by + slack
            for pause in records.periods
        ) or _skipped_then(history, at + max(period.jitter for period in records.periods))
    if fire_range.reason == "deleted":
        return records.deleted_at is not None and at <= records.deleted_at + slack
    if _is_calendars(fire_range):
        return any(is_closed(period.trigger, at) for period in records.periods)
    if fire_range.reason == "next_start":
        return any(at < start.at <= fire_range.created_at + slack for start in history.starts)
    if fire_range.reason == "blackout":
        return bool(history.blackouts)
    return fire_range.reason in {"misfire", "misfire_limit"}


def _skipped_then(history: History, due_at: datetime) -> bool:
    """Say whether a pause that skips fires had begun: that of a maximum's job leaves out what would be caught up.

    Args:
        due_at: when the fire was due at the latest.
    """
    return any(one.mode == "skip" and one.since - history.slack <= due_at for one in history.pausings)


def judge_instants(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """S2, S19, L1: a fire's run is for an instant, and is due then or later by no more than the jitter."""
    fire_ranges = {fire_range.id: fire_range for fire_range in history.fire_ranges}
    for run in history.runs:
        spec = runs.spec_of(run)
        if run.kind is not RunKind.SCHEDULED or spec is None:
            continue
        if run.fire_at is None:
            yield runs.accuse("S2", run.id, "scheduled, but for no instant")
        elif run.fire_range_id is not None:
            counts["fires_caught_up"] += 1
            fire_range = fire_ranges.get(run.fire_range_id)
            is_its_own = (
                fire_range is not None
                and (fire_range.job_id, fire_range.version) == (run.job_id, run.version)
                and fire_range.kind is FireRangeKind.CATCH_UP
                and fire_range.from_at <= run.fire_at
                and fire_range.cursor_at is not None
                and run.fire_at <= fire_range.cursor_at
            )
            if not is_its_own:
                yield runs.accuse(
                    "S2", run.id, f"made for fire range {run.fire_range_id}, which does not account for it"
                )
        elif run.due_at < run.fire_at:
            yield runs.accuse("S19", run.id, f"due before {run.fire_at.isoformat()}, its fire time")
        elif run.due_at > run.fire_at + spec.jitter:
            yield runs.accuse("L1", run.id, f"due later than {run.fire_at.isoformat()} and its jitter")
        elif _is_early(run, spec, run.fire_at, history.slack):
            yield runs.accuse(
                "L1", run.id, f"committed at its nominal time, though held back to {run.due_at}"
            )


def _is_early(run: Run, spec: JobSpec, fire_at: datetime, slack: timedelta) -> bool:
    """Say whether a fire was committed before its jitter let it go."""
    if spec.misfire.policy is Misfire.FIRE_LATEST:
        return False  # the newest of several may stand for late ones before it
    return run.created_at < committed_at(spec, fire_at, run.due_at) - slack


def _violation(
    rule: str,
    at: datetime,
    records: _Records,
    runs: list[Run],
    fire_ranges: list[FireRange],
    history: History,
) -> Violation:
    job_id = records.job_id
    story = [
        f"{change.at.isoformat()} job {change.kind}, version {change.version}: {change.spec.trigger}"
        for change in history.changes
        if change.job_id == job_id
    ]
    story.append(
        f"{at.isoformat()} is a fire time with {len(runs)} runs and {len(fire_ranges)} fire ranges on record"
    )
    story += [
        f"{run.created_at.isoformat()} {format_run_id(run.id)} version {run.version}: {run.state} {run.reason}"
        for run in runs
    ]
    story += [
        f"{found.created_at.isoformat()} {found.kind} fire range {found.id} recorded, version {found.version}:"
        f" {found.from_at.isoformat()} to {found.to_at.isoformat() if found.to_at else 'open'}, {found.reason}"
        for found in fire_ranges
    ]
    return Violation(rule, f"{format_job_id(job_id)} at {at.isoformat()}", tuple(story))
