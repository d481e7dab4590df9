"""What becomes of the files that jobs leave behind while their app is tested: they are read, and dropped."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import count

from mainspring.core.ids import ArtifactId, format_artifact_id
from mainspring.errors import Conflict
from mainspring.executors._files import read_content
from mainspring.ports.executor import AttemptContext, FileContent

_numbers = count(1)


class DroppedFiles:
    """A `FileKeeper` that finds the same wrong inputs as a worker's, and keeps nothing."""

    async def keep(
        self, context: AttemptContext, name: str, content: FileContent, content_type: str | None
    ) -> str:
        """Read a file, and return an id."""
        return await asyncio.to_thread(self.keep_sync, context, name, content, content_type)

    def keep_sync(
        self, context: AttemptContext, name: str, content: FileContent, content_type: str | None
    ) -> str:
        """Read a file, and return an id."""
        del context
        read_content(name, content, content_type)
        return format_artifact_id(ArtifactId(next(_numbers)))

    async def keep_result(self, context: AttemptContext, result: bytes) -> bytes:
        """Refuse a large result: it is left out, as it is where no files are kept."""
        return self.keep_result_sync(context, result)

    def keep_result_sync(self, context: AttemptContext, result: bytes) -> bytes:
        """Refuse a large result."""
        del context, result
        raise Conflict("artifacts.url", "no files are kept in a test")


def drop_files(contexts: Iterable[AttemptContext]) -> None:
    """Have attempts leave files behind that nobody keeps."""
    for context in contexts:
        context.files = DroppedFiles()  # type: ignore[misc]  # as executors do
