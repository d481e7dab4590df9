"""What long-lived commands share: the event loop, signals, logs, the garbage collector."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from mainspring.host.exit_codes import ExitCode

if TYPE_CHECKING:
    from mainspring.config.settings import Settings

T = TypeVar("T")
_GC_OF_SERVERS = (250_000, 20, 50)
"""The thresholds count objects made minus objects freed, so a steady process collects rarely. By then, its youngest
generation has grown to nearly all live objects, which takes half a second with 5,000 connections. So collections are as
rare as memory allows."""
_GC_OF_WORKERS = (50_000, 20, 50)
"""For processes that run users' functions, because nobody knows how much memory the objects in their cycles hold."""


class StopRequest:
    """Is set by SIGTERM or SIGINT. A second signal ends the process at once.

    Attributes:
        on_repeat: called before a second signal ends the process.
    """

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._was_signalled = False
        self.on_repeat: Callable[[], None] | None = None

    @property
    def is_set(self) -> bool:
        """Whether the process was asked to stop."""
        return self._event.is_set()

    async def wait(self) -> None:
        """Wait until the process is asked to stop."""
        await self._event.wait()

    def set(self) -> None:
        """Handle a signal: ask the process to stop, or end it at the second signal."""
        if self._was_signalled:
            if self.on_repeat is not None:
                self.on_repeat()
            # Everything acknowledged is durable, and work under way runs again.
            os._exit(ExitCode.INTERRUPTED)
        self._was_signalled = True
        self._event.set()

    def ask(self) -> None:
        """Ask the process to stop without a signal. Asking again changes nothing."""
        self._event.set()

    async def race(self, work: Coroutine[Any, Any, None]) -> bool:
        """Run work until it ends or a stop is requested. Return whether it ended."""
        task = asyncio.ensure_future(work)
        stop = asyncio.ensure_future(self._event.wait())
        await asyncio.wait((task, stop), return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return False
        task.result()
        return True


def run_process(work: Callable[[StopRequest], Awaitable[T]], settings: Settings) -> T:
    """Run work on its own event loop, with signals turned into a stop request. Return its result."""
    from mainspring.host.logs import begin_log, listen_for_signal

    if settings.allow_shell and sys.platform == "linux":
        # Not in workers alone: beside them, a server or their parent has the same secrets in its environment.
        from mainspring.executors._shell_supervisor.processes import hide_from_user

        hide_from_user()
    log = begin_log(settings.log_format, settings.log_level)

    async def run() -> T:
        stop = StopRequest()
        listen_for_signal(log)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        return await work(stop)

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(run())


def settle_memory(*, has_users_code: bool = True) -> None:
    """Exempt the objects made at start-up from garbage collection, and make collections rarer.

    Runs make few cycles. With the default thresholds, the collector takes a large part of the time of short jobs.

    Args:
        has_users_code: whether users' functions run in this process.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*(_GC_OF_WORKERS if has_users_code else _GC_OF_SERVERS))


def announce_ready(line: str, *, more: str | None = None) -> None:
    """Print the line that says the process is ready, and notify a service manager that waits for it.

    Args:
        more: further lines, for a terminal.
    """
    _announce(line if more is None else f"{line}\n{more}", "READY=1")


def announce_stop() -> None:
    """Print that the process stops, and notify the service manager."""
    _announce("stopping", "STOPPING=1")


def _announce(line: str, state: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
    _notify(state)


def _notify(state: str) -> None:
    """Send a state to the process that started this one, if it asked for that, as sd_notify(3) does.

    If nobody listens any more, that is no reason to fail.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.connect(f"\0{address[1:]}" if address[0] == "@" else address)
        channel.send(state.encode())


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
