"""The call that says how busy workers will be."""

from __future__ import annotations

from mainspring.sdk.transport import Transport
from mainspring.wire import operations
from mainspring.wire.capacity import CapacityView


class CapacityCalls(Transport):
    """A part of `AsyncClient`."""

    async def get_capacity(self, *, scope: str = "tenant") -> CapacityView:
        """Return how busy the workers of each queue will be within 24 hours, and how long its backlog takes.

        With the scope `cluster`, it is about the runs of all tenants, and says how long the disk lasts.
        """
        return await self.call(operations.GET_CAPACITY, query={"scope": scope})
