"""A TCP proxy in front of PostgreSQL, or a server of ours, that breaks connections in every way a network can."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum
from urllib.parse import urlsplit

_CHUNK = 1 << 16


class Flow(StrEnum):
    """What becomes of bytes, both ways, on connections new and old."""

    PASS = "pass"
    DROP = "drop"
    """Swallowed without a word: a blackhole."""
    DROP_REQUESTS = "drop_requests"
    """Only what clients say is swallowed."""
    DROP_ANSWERS = "drop_answers"
    """Only what the server says is swallowed."""
    REFUSE = "refuse"
    """New connections are reset; old ones pass."""


class Cut(StrEnum):
    """What becomes of one request."""

    REQUEST = "request"
    """The connection is reset, and the server never sees the request."""
    ANSWER = "answer"
    """The server carries it out; the connection is reset in the place of the answer."""


class Proxy:
    """Passes connections on to a server.

    Args:
        url: where it is: a DSN, or the address of an HTTP server.
        rewrite: what is replaced in each client's first message, and by what of the same length.

    Attributes:
        flow: what happens to bytes now.
        delay: seconds that every piece of data waits, each way.
        cuts: how many requests were cut.
        hellos: the first message of each client that named itself.
    """

    def __init__(self, url: str, *, rewrite: tuple[bytes, bytes] = (b"", b"")) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        assert len(rewrite[0]) == len(rewrite[1])
        self._url = url
        self.rewrite = rewrite
        self._address = (parts.hostname, parts.port)
        self._links: set[_Link] = set()
        self._server: asyncio.Server | None = None
        self._armed: tuple[Cut, bytes, bytes] | None = None
        self._cut = asyncio.Event()
        self.port = 0
        self.flow = Flow.PASS
        self.delay = 0.0
        self.cuts = 0
        self.hellos: list[bytes] = []

    @property
    def url(self) -> str:
        """The server's address, by way of the proxy."""
        return self._url.replace(f":{self._address[1]}", f":{self.port}", 1)

    @property
    def dsn(self) -> str:
        """The server's DSN, by way of the proxy, in plain text: clients name themselves in what they send first."""
        return f"{self.url}?sslmode=disable"

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._links)

    async def start(self) -> None:
        """Listen on a free port of the loopback."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Cut everything and listen no more; nothing to do where it was never started."""
        if self._server is None:
            return
        self._server.close()
        self.reset()
        await self._server.wait_closed()

    def arm(self, cut: Cut, *, name: str, request: bytes = b"") -> None:
        """Cut the next request of a connection, once.

        Args:
            name: in the first message of the connection's client: its application name.
            request: what the request must have in it; empty is any.
        """
        self._armed = (cut, name.encode(), request)
        self._cut.clear()

    async def is_cut_within(self, seconds: float) -> bool:
        """Wait for the cut that the proxy is armed for; say whether it came."""
        try:
            await asyncio.wait_for(self._cut.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def disarm(self) -> None:
        """Cut nothing any more."""
        self._armed = None

    def reset(self) -> None:
        """Reset all connections on both sides."""
        for link in list(self._links):
            link.reset()

    def half_open(self) -> None:
        """Let the server see all its clients go, while they are told nothing."""
        for link in list(self._links):
            link.is_mute = True
            link.to_server.transport.abort()

    def take_cut(self, hello: bytes, data: bytes) -> Cut | None:
        """Say whether this request is the one to be cut, and forget about it."""
        if self._armed is None:
            return None
        cut, name, request = self._armed
        if name not in hello or request not in data:
            return None
        self._armed = None
        self.cuts += 1
        self._cut.set()
        return cut

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.flow is Flow.REFUSE:
            _abort(writer)
            return
        try:
            server_reader, server_writer = await asyncio.open_connection(*self._address)
        except OSError:
            _abort(writer)  # as near to the server's own refusal as a proxy can come
            return
        link = _Link(self, writer, server_writer)
        self._links.add(link)
        pumps = [
            asyncio.create_task(link.pump_requests(reader)),
            asyncio.create_task(link.pump_answers(server_reader)),
        ]
        try:
            await asyncio.gather(*pumps)
        except asyncio.CancelledError:
            pass  # the test is over
        finally:
            for pump in pumps:
                pump.cancel()
            link.reset()
            self._links.discard(link)


class _Link:
    """One client's connection, and the one to the server that belongs to it."""

    def __init__(
        self, proxy: Proxy, to_client: asyncio.StreamWriter, to_server: asyncio.StreamWriter
    ) -> None:
        self._proxy = proxy
        self._hello = b""
        self._is_answer_lost = False
        self.to_client = to_client
        self.to_server = to_server
        self.is_mute = False

    def reset(self) -> None:
        _abort(self.to_client)
        self.to_server.transport.abort()

    async def pump_requests(self, reader: asyncio.StreamReader) -> None:
        while data := await _read(reader):
            if b"application_name" in data and not self._hello:
                self._hello = data
                self._proxy.hellos.append(data)
                data = data.replace(*self._proxy.rewrite)
            cut = self._proxy.take_cut(self._hello, data)
            if cut is Cut.REQUEST:
                self.reset()
                return
            self._is_answer_lost = self._is_answer_lost or cut is Cut.ANSWER
            await self._pass_on(self.to_server, data, Flow.DROP_REQUESTS)
        if not self.is_mute:
            self.reset()

    async def pump_answers(self, reader: asyncio.StreamReader) -> None:
        while data := await _read(reader):
            if self._is_answer_lost:  # there is one, so the server is done
                self.reset()
                return
            await self._pass_on(self.to_client, data, Flow.DROP_ANSWERS)
        if not self.is_mute:
            self.reset()

    async def _pass_on(self, writer: asyncio.StreamWriter, data: bytes, swallowed_by: Flow) -> None:
        if self._proxy.delay:
            await asyncio.sleep(self._proxy.delay)
        if self._proxy.flow in {Flow.DROP, swallowed_by} or self.is_mute:
            return
        with contextlib.suppress(OSError):
            writer.write(data)
            await writer.drain()


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(_CHUNK)
    except OSError:
        return b""


def _abort(writer: asyncio.StreamWriter) -> None:
    """Close with a reset instead of an end."""
    handle = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@asynccontextmanager
async def open_proxy(url: str, *, rewrite: tuple[bytes, bytes] = (b"", b"")) -> AsyncIterator[Proxy]:
    """Start a proxy in front of a server, and stop it in the end."""
    proxy = Proxy(url, rewrite=rewrite)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()
