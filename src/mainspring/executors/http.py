"""Executor of HTTP calls."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from mainspring.core.causes import Cause
from mainspring.core.ids import format_job_id, format_run_id
from mainspring.core.model import DEFAULT_TIMEOUT
from mainspring.core.outcomes import Failure
from mainspring.core.targets.http import HttpType
from mainspring.errors import InvalidInput
from mainspring.executors._names import NameLookups, SlowName, with_zone
from mainspring.executors._text import ERROR_LIMIT, OUTPUT_LIMIT, clean, decode, seconds
from mainspring.executors.context import ExecutorContext
from mainspring.executors.egress import Blocked, Destination, EgressPolicy, check_url, make_policy, parse_url
from mainspring.ports.executor import AttemptContext, Outcome, Success

__all__ = ["HttpExecutor", "check_url", "make_executor"]

_TYPE = HttpType()
_BODILESS = frozenset({"GET", "HEAD"})
_RETRY_AFTER_LIMIT = timedelta(hours=1)
_GONE = 410
_THROTTLED = frozenset({429, 503})

Lookup = Callable[[str, int], Awaitable[list[str]]]

_endpoint: ContextVar[Destination] = ContextVar("mainspring_http_endpoint")


class HttpExecutor:
    """Runs attempts of target type `http`.

    `core.targets.http` describes `params`, which are checked against it. The payload is the body (`{}` without one).
    Headers describe the attempt to the target. A status of 2xx is a success; redirects are not followed.

    Args:
        allow: internal targets: networks or hosts, with or without a port (`10.1.0.0/16`, `localhost:8099`).
        allow_http: allow plain http to public addresses, too.
        timeout: the limit of a call whose job leaves its own time limit at the default.
        connect_timeout: the limit for connecting.
        lookup: resolves a host; by default through the system's resolver, in such a way that slow names delay no
            others.
        tls: how certificates are checked; by default against the system's authorities.

    Raises:
        InvalidInput: an entry of `allow` cannot be read.
    """

    def __init__(
        self,
        *,
        allow: Iterable[str] = (),
        allow_http: bool = False,
        timeout: timedelta = timedelta(seconds=30),
        connect_timeout: timedelta = timedelta(seconds=10),
        lookup: Lookup | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._policy = make_policy(allow, allow_http=allow_http)
        self._timeout = timeout
        self._connect_timeout = connect_timeout.total_seconds()
        self._names = NameLookups()
        self._lookup = lookup or self._names
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None

    @property
    def type(self) -> str:
        return "http"

    async def start(self) -> None:
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

    async def execute(self, context: AttemptContext) -> Outcome:
        try:
            endpoint = parse_url(context.params.get("url"))
            params = _TYPE.read_kept(context.params)
        except InvalidInput as error:
            return Failure(error=clean(str(error), ERROR_LIMIT), is_retryable=False)
        limit = self._timeout if context.timeout == DEFAULT_TIMEOUT else context.timeout
        _endpoint.set(endpoint)
        try:
            return await self._call(context, params, limit)
        except Blocked as error:
            return Failure(error=f"blocked: {error}", is_retryable=False)
        except TimeoutError:
            return Failure(error=f"no answer within {seconds(limit)}", is_timeout=True)
        except aiohttp.InvalidURL:
            return Failure(
                error=f"blocked: the host {endpoint.host} is not in its plain form", is_retryable=False
            )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Failure(
                error=clean(_explain(error, endpoint), ERROR_LIMIT), cause=Cause(is_connection=True)
            )

    async def stop(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
        self._names.close()

    async def _call(self, context: AttemptContext, params: Mapping[str, Any], limit: timedelta) -> Outcome:
        assert self._session is not None, "start() comes first"
        method: str = params["method"]
        headers = {name.title(): text for name, text in params["headers"].items()}
        url = URL(params["url"], encoded=True)
        endpoint = _endpoint.get()
        if (url.host or "").lower().removesuffix(".") != endpoint.host or url.port != endpoint.port:
            raise Blocked("the URL can be read in two ways")
        body = context.payload
        if body is None and method not in _BODILESS:
            body = b"{}"
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        async with self._session.request(
            method,
            url,
            data=body,
            headers=headers | _describe(context),
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=limit.total_seconds(), sock_connect=self._connect_timeout),
        ) as response:
            try:
                data, is_cut = await _read_start(response)
            except TimeoutError:
                text = f"response status {response.status}, but the answer was not complete within {seconds(limit)}"
                return Failure(error=text, is_timeout=True)
            output = decode(data) + ("\n[… the rest was not read …]" if is_cut else "")
            return _judge(response, output or None)

    def _make_socket(self, info: tuple[Any, ...]) -> socket.socket:
        """Make the socket of a connection, the only place where one begins. Check the very address to connect to."""
        family, kind, protocol, _, address = info
        self._policy.check(_endpoint.get(), [with_zone(address)])
        return socket.socket(family, kind, protocol)


def make_executor(context: ExecutorContext) -> HttpExecutor:
    """Make a worker's executor."""
    settings = context.settings
    return HttpExecutor(
        allow=settings.callback_allow,
        allow_http=settings.callback_allow_http,
        connect_timeout=settings.callback_connect_timeout,
        timeout=settings.callback_timeout,
    )


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


def _describe(context: AttemptContext) -> dict[str, str]:
    headers = {
        "Mainspring-Run-Id": format_run_id(context.run_id),
        "Mainspring-Job-Id": format_job_id(context.job_id),
        "Mainspring-Attempt": str(context.attempt),
        "Mainspring-Token": str(context.token),
        "Idempotency-Key": "".join(
            c if c.isascii() and c.isprintable() else "?" for c in context.idempotency_key
        ),
    }
    if context.fire_at is not None:
        headers["Mainspring-Fire-At"] = context.fire_at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return headers


async def _read_start(response: aiohttp.ClientResponse) -> tuple[bytes, bool]:
    """Read as much of the body as is kept. A longer body closes its connection."""
    data = bytearray()
    async for chunk in response.content.iter_chunked(16384):
        data += chunk
        if len(data) > OUTPUT_LIMIT:
            response.close()
            return bytes(data[:OUTPUT_LIMIT]), True
    return bytes(data), False


def _judge(response: aiohttp.ClientResponse, output: str | None) -> Outcome:
    status = response.status
    result = b'{"status":%d}' % status
    if 200 <= status < 300:
        return Success(result=result, output=output)
    error = f"response status {status}"
    if 300 <= status < 400:
        error += "; redirects are not followed"
    return Failure(
        error=error,
        output=output,
        result=result,
        is_retryable=status != _GONE,
        retry_after=_retry_after(response.headers) if status in _THROTTLED else None,
        cause=Cause(status=status),
    )


def _retry_after(headers: Mapping[str, str]) -> timedelta | None:
    """Read Retry-After, in seconds or as a date. A date is compared with the server's own clock."""
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
        return f"the host {endpoint.host} was not resolved within {seconds(error.os_error.limit)}"
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
