"""The log of a process: its form, its level, and how the level is changed for a while."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import structlog

from mainspring.clock import host_time
from mainspring.host.log_lines import LinesForPeople, shows_colours
from mainspring.ports.logs import LEVEL, LogState
from mainspring.telemetry.logging import LevelledLogger

BY_SIGNAL = timedelta(minutes=10)
"""How long SIGUSR2 has a process write everything."""
_log = structlog.get_logger(__name__)


class ProcessLog:
    """Implements `LogSwitch` for the running event loop.

    Args:
        level: the level to which it returns.
    """

    def __init__(self, level: str, *, now: Callable[[], datetime] = host_time) -> None:
        self._usual = self._level = level
        self._until: datetime | None = None
        self._now = now
        self._timer: asyncio.TimerHandle | None = None
        LEVEL.set(level)

    def read(self) -> LogState:
        """See `LogSwitch`."""
        return LogState(self._level, self._usual, self._until)

    def set(self, level: str, *, lasts: timedelta) -> LogState:
        """See `LogSwitch`."""
        if level == self._usual:
            self._return()
            return self.read()
        self._cancel_timer()
        self._until = self._now() + lasts
        self._timer = asyncio.get_running_loop().call_later(lasts.total_seconds(), self._return)
        self._change(level)
        return self.read()

    def show_all(self) -> None:
        """Write everything for ten minutes: what SIGUSR2 asks for."""
        self.set("debug", lasts=BY_SIGNAL)

    def _return(self) -> None:
        self._cancel_timer()
        self._until = None
        self._change(self._usual)

    def _change(self, level: str) -> None:
        """Change the level, and say so, whichever levels they are."""
        if level == self._level and self._until is None:
            return
        LEVEL.set("info")
        until = None if self._until is None else self._until.isoformat(timespec="seconds")
        _log.info("log_level_changed", to=level, before=self._level, until=until)
        LEVEL.set(level)
        self._level = level

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


_logs: list[ProcessLog] = []
"""The log of this process, if it has its own."""


def process_log() -> ProcessLog | None:
    """Return the log of this process; None if it has none of its own, as in an app's web server."""
    return _logs[-1] if _logs else None


def begin_log(form: str, level: str) -> ProcessLog:
    """Send the log to stderr.

    Args:
        form: `json`, `logfmt`, or `auto`: sentences on a terminal, logfmt elsewhere.
        level: the lowest level to write.
    """
    renderer: Any
    if form == "auto" and sys.stderr.isatty():
        renderer = LinesForPeople(is_coloured=shows_colours(sys.stderr))
    elif form == "json":
        renderer = structlog.processors.JSONRenderer(ensure_ascii=False)
    else:
        renderer = structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"])
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            # Tracebacks are plain: others show the local variables of every frame, and so payloads and secrets.
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=LevelledLogger,
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    log = ProcessLog(level)
    _logs[:] = [log]
    return log


def listen_for_signal(log: ProcessLog) -> None:
    """Have SIGUSR2 write everything for a while."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, log.show_all)
