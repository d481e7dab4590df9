"""The calls on the steps of durable functions."""

from __future__ import annotations

from mainspring.sdk.transport import Transport
from mainspring.wire import operations
from mainspring.wire.checkpoints import CheckpointPage


class CheckpointCalls(Transport):
    """A part of `AsyncClient`."""

    async def list_checkpoints(
        self, run_id: str, *, after: str | None = None, limit: int = 100
    ) -> CheckpointPage:
        """Return a page of the steps that are kept of the run of a durable function, by name and number."""
        return await self.call(
            operations.LIST_RUN_CHECKPOINTS, run_id, query={"after": after, "limit": limit}
        )
