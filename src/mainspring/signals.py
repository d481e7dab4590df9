"""What a function can raise to control its own run, and how it learns which attempt it is."""

from __future__ import annotations

from contextvars import ContextVar
from datetime import timedelta
from math import inf

from mainspring.ports.executor import AttemptContext

_attempt: ContextVar[AttemptContext] = ContextVar("mainspring_attempt")


class RunSignal(Exception):
    """Base class of the exceptions by which a function decides how its attempt ends. Do not catch it."""


class SnoozeRun(RunSignal):
    """End this attempt, and call the function again later. The attempt is not counted.

    Attributes:
        delay: how long to wait before the next call; pass seconds or a timedelta.
    """

    def __init__(self, delay: timedelta | float) -> None:
        self.delay = _checked(delay)
        super().__init__(f"call again in {self.delay}")


class FailRun(RunSignal):
    """Fail the run for good, because a retry would not help.

    Attributes:
        message: the error that the run shows.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class RetryRun(RunSignal):
    """Fail this attempt, and wait at least this long before the retry.

    Attributes:
        after: the shortest wait; pass seconds or a timedelta. If the job's backoff is longer, it wins.
        message: the error that the attempt shows.
    """

    def __init__(self, after: timedelta | float, message: str = "the job asked to be retried") -> None:
        super().__init__(message)
        self.after = _checked(after)
        self.message = message


def current_attempt() -> AttemptContext:
    """Return the attempt that the calling function belongs to.

    It works in async and sync functions, and in the tasks that they start.

    Raises:
        LookupError: the caller does not run within an attempt.
    """
    try:
        return _attempt.get()
    except LookupError:
        raise LookupError("current_attempt() was called outside an attempt") from None


def enter_attempt(context: AttemptContext) -> None:
    """Set what `current_attempt` returns in the current context. Executors call this."""
    _attempt.set(context)


def _checked(delay: object) -> timedelta:
    if isinstance(delay, timedelta) and delay >= timedelta(0):
        return delay
    if isinstance(delay, int | float) and not isinstance(delay, bool) and 0 <= delay < inf:
        try:
            return timedelta(seconds=delay)
        except OverflowError:
            return timedelta.max  # the engine has its own, smaller limits
    raise ValueError(f"a delay is seconds or a timedelta, finite and at least zero, not {delay!r}")
