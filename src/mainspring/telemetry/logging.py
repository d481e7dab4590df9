"""The logger of servers and workers: one variable says which lines are written, and can change while they run."""

from __future__ import annotations

import logging
from typing import Any

import structlog

from mainspring.ports.logs import INFO, LEVEL, WARNING

_all: Any = structlog.make_filtering_bound_logger(logging.DEBUG)
_debug, _info, _warning = _all.debug, _all.info, _all.warning
_adebug, _ainfo, _awarning = _all.adebug, _all.ainfo, _all.awarning
# structlog makes the class at run time; this is the type that it has.
_All: type[structlog.BoundLoggerBase] = _all


class LevelledLogger(_All):  # type: ignore[misc, valid-type] # structlog makes the class at run time
    """Writes what is not below `LEVEL`. A call that writes nothing costs one comparison; errors are always written."""

    def debug(self, event: str, *args: Any, **values: Any) -> Any:
        """Write a line that only matters while something is looked into."""
        return _debug(self, event, *args, **values) if LEVEL.is_debug else None

    def info(self, event: str, *args: Any, **values: Any) -> Any:
        """Write a line on the usual course of things."""
        return _info(self, event, *args, **values) if LEVEL.lowest <= INFO else None

    def warning(self, event: str, *args: Any, **values: Any) -> Any:
        """Write a line on what may need somebody."""
        return _warning(self, event, *args, **values) if LEVEL.lowest <= WARNING else None

    warn = warning

    async def adebug(self, event: str, *args: Any, **values: Any) -> Any:
        """Do as `debug` does, in a thread."""
        return await _adebug(self, event, *args, **values) if LEVEL.is_debug else None

    async def ainfo(self, event: str, *args: Any, **values: Any) -> Any:
        """Do as `info` does, in a thread."""
        return await _ainfo(self, event, *args, **values) if LEVEL.lowest <= INFO else None

    async def awarning(self, event: str, *args: Any, **values: Any) -> Any:
        """Do as `warning` does, in a thread."""
        return await _awarning(self, event, *args, **values) if LEVEL.lowest <= WARNING else None

    def log(self, level: int, event: str, *args: Any, **values: Any) -> Any:
        """Write a line at a level given by its number."""
        return _all.log(self, level, event, *args, **values) if level >= LEVEL.lowest else None

    async def alog(self, level: int, event: str, *args: Any, **values: Any) -> Any:
        """Do as `log` does, in a thread."""
        return await _all.alog(self, level, event, *args, **values) if level >= LEVEL.lowest else None

    def is_enabled_for(self, level: int) -> bool:
        """Say whether lines of a level are written."""
        return level >= LEVEL.lowest

    def get_effective_level(self) -> int:
        """Return the lowest level that is written."""
        return LEVEL.lowest
