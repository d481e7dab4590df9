"""Rules about runs and their attempts: S5 to S8, S13, S19, S25, S27."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

from mainspring.core.model import Attempt, Delivery, JobSpec, Run
from mainspring.core.states import FINAL_STATES, RunState
from tools.judge.kept_steps import losses_without_progress
from tools.judge.late_starts import excuse_late_start
from tools.judge.model import Effect, History, StepNote, Violation
from tools.judge.retries import judge_retries
from tools.judge.runs import LOSSES, Runs

_SKIPPING = frozenset({"skip", "queue_one", "cancel_running"})
_REASONS = frozenset({"expired", "overlap", "misfire", "misfire_limit", "calendar", "paused", "blackout"})
"""The valid reasons for skipping a run."""
_RETURNS = 5
"""How often a run may be handed back without any fault: jobs that cannot run where they were claimed."""
_BY_ITS_OWN_WORD = {"failed": "failed", "snoozed": "snoozed"}
"""Outcomes that only the job itself can cause, and the ending that it then records."""


def judge_effects(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """S5, S7, S19: what was started, how often, and when."""
    for run_id, effects in runs.effects.items():
        run = runs.by_id.get(run_id)
        if run is None:
            yield runs.accuse("S3", run_id, "carried out, but not on record")
            continue
        counts["effects"] += len(effects)
        spec = runs.spec_of(run)
        snoozed = {item.token for item in runs.attempts.get(run_id, []) if item.outcome == "snoozed"}
        starts = sum(effect.ending != "snoozed" or effect.token not in snoozed for effect in effects)
        if spec is not None and spec.delivery is Delivery.AT_MOST_ONCE and starts > 1:
            yield runs.accuse("S5", run_id, "at most once, started twice")
        earliest = run.due_at if run.fire_at is None else max(run.due_at, run.fire_at)
        if any(effect.started_at < earliest - history.slack for effect in effects):
            yield runs.accuse("S19", run_id, "started before it was due")
        if spec is not None and spec.expires_after is not None:
            # Of a run that was handed back, submissions put off the start and the expiry, but not when it is due.
            put_off = timedelta(0) if spec.debounce is None else spec.debounce.longest
            yield from _judge_expiry(history, run, spec.expires_after + put_off, effects, runs)
        yield from _judge_repeats(history, runs, run, effects, counts)


def _judge_expiry(
    history: History, run: Run, expires_after: timedelta, effects: list[Effect], runs: Runs
) -> Iterator[Violation]:
    """S1: a run that was not given to a worker before it expired is skipped, not started."""
    first = min(effect.token for effect in effects)
    given = {attempt.token: attempt.started_at for attempt in runs.attempts.get(run.id, [])}
    given_at = run.started_at if first == run.token else given.get(first)
    latest = max(run.due_at, run.created_at) + expires_after
    if given_at is not None and given_at > latest + history.slack:
        yield runs.accuse("S1", run.id, f"given to a worker at {given_at.isoformat()}, after its expiry")


def _judge_repeats(
    history: History, runs: Runs, run: Run, effects: list[Effect], counts: Counter[str]
) -> Iterator[Violation]:
    """A second execution needs a record of how the first one was lost or failed, from before the second one began."""
    seen: dict[int, Effect] = {}
    attempts = {attempt.token: attempt for attempt in runs.attempts.get(run.id, [])}
    for effect in sorted(effects, key=lambda effect: (effect.token, effect.started_at)):
        if effect.token in seen:
            yield runs.accuse("S7", run.id, f"token {effect.token} started twice")
        own = attempts.get(effect.token)
        if own is not None and effect.started_at > own.finished_at + history.slack:
            excuse = excuse_late_start(history, runs, own, effect)
            if excuse is None:
                yield runs.accuse("S7", run.id, f"token {effect.token} started though it had ended")
            else:
                counts[excuse] += 1
        for token in seen.keys() - {effect.token}:
            ended = attempts.get(token)
            if (
                ended is None
                or ended.outcome == "succeeded"
                or ended.finished_at > effect.started_at + history.slack
            ):
                why = f"token {effect.token} started though token {token} had not ended"
                yield runs.accuse("S7", run.id, why)
                break
            counts["repeats_explained" if ended.outcome in LOSSES else "retries"] += 1
        seen[effect.token] = effect


def judge_ends(history: History, runs: Runs, counts: Counter[str]) -> Iterator[Violation]:
    """S6, S8, S13, S25, S27: every run reached an end that its attempts explain."""
    for run in history.runs:
        counts[f"runs_{run.state.lower()}"] += 1
        spec = runs.spec_of(run)
        attempts = list(runs.attempts.get(run.id, []))
        if spec is None:
            yield runs.accuse("S2", run.id, "made from a version that never existed")
            continue
        if run.state not in FINAL_STATES and run.ready_at < history.read_at - 2 * history.lease:
            yield runs.accuse("S27", run.id, f"still {run.state} at the end")
        if run.state is RunState.SUCCEEDED:
            yield from _judge_success(history, run, runs)
        if run.state is RunState.SKIPPED:
            yield from _judge_skip(history, run, spec, runs, counts)
        yield from _judge_outcomes(run, attempts, runs)
        yield from _judge_losses(run, spec, attempts, runs.kept[run.id], runs)
        returned = sum(attempt.outcome == "handed_back" for attempt in attempts)
        if returned > _RETURNS + len(history.faults):
            yield runs.accuse(
                "S8", run.id, f"handed back {returned} times, far more often than there were faults"
            )
        yield from judge_retries(history, run, spec, runs, counts)


def _judge_success(history: History, run: Run, runs: Runs) -> Iterator[Violation]:
    done = {effect.token: effect for effect in runs.effects.get(run.id, []) if effect.ending == "done"}
    last = done.get(run.token)
    if not done:
        yield runs.accuse("S6", run.id, "succeeded without having been done")
    elif last is None:
        yield runs.accuse("S25", run.id, "its success is not that of its last holder")
    elif _is_later(last.ended_at, run.finished_at, history.slack):
        yield runs.accuse("S6", run.id, "succeeded before it was done")
    if run.result != str(run.token).encode():
        yield runs.accuse("S25", run.id, f"its result {run.result!r} is not that of token {run.token}")


def _is_later(one: datetime | None, other: datetime | None, slack: timedelta) -> bool:
    return one is not None and other is not None and one > other + slack


def _judge_skip(
    history: History, run: Run, spec: JobSpec, runs: Runs, counts: Counter[str]
) -> Iterator[Violation]:
    """A skip has a reason, and the reason is true. Misfires have a rule of their own."""
    if run.reason is None:
        yield runs.accuse("S1", run.id, "skipped without a reason")
    elif run.reason not in _REASONS:
        yield runs.accuse("S1", run.id, f"skipped for {run.reason!r}, which is not a valid reason")
    if run.reason == "overlap" and spec.overlap.value not in _SKIPPING:
        yield runs.accuse("S18", run.id, "skipped as an overlap, which its job allows")
    if run.reason == "expired":
        own = runs.specs[run.job_id, run.version].expires_after
        counts["expired_by_their_queue" if own is None else "expired_by_their_job"] += 1
        expires_at = None if spec.expires_after is None else run.due_at + spec.expires_after
        if expires_at is None or _is_later(expires_at, run.finished_at, history.slack):
            yield runs.accuse("S1", run.id, f"skipped as expired, but its expiry was {expires_at or 'never'}")


def _judge_outcomes(run: Run, attempts: list[Attempt], runs: Runs) -> Iterator[Violation]:
    """If the job reached its end, the attempt's record agrees with what the job itself recorded."""
    endings = {effect.token: effect.ending for effect in runs.effects.get(run.id, [])}
    for attempt in attempts:
        own = _BY_ITS_OWN_WORD.get(attempt.outcome)
        ending = endings.get(attempt.token)
        if own is not None and ending is not None and ending != own:
            why = f"token {attempt.token} is on record as {attempt.outcome}, but it was {ending}"
            yield runs.accuse("S25", run.id, why)


def _judge_losses(
    run: Run, spec: JobSpec, attempts: list[Attempt], steps: list[StepNote], runs: Runs
) -> Iterator[Violation]:
    losses = sum(attempt.outcome == "lost" for attempt in attempts)
    since = losses_without_progress(attempts, steps)
    if since > spec.poison_limit + 1:  # the first one among other runs, all later ones alone
        why = f"lost {since} times, though {spec.poison_limit} crashes alone without a step are the limit"
        yield runs.accuse("S8", run.id, why)
    if losses != run.crashes:
        yield runs.accuse("S8", run.id, f"{run.crashes} crashes are counted, but it was lost {losses} times")
