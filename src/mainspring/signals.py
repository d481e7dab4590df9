"""What a function may raise to steer its own run, and how it learns which attempt it is carrying out."""

from __future__ import annotations

from contextvars import ContextVar
from datetime import timedelta
from math import inf

from mainspring.ports.executor import AttemptContext

_attempt: ContextVar[AttemptContext] = ContextVar("mainspring_attempt")


class RunSignal(Exception):
    """Base of what a function raises to say how its attempt shall end; do not catch it."""


class SnoozeRun(RunSignal):
    """End this attempt and call me again later; no attempt is counted.

    Attributes:
        delay: how much later; given as seconds or a timedelta.
    """

    def __init__(self, delay: timedelta | float) -> None:
        self.delay = _checked(delay)
        super().__init__(f"call again in {self.delay}")


class FailRun(RunSignal):
    """The run has failed and trying again would not help.

    Attributes:
        message: the error that the run shows.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class RetryRun(RunSignal):
    """This attempt has failed; do not try again earlier than after this delay.

    Attributes:
        after: the shortest wait, given as seconds or a timedelta; a longer backoff of the job's policy holds.
        message: the error that the attempt shows.
    """

    def __init__(self, after: timedelta | float, message: str = "the job asked to be retried") -> None:
        super().__init__(message)
        self.after = _checked(after)
        self.message = message


def current_attempt() -> AttemptContext:
    """Return the attempt that the calling function carries out.

    Works in async and sync functions, and in tasks that they start.

    Raises:
        LookupError: the caller is not part of an attempt.
    """
    try:
        return _attempt.get()
    except LookupError:
        raise LookupError("current_attempt() was called outside of an attempt") from None


def enter_attempt(context: AttemptContext) -> None:
    """Make `context` what `current_attempt` returns in the present context; for executors."""
    _attempt.set(context)


def _checked(delay: object) -> timedelta:
    if isinstance(delay, timedelta) and delay >= timedelta(0):
        return delay
    if isinstance(delay, int | float) and not isinstance(delay, bool) and 0 <= delay < inf:
        try:
            return timedelta(seconds=delay)
        except OverflowError:
            return timedelta.max  # the engine has its own, smaller bounds
    raise ValueError(f"a delay is seconds or a timedelta, finite and at least zero, not {delay!r}")
