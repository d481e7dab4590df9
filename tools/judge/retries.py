"""Rules about what follows a failed attempt: S8 and S13, by the job's policy or its rule for the cause."""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from mainspring.core.model import Attempt, Delivery, JobSpec, Run
from mainspring.core.retry import Backoff, RetryPolicy
from mainspring.core.states import RunState
from tools.judge.kept_steps import losses_without_progress
from tools.judge.model import Effect, History, Violation
from tools.judge.runs import FAILURES, LOSSES, Runs

if TYPE_CHECKING:
    from mainspring.core.retry import RetryRule  # earlier releases, whose workers import this, do not have it

_ENDED_WITHOUT_SUCCESS = frozenset({RunState.FAILED, RunState.CANCELLED})
_OF_RULES = ("max_retries", "backoff", "delay", "cap", "jitter")


@dataclass(frozen=True, slots=True)
class Consequence:
    """What follows the failed end of an attempt, whatever the delivery of its run.

    Attributes:
        then: `retry`, `fail` or `snooze`, as in a rule.
        rule: the rule that says it; None if it is the job's policy.
        number: which attempt it was, counted by the judge.
        is_last: the run must not go on.
        shortest: otherwise, the shortest wait until the next attempt.
    """

    attempt: Attempt
    then: str
    rule: RetryRule | None
    number: int
    is_last: bool
    shortest: timedelta


def judge_retries(
    history: History, run: Run, spec: JobSpec, runs: Runs, counts: Counter[str]
) -> Iterator[Violation]:
    """S8, S13: the run ended when it had to and not before, its waits were long enough, its attempts are numbered."""
    attempts = sorted(runs.attempts.get(run.id, []), key=lambda attempt: attempt.token)
    effects = runs.effects.get(run.id, [])
    follows = consequences(spec, attempts, effects)
    for told in follows:
        if told.rule is not None:
            cause = "crashes" if told.attempt.outcome == "lost" else "failures"
            counts[f"{cause}_by_a_rule_{told.then}{'_at_last' if told.is_last else ''}"] += 1
    if run.state is RunState.FAILED:
        yield from _judge_failure(run, spec, attempts, follows, runs)
    yield from _judge_ends(run, attempts, follows, runs)
    yield from _judge_numbers(run, attempts, effects, follows, runs)
    for told in follows:
        over_at = told.attempt.finished_at + told.shortest - history.slack
        if any(effect.token > told.attempt.token and effect.started_at < over_at for effect in effects):
            why = f"started again before the backoff of {told.shortest} after token {told.attempt.token} was over"
            yield runs.accuse("S8", run.id, why)
            break


def consequences(spec: JobSpec, attempts: Sequence[Attempt], effects: Sequence[Effect]) -> list[Consequence]:
    """Return what follows each attempt that failed, or was lost and has a rule. The attempts are in order."""
    found: list[Consequence] = []
    by_token = {effect.token: effect for effect in effects}
    number = 1
    for place, attempt in enumerate(attempts):
        if attempt.outcome not in FAILURES and attempt.outcome != "lost":
            continue
        rule = _find_rule(spec.retry.rules, _names_of(attempt, by_token.get(attempt.token)))
        if attempt.outcome == "lost" and rule is None:
            continue
        told = _follow(attempt, spec.retry, rule, number=number, uncounted=place - (number - 1))
        found.append(told)
        number += told.then == "retry"
    return found


def _follow(
    attempt: Attempt, policy: RetryPolicy, rule: RetryRule | None, *, number: int, uncounted: int
) -> Consequence:
    then = "retry" if rule is None else rule.then.value
    if rule is not None and then == "snooze":
        is_last, shortest = uncounted >= rule.max_snoozes, rule.delay or timedelta(0)
    elif then == "fail":
        is_last, shortest = True, timedelta(0)
    else:
        policy = policy if rule is None else _policy_of(policy, rule)
        is_last, shortest = number > policy.max_retries, shortest_wait(policy, number)
    return Consequence(attempt, then, rule, number, is_last, shortest)


def _policy_of(policy: RetryPolicy, rule: RetryRule) -> RetryPolicy:
    given = {name: value for name in _OF_RULES if (value := getattr(rule, name)) is not None}
    return replace(policy, delays=rule.delays or policy.delays, **given)


def _find_rule(rules: Sequence[RetryRule], names: frozenset[str]) -> RetryRule | None:
    return next((rule for rule in rules if names.intersection(rule.on)), None)


def _names_of(attempt: Attempt, effect: Effect | None) -> frozenset[str]:
    """Return the words by which a rule may name what an attempt failed of; of exceptions, the built-in ones."""
    if attempt.outcome == "lost":
        return frozenset({"crash"})
    if attempt.outcome == "timed_out":
        return frozenset({"any", "timeout", "TimeoutError"})
    raised: Mapping[str, type[object]] = vars(builtins)
    cause = None if effect is None or effect.cause is None else raised[effect.cause]
    return frozenset({"any", *(() if cause is None else (base.__name__ for base in cause.__mro__))})


def _judge_failure(
    run: Run, spec: JobSpec, attempts: Sequence[Attempt], follows: Sequence[Consequence], runs: Runs
) -> Iterator[Violation]:
    last = attempts[-1].outcome if attempts else None
    told = follows[-1] if follows and follows[-1].attempt is attempts[-1] else None
    is_over = told is not None and told.is_last
    is_lost = spec.delivery is Delivery.AT_MOST_ONCE and last in FAILURES | LOSSES
    deaths = losses_without_progress(attempts, runs.kept[run.id])
    is_poison = run.reason == "poison" and deaths >= spec.poison_limit and last == "lost"
    is_refused = run.reason == "not_retryable" and last in FAILURES and (told is None or told.rule is None)
    if not (is_over or is_lost or is_poison or is_refused):
        count = sum(told.then == "retry" for told in follows)
        why = f"FAILED ({run.reason}) after {count} failures and {run.crashes} crashes"
        yield runs.accuse("S13", run.id, why)
    elif run.error is None and last in FAILURES | {"lost"}:
        yield runs.accuse("S13", run.id, "kept without its error")


def _judge_ends(
    run: Run, attempts: Sequence[Attempt], follows: Sequence[Consequence], runs: Runs
) -> Iterator[Violation]:
    for told in follows:
        if told.is_last and (told.attempt is not attempts[-1] or run.state not in _ENDED_WITHOUT_SUCCESS):
            why = f"{run.state}, though the failure of token {told.attempt.token} ends it ({told.then})"
            yield runs.accuse("S8", run.id, why)
            break


def _judge_numbers(
    run: Run,
    attempts: Sequence[Attempt],
    effects: Sequence[Effect],
    follows: Sequence[Consequence],
    runs: Runs,
) -> Iterator[Violation]:
    counted = [told.attempt.token for told in follows if told.then == "retry"]
    numbered = [(attempt.token, attempt.number) for attempt in attempts]
    numbered += [(effect.token, effect.attempt) for effect in effects]
    for token, number in numbered:
        own = 1 + sum(earlier < token for earlier in counted)
        if number != own:
            yield runs.accuse("S8", run.id, f"token {token} is recorded as attempt {number}, but it is {own}")
            break


def shortest_wait(policy: RetryPolicy, number: int) -> timedelta:
    """Return the shortest wait that a policy promises after the failure of attempt `number` (from 1)."""
    wait = policy.delay
    if policy.backoff is Backoff.LIST:
        wait = policy.delays[min(number, len(policy.delays)) - 1]
    elif policy.backoff is Backoff.LINEAR:
        wait = policy.delay * number
    elif policy.backoff is Backoff.EXPONENTIAL:
        for _ in range(1, number):
            wait = min(wait * 2, policy.cap)
    return min(wait, policy.cap) * (1 - policy.jitter)
