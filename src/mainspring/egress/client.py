"""An HTTP client that connects only where a policy allows. It follows no redirects, and has no proxy and no cookies."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from mainspring.egress.names import NameLookups, SlowName, with_zone
from mainspring.egress.policy import Blocked, Destination, EgressPolicy

Lookup = Callable[[str, int], Awaitable[list[str]]]
_RETRY_AFTER_LIMIT = timedelta(hours=1)

_endpoint: ContextVar[Destination] = ContextVar("mainspring_egress_endpoint")


class NoAnswer(Exception):
    """There was no valid answer. The message holds neither addresses nor anything that the other side sent."""


class GuardedClient:
    """Makes HTTP calls whose addresses users have written.

    Args:
        connect_timeout: the limit for connecting.
        lookup: resolves a host; by default through the system's resolver, in such a way that slow names delay no
            others.
        tls: how certificates are checked; by default against the system's authorities.
    """

    def __init__(
        self,
        policy: EgressPolicy,
        *,
        connect_timeout: timedelta = timedelta(seconds=10),
        lookup: Lookup | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._policy = policy
        self._connect_timeout = connect_timeout.total_seconds()
        self._names = NameLookups()
        self._lookup = lookup or self._names
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Make ready for calls, on this event loop."""
        connector = aiohttp.TCPConnector(
            resolver=_CheckedResolver(self._policy, self._lookup),
            socket_factory=self._make_socket,
            use_dns_cache=False,
            limit=0,
            ssl=self._tls or True,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            skip_auto_headers=("Accept-Encoding",),
            headers={"User-Agent": "Mainspring", "Accept-Encoding": "identity"},
        )

    async def stop(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None
        self._names.close()

    @asynccontextmanager
    async def request(
        self,
        method: str,
        url: str,
        endpoint: Destination,
        *,
        body: bytes | None,
        headers: Mapping[str, str],
        limit: timedelta,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Make a call, and give its answer, whose body is still to be read; see `read_start`.

        Args:
            endpoint: what `parse_url` read from the URL.
            limit: for the whole call, its answer's body included.

        Raises:
            Blocked: the policy forbids it.
            TimeoutError: it took longer than the limit.
            NoAnswer: there was no connection or no valid answer.
        """
        assert self._session is not None, "start() comes first"
        plain = URL(url, encoded=True)
        if (plain.host or "").lower().removesuffix(".") != endpoint.host or plain.port != endpoint.port:
            raise Blocked("the URL can be read in two ways")
        _endpoint.set(endpoint)
        timeout = aiohttp.ClientTimeout(total=limit.total_seconds(), sock_connect=self._connect_timeout)
        try:
            async with self._session.request(
                method, plain, data=body, headers=headers, allow_redirects=False, timeout=timeout
            ) as response:
                yield response
        except TimeoutError:
            raise
        except aiohttp.InvalidURL:
            raise Blocked(f"the host {endpoint.host} is not in its plain form") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise NoAnswer(_explain(error, endpoint)) from error

    def _make_socket(self, info: tuple[Any, ...]) -> socket.socket:
        """Make the socket of a connection, the only place where one begins. Check the very address to connect to."""
        family, kind, protocol, _, address = info
        self._policy.check(_endpoint.get(), [with_zone(address)])
        return socket.socket(family, kind, protocol)


class _CheckedResolver(AbstractResolver):
    """Resolves a host once, and returns its addresses only if all of them are allowed."""

    def __init__(self, policy: EgressPolicy, lookup: Lookup) -> None:
        self._policy = policy
        self._lookup = lookup

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        addresses = await self._lookup(host, port)
        self._policy.check(_endpoint.get(), addresses)
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        """Do nothing: it holds nothing."""


async def read_start(response: aiohttp.ClientResponse, most: int) -> tuple[bytes, bool]:
    """Return the first bytes of an answer's body, and whether there were more. A longer body closes its connection."""
    data = bytearray()
    async for chunk in response.content.iter_chunked(16384):
        data += chunk
        if len(data) > most:
            response.close()
            return bytes(data[:most]), True
    return bytes(data), False


def read_retry_after(headers: Mapping[str, str]) -> timedelta | None:
    """Read Retry-After, in seconds or as a date, up to an hour. A date is compared with the server's own clock."""
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdecimal():
        return min(timedelta(seconds=int(text[:9])), _RETRY_AFTER_LIMIT)
    until, now = _parse_date(text), _parse_date(headers.get("Date", ""))
    if until is None or now is None:
        return None
    return max(timedelta(0), min(until - now, _RETRY_AFTER_LIMIT))


def _parse_date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, IndexError, TypeError):
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


def _explain(error: Exception, endpoint: Destination) -> str:
    """Describe what went wrong, without addresses or anything that the other side sent."""
    where = f"{endpoint.host}:{endpoint.port}"
    if isinstance(error, aiohttp.ClientConnectorDNSError) and isinstance(error.os_error, SlowName):
        limit = error.os_error.limit.total_seconds()
        return f"the host {endpoint.host} was not resolved within {limit:g} s"
    if isinstance(error, socket.gaierror | aiohttp.ClientConnectorDNSError):
        return f"the host {endpoint.host} cannot be resolved"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"the certificate of {where} is not accepted"
    if isinstance(error, aiohttp.ClientSSLError):
        return f"no TLS connection to {where}"
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno  # its own text would name the address
        return f"no connection to {where}: {os.strerror(number) if number else 'failed'}"
    if isinstance(error, aiohttp.ServerDisconnectedError | ConnectionError):
        return f"{where} closed the connection without an answer"
    return f"no valid answer from {where} ({type(error).__name__})"
