"""The call by which an app says which jobs its code defines."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.sdk.transport import Transport
from mainspring.wire import operations
from mainspring.wire.owners import OwnerView


class OwnerCalls(Transport):
    """A part of `AsyncClient`."""

    async def put_owner(self, owner: str, jobs: Sequence[str], *, prune: bool = False) -> OwnerView:
        """Say which jobs an app's code defines. With `prune`, those that it does not define any more are deleted."""
        body = {"jobs": list(jobs), "prune": bool(prune)}
        return await self.call(operations.UPSERT_OWNER, owner, body=body, may_repeat=True)
