"""Calls on the files that runs leave behind."""

from __future__ import annotations

from mainspring.sdk.transfers import Transfers
from mainspring.wire import operations
from mainspring.wire.artifacts import ArtifactPage, ArtifactView


class ArtifactCalls(Transfers):
    """A part of `AsyncClient`."""

    async def list_artifacts(
        self, run_id: str, *, after: str | None = None, limit: int = 100
    ) -> ArtifactPage:
        """Return a page of the files that the last attempt of a run has left behind, by name."""
        return await self.call(operations.LIST_RUN_ARTIFACTS, run_id, query={"after": after, "limit": limit})

    async def get_artifact(self, artifact_id: str) -> ArtifactView:
        """Return what is known of a file of a run."""
        return await self.call(operations.GET_ARTIFACT, artifact_id)
