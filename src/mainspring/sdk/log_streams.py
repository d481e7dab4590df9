"""Follows what a run writes: line by line, over several connections if one breaks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from mainspring.clock import LoopWaiter
from mainspring.errors import StoreUnavailable, Unreachable
from mainspring.wire import operations
from mainspring.wire.run_logs import LogEvent

if TYPE_CHECKING:
    from mainspring.sdk.client import AsyncClient

T = TypeVar("T")
_SILENCE = 45.0
"""Seconds without a line; a server that has nothing to tell says so every 15."""
_TRIES = 20
_PAUSE = 0.25
_LONGEST_PAUSE = 5.0


class _Perform(Protocol):
    """Makes calls with a client, on the event loop that the client belongs to."""

    def __call__(self, work: Callable[[AsyncClient], Coroutine[Any, Any, T]], /) -> Awaitable[T]: ...


class _PerformSync(Protocol):
    def __call__(self, work: Callable[[AsyncClient], Coroutine[Any, Any, T]], /) -> T: ...


class LogStream:
    """The events of one run that is followed.

    If the connection breaks, it goes on where it was, at another server if there is one.

    Args:
        attempt: only this attempt; None begins with the last one that has begun, and goes on with those after it.

    Attributes:
        status: the run's, once it has ended; None before.
    """

    def __init__(self, run_id: str, attempt: int | None = None) -> None:
        self._run_id = run_id
        self._attempt = attempt
        self._lines: AsyncIterator[bytes] | None = None
        self._last_id: str | None = None
        self.status: str | None = None

    async def read(self, client: AsyncClient) -> LogEvent | None:
        """Return the next event that has text; None if there will be no more.

        Raises:
            Unreachable, StoreUnavailable: no server has answered for a while.
            NotFound, NeedsRight, NotAuthenticated: the server refuses.
        """
        waiter, pause = LoopWaiter(), _PAUSE
        tries = 0
        while self.status is None:
            try:
                if self._lines is None:
                    self._lines = await self._open(client)
                event = await self._read_event(self._lines)
            except (Unreachable, StoreUnavailable):
                await self.close()
                tries += 1
                if tries >= _TRIES:
                    raise
                await waiter.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            if event is None:  # the server stops: go on at once
                await self.close()
                await waiter.wait(_PAUSE)
            elif event.status is not None:
                self.status = event.status
            else:
                return event
        await self.close()
        return None

    async def _open(self, client: AsyncClient) -> AsyncIterator[bytes]:
        return await client.open_stream(
            operations.GET_RUN_LOGS,
            self._run_id,
            silence=_SILENCE,
            query={"follow": "true", "attempt": self._attempt},
            headers={} if self._last_id is None else {"Last-Event-ID": self._last_id},
        )

    async def _read_event(self, lines: AsyncIterator[bytes]) -> LogEvent | None:
        """Return the next event; None at the end of the answer."""
        found, event = "", None
        async for line in lines:
            name, _, content = line.decode().rstrip("\n").partition(": ")
            if name == "id":
                found = content
            elif name == "data":
                event = msgspec.json.decode(content, type=LogEvent)
            elif not name and event is not None:
                self._last_id = found or self._last_id
                return event
        return None

    async def close(self) -> None:
        """End the connection."""
        lines, self._lines = self._lines, None
        if lines is not None:
            with suppress(Exception):
                await lines.aclose()  # type: ignore[attr-defined]  # it is a generator


class _Lines:
    """Cuts events into lines."""

    def __init__(self) -> None:
        self._begun = ""
        self._attempt = 0

    def take(self, event: LogEvent) -> Iterator[str]:
        """Yield the lines that are whole now."""
        if event.attempt != self._attempt and self._begun:
            yield self._begun
            self._begun = ""
        self._attempt = event.attempt
        *whole, self._begun = (self._begun + event.text).split("\n")
        yield from whole

    def rest(self) -> Iterator[str]:
        """Yield the line that has no end."""
        if self._begun:
            yield self._begun


async def follow_lines(perform: _Perform, run_id: str, attempt: int | None) -> AsyncIterator[str]:
    """Yield the lines that a run writes, until it has ended."""
    stream, lines = LogStream(run_id, attempt), _Lines()
    try:
        while (event := await perform(stream.read)) is not None:
            for line in lines.take(event):
                yield line
        for line in lines.rest():
            yield line
    finally:
        await perform(lambda _: stream.close())


def follow_lines_sync(perform: _PerformSync, run_id: str, attempt: int | None) -> Iterator[str]:
    """Do the same for code without an event loop."""
    stream, lines = LogStream(run_id, attempt), _Lines()
    try:
        while (event := perform(stream.read)) is not None:
            yield from lines.take(event)
        yield from lines.rest()
    finally:
        perform(lambda _: stream.close())
