"""Processes of their own for functions: one call at a time in each, and whatever it does harms no other."""

from __future__ import annotations

import asyncio
import atexit
import multiprocessing
import multiprocessing.connection
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any

from mainspring.core.causes import Cause
from mainspring.core.outcomes import Failure
from mainspring.errors import InvalidInput, MainspringError
from mainspring.executors._calls import FunctionCall, cancelled, with_output
from mainspring.executors._process_messages import (
    CALL,
    OUTPUT,
    READY,
    Frames,
    NoMessage,
    frame,
    read_output,
    read_reply,
    write_call,
)
from mainspring.executors._text import ERROR_LIMIT, clean, decode
from mainspring.executors.output import Kept
from mainspring.registry import RegisteredFunction

MAX_PROCESSES = 64
"""The most processes of a worker whose settings name no number."""
_CHUNK = 256 * 1024
_START_SECONDS = 60.0
_MEDDLED = Failure(error="its process sent the worker what is no message, and was killed")
_PRELOADED = ["mainspring.executors._forkserver_guard", "mainspring.executors._process_child"]
Deliver = Callable[[list[FunctionCall]], None]


class IsolatedCall(FunctionCall):
    """A call that goes to a process of its own.

    Raises:
        InvalidInput: another process would not find the function.
    """

    is_isolated = True

    def __init__(self, function: RegisteredFunction, context: Any, on_end: Any) -> None:
        super().__init__(function, context, on_end)
        self.place: tuple[str, str, int] = find_place(function)


class FunctionProcesses:
    """Calls functions in processes that are made on demand and used again; one that dies is replaced.

    The worker itself never forks: a small process does, which Python's `multiprocessing` starts. When the worker ends,
    the kernel kills what it has forked, and then it ends, too.

    Args:
        limit: how many processes there are at most. Further calls wait, and their time does not begin.
        is_hidden: whether other processes of the same user may not read these.
        keeps_output: keep what functions print.

    Raises:
        InvalidInput: this is not Linux.
    """

    def __init__(self, limit: int, *, is_hidden: bool = False, keeps_output: bool = True) -> None:
        if sys.platform != "linux":
            raise InvalidInput(
                "executors.process.enabled", "functions get processes of their own on Linux only"
            )
        self._limit = limit
        self._options = {"is_hidden": is_hidden, "keeps_output": keeps_output}
        self._deliver: Deliver | None = None
        self._waiting: deque[IsolatedCall] = deque()
        self._idle: list[_Child] = []
        self._children: set[_Child] = set()
        self._starts: set[asyncio.Task[Any] | None] = set()

    def start(self, deliver: Deliver) -> None:
        """Get ready; `deliver` takes ended calls, on this loop."""
        self._deliver = deliver
        atexit.register(self._kill_all)  # before multiprocessing waits for them, which it does at exit

    def submit(self, call: IsolatedCall) -> None:
        """Begin a call as soon as there is a process for it. Its time begins then."""
        call.is_on_thread = True  # so its limits wait until it begins
        self._waiting.append(call)
        self._match()

    def end(self, call: FunctionCall) -> None:
        """End a call: kill its process, or keep it from beginning. It is delivered afterwards."""
        assert isinstance(call, IsolatedCall)
        call.is_cancelled = True
        if call in self._waiting:
            self._waiting.remove(call)
            self._finish(call, cancelled())
        elif isinstance(call.home, _Child):
            call.home.kill()

    async def stop(self) -> None:
        """Kill all processes."""
        atexit.unregister(self._kill_all)
        starts = [task for task in self._starts if task is not None]
        for task in starts:
            task.cancel()
        await asyncio.gather(*starts, return_exceptions=True)
        children = list(self._children)
        for child in children:
            child.close()
        await asyncio.to_thread(_join, [child.process for child in children])
        self._children.clear()
        self._idle.clear()

    def _kill_all(self) -> None:
        for child in self._children:
            child.kill()

    def _match(self) -> None:
        while self._waiting and self._idle:
            call, child = self._waiting.popleft(), self._idle.pop()
            refusal = call.refusal()
            if refusal is not None:
                self._idle.append(child)
                self._finish(call, refusal)
            else:
                child.begin(call)
        room = self._limit - len(self._children) - len(self._starts)
        for _ in range(min(len(self._waiting) - len(self._starts), room)):
            task = asyncio.get_running_loop().create_task(self._grow())
            self._starts.add(task)

    async def _grow(self) -> None:
        child, error = None, ""
        try:
            child = await _start_child(self._options, self._settle, self._bury)
        except (MainspringError, OSError, RuntimeError, TimeoutError) as problem:
            error = f"no process could be started for the function: {problem}"
        finally:
            self._starts.discard(asyncio.current_task())
        if child is not None:
            self._children.add(child)
            self._idle.append(child)
        elif self._waiting:
            self._finish(self._waiting.popleft(), Failure(error=clean(error, ERROR_LIMIT)))
        self._match()

    def _settle(self, child: _Child, call: IsolatedCall, outcome: Any) -> None:
        """Take a call back whose process can take the next one."""
        self._idle.append(child)
        self._finish(call, outcome)
        self._match()

    def _bury(self, child: _Child, call: IsolatedCall | None, failure: Failure) -> None:
        """Take a call back whose process has died."""
        self._children.discard(child)
        if child in self._idle:
            self._idle.remove(child)
        if call is not None:
            self._finish(call, failure)
        self._match()

    def _finish(self, call: IsolatedCall, outcome: Any) -> None:
        assert self._deliver is not None, "start() comes first"
        call.home = None
        call.outcome = outcome if call.context.kept is None else with_output(outcome, call.context)
        call.is_ended = True
        self._deliver([call])


class _Child:
    """One process, and the call that it is busy with."""

    def __init__(
        self,
        process: BaseProcess,
        line: socket.socket,
        faults: Any,
        settle: Callable[[_Child, IsolatedCall, Any], None],
        bury: Callable[[_Child, IsolatedCall | None, Failure], None],
    ) -> None:
        self.process = process
        self._line = line
        self._faults = faults
        self._settle = settle
        self._bury = bury
        self._loop = asyncio.get_running_loop()
        self._call: IsolatedCall | None = None
        self._frames = Frames()
        self._has_meddled = False
        self._unsent = b""
        self._ready: asyncio.Future[None] = self._loop.create_future()
        line.setblocking(False)
        self._loop.add_reader(line.fileno(), self._read)
        self._loop.add_reader(process.sentinel, self._note_death)

    async def wait_until_ready(self) -> None:
        """Wait until it takes calls.

        Raises:
            MainspringError: it died before.
            TimeoutError: it takes too long.
        """
        async with asyncio.timeout(_START_SECONDS):
            await self._ready

    def begin(self, call: IsolatedCall) -> None:
        """Send a call. Its time begins."""
        self._call = call
        call.home = self
        call.began = self._loop.time()
        self._send(frame(CALL, write_call(call.place, call.function.name, call.context)))

    def kill(self) -> None:
        """Kill the process; `bury` is called when it is dead."""
        self.process.kill()

    def close(self) -> None:
        """Kill the process, and tell nobody of its death."""
        self._forget()
        self.process.kill()

    def _send(self, data: bytes) -> None:
        try:
            sent = self._line.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            return  # it has died, which its sentinel tells
        self._unsent = data[sent:]
        if self._unsent:
            self._loop.add_writer(self._line.fileno(), self._send_rest)

    def _send_rest(self) -> None:
        self._loop.remove_writer(self._line.fileno())
        self._send(self._unsent)

    def _read(self) -> bool:
        """Take in what the process has sent. Return False if there is no more for now."""
        try:
            data = self._line.recv(_CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self._line.fileno())
            return False
        try:
            for kind, body in self._frames.take(data):
                self._take(kind, body)
        except NoMessage:
            self._has_meddled = True
            self._loop.remove_reader(self._line.fileno())
            self.process.kill()
            return False
        return True

    def _take(self, kind: bytes, body: bytes) -> None:
        call = self._call
        if kind == READY:
            if not self._ready.done():
                self._ready.set_result(None)
        elif call is None:
            return
        elif kind == OUTPUT:
            skipped, text = read_output(body)
            kept: Kept | None = call.context.kept
            if kept is None:
                kept = call.context.kept = Kept()  # type: ignore[misc]  # as functions in this process do
            kept.skip(skipped)
            kept.write(text)
        else:
            outcome = read_reply(body)
            self._call = None
            self._settle(self, call, outcome)

    def _note_death(self) -> None:
        while not self._has_meddled and self._read():
            pass
        code = self.process.exitcode
        failure = _MEDDLED if self._has_meddled else _explain(code, self._last_words())
        self._forget()
        self.process.close()
        if not self._ready.done():
            self._ready.set_exception(MainspringError(failure.error))
            return
        call, self._call = self._call, None
        self._bury(self, call, failure)

    def _last_words(self) -> str:
        """Return what Python told of a signal that killed it."""
        words = bytearray()
        try:
            while self._faults.poll():
                chunk = os.read(self._faults.fileno(), _CHUNK)
                if not chunk:
                    break
                words += chunk
        except OSError:
            pass
        return decode(bytes(words))

    def _forget(self) -> None:
        self._loop.remove_reader(self.process.sentinel)
        self._loop.remove_reader(self._line.fileno())
        self._loop.remove_writer(self._line.fileno())
        self._line.close()
        self._faults.close()


async def _start_child(options: dict[str, bool], settle: Any, bury: Any) -> _Child:
    """Start a process, on a thread, and wait until it takes calls."""
    process, ours, faults = await asyncio.to_thread(_start, options)
    child = _Child(process, ours, faults, settle, bury)
    try:
        await child.wait_until_ready()
    except MainspringError:
        raise
    except BaseException:
        child.close()
        raise
    return child


def _start(
    options: dict[str, bool],
) -> tuple[BaseProcess, socket.socket, multiprocessing.connection.Connection]:
    from mainspring.executors._process_child import serve

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    ours, theirs = socket.socketpair()
    try:
        read, write = context.Pipe(duplex=False)
        with theirs, write:
            # A daemon, for the worker's end need not wait for it.
            process = context.Process(
                target=serve, args=(theirs, write), kwargs=options, name="mainspring-function", daemon=True
            )
            process.start()
    except BaseException:
        ours.close()
        raise
    return process, ours, read


def _join(processes: list[BaseProcess]) -> None:
    for process in processes:
        process.join()
        process.close()


def _explain(code: int | None, words: str) -> Failure:
    """Return the failure of a call whose process has died."""
    if code is None or code >= 0:
        known = "" if code is None else f" with exit status {code}"
        return Failure(
            error=f"its process ended{known} before the function returned",
            output=words or None,
            cause=None if code is None else Cause(exit_code=code),
        )
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return Failure(
        error=f"its process was killed by {name}", output=words or None, cause=Cause(exit_code=code)
    )


def find_place(function: RegisteredFunction) -> tuple[str, str, int]:
    """Return where another process finds a function: its module, its name there, and how many decorators are around it.

    Raises:
        InvalidInput: it is not to be found there.
    """
    call = function.call
    module, qualname = getattr(call, "__module__", None), getattr(call, "__qualname__", None)
    found: Any = sys.modules.get(module) if isinstance(module, str) else None
    for name in qualname.split(".") if isinstance(qualname, str) else ():
        found = getattr(found, name, None)
    unwraps = 0
    while found is not None and found is not call:
        found = getattr(found, "__wrapped__", None)
        unwraps += 1
    if found is None or not isinstance(module, str) or not isinstance(qualname, str):
        message = (
            f"the function {function.name!r} cannot be called in a process of its own, because none of its module's"
            " names leads to it; define it at the top of its module, not in another function"
        )
        raise InvalidInput("isolation", message)
    return module, qualname, unwraps
