"""Runs several worker processes under one parent: starts them, restarts them, and ends them."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import structlog

from mainspring.host.exit_codes import ExitCode
from mainspring.host.parent_link import READY
from mainspring.host.process import announce_ready, announce_stop

if TYPE_CHECKING:
    from mainspring.host.process import StopRequest
    from mainspring.ports.clock import RandomSource, Waiter

_log = structlog.get_logger(__name__)
_FIRST_PAUSE = 0.5
_LAST_PAUSE = 30.0
_SETTLED = 60.0
"""If a worker was ready for this many seconds before it ended, that counts as a new fault, not a repeat of the last."""


class Child(Protocol):
    """A worker process as its parent sees it."""

    @property
    def pid(self) -> int:
        """The process id."""
        ...

    async def wait_ready(self) -> bool:
        """Wait until the process is ready or has ended. Return whether it became ready."""
        ...

    async def wait(self) -> int:
        """Wait for the end, and return the exit code; if a signal ended it, the signal's number, negative."""
        ...

    def stop(self) -> None:
        """Ask the process to drain and end. Asking again changes nothing."""
        ...

    def kill(self) -> None:
        """End the process at once."""
        ...

    def signal(self, number: int) -> None:
        """Send the process a signal that does not end it."""
        ...


class WorkerProcess:
    """A child process: `mainspring worker` with its own arguments."""

    def __init__(self, process: asyncio.subprocess.Process, line: socket.socket) -> None:
        self._process = process
        self._line = line

    @classmethod
    async def start(cls, arguments: Sequence[str]) -> WorkerProcess:
        """Start a process.

        The fork blocks the parent's event loop, which does no harm, because the parent has nothing else to do.
        """
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs, contextlib.ExitStack() as on_error:
            on_error.callback(ours.close)
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # only the user's app comes from the current folder, and `load_app` sees to that
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
        """The process id."""
        return self._process.pid

    async def wait_ready(self) -> bool:
        """Wait until the process is ready or has ended. Return whether it became ready."""
        word = asyncio.ensure_future(self._read())
        # Watch the process, too, not only the link: processes that it has forked may keep the link open.
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
        """Wait for the end, and return the exit code; if a signal ended it, the signal's number, negative."""
        code = await self._process.wait()
        self._line.close()
        return code

    def stop(self) -> None:
        """Ask the process to drain and end."""
        with contextlib.suppress(OSError):  # it has ended already
            self._line.shutdown(socket.SHUT_RDWR)

    def kill(self) -> None:
        """End the process at once."""
        self.signal(signal.SIGKILL)

    def signal(self, number: int) -> None:
        """Send the process a signal."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)


class Supervisor:
    """Keeps `count` worker processes running until it is asked to stop.

    The first one starts alone: if it is refused, the others would be, too, and one message is enough. A process that
    ends without being asked to is restarted after a pause. The pause grows while processes keep ending soon.

    Args:
        count: the number of places, with one process each.
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
        self._code: int = ExitCode.DONE

    async def run(self, stop: StopRequest) -> int:
        """Run the processes. Return 0 if all of them ended well, or else the exit code of one that did not."""
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

    def pass_on(self, number: int) -> None:
        """Send a signal on to the processes that are ready for it."""
        for place, child in self._children.items():
            if place in self._were_ready:
                child.signal(number)

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
        """Keep a process running in one place."""
        if place:
            await self._first_is_through.wait()
        failures = 0
        while not self._is_stopping:
            try:
                has_settled = await self._fill(place)
            except OSError as error:  # a process cannot be made right now
                if not self._were_ready:
                    raise
                _log.warning("worker_process_not_made", process=place + 1, error=str(error))
                has_settled = False
            failures = 1 if has_settled else failures + 1
            if not self._is_stopping:
                await self._waiters[place].wait(self._backoff(failures))

    async def _fill(self, place: int) -> bool:
        """Run one process until it ends. Return whether it had been ready for long."""
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
            self._code = self._code or (code if code > 0 else ExitCode.FAILED)
        return is_ready and self._monotonic() - ready_at >= _SETTLED

    def _note_ready(self, place: int) -> None:
        self._first_is_through.set()
        count = len(self._were_ready)
        self._were_ready.add(place)
        if count < len(self._were_ready) == len(self._waiters) and not self._is_stopping:
            announce_ready("ready")

    def _is_final(self, code: int) -> bool:
        """Return whether a process that ended before it was ready shows that no other one would become ready."""
        return code == ExitCode.REFUSED or (code > 0 and not self._were_ready)

    def _backoff(self, failures: int) -> float:
        pause: float = min(_FIRST_PAUSE * 2.0 ** min(failures - 1, 10), _LAST_PAUSE)
        return pause * (0.5 + self._random.random() / 2)
