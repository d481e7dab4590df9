"""Retry policies: what follows a failure, how many attempts, and how long to wait before each (design 3.1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from enum import StrEnum

from mainspring.core.causes import Cause, CauseKind, pattern_of
from mainspring.core.values import value

Random = Callable[[], float]
"""A source of uniform numbers in [0, 1), passed in so that decisions stay pure."""


class Backoff(StrEnum):
    """How the wait grows from one retry to the next."""

    FIXED = "fixed"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"
    LIST = "list"


class Then(StrEnum):
    """What a rule does with the run."""

    RETRY = "retry"
    FAIL = "fail"
    SNOOZE = "snooze"


@value(kw_only=True)
class RetryRule:
    """What follows a failure of certain causes. What it leaves out is as the job's policy says.

    Attributes:
        on: the causes, as `core.causes` reads them; one of them is enough.
        max_retries, backoff, delay, cap, delays, jitter: of a retry, as in `RetryPolicy`. Of a snooze, `delay` is
            how long it lasts.
        max_snoozes: of a snooze: after how many attempts that did not count the next failure is final.
    """

    on: tuple[str, ...]
    then: Then = Then.RETRY
    max_retries: int | None = None
    backoff: Backoff | None = None
    delay: timedelta | None = None
    cap: timedelta | None = None
    delays: tuple[timedelta, ...] = ()
    jitter: float | None = None
    max_snoozes: int = 100


@value(kw_only=True)
class RetryPolicy:
    """How often, and after which waits, a failed run is retried.

    Attributes:
        max_retries: retries after the first attempt; 3 means at most four attempts.
        backoff: the shape of the waits.
        delay: the first wait, for all shapes except `list`.
        cap: no wait is longer than this (before jitter).
        delays: the waits of the shape `list`; the last one is repeated.
        jitter: each wait is varied by up to this share in both directions (0.2 is ± 20 %).
        rules: what follows certain causes instead; the first one that fits decides.
    """

    max_retries: int = 3
    backoff: Backoff = Backoff.EXPONENTIAL
    delay: timedelta = timedelta(seconds=5)
    cap: timedelta = timedelta(hours=1)
    delays: tuple[timedelta, ...] = ()
    jitter: float = 0.2
    rules: tuple[RetryRule, ...] = ()


def find_rule(policy: RetryPolicy, cause: Cause | None, *, is_timeout: bool = False) -> RetryRule | None:
    """Return the first rule that fits what an attempt failed of."""
    for rule in policy.rules:
        if any(pattern_of(text).fits(cause, is_timeout=is_timeout) for text in rule.on):
            return rule
    return None


def find_crash_rule(policy: RetryPolicy) -> RetryRule | None:
    """Return the first rule that names the crash of a worker. `any` does not: it means what an attempt reports."""
    for rule in policy.rules:
        if CauseKind.CRASH in rule.on:
            return rule
    return None


def apply_rule(policy: RetryPolicy, rule: RetryRule) -> RetryPolicy:
    """Return the policy by which a rule retries."""
    names = ("max_retries", "backoff", "delay", "cap", "jitter")
    given = {name: value for name in names if (value := getattr(rule, name)) is not None}
    if rule.delays:
        given["delays"] = rule.delays
    return replace(policy, **given)


def has_attempts_left(policy: RetryPolicy, attempt: int) -> bool:
    """Say whether a run may be retried after attempt number `attempt` (from 1) failed."""
    return attempt <= policy.max_retries


def retry_delay(policy: RetryPolicy, attempt: int, random: Random) -> timedelta:
    """Return the wait after the failure of attempt number `attempt` (from 1), jitter included."""
    base = min(_base_delay(policy, attempt), policy.cap)
    if not policy.jitter:
        return base
    return base * (1 + policy.jitter * (2 * random() - 1))


def _base_delay(policy: RetryPolicy, attempt: int) -> timedelta:
    if policy.backoff is Backoff.LIST:
        return policy.delays[min(attempt, len(policy.delays)) - 1]
    if policy.backoff is Backoff.FIXED:
        return policy.delay
    # In floats, because timedelta overflows long before a patient policy runs out of retries.
    growth = float(attempt) if policy.backoff is Backoff.LINEAR else 2.0 ** min(attempt - 1, 64)
    seconds = policy.delay.total_seconds() * growth
    return policy.cap if seconds >= policy.cap.total_seconds() else timedelta(seconds=seconds)


@value(kw_only=True)
class RetryPreview:
    """When the retries of a run follow, if each attempt fails at once.

    Attributes:
        waits: before each retry, without jitter.
        instants: from the first failure to each retry, without jitter.
        earliest, latest: from the first failure to the last retry, with all the jitter there may be.
    """

    waits: tuple[timedelta, ...]
    instants: tuple[timedelta, ...]
    earliest: timedelta
    latest: timedelta


def preview(policy: RetryPolicy) -> RetryPreview:
    """Return when the retries of a run follow."""
    waits, instants, total = [], [], timedelta(0)
    for attempt in range(1, policy.max_retries + 1):
        wait = retry_delay(policy, attempt, lambda: 0.5)
        total += wait
        waits.append(wait)
        instants.append(total)
    return RetryPreview(
        waits=tuple(waits),
        instants=tuple(instants),
        earliest=total * (1 - policy.jitter),
        latest=total * (1 + policy.jitter),
    )
