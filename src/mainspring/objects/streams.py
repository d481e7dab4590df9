"""Large files, a piece at a time: written, read, measured, signed and deleted, without holding up the event loop."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from datetime import timedelta
from typing import Protocol

from mainspring.core.values import value


@value()
class ObjectFacts:
    """What a place says of a file.

    Attributes:
        disposition: what it tells browsers to do with it; None if it tells nothing, or is a folder.
    """

    size: int
    disposition: str | None = None


@value()
class SignedPut:
    """How a file is put by someone who has no keys.

    Attributes:
        url: where it goes, by PUT.
        headers: those that the request has to have.
    """

    url: str
    headers: Mapping[str, str]


class ObjectStreams(Protocol):
    """Files by their names, for one event loop. Each call may raise `ObjectsUnavailable`."""

    async def write(
        self, name: str, content: AsyncIterator[bytes], *, content_type: str, disposition: str
    ) -> None:
        """Put a file in place of the one with that name. Once this returns, the whole file is safe.

        If the content raises, or the call is cancelled, there is the old file or none.
        """
        ...

    def read(self, name: str, start: int, stop: int) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of a file from `start` up to before `stop`."""
        ...

    async def sign_get(self, name: str, lifetime: timedelta) -> str | None:
        """Return an address at which whoever has it may get this file for a while; None where there is none."""
        ...

    async def sign_put(
        self, name: str, lifetime: timedelta, *, content_type: str, disposition: str
    ) -> SignedPut | None:
        """Return how whoever is told may put this file for a while; None where that has to go through the server."""
        ...

    async def measure(self, name: str) -> ObjectFacts:
        """Return what the place says of a file.

        Raises:
            ObjectMissing: there is none.
        """
        ...

    async def delete(self, name: str) -> None:
        """Delete a file, and what is left of tries to write it. Without one, nothing happens."""
        ...
