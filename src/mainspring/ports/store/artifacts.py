"""The index of artifacts. Their bytes lie elsewhere; see `ports.artifacts`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from mainspring.core.artifacts import Artifact, ArtifactVerdict
from mainspring.core.ids import ArtifactId, RunId, SessionId
from mainspring.core.values import value


@value(kw_only=True)
class NewArtifact:
    """An artifact whose bytes are not there yet.

    Attributes:
        session_id: the worker session that holds the run under the token.
        is_result: whether it is the run's own result.
        expires_at: until when its bytes have to be there.
    """

    tenant: str
    run_id: RunId
    token: int
    session_id: SessionId
    name: str
    location: str
    content_type: str
    size: int
    sha256: bytes
    is_result: bool
    created_at: datetime
    expires_at: datetime


@value()
class ArtifactAdded:
    """What became of a request for room.

    Attributes:
        artifact_id: the artifact; None unless the verdict is ADDED.
    """

    verdict: ArtifactVerdict
    artifact_id: ArtifactId | None = None


class ArtifactIndex(Protocol):
    """Which artifacts there are. What a worker writes is fenced by its lease."""

    async def add_artifact(self, new: NewArtifact, *, most: int) -> ArtifactAdded:
        """Insert an artifact that is not ready, if its run is RUNNING under exactly this lease.

        One of the same name that is not ready takes the new facts, and keeps its id: its upload is tried again.

        Args:
            most: how many the attempt may have.

        Returns:
            STALE if the lease is another one's; TAKEN if one of the name is ready; FULL if there are too many; SEALED
            if the store is encrypted, so that a result must not lie elsewhere in plain text.
        """
        ...

    async def finish_artifact(
        self, artifact_id: ArtifactId, *, session_id: SessionId, now: datetime, expires_at: datetime
    ) -> bool:
        """Make an artifact ready, if its run is still RUNNING under its lease and its time is not over.

        Returns:
            Whether it is ready: so it is, too, if it was before.
        """
        ...

    async def get_artifact(self, artifact_id: ArtifactId) -> Artifact | None:
        """Return an artifact, ready or not."""
        ...

    async def list_artifacts(
        self, run_id: RunId, token: int, *, after: str | None = None, limit: int = 100
    ) -> list[Artifact]:
        """Return a page of the artifacts that are ready under a token of a run, by name."""
        ...

    async def list_expired_artifacts(self, *, before: datetime, limit: int) -> list[Artifact]:
        """Return artifacts whose time was over before an instant, ready or not, the oldest first."""
        ...

    async def delete_artifacts(self, artifact_ids: Sequence[ArtifactId]) -> int:
        """Delete artifacts from the index. Return how many were there."""
        ...
