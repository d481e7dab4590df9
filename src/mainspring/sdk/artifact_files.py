"""Fetches the files that runs leave behind, whole or not at all."""

from __future__ import annotations

from io import BytesIO
from typing import BinaryIO

from mainspring.sdk.artifact_calls import ArtifactCalls


class ArtifactFiles(ArtifactCalls):
    """A part of `AsyncClient`."""

    async def fetch_artifact(
        self, artifact_id: str, file: BinaryIO, *, sha256: str | None = None, size: int | None = None
    ) -> int:
        """Write the bytes of an artifact into an open binary file. Return how many they are.

        Args:
            sha256: what they have to come to, in hexadecimal digits; None takes what the server says of the artifact.
            size: how many they have to be. No more of them are taken. None is as for `sha256`, unless that is given.

        Raises:
            MainspringError: they do not come to that. The file has them all the same.
            NotFound: there is no such artifact, or it is not kept any more.
        """
        if sha256 is None:
            known = await self.get_artifact(artifact_id)
            sha256, size = known.sha256, known.size if size is None else size
        return await self._fetch(artifact_id, file, sha256, size)

    async def read_artifact(
        self, artifact_id: str, *, sha256: str | None = None, size: int | None = None
    ) -> bytes:
        """Return the bytes of an artifact, which are held in memory. `fetch_artifact` writes large ones into a file.

        Args:
            sha256, size: as for `fetch_artifact`.
        """
        data = BytesIO()
        await self.fetch_artifact(artifact_id, data, sha256=sha256, size=size)
        return data.getvalue()
