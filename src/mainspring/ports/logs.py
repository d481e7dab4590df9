"""Which log lines this process writes: one variable that every call asks, and who may set it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

DEBUG, INFO, WARNING, ERROR = 10, 20, 30, 40
LEVELS = {"debug": DEBUG, "info": INFO, "warning": WARNING, "error": ERROR}
"""The levels by name, as Python numbers them."""


class LogLevel:
    """The lowest level of lines that are written.

    Attributes:
        lowest: its number.
        is_debug: whether lines of single calls and runs are written. What makes many of them asks this first.
    """

    __slots__ = ("is_debug", "lowest")

    def __init__(self) -> None:
        self.lowest: int = INFO
        self.is_debug: bool = False

    def set(self, name: str) -> None:
        """Set it to one of `LEVELS`."""
        self.lowest = LEVELS[name]
        self.is_debug = self.lowest <= DEBUG


LEVEL = LogLevel()
"""Of this process. A process has one log, whatever runs in it."""


class LogState(NamedTuple):
    """What is written now.

    Attributes:
        level: one of `LEVELS`.
        usual: the level to which it returns.
        until: when it returns; None if it is the usual one.
    """

    level: str
    usual: str
    until: datetime | None


class LogSwitch(Protocol):
    """Sets the level for a while."""

    def read(self) -> LogState:
        """Return what is written now."""
        ...

    def set(self, level: str, *, lasts: timedelta) -> LogState:
        """Set the level for a while; then the usual one returns. Setting the usual one ends a change at once."""
        ...
