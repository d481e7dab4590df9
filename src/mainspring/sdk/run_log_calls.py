"""The calls on what runs write."""

from __future__ import annotations

from mainspring.sdk.transport import Transport
from mainspring.wire import operations


class RunLogCalls(Transport):
    """A part of `AsyncClient`."""

    async def get_run_logs(self, run_id: str, *, attempt: int | None = None, offset: int = 0) -> str:
        """Return what an attempt has written: the last one that has begun, unless its number is given."""
        query = {"attempt": attempt, "offset": offset or None, "follow": None}
        return await self.call(operations.GET_RUN_LOGS, run_id, query=query)
