"""Several worker processes under one parent: starts them, starts them again, and ends them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import structlog

from mainspring.host.parent_link import READY
from mainspring.host.process import announce_ready, announce_stop

if TYPE_CHECKING:
    from mainspring.host.process import StopRequest
    from mainspring.ports.clock import RandomSource, Waiter

_log = structlog.get_logger(__name__)
_REFUSED = 2
_KILLED = 1
_FIRST_PAUSE = 0.5
_LAST_PAUSE = 30.0
_SETTLED = 60.0
"""Seconds that a worker must have been ready for its end to be a new trouble, not the old one again."""


class Child(Protocol):
    """A worker process as its parent sees it."""

    @property
    def pid(self) -> int:
        """The process's id."""
        ...

    async def wait_ready(self) -> bool:
        """Return whether it got ready, when it is or when it has ended."""
        ...

    async def wait(self) -> int:
        """Return its exit code; of one that a signal ended, the signal's number, negative."""
        ...

    def stop(self) -> None:
        """Ask it to drain and end; asking again changes nothing."""
        ...

    def kill(self) -> None:
        """End it at once."""
        ...


class WorkerProcess:
    """A child: `mainspring worker` with arguments of its own."""

    def __init__(self, process: asyncio.subprocess.Process, line: socket.socket) -> None:
        self._process = process
        self._line = line

    @classmethod
    async def start(cls, arguments: Sequence[str]) -> WorkerProcess:
        """Start a process.

        The parent has nothing else to do, so that its loop may well stand still for a fork.
        """
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs, contextlib.ExitStack() as on_error:
            on_error.callback(ours.close)
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # the current folder is for the user's app alone, and that goes by `load_app`
                "-m",
                "mainspring",
                "worker",
                f"--parent-link={theirs.fileno()}",
                *arguments,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
            on_error.pop_all()
        return cls(process, ours)

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    async def wait_ready(self) -> bool:
        """Return whether it got ready, when it is or when it has ended."""
        word = asyncio.ensure_future(self._read())
        # Its end alone would not do: what it has forked may keep the line open.
        end = asyncio.ensure_future(self._process.wait())
        await asyncio.wait((word, end), return_when=asyncio.FIRST_COMPLETED)
        is_ready = word.done() and word.result()
        for task in (word, end):
            task.cancel()
        await asyncio.gather(word, end, return_exceptions=True)
        return is_ready

    async def _read(self) -> bool:
        try:
            return await asyncio.get_running_loop().sock_recv(self._line, 1) == READY
        except OSError:
            return False

    async def wait(self) -> int:
        """Return its exit code; of one that a signal ended, the signal's number, negative."""
        code = await self._process.wait()
        self._line.close()
        return code

    def stop(self) -> None:
        """Ask it to drain and end."""
        with contextlib.suppress(OSError):  # it has ended already
            self._line.shutdown(socket.SHUT_RDWR)

    def kill(self) -> None:
        """End it at once."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()


class Supervisor:
    """Keeps so many worker processes going until it is asked to stop.

    The first one goes ahead: what it is refused, the others would be refused as well, and one line says it. One that
    ends without having been asked to is started again, after a pause that grows while that happens soon and often.

    Args:
        start: starts the process of a place, 0 to count - 1.
        waiter: makes a waiter for each place.
    """

    def __init__(
        self,
        count: int,
        start: Callable[[int], Awaitable[Child]],
        *,
        waiter: Callable[[], Waiter],
        random: RandomSource,
        monotonic: Callable[[], float],
    ) -> None:
        self._start = start
        self._waiters = [waiter() for _ in range(count)]
        self._random = random
        self._monotonic = monotonic
        self._children: dict[int, Child] = {}
        self._were_ready: set[int] = set()
        self._first_is_through = asyncio.Event()
        self._is_stopping = False
        self._code = 0

    async def run(self, stop: StopRequest) -> int:
        """Run the processes; return 0 when all of them ended well, else the code of one that did not."""
        stop.on_repeat = self.kill
        places = [asyncio.ensure_future(self._keep(place)) for place in range(len(self._waiters))]
        asking = asyncio.ensure_future(self._await_stop(stop))
        try:
            await asyncio.gather(*places)
        finally:
            self._stop_all()
            asking.cancel()
            await asyncio.gather(asking, *places, return_exceptions=True)
        return self._code

    def kill(self) -> None:
        """End all processes at once."""
        for child in self._children.values():
            child.kill()

    async def _await_stop(self, stop: StopRequest) -> None:
        await stop.wait()
        announce_stop()
        self._stop_all()

    def _stop_all(self) -> None:
        self._is_stopping = True
        self._first_is_through.set()
        for waiter in self._waiters:
            waiter.signal()
        for child in self._children.values():
            child.stop()

    async def _keep(self, place: int) -> None:
        """Keep one place filled."""
        if place:
            await self._first_is_through.wait()
        failures = 0
        while not self._is_stopping:
            try:
                has_settled = await self._fill(place)
            except OSError as error:  # no process can be made just now
                if not self._were_ready:
                    raise
                _log.warning("worker_process_not_made", process=place + 1, error=str(error))
                has_settled = False
            failures = 1 if has_settled else failures + 1
            if not self._is_stopping:
                await self._waiters[place].wait(self._backoff(failures))

    async def _fill(self, place: int) -> bool:
        """Run one process to its end; say whether it had been ready for long."""
        child = await self._start(place)
        self._children[place] = child
        if self._is_stopping:
            child.stop()
        is_ready = await child.wait_ready()
        ready_at = self._monotonic()
        if is_ready:
            self._note_ready(place)
        code = await child.wait()
        del self._children[place]
        if not self._is_stopping and not is_ready and self._is_final(code):
            self._code = code
            self._stop_all()
        elif not self._is_stopping or (code and is_ready):
            _log.warning("worker_process_ended", process=place + 1, pid=child.pid, code=code)
        if self._is_stopping and code and is_ready:
            self._code = self._code or (code if code > 0 else _KILLED)
        return is_ready and self._monotonic() - ready_at >= _SETTLED

    def _note_ready(self, place: int) -> None:
        self._first_is_through.set()
        count = len(self._were_ready)
        self._were_ready.add(place)
        if count < len(self._were_ready) == len(self._waiters) and not self._is_stopping:
            announce_ready("ready")

    def _is_final(self, code: int) -> bool:
        """Say whether a process that never got ready tells that no other one would."""
        return code == _REFUSED or (code > 0 and not self._were_ready)

    def _backoff(self, failures: int) -> float:
        pause: float = min(_FIRST_PAUSE * 2.0 ** min(failures - 1, 10), _LAST_PAUSE)
        return pause * (0.5 + self._random.random() / 2)
