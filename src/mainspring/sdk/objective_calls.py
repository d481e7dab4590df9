"""Calls on objectives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainspring.sdk.transport import Transport
from mainspring.wire import operations
from mainspring.wire.objectives import SloList, SloView
from mainspring.wire.views import Deleted


class ObjectiveCalls(Transport):
    """A part of `AsyncClient`."""

    async def list_slos(self) -> SloList:
        """Return all objectives and how they do, by name."""
        return await self.call(operations.LIST_SLOS)

    async def get_slo(self, name: str) -> SloView:
        """Return an objective and how it does."""
        return await self.call(operations.GET_SLO, name)

    async def put_slo(self, name: str, body: Mapping[str, Any]) -> SloView:
        """Set an objective: `kind`, `objective`, `queue`, `bound`, `days`."""
        return await self.call(operations.UPSERT_SLO, name, body=body)

    async def delete_slo(self, name: str) -> Deleted:
        """Delete an objective; its alerts end."""
        return await self.call(operations.DELETE_SLO, name)
