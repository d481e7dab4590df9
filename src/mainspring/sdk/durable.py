"""What `@app.durable` makes of a function, and what such a function gets as its first argument."""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from mainspring.clock import LoopWaiter
from mainspring.core.checkpoints import MOST_STEPS, Checkpoint, check_step_name, check_value
from mainspring.core.fields import kind, read_delay, read_int
from mainspring.errors import Conflict, InvalidInput
from mainspring.payloads.codec import Codec
from mainspring.payloads.results import encode_result
from mainspring.payloads.signature import types_of
from mainspring.ports.checkpoints import StepKeeper
from mainspring.ports.executor import AttemptContext
from mainspring.signals import FailRun, RunSignal, SnoozeRun, current_attempt, find_steps

if TYPE_CHECKING:
    from mainspring.sdk.app import App
    from mainspring.sdk.function import Function

T = TypeVar("T")
_log = logging.getLogger(__name__)
_OWN = "$"
"""Begins the names that are not for steps of functions."""
_SLEEP = "$sleep"
_SHORT = 1.0
"""Seconds of a sleep that is waited for without giving up the slot."""
_SETTLED = 0.05
"""Seconds without a step under way, after which a sleeping function counts as waiting for its sleep alone."""
_LONGEST_PAUSE = 60.0
_MOST_RETRIES = 100
_VERSION = re.compile(r"[A-Za-z0-9._-]{1,50}")
_PLACED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_MOST_MESSAGE = 2_000
_Key = tuple[str, int]


class StepFailed(Exception):
    """A step failed with an error that is kept: it is raised in this attempt and in each that follows.

    Attributes:
        step: the step's name.
        kind: the name of the exception's class.
        message: its text.
    """

    def __init__(self, step: str, kind: str, message: str) -> None:
        super().__init__(
            f"step {step!r} failed: {kind}: {message}" if message else f"step {step!r} failed: {kind}"
        )
        self.step = step
        self.kind = kind
        self.message = message


class DurableContext:
    """The first argument of a durable function. Each attempt of a run gets one of its own.

    What a step returns is kept under the run, the step's name, and its number among the steps of that name. A later
    attempt gets what is kept, and the step's body does not run again.

    Attributes:
        attempt: which attempt of which run this is.
    """

    def __init__(self, attempt: AttemptContext, keeper: StepKeeper | None) -> None:
        self.attempt: AttemptContext = attempt
        self._keeper = keeper
        self._kept: dict[_Key, Checkpoint] = {}
        self._numbers: Counter[str] = Counter()
        # With the functions themselves, so that no other one gets the id of one of them.
        self._codecs: dict[int, tuple[Callable[..., Any], Codec | None]] = {}
        self._engine_time: tuple[datetime, float] | None = None
        self._under_way = 0
        self._wakes: list[float] = []
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._end: asyncio.Future[BaseException] = self._loop.create_future()

    def step(
        self,
        name: str,
        call: Callable[..., Any],
        /,
        *args: Any,
        retries: int = 0,
        backoff: timedelta | float | str = 1.0,
        keep_errors: type[Exception] | tuple[type[Exception], ...] = (),
        **kwargs: Any,
    ) -> Coroutine[Any, Any, Any]:
        """Run a function once, and keep what it returns. Await what this returns.

        Other errors than those of `keep_errors` are raised as they are, and nothing is kept: if they end the attempt,
        the run's next attempt runs the step again.

        Args:
            name: the step's name. Steps of one name are told apart by the order in which they are begun.
            call: the function, async or not. One that is not async runs in a thread.
            args, kwargs: its arguments.
            retries: how often it is tried again here if it fails.
            backoff: the pause before the first retry; each further one is twice as long, up to a minute.
            keep_errors: errors that are an answer. The last of the tries is kept, and raised as `StepFailed` now and
                in all later attempts.

        Returns:
            What the function returned, read from JSON by its annotation, in this attempt as in later ones.

        Raises:
            InvalidInput: the name is none, or is that of too many steps.
        """
        check_step_name(name)
        if name.startswith(_OWN):
            raise InvalidInput("name", f"must not begin with {_OWN!r}, not {name!r}")
        if not callable(call):
            raise InvalidInput(
                "call", f"must be a function, not {kind(call)}; give its arguments after it: step(name, f, x)"
            )
        read_int(retries, "retries", low=0, high=_MOST_RETRIES)
        pause = read_delay(backoff, "backoff").total_seconds()
        key = self._number(name)

        async def work() -> Any:
            return await _try(call, args, kwargs, retries, pause)

        return self._step(key, work, call, keep_errors)

    def sleep(self, delay: timedelta | float | str) -> Coroutine[Any, Any, None]:
        """Go on after a time, counted from when the run first got here. Await what this returns.

        A sleep of a second or more gives up the slot: once no step is under way, the attempt ends, and the run's next
        attempt begins when the time has come. It survives restarts of workers, servers and the store.

        In a direct call, as a test makes it, it does not wait.

        Raises:
            InvalidInput: it is no duration.
        """
        seconds = read_delay(delay, "delay").total_seconds()
        return self._sleep(self._number(_SLEEP), seconds)

    def _codec_of(self, call: Callable[..., Any]) -> Codec | None:
        """Return the codec of what a function returns. It costs much, and most functions are called many times."""
        known = self._codecs.get(id(call))
        if known is None:
            types = getattr(call, "types", None) or types_of(call, _signature_of(call))
            known = self._codecs[id(call)] = call, None if types is None else types.result
        return known[1]

    def _number(self, name: str) -> _Key:
        number = self._numbers[name]
        if number >= MOST_STEPS:
            raise InvalidInput(
                "name", f"{MOST_STEPS:,} steps are named {name!r} already; let a job of its own do some of it"
            )
        self._numbers[name] += 1
        return name, number

    async def _step(
        self,
        key: _Key,
        work: Callable[[], Awaitable[Any]],
        call: Callable[..., Any],
        keep_errors: type[Exception] | tuple[type[Exception], ...],
    ) -> Any:
        self._check_open()
        kept = self._kept.get(key)
        if kept is not None:
            return _given(key[0], self._codec_of(call), kept.value, is_error=kept.is_error)
        self._begin()
        try:
            try:
                value, is_error = _encode(key[0], await work()), False
            except RunSignal:
                raise
            except keep_errors as error:
                value, is_error = _encode_error(error), True
            await self._keep(key, value, is_error=is_error)
        finally:
            self._finish()
        return _given(key[0], self._codec_of(call), value, is_error=is_error)

    async def _sleep(self, key: _Key, seconds: float) -> None:
        self._check_open()
        if self._keeper is None:
            return
        kept = self._kept.get(key)
        if kept is None:
            self._begin()
            try:
                began = await self._keep(key, msgspec.json.encode({"seconds": seconds}), is_error=False)
            finally:
                self._finish()
        else:
            seconds, began = msgspec.json.decode(kept.value or b"")["seconds"], kept.kept_at
        left = (began - self._now()).total_seconds() + seconds
        if left < _SHORT:
            await LoopWaiter().wait(max(left, 0.0))
            return
        wake = self._loop.time() + left
        self._wakes.append(wake)
        self._watch()
        try:
            await LoopWaiter().wait(
                left
            )  # the time comes while a step is under way, or the attempt ends before
        finally:
            self._wakes.remove(wake)

    async def _keep(self, key: _Key, value: bytes | None, *, is_error: bool) -> datetime:
        if self._keeper is None:
            return self.attempt.due_at
        try:
            at = await self._keeper.keep(self.attempt, *key, value, is_error=is_error)
        except Conflict as error:
            await self._stop(error)
            raise
        self._set_time(at)
        return at

    async def _stop(self, error: BaseException) -> None:
        """End the attempt, whatever the function does."""
        if not self._end.done():
            self._end.set_result(error)
        await asyncio.get_running_loop().create_future()  # it is cancelled

    def _check_open(self) -> None:
        if self._end.done():
            raise asyncio.CancelledError("the attempt ends here")

    def _begin(self) -> None:
        self._under_way += 1
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _finish(self) -> None:
        self._under_way -= 1
        self._watch()

    def _watch(self) -> None:
        """Have the attempt end soon if there is nothing but sleeps to wait for."""
        if self._wakes and not self._under_way and not self._end.done():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_later(_SETTLED, self._suspend)

    def _suspend(self) -> None:
        self._timer = None
        if self._wakes and not self._under_way and not self._end.done():
            self._end.set_result(SnoozeRun(max(min(self._wakes) - self._loop.time(), 0.0)))

    def _now(self) -> datetime:
        at, since = self._engine_time or (self.attempt.due_at, self._loop.time())
        return at + timedelta(seconds=self._loop.time() - since)

    def _set_time(self, at: datetime) -> None:
        self._engine_time = at, self._loop.time()

    async def _run(
        self, call: Callable[..., Awaitable[T]], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> T:
        """Call the function, and end the attempt as it does, or as a sleep or a lost lease asks."""
        if self._keeper is not None and self.attempt.token > 1:  # before the first lease, nothing can be kept
            steps, at = await self._keeper.read(self.attempt)
            self._kept = {(step.name, step.number): step for step in steps}
            self._set_time(at)
        task = asyncio.ensure_future(call(self, *args, **kwargs))
        try:
            await asyncio.wait(
                (task, cast("asyncio.Future[Any]", self._end)), return_when=asyncio.FIRST_COMPLETED
            )
        except asyncio.CancelledError:
            await _cancel(task)
            raise
        finally:
            if self._timer is not None:
                self._timer.cancel()
        if task.done():
            return task.result()
        await _cancel(task)
        raise self._end.result()


async def _cancel(task: asyncio.Future[Any]) -> None:
    """Cancel a task, and wait for its clean-up, whatever that raises."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()  # so that nobody is told of it


def decorate_durable(
    app: App, name: str | None, code_version: str | None, definition: Mapping[str, Any]
) -> Callable[[Any], Function[Any, Any, Any]]:
    """Return what makes a function a durable job of an app; see `App.durable`."""
    if callable(name):
        raise InvalidInput("name", "write @app.durable() with parentheses")
    for field in ("batch", "isolation"):
        if definition.get(field) is not None:
            raise InvalidInput(field, "does not go with a durable function")
    version = None if code_version is None else _check_version(code_version)
    return app.decorator(name, definition, make=make_durable, version=version)


def make_durable(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return what a worker calls: the function without its context, which each call makes.

    Raises:
        InvalidInput: it is not async, or has no parameter for its context.
    """
    if not inspect.iscoroutinefunction(call):
        raise InvalidInput("function", "must be an async function to be durable; write `async def`")
    signature = inspect.signature(call)
    taken = list(signature.parameters.values())
    if not taken or taken[0].kind not in _PLACED:
        raise InvalidInput("function", "must take its context first: async def order(ctx, …)")

    @wraps(call)
    async def run(*args: Any, **kwargs: Any) -> Any:
        attempt, keeper = current_attempt(), find_steps()
        if keeper is None and attempt.run_id:
            raise FailRun("this worker keeps no steps, so it runs no durable functions")
        return await DurableContext(attempt, keeper)._run(call, args, kwargs)

    given = {one.name: one for one in taken[1:]}
    run.__signature__ = signature.replace(parameters=taken[1:])  # type: ignore[attr-defined]
    run.__annotations__ = {
        one: hint for one, hint in call.__annotations__.items() if one in given or one == "return"
    }
    run.is_durable = True  # type: ignore[attr-defined]
    return run


def _check_version(version: object) -> str:
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise InvalidInput(
            "code_version", f"must be 1 to 50 letters, digits, '.', '_' or '-', as text, not {version!r:.60}"
        )
    return version


async def _try(
    call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], retries: int, pause: float
) -> Any:
    for left in range(retries, -1, -1):
        try:
            if inspect.iscoroutinefunction(call):
                return await call(*args, **kwargs)
            result = await asyncio.to_thread(call, *args, **kwargs)
            return await result if inspect.isawaitable(result) else result
        except RunSignal:
            raise
        except Exception as error:
            if not left:
                raise
            # Into the output of the run, where its user looks for why a step took so long.
            _log.warning("a step failed, and is tried again: %s: %s", type(error).__name__, error)
        await LoopWaiter().wait(min(pause, _LONGEST_PAUSE))
        pause *= 2
    raise AssertionError("the last try returns or raises")


def _encode(name: str, result: object) -> bytes | None:
    """Return what a step returned as JSON text.

    Raises:
        FailRun: it cannot be kept. The step is done, so a retry would do it again.
    """
    if result is None:
        return None
    try:
        text = encode_result(result)
        check_value(text, "what it returned")
    except InvalidInput as error:
        raise FailRun(f"step {name!r} is done, but {error.field} {error.message}") from None
    except Exception as error:  # noqa: BLE001 -- attributes of the job's own types may raise anything
        raise FailRun(f"step {name!r} is done, but what it returned is not JSON: {error}") from None
    return text


def _encode_error(error: Exception) -> bytes:
    return msgspec.json.encode({"kind": type(error).__name__, "message": str(error)[:_MOST_MESSAGE]})


def _given(name: str, codec: Codec | None, value: bytes | None, *, is_error: bool) -> Any:
    """Return what is kept of a step as its function's annotation says, or raise it."""
    found: Any = None if value is None else msgspec.json.decode(value)
    if is_error:
        raise StepFailed(name, found["kind"], found["message"])
    if found is None or codec is None:
        return found
    try:
        return codec.decode(found, "result")
    except InvalidInput as error:
        raise FailRun(f"what is kept of step {name!r} does not fit its function: {error.message}") from None


def _signature_of(call: Callable[..., Any]) -> inspect.Signature | None:
    with suppress(TypeError, ValueError):
        return inspect.signature(call)
    return None
