"""What runs in the processes of functions."""

from __future__ import annotations

import asyncio
import faulthandler
import fcntl
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any

from mainspring.core.outcomes import Failure
from mainspring.executors._calls import FunctionCall, failed, run_sync, succeeded
from mainspring.executors._process_messages import (
    CALL,
    OUTPUT,
    READY,
    REPLY,
    CallMessage,
    Frames,
    frame,
    read_call,
    write_output,
    write_reply,
)
from mainspring.executors._text import ERROR_LIMIT, OUTPUT_LIMIT, clean
from mainspring.executors.output import install
from mainspring.ports.executor import Outcome
from mainspring.registry import FunctionRegistry, RegisteredFunction

_CHUNK = 256 * 1024
_AT_ONCE = OUTPUT_LIMIT // 2
"""So many characters of an attempt go to the worker as they are printed; after them, the newest from time to time."""
_PAUSE = 0.1
_monotonic = time.monotonic  # noqa: TID251 -- a process of its own, which no simulation reaches


def serve(own: socket.socket, faults: Connection, *, is_hidden: bool, keeps_output: bool) -> None:
    """Call functions until the worker closes the connection.

    Args:
        own: this process's end of the connection.
        faults: where Python tells what the process did when a signal killed it.
        is_hidden: whether processes of the same user may not read this one.
    """
    _settle(is_hidden=is_hidden)
    faulthandler.enable(faults.fileno())
    if keeps_output:
        install()
    line = _Line(own)
    functions: dict[tuple[str, str, int], RegisteredFunction] = {}
    line.send(READY, b"")
    frames = Frames()
    while data := own.recv(_CHUNK):
        for kind, body in frames.take(data):
            assert kind == CALL, "a worker sends nothing else"
            output = _LiveOutput(line) if keeps_output else None
            outcome = _run(read_call(body), functions, output)
            if line.is_forked:  # the function has returned once more: it is not asked, and answers nothing
                os._exit(0)
            if output is not None:
                output.close()
            line.send(REPLY, write_reply(outcome))


def _settle(*, is_hidden: bool) -> None:
    """Die with the worker, and with the process that has forked this one; leave it to the worker when functions end.

    The kernel sees to it. A thread would not: what a function calls may hold the interpreter for good.
    """
    worker = multiprocessing.parent_process()
    assert worker is not None, "it has been forked for a worker"
    if sys.platform == "linux":
        from mainspring.executors._shell_supervisor.processes import SET_DEATH_SIGNAL, SET_DUMPABLE, prctl

        prctl(SET_DEATH_SIGNAL, signal.SIGKILL)
        end = (
            worker.sentinel
        )  # of a pipe whose other end only the worker has: it becomes readable when that is gone
        fcntl.fcntl(end, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(end, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(end, fcntl.F_SETFL, fcntl.fcntl(end, fcntl.F_GETFL) | os.O_ASYNC)
        prctl(SET_DUMPABLE, 0 if is_hidden else 1)
    if not worker.is_alive():
        os._exit(1)  # it died before this process could ask to be told
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _ignore)  # rather than SIG_IGN, which commands of the function would inherit


def _ignore(number: int, frame: object) -> None:
    """Do nothing."""


class _Line:
    """The connection to the worker, for several threads. Forks of this process have it, and cannot speak on it."""

    def __init__(self, own: socket.socket) -> None:
        self._own = own
        self._pid = os.getpid()
        self._lock = threading.Lock()

    @property
    def is_forked(self) -> bool:
        """Whether a function has forked this process."""
        return os.getpid() != self._pid

    def send(self, kind: bytes, body: bytes) -> None:
        """Send a message. Without a worker, this process ends."""
        if self.is_forked:
            return
        try:
            with self._lock:
                self._own.sendall(frame(kind, body))
        except OSError:
            os._exit(1)


class _LiveOutput:
    """Sends what an attempt prints to the worker, which still has it when this process was killed.

    It stands where attempts elsewhere keep their output.
    """

    def __init__(self, line: _Line) -> None:
        self._line = line
        self._lock = threading.RLock()
        self._pending: list[str] = []
        self._size = self._sent = self._skipped = 0
        self._sent_at = 0.0
        self._is_open = True

    def write(self, text: str) -> None:
        """Take text in."""
        with self._lock:
            if not self._is_open:
                return
            self._pending.append(text)
            self._size += len(text)
            if self._sent < _AT_ONCE or _monotonic() - self._sent_at > _PAUSE:
                self._flush()
            elif self._size > 2 * OUTPUT_LIMIT:
                self._shorten()

    def read(self, limit: int = OUTPUT_LIMIT) -> str:
        """Return nothing: the worker has it."""
        del limit
        return ""

    def close(self) -> None:
        """Send the rest, and take no more."""
        with self._lock:
            self._flush()
            self._is_open = False

    def _flush(self) -> None:
        if not self._size:
            return
        text, room = "".join(self._pending), max(_AT_ONCE - self._sent, 0)
        self._pending, self._size = [], 0
        if len(text) > room + OUTPUT_LIMIT:
            self._send(text[:room])
            self._skipped += len(text) - room - _AT_ONCE
            text = text[-_AT_ONCE:]
        self._send(text)

    def _send(self, text: str) -> None:
        if text:
            self._line.send(OUTPUT, write_output(self._skipped, text))
            self._sent += len(text)
            self._sent_at, self._skipped = _monotonic(), 0

    def _shorten(self) -> None:
        text = "".join(self._pending)
        kept = text[-_AT_ONCE:]
        self._skipped += len(text) - len(kept)
        self._pending, self._size = [kept], len(kept)


def _run(
    message: CallMessage,
    functions: dict[tuple[str, str, int], RegisteredFunction],
    output: _LiveOutput | None,
) -> Outcome:
    place = (message.module, message.qualname, message.unwraps)
    function = functions.get(place)
    try:
        if function is None:
            function = functions[place] = FunctionRegistry().add(message.function, _find(*place))
    except BaseException as error:  # noqa: BLE001 -- whatever the module does when it is imported
        found = failed(error)
        if isinstance(found, Failure):
            text = f"the module {message.module!r} cannot be imported in a process of its own: {found.error}"
            return Failure(error=clean(text, ERROR_LIMIT), output=found.output, cause=found.cause)
        return found
    context = message.context()
    context.kept = output  # type: ignore[misc]  # set once, before the attempt begins
    call = FunctionCall(function, context, _tell_nobody)
    return _run_async(call) if function.is_async else run_sync(call)


def _find(module: str, qualname: str, unwraps: int) -> Any:
    found: Any = import_module(module)
    for name in qualname.split("."):
        found = getattr(found, name)
    for _ in range(unwraps):
        found = found.__wrapped__
    return found


def _run_async(call: FunctionCall) -> Outcome:
    async def run() -> Any:
        return await call.begin()

    try:
        return succeeded(asyncio.run(run()))
    except BaseException as error:  # noqa: BLE001 -- whatever a job raises is its failure
        return failed(error)


def _tell_nobody(outcome: Outcome) -> None:
    """Do nothing: the outcome is returned."""
