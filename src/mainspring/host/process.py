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

if TYPE_CHECKING:
    from mainspring.config.settings import Settings

T = TypeVar("T")
_STOPPED_AT_ONCE = 130
_GC_OF_SERVERS = (250_000, 20, 50)
"""What is freed counts against what is made, so a steady process collects rarely. When it does, its youngest generation
has grown to nearly everything that lives: half a second with 5,000 connections. Hence as rarely as memory allows."""
_GC_OF_WORKERS = (50_000, 20, 50)
"""Where users' functions run: how much hangs on each of the objects in their cycles is not known."""


class StopRequest:
    """Becomes set with SIGTERM or SIGINT; a second signal ends the process at once.

    Attributes:
        on_repeat: what is still to be done before the process is ended so.
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
        """Return when the process was asked to stop."""
        await self._event.wait()

    def set(self) -> None:
        """Take a signal: ask the process to stop; with the second one, end it."""
        if self._was_signalled:
            if self.on_repeat is not None:
                self.on_repeat()
            # Everything acknowledged is durable, and what was under way runs again.
            os._exit(_STOPPED_AT_ONCE)
        self._was_signalled = True
        self._event.set()

    def ask(self) -> None:
        """Ask the process to stop, otherwise than by a signal; asking again changes nothing."""
        self._event.set()

    async def race(self, work: Coroutine[Any, Any, None]) -> bool:
        """Run work until it ends or a stop is requested; say whether it ended."""
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
    """Carry out work on an event loop of its own, with signals set as a stop request, and return what it gave."""
    _configure_logs(settings.log_format, settings.log_level)

    async def run() -> T:
        stop = StopRequest()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        return await work(stop)

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(run())


def settle_memory(*, has_users_code: bool = True) -> None:
    """Exempt what start-up made from garbage collection, and run that less often.

    Runs make few cycles; with the default thresholds the collector takes a large part of the time of short jobs.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*(_GC_OF_WORKERS if has_users_code else _GC_OF_SERVERS))


def announce_ready(line: str) -> None:
    """Print the line that others wait for, and tell a service manager that waits."""
    _announce(line, "READY=1")


def announce_stop() -> None:
    """Print that the process stops, and tell the service manager."""
    _announce("stopping", "STOPPING=1")


def _announce(line: str, state: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
    _notify(state)


def _notify(state: str) -> None:
    """Send a state to the process that started this one, if it asked for it, as sd_notify(3) does.

    One who does not listen any more is no reason not to work.
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


def _configure_logs(form: str, level: str) -> None:
    """Send logs to stderr.

    Args:
        form: `json`, `logfmt`, or `auto`: coloured on a terminal, logfmt elsewhere.
        level: the least level of the lines that are written.
    """
    import logging

    import structlog

    is_coloured = form == "auto" and sys.stderr.isatty()
    # Traces are plain: the default draws every frame's locals, and with them payloads and secrets.
    renderer: Any
    if is_coloured:
        renderer = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    elif form == "json":
        renderer = structlog.processors.JSONRenderer(ensure_ascii=False)
    else:
        renderer = structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"])
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *(() if is_coloured else (structlog.processors.format_exc_info,)),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
