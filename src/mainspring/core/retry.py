"""Retry policies: how many attempts, and how long to wait before each (design 3.1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

Random = Callable[[], float]
"""A source of uniform numbers in [0, 1), passed in so that decisions stay pure."""


class Backoff(StrEnum):
    """How the wait grows from one retry to the next."""

    FIXED = "fixed"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"
    LIST = "list"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often, and after which waits, a failed run is retried.

    Attributes:
        max_retries: retries after the first attempt; 3 means at most four attempts.
        backoff: the shape of the waits.
        delay: the first wait, for all shapes except `list`.
        cap: no wait is longer than this (before jitter).
        delays: the waits of the shape `list`; the last one is repeated.
        jitter: each wait is varied by up to this share in both directions (0.2 is ± 20 %).
    """

    max_retries: int = 3
    backoff: Backoff = Backoff.EXPONENTIAL
    delay: timedelta = timedelta(seconds=5)
    cap: timedelta = timedelta(hours=1)
    delays: tuple[timedelta, ...] = ()
    jitter: float = 0.2


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
