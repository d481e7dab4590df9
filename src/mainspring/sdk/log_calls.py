"""The calls on the log of a server."""

from __future__ import annotations

from datetime import timedelta

from mainspring.sdk.lists import text_of
from mainspring.sdk.transport import Transport
from mainspring.wire import operations
from mainspring.wire.logging import LoggingView


class LogCalls(Transport):
    """A part of `AsyncClient`."""

    async def get_logging(self) -> LoggingView:
        """Return which log lines the server that answers writes."""
        return await self.call(operations.GET_LOGGING)

    async def set_logging(self, level: str, *, duration: str | timedelta = "10m") -> LoggingView:
        """Have the server that answers write other log lines for a while: `debug`, `info`, `warning` or `error`."""
        body = {"level": level, "duration": text_of(duration)}
        return await self.call(operations.SET_LOGGING, body=body, may_repeat=True)
