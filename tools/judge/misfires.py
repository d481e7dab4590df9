"""Rules about late fires: the misfire policy holds (S20), and what has to be caught up is caught up (S27)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

from mainspring.core.ids import format_job_id
from mainspring.core.model import FireRange, FireRangeKind, JobSpec, Misfire, Run, RunKind
from mainspring.core.states import RunState
from tools.judge.model import ChangeKind, History, Violation
from tools.judge.oracle import ClosedFires, expected_fires
from tools.judge.owed import Owed
from tools.judge.paces import full_times, read_bounds
from tools.judge.runs import Runs
from tools.judge.trigger_periods import read_trigger_periods

_PAUSED = frozenset({"paused", "blackout"})
_TICK = timedelta(microseconds=1)
_DRAIN = timedelta(seconds=1)
"""In this time, a fire range makes at least one run, unless its job's pace lets it go no faster."""
_STEP = timedelta(seconds=0.5)
"""The time between two steps."""


def judge_misfires(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """S20: fires late by more than their grace, and no others, were treated by their misfire policy."""
    owed = Owed(history)
    for run in history.runs:
        spec = runs.spec_of(run)
        if (
            spec is None
            or run.fire_at is None
            or run.kind is not RunKind.SCHEDULED
            or run.fire_range_id is not None
            or isinstance(spec.trigger, ClosedFires)  # what was late depends on the version valid then
        ):
            continue
        if run.state is RunState.SKIPPED and run.reason in {"misfire", "misfire_limit"}:
            counts[f"misfires_{spec.misfire.policy}"] += 1
            why = _wrong_omission(spec, run.reason, run.fire_at, run.fire_at, run.created_at, history.slack)
        else:
            why = _wrong_fire(spec, run, run.fire_at, owed.of_run(run), history.slack)
        if why is not None:
            yield runs.accuse("S20", run.id, why)
    for fire_range in history.fire_ranges:
        found = runs.specs.get((fire_range.job_id, fire_range.version))
        if (
            found is not None
            and fire_range.to_at is not None
            and fire_range.kind is not FireRangeKind.BACKFILL
            and not isinstance(found.trigger, ClosedFires)
        ):
            owed_at = owed.at_latest(fire_range.job_id, fire_range.version, fire_range.from_at)
            yield from _judge_fire_range(fire_range, found, owed_at, fire_range.to_at, history.slack, counts)


def _judge_fire_range(
    fire_range: FireRange,
    spec: JobSpec,
    owed_at: datetime,
    to_at: datetime,
    slack: timedelta,
    counts: Counter[str],
) -> Iterator[Violation]:
    why = None
    if fire_range.reason in {"misfire", "misfire_limit"}:
        counts[f"misfires_{spec.misfire.policy}"] += 1
        if fire_range.kind is FireRangeKind.GAP:
            why = _wrong_omission(
                spec, fire_range.reason, fire_range.from_at, to_at, fire_range.created_at, slack
            )
        else:
            why = _wrong_catch_up(spec, fire_range, to_at, slack)
    elif (
        fire_range.kind is FireRangeKind.CATCH_UP
        and fire_range.created_at - owed_at > spec.misfire.grace + slack
    ):
        why = "caught up as if it had not been late"
    if why is not None:
        story = f"{fire_range.created_at.isoformat()} {fire_range.kind} for {fire_range.reason}:"
        story += f" {fire_range.from_at.isoformat()} to {to_at.isoformat()}, {spec.misfire}"
        yield Violation(
            "S20", f"fire range {fire_range.id} of {format_job_id(fire_range.job_id)}", (story, why)
        )


def _wrong_fire(
    spec: JobSpec, run: Run, fire_at: datetime, owed_at: datetime, slack: timedelta
) -> str | None:
    """Say what is wrong with a fire that was made (or skipped for another reason than its lateness)."""
    late = run.created_at - owed_at
    if late <= spec.misfire.grace + slack:
        return None
    if spec.max_fires is not None and run.state is RunState.SKIPPED and run.reason in _PAUSED:
        return None  # it is not counted, so it was decided when the others were left to be caught up
    if spec.misfire.policy is not Misfire.FIRE_LATEST:
        return f"{late} late, policy {spec.misfire.policy}"
    if expected_fires(spec.trigger, fire_at, run.created_at - slack):
        return f"{late} late, and not the latest"
    return None


def _wrong_omission(
    spec: JobSpec, reason: str, from_at: datetime, to_at: datetime, created_at: datetime, slack: timedelta
) -> str | None:
    """Say what is wrong with fires that were left out because they were late."""
    rule = spec.misfire
    if (reason == "misfire_limit") != (rule.policy is Misfire.FIRE_ALL):
        return f"left out as {reason}, policy {rule.policy}"
    if rule.policy is Misfire.FIRE_LATEST:
        if created_at - from_at <= rule.grace - slack:
            return f"left out though only {created_at - from_at} late"
        has_latest = bool(expected_fires(spec.trigger, to_at, created_at + slack))
        return None if has_latest else "the latest was left out"
    if created_at - to_at <= rule.grace - slack:
        return f"left out though only {created_at - to_at} late"
    if rule.policy is Misfire.FIRE_ALL and to_at >= created_at - rule.max_age + slack:
        newer = len(expected_fires(spec.trigger, to_at, created_at - rule.grace + slack))
        if newer < rule.max_count:
            return f"left out though only {newer} of {rule.max_count} are newer"
    return None


def _wrong_catch_up(spec: JobSpec, fire_range: FireRange, to_at: datetime, slack: timedelta) -> str | None:
    """Say what is wrong with late fires that were to be caught up."""
    rule = spec.misfire
    late = fire_range.created_at - to_at
    if rule.policy is Misfire.SKIP:
        return "caught up, policy skip"
    if rule.policy is Misfire.FIRE_LATEST:
        # An edit keeps the one late fire as a fire range of its own.
        if fire_range.from_at != to_at or expected_fires(spec.trigger, to_at, fire_range.created_at - slack):
            return "more than the latest, or not the latest"
        return None
    if late <= rule.grace - slack:
        return f"caught up though only {late} late"
    if fire_range.created_at - fire_range.from_at > rule.max_age + slack:
        return f"{fire_range.created_at - fire_range.from_at} old"
    number = len(expected_fires(spec.trigger, fire_range.from_at - _TICK, to_at))
    return f"{number} are too many" if number > rule.max_count else None


def judge_catch_ups(history: History, counts: Counter[str]) -> Iterator[Violation]:
    """S27, S1: a catch-up ends if the job and the system are there to run it, and ends no sooner."""
    periods = read_trigger_periods(history)
    calm_since = history.healed_at + 3 * history.lease
    full, bounds = full_times(history, calm_since), read_bounds(history)
    specs = {(change.job_id, change.version): change.spec for change in history.changes}
    deleted = {change.job_id for change in history.changes if change.kind is ChangeKind.DELETED}
    for fire_range in history.fire_ranges:
        spec = specs.get((fire_range.job_id, fire_range.version))
        if fire_range.kind is not FireRangeKind.CATCH_UP or fire_range.to_at is None or spec is None:
            continue
        left = len(
            expected_fires(
                spec.trigger, (fire_range.cursor_at or fire_range.from_at - _TICK), fire_range.to_at
            )
        )
        if not fire_range.is_open:
            counts["catch_ups_ended"] += 1
            if left and fire_range.job_id not in deleted:
                extent = f"{fire_range.from_at.isoformat()} to {fire_range.to_at.isoformat()}"
                story = f"{extent}, come to {fire_range.cursor_at}"
                why = f"ended with {left} left"
                yield Violation(
                    "S1", f"fire range {fire_range.id} of {format_job_id(fire_range.job_id)}", (story, why)
                )
            continue
        counts["catch_ups_open"] += 1
        idle_from = max(fire_range.created_at, calm_since)
        free = sum(
            (
                max(min(item.ended_after, history.read_at) - max(item.began_by, idle_from), timedelta(0))
                for item in periods.get(fire_range.job_id, [])
                if not item.is_paused
            ),
            timedelta(0),
        )
        mine = bounds.get(fire_range.job_id)
        drain = max(_DRAIN, mine.drain + _STEP) if mine is not None else _DRAIN
        free -= full.get(fire_range.job_id, timedelta(0))
        if free > (left + 1) * drain + 2 * history.lease:
            extent = f"{fire_range.from_at.isoformat()} to {fire_range.to_at.isoformat()}"
            story = f"{extent}, come to {fire_range.cursor_at}"
            yield Violation(
                "S27",
                f"fire range {fire_range.id} of {format_job_id(fire_range.job_id)}",
                (story, f"{left} left"),
            )
