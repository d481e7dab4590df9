"""What a function can raise to control its own run, how it learns which attempt it is, and what a batch consists of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from functools import cache
from math import inf
from typing import TYPE_CHECKING, Any, Generic, cast, overload

from mainspring.core.fields import read_delay
from mainspring.core.values import value
from mainspring.ports.executor import AttemptContext
from mainspring.ports.tracing import headers_of

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from mainspring.ports.checkpoints import StepKeeper

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar  # this one learns of defaults in Python 3.13

    T = TypeVar("T")
D = TypeVar("D")
_NOTHING = object()
_attempt: ContextVar[AttemptContext] = ContextVar("mainspring_attempt")
_steps: ContextVar[StepKeeper] = ContextVar("mainspring_steps")
_stand_in: ContextVar[Callable[[], AttemptContext]] = ContextVar("mainspring_stand_in")


class RunSignal(Exception):
    """Base class of the exceptions by which a function decides how its attempt ends. Do not catch it."""


class SnoozeRun(RunSignal):
    """End this attempt, and call the function again later. The attempt is not counted.

    Attributes:
        delay: how long to wait before the next call; pass seconds, a timedelta or text like `5m`.
    """

    def __init__(self, delay: timedelta | float | str) -> None:
        self.delay: timedelta = _checked(delay)
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
        after: the shortest wait; pass seconds, a timedelta or text like `5m`. If the job's backoff is longer, it wins.
        message: the error that the attempt shows.
    """

    def __init__(self, after: timedelta | float | str, message: str = "the job asked to be retried") -> None:
        super().__init__(message)
        self.after: timedelta = _checked(after)
        self.message = message


@value()
class Call(Generic[T]):
    """One run of a batch, as the function of a batched job gets it.

    The function takes a `list[Call]` or, to say what is in a payload, a `list[Call[Order]]`.

    Attributes:
        payload: the run's payload: decoded JSON, or what the annotation of the function says.
        attempt: which attempt it is, as `current_attempt` tells it to other functions.
    """

    payload: T
    attempt: AttemptContext


@value()
class Done:
    """The outcome of a call that succeeded.

    Attributes:
        result: becomes the run's result, as JSON.
    """

    result: Any = None


class Failed:
    """The outcome of a call that failed.

    Attributes:
        error: the error that the run shows.
        retry: whether the run is retried, as far as its job allows it.
        after: the shortest wait before the retry; pass seconds or a timedelta. None is the job's backoff.
    """

    __slots__ = ("after", "error", "retry")

    def __init__(self, error: object, *, retry: bool = True, after: timedelta | float | None = None) -> None:
        self.error: str = str(error)
        self.retry: bool = retry
        self.after: timedelta | None = None if after is None else _checked(after)


Outcome = Done | Failed | Exception
"""What the function of a batched job returns for each call. An exception means what it would mean if it were raised for
the call alone."""


@overload
def current_attempt() -> AttemptContext: ...
@overload
def current_attempt(default: D) -> AttemptContext | D: ...
def current_attempt(default: object = _NOTHING) -> object:
    """Return the attempt that the calling function belongs to.

    It works in async and sync functions, and in the tasks that they start. If you call a job's function directly, as a
    test does, it gets a stand-in: attempt 1 of a run whose id is 0, with an idempotency key of its own.

    Args:
        default: what to return outside an attempt instead of raising.

    Raises:
        LookupError: the caller runs neither within an attempt nor in a direct call of a job's function, or it runs
            within a batch: see `Call.attempt`.
    """
    attempt = _attempt.get(None)
    if attempt is not None:
        return attempt
    lent = _stand_in.get(None)
    if lent is not None:
        return lent()
    if default is _NOTHING:
        raise LookupError(
            "current_attempt() was called outside an attempt; call it within a job's function, or write "
            "current_attempt(None), which is None elsewhere"
        )
    return default


def has_attempt() -> bool:
    """Say whether the caller runs within an attempt, or in a direct call that has a stand-in for one."""
    return _attempt.get(None) is not None or _stand_in.get(None) is not None


@contextmanager
def lending(make: Callable[[], AttemptContext]) -> Iterator[None]:
    """Have `current_attempt` return a stand-in until the block ends. It is made when it is first asked for."""
    token = _stand_in.set(cast("Callable[[], AttemptContext]", cache(make)))
    try:
        yield
    finally:
        _stand_in.reset(token)


def find_attempt() -> AttemptContext | None:
    """Return the attempt that the calling code belongs to; None outside an attempt, and within a batch."""
    return _attempt.get(None)


def trace_headers(given: str | None = None) -> dict[str, str]:
    """Return the headers by which a submission carries on a trace: that which is given, else the caller's.

    The caller's is that of its own span, made with OpenTelemetry, or else that of the attempt that it belongs to.
    """
    if given is not None:
        return {"traceparent": given}
    attempt = _attempt.get(None)
    return headers_of(None if attempt is None else attempt.trace)


def enter_attempt(context: AttemptContext) -> None:
    """Set what `current_attempt` returns in the current context. Executors call this."""
    _attempt.set(context)


def enter_steps(steps: StepKeeper) -> None:
    """Set what `find_steps` returns in the current context. Executors call this for durable functions."""
    _steps.set(steps)


def find_steps() -> StepKeeper | None:
    """Return what keeps the steps of the calling attempt; None outside one, and in a direct call."""
    return _steps.get(None)


def _checked(delay: object) -> timedelta:
    if isinstance(delay, timedelta) and delay >= timedelta(0):
        return delay
    if isinstance(delay, int | float) and not isinstance(delay, bool) and 0 <= delay < inf:
        try:
            return timedelta(seconds=delay)
        except OverflowError:
            return timedelta.max  # the engine has its own, smaller limits
    if isinstance(delay, str):
        return read_delay(delay, "delay")
    raise ValueError(
        f"a delay is seconds, a timedelta or text like '5m', finite and at least zero, not {delay!r}"
    )
