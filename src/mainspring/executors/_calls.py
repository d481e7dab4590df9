"""One call of a registered function: arguments in, outcome out. It is the same for every runner."""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, overload

import msgspec

from mainspring.core.causes import MAX_CAUSE, MOST_EXCEPTIONS, Cause
from mainspring.core.outcomes import Failure
from mainspring.core.results import keep, leave_out
from mainspring.errors import InvalidInput
from mainspring.executors._large_results import is_large, keep_large
from mainspring.executors._text import ERROR_LIMIT, OUTPUT_LIMIT, clean
from mainspring.executors.output import Kept
from mainspring.payloads.results import encode_result
from mainspring.payloads.signature import FunctionTypes
from mainspring.ports.checkpoints import StepKeeper
from mainspring.ports.executor import AttemptContext, NotBegun, OnEnd, Outcome, Snooze, Success
from mainspring.ports.tracing import attach_trace
from mainspring.registry import RegisteredFunction
from mainspring.signals import FailRun, RetryRun, SnoozeRun, enter_attempt, enter_steps

_OWN_FILES = tuple(
    str(Path(__file__).with_name(name))
    for name in ("_batch_calls.py", "_calls.py", "_driver.py", "_process_child.py", "_threads.py")
)
_NOTHING = Success()


class BadArguments(Exception):
    """The payload does not fit the function. A retry would not help."""


class FunctionCall:
    """An attempt on its way from the control loop to where it runs, and back.

    The control loop owns `answer`, `on_end`, `home`, `timer`, `is_delivered`, `is_on_thread`, `is_soft`,
    `is_timed_out` and `was_given_up`. The runner owns `task`, `outcome` and `is_ended`. The control loop sets
    `is_cancelled`, and the runner reads it. The defaults are on the class, because most calls never change most of
    them.

    Attributes:
        answer: what `on_end` was called with; None until then.
        began: when its time began, in monotonic seconds; None until then. For a call on a thread, that is when its
            code begins, and the thread sets it.
        may_begin: asked right before its code begins; None if that is not asked.
    """

    answer: Outcome | None = None

    began: float | None = None
    home: object | None = None
    is_cancel_seen = False
    is_cancelled = False
    is_delivered = False
    is_ended = False
    is_isolated = False
    is_on_thread = False
    is_soft = False
    is_timed_out = False
    may_begin: Callable[[], bool] | None = None
    outcome: Outcome = _NOTHING
    task: asyncio.Task[None] | None = None
    timer: asyncio.TimerHandle | None = None
    was_given_up = False

    def __init__(self, function: RegisteredFunction, context: AttemptContext, on_end: OnEnd) -> None:
        self.function = function
        self.context = context
        self.on_end = on_end

    def refusal(self) -> Outcome | None:
        """Return how the call ends without its code having begun; None if that is to begin now."""
        if self.is_cancelled:
            return cancelled()
        if self.may_begin is None or self.may_begin():
            return None
        return NotBegun()

    def begin(self) -> Any:
        """Call the function, and return its result or its coroutine. Run this in a context of the call's own.

        Raises:
            BadArguments: the payload does not fit.
        """
        context = self.context
        function = self.function
        enter_attempt(context)
        if context.trace is not None:
            attach_trace(context.trace)
        if context.payload is None and function.has_plain_keywords and not function.required:
            return function.call()
        args, keywords = _arguments(context.payload)
        _check(function, args, keywords)
        if function.types is not None:
            args, keywords = _read(function, function.types, args, keywords)
        return function.call(*args, **keywords)


class DurableCall(FunctionCall):
    """A call of a function that keeps its steps."""

    def __init__(
        self, function: RegisteredFunction, context: AttemptContext, on_end: OnEnd, steps: StepKeeper
    ) -> None:
        super().__init__(function, context, on_end)
        self._steps = steps

    def begin(self) -> Any:
        """See `FunctionCall`."""
        enter_steps(self._steps)
        return super().begin()


def run_sync(call: FunctionCall) -> Outcome:
    """Run a sync function to its end in a context of its own."""
    refusal = call.refusal()
    if refusal is not None:
        return refusal
    outcome = _run_to_its_end(call)
    return outcome if call.context.kept is None else with_output(outcome, call.context)


def _run_to_its_end(call: FunctionCall) -> Outcome:
    try:
        result = copy_context().run(call.begin)
    except BaseException as error:  # noqa: BLE001 -- whatever a job raises is its failure
        return failed(error)
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        return Failure(
            error=f"the function {call.function.name!r} returned an awaitable; register an `async def`",
            is_retryable=False,
        )
    outcome = succeeded(result, call.context)
    return keep_large(outcome.result, call.context) if isinstance(outcome, Large) else outcome


def with_output(outcome: Outcome, context: AttemptContext) -> Outcome:
    """Return an outcome with what the attempt has printed; of a failure, its traceback follows."""
    return outcome if isinstance(outcome, Snooze | NotBegun) else add_output(outcome, context.kept)


def add_output(outcome: Success | Failure, kept: Kept | None, limit: int = OUTPUT_LIMIT) -> Success | Failure:
    """Return an outcome with what was printed before its own output, if anything was."""
    rest = outcome.output or ""
    printed = "" if kept is None else kept.read(max(limit - len(rest), limit // 2))
    if not printed:
        return outcome
    between = "\n" if rest and not printed.endswith("\n") else ""
    return replace(outcome, output=clean(printed, len(printed)) + between + clean(rest, limit))


def cancelled() -> Failure:
    """Return the outcome of a call that was cancelled before it began."""
    return Failure(error="cancelled before it started")


class Large(NamedTuple):
    """A result as JSON text that is to be kept as a file."""

    result: bytes


@overload
def succeeded(result: object) -> Outcome: ...
@overload
def succeeded(result: object, context: AttemptContext) -> Outcome | Large: ...
def succeeded(result: object, context: AttemptContext | None = None) -> Outcome | Large:
    """Return the outcome of a function that returned. Its work is done, so a result that cannot be kept is left out.

    Args:
        context: the attempt, if a result that is too large for its run may be kept as a file.
    """
    if result is None:
        return _NOTHING
    try:
        encoded = encode_result(result)
    except Exception as error:  # noqa: BLE001 -- attributes of the job's own types may raise anything
        return Success(result=leave_out(clean(f"the result is not JSON: {_describe(error)}", ERROR_LIMIT)))
    if context is not None and is_large(encoded, context):
        return Large(encoded)
    return Success(result=keep(encoded))


def failed(error: BaseException) -> Outcome:
    """Return the outcome of a function that raised."""
    if isinstance(error, SnoozeRun):
        return Snooze(error.delay)
    if isinstance(error, RetryRun):
        return Failure(error=clean(error.message, ERROR_LIMIT), retry_after=error.after)
    if isinstance(error, FailRun):
        return Failure(error=clean(error.message, ERROR_LIMIT), is_retryable=False)
    if isinstance(error, BadArguments):
        return Failure(error=clean(str(error), ERROR_LIMIT), is_retryable=False)
    return Failure(error=clean(_describe(error), ERROR_LIMIT), output=_traceback(error), cause=_cause(error))


def _arguments(payload: bytes | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if payload is None:
        return (), {}
    try:
        value = msgspec.json.decode(payload)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadArguments(f"the payload cannot be read as JSON: {error}") from None
    if value is None:
        return (), {}
    if isinstance(value, dict):
        return (), value
    return (tuple(value) if isinstance(value, list) else (value,)), {}


def _check(function: RegisteredFunction, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    if function.signature is None:
        return
    if function.has_plain_keywords and not args and function.required <= keywords.keys() <= function.names:
        return
    try:
        function.signature.bind(*args, **keywords)
    except TypeError as error:
        raise BadArguments(f"the payload does not fit the function {function.name!r}: {error}") from None


def _read(
    function: RegisteredFunction, types: FunctionTypes, args: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments as the function's annotations say them."""
    try:
        return types.decode(args, keywords)
    except InvalidInput as error:
        raise BadArguments(f"the payload does not fit the function {function.name!r}: {error}") from None


def _describe(error: BaseException) -> str:
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 -- __str__ is the job's code, too
        text = "(no message: its __str__ fails)"
    return f"{name}: {text}" if text else name


def _cause(error: BaseException) -> Cause:
    names = [f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__ if kind is not object]
    return Cause(exceptions=tuple(clean(name, MAX_CAUSE) for name in names[:MOST_EXCEPTIONS]))


def _traceback(error: BaseException) -> str:
    try:
        lines = traceback.format_exception(type(error), error, _own_frames_left_out(error.__traceback__))
    except Exception:  # noqa: BLE001 -- it formats the job's own exceptions
        return _describe(error)
    return clean("".join(lines), OUTPUT_LIMIT)


def _own_frames_left_out(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_frame.f_code.co_filename in _OWN_FILES:
        trace = trace.tb_next
    return trace
