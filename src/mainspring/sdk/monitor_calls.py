"""Calls on monitors of jobs that run elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainspring.sdk.transport import Transport
from mainspring.wire import operations
from mainspring.wire.monitors import MonitorList, MonitorView, PingTaken
from mainspring.wire.views import Deleted


class MonitorCalls(Transport):
    """A part of `AsyncClient`."""

    async def list_monitors(self) -> MonitorList:
        """Return all monitors, by name."""
        return await self.call(operations.LIST_MONITORS)

    async def get_monitor(self, name: str) -> MonitorView:
        """Return a monitor."""
        return await self.call(operations.GET_MONITOR, name)

    async def put_monitor(self, name: str, body: Mapping[str, Any]) -> MonitorView:
        """Set a monitor: a trigger as a job has it, `start_grace`, `run_grace`, `tolerance`.

        `ping_path` of a new one is shown this once.
        """
        return await self.call(operations.UPSERT_MONITOR, name, body=body)

    async def delete_monitor(self, name: str) -> Deleted:
        """Delete a monitor."""
        return await self.call(operations.DELETE_MONITOR, name)

    async def ping(self, key: str, *, exit_code: int | None = None) -> PingTaken:
        """Say that a job is done, for the monitor that gave the key; with an exit code but 0, that it failed."""
        return await self.call(operations.POST_PING, key, query={"exit_code": exit_code})

    async def ping_start(self, key: str) -> PingTaken:
        """Say that a job begins."""
        return await self.call(operations.POST_PING_START, key)

    async def ping_extend(self, key: str) -> PingTaken:
        """Say that a job still works: it may take its time to run again, from now on."""
        return await self.call(operations.POST_PING_EXTEND, key)

    async def ping_fail(self, key: str) -> PingTaken:
        """Say that a job has failed."""
        return await self.call(operations.POST_PING_FAIL, key)
