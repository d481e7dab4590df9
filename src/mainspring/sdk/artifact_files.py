"""Fetches the files that runs leave behind, whole or not at all."""

from __future__ import annotations

from io import BytesIO
from typing import BinaryIO

from mainspring.sdk.artifact_calls import ArtifactCalls


class ArtifactFiles(ArtifactCalls):
    """A part of `AsyncClient`."""

    async def fetch_artifact(self, artifact_id: str, file: BinaryIO, *, sha256: str | None = None) -> int:
        """Write the bytes of an artifact into an open binary file. Return how many they are.

        Args:
            sha256: what they have to come to, in hexadecimal digits; None takes what the server says of the artifact.

        Raises:
            MainspringError: they do not come to that. The file has them all the same.
            NotFound: there is no such artifact, or it is not kept any more.
        """
        expected = (await self.get_artifact(artifact_id)).sha256 if sha256 is None else sha256
        return await self._fetch(artifact_id, file, expected)

    async def read_artifact(self, artifact_id: str, *, sha256: str | None = None) -> bytes:
        """Return the bytes of an artifact, which are held in memory. `fetch_artifact` writes large ones into a file.

        Args:
            sha256: as for `fetch_artifact`.
        """
        data = BytesIO()
        await self.fetch_artifact(artifact_id, data, sha256=sha256)
        return data.getvalue()
