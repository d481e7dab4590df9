"""HTTP calls to one of several servers, in one session, with errors as Mainspring's exceptions."""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypedDict, TypeVar, Unpack

import aiohttp
import msgspec

from mainspring.clock import LoopWaiter, system_random
from mainspring.config.kinds import ServerUrl
from mainspring.core.fields import kind, read_word
from mainspring.core.ids import DEFAULT_TENANT
from mainspring.errors import (
    Conflict,
    InvalidFields,
    InvalidInput,
    MainspringError,
    NeedsRight,
    NotAuthenticated,
    NotFound,
    StoreUnavailable,
    TooMany,
    Unreachable,
)
from mainspring.sdk.bodies import check_key, check_texts, encode_body
from mainspring.sdk.credentials import Credentials
from mainspring.sdk.staging import check_allowed
from mainspring.wire.operation import JSON

if TYPE_CHECKING:
    from mainspring.ports.clock import RandomSource
    from mainspring.wire.operation import Operation

T = TypeVar("T")
_CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 35.0
"""Seconds that a server may take to answer: more than a claim may wait for work."""
_TAKE_OVER_PAUSE = 0.1
_TAKE_OVER_PAUSES = 150
"""How often a request waits for that many seconds while a server's place is taken over."""
_NOT_THERE = re.compile(r"no (?P<kind>[a-z ]+) '(?P<key>[^']*)'")
"""How a server says which thing there is not."""
_NOTHING_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)


class _FieldError(msgspec.Struct):
    field: str
    message: str


class _Problem(msgspec.Struct):
    status: int = 0
    detail: str = ""
    errors: list[_FieldError] | None = None
    retry_after_seconds: int = 1


def read_servers(text: str) -> tuple[str, ...]:
    """Read one address or several, separated by commas.

    Raises:
        InvalidInput: one of them is not an address, or the list is empty.
    """
    servers = [ServerUrl().read(server, "server", None) for server in text.split(",")]
    return tuple(dict.fromkeys(server.strip().rstrip("/") for server in servers))


class Given(TypedDict, total=False):
    """What a request may contain besides its path, and how it is sent.

    Attributes:
        may_repeat: whether executing it twice does no harm; for a GET, this is always so.
        may_move: whether to give it up when another request finds its server silent.
        seconds: how long one server may take to answer.
    """

    body: object
    query: Mapping[str, str | int | None]
    headers: Mapping[str, str]
    may_repeat: bool
    may_move: bool
    seconds: float


class Transport:
    """Sends requests to a server.

    If several servers share a store, it stays with one until that server does not answer, or answers that it cannot.
    It chooses at random, so that callers spread. When one request finds a server silent, the other requests that wait
    for it move at once, if they may. Otherwise each would find out about a frozen host only after its own time limit.

    Args:
        server: the address, like http://127.0.0.1:8620; separate several by commas.
        tenant: the tenant to act for.
        token: the access token to present; None takes the one that MAINSPRING_TOKEN or the file in
            MAINSPRING_TOKEN_FILE has, if any. That file is read again when a server refuses the token.

    Attributes:
        servers: the addresses.
        credentials: the access token.
        relocate: returns the address as it is now, if the server may move. Then a request that no server can have
            received waits a while for the next one.
    """

    def __init__(
        self,
        server: str,
        *,
        tenant: str = DEFAULT_TENANT,
        token: str | None = None,
        random: RandomSource | None = None,
    ) -> None:
        self.servers: tuple[str, ...] = read_servers(server)
        self.credentials: Credentials = Credentials(token)
        self._headers: dict[str, str] = {}
        if read_word(tenant, "tenant") != DEFAULT_TENANT:
            self._headers["Mainspring-Tenant"] = tenant
        self._random = random or system_random()
        self._chosen = self._shuffled(self.servers)[0]
        self._session: aiohttp.ClientSession | None = None
        self._movable: dict[asyncio.Timeout, str] = {}
        self.relocate: Callable[[], str] | None = None

    async def start(self) -> None:
        """Open the session."""
        if self._session is None:
            self._session = aiohttp.ClientSession(trust_env=False)

    async def close(self) -> None:
        """Close the session."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def call(self, operation: Operation[T], key: str | None = None, **given: Unpack[Given]) -> T:
        """Carry out an operation and return its answer.

        If no connection can be made, the server has not received the request, so it goes to another one. If a server
        fell silent after it received the request, only a request that may be repeated goes elsewhere. The next
        request goes elsewhere in any case.

        Args:
            key: the variable part of the operation's path: a job's or run's id.
            given: the rest of the request, and how it is sent.

        Raises:
            Unreachable: no answer came; the request may or may not have taken effect.
            StoreUnavailable: the server's store does not answer.
            InvalidInput: a value cannot be sent, or the server refuses it.
            NotFound, Conflict: the server refuses.
            NeedsRight: the caller may not do that.
            NotAuthenticated: it does not know the access token, or wants one.
            TooMany: it comes too soon, and has `retry_after` seconds.
            MainspringError: the server failed, or its answer is of another form than this release reads.
        """
        return await self.call_as(operation, operation.answer, key, **given)

    async def call_as(
        self, operation: Operation[Any], answer: type[T], key: str | None = None, **given: Unpack[Given]
    ) -> T:
        """Do the same as `call`, and decode the answer as another type than the operation's own."""
        request = self._make_request(operation, key, given)
        may_repeat = given.get("may_repeat", False) or operation.method == "GET"
        server, status, text = await self._ask(request, may_repeat=may_repeat)
        if status == 401 and self.credentials.renew(request.headers):
            request = request._replace(headers={**request.headers, **self.credentials.headers})
            server, status, text = await self._ask(request, may_repeat=may_repeat)
        if status >= 400:
            refusal = make_refusal(status, text, operation, key)
            if isinstance(refusal, StoreUnavailable):
                self._leave(server)
            raise refusal
        if answer is str:
            return text.decode()  # type: ignore[return-value]  # so `T` is `str`
        if answer is type(None) or not text:
            return None  # type: ignore[return-value]  # the caller expects no body
        try:
            return msgspec.json.decode(text, type=answer)
        except msgspec.ValidationError as error:  # another try would get the same
            message = f"the answer of {server} is not what this release reads: {error}; is the server of another one?"
            raise MainspringError(message) from error
        except msgspec.DecodeError as error:
            raise Unreachable(f"the answer of {server} cannot be read: {error}") from error

    def _make_request(self, operation: Operation[Any], key: str | None, given: Given) -> _Request:
        body = given.get("body", msgspec.UNSET)
        query = given.get("query", {})
        headers = given.get("headers", {})
        if operation.variable is not None:
            check_key(operation.variable, key)
        check_texts({operation.variable or "path": key, **query, **headers})
        return _Request(
            operation.method,
            operation.url(key),
            None if body is msgspec.UNSET else _encode(operation, body),
            {name: str(value) for name, value in query.items() if value is not None},
            {**self._headers, **self.credentials.headers, "Content-Type": _media_type(operation), **headers},
            given.get("seconds", ANSWER_SECONDS),
            given.get("may_move", False) and len(self.servers) > 1,
            self.credentials.is_lent,
        )

    async def open_stream(
        self, operation: Operation[Any], key: str, *, silence: float, **given: Unpack[Given]
    ) -> AsyncIterator[bytes]:
        """Begin an answer that comes line by line, and return its lines. Close the iterator to end it.

        Args:
            silence: the seconds without a line after which the server counts as gone.

        Raises:
            Unreachable: no answer came. While lines are read, it means that the answer broke off.
            NotFound, InvalidInput, NeedsRight, NotAuthenticated, StoreUnavailable: as `call`.
        """
        request = self._make_request(operation, key, given)
        check_allowed(self._chosen)
        await self.start()
        assert self._session is not None
        server = self._chosen
        try:
            response = await self._session.get(
                f"{server}{request.path}",
                params=request.query,
                headers=request.headers,
                timeout=aiohttp.ClientTimeout(total=None, connect=_CONNECT_SECONDS, sock_read=silence),
                ssl=self.credentials.tls(is_own=request.is_own) if server.startswith("https:") else True,
            )
            if response.status >= 400:
                text = await response.read()
                raise make_refusal(response.status, text, operation, key)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._leave(server)
            raise Unreachable(explain(error, server)) from error
        except StoreUnavailable:
            self._leave(server)
            raise
        return self._lines_of(response, server)

    async def _lines_of(self, response: aiohttp.ClientResponse, server: str) -> AsyncIterator[bytes]:
        async with response:
            try:
                async for line in response.content:
                    yield line
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                self._leave(server)
                raise Unreachable(explain(error, server)) from error

    async def _ask(self, request: _Request, *, may_repeat: bool) -> tuple[str, int, bytes]:
        """Return the server that answered, its status and its body."""
        if self.relocate is None:
            return await self._ask_each(request, may_repeat=may_repeat)
        waiter = LoopWaiter()
        for pauses_left in reversed(range(_TAKE_OVER_PAUSES)):
            self._move(read_servers(self.relocate()))
            try:
                return await self._ask_each(request, may_repeat=may_repeat)
            except Unreachable as error:
                if not pauses_left or not isinstance(error.__cause__, _NOTHING_SENT):
                    raise
            await waiter.wait(_TAKE_OVER_PAUSE)
        raise AssertionError("the last pause raises")

    def _move(self, servers: tuple[str, ...]) -> None:
        if servers != self.servers:
            self.servers = servers
            self._chosen = self._shuffled(servers)[0]

    async def _ask_each(self, request: _Request, *, may_repeat: bool) -> tuple[str, int, bytes]:
        check_allowed(self._chosen)
        await self.start()
        assert self._session is not None
        others = self._shuffled([server for server in self.servers if server != self._chosen])
        asked = [self._chosen, *others]
        for server in asked:
            try:
                status, text = await self._send(self._session, server, request)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                self._leave(server)
                if isinstance(error, TimeoutError):
                    self._move_others(server)
                if server != asked[-1] and (may_repeat or isinstance(error, _NOTHING_SENT)):
                    continue
                raise Unreachable(explain(error, server)) from error
            self._chosen = server
            return server, status, text
        raise AssertionError("there is a server to ask")

    async def _send(
        self, session: aiohttp.ClientSession, server: str, request: _Request
    ) -> tuple[int, bytes]:
        async with asyncio.timeout(request.seconds) as limit:
            if request.may_move:
                self._movable[limit] = server
            try:
                async with session.request(
                    request.method,
                    f"{server}{request.path}",
                    data=request.data,
                    params=request.query,
                    headers=request.headers,
                    timeout=aiohttp.ClientTimeout(connect=_CONNECT_SECONDS),
                    ssl=self._tls(server, is_own=request.is_own),
                ) as response:
                    return response.status, await response.read()
            finally:
                self._movable.pop(limit, None)

    def _tls(self, server: str, *, is_own: bool = False) -> ssl.SSLContext | bool:
        """Return how a connection to a server is secured; True is as usual."""
        return self.credentials.tls(is_own=is_own) if server.startswith("https:") else True

    def _move_others(self, server: str) -> None:
        """Give up the requests that wait for a silent server and may go elsewhere."""
        now = asyncio.get_running_loop().time()
        for limit in [limit for limit, asked in self._movable.items() if asked == server]:
            if not limit.expired():
                limit.reschedule(now)

    def _leave(self, server: str) -> None:
        """Send the next request to another server, unless a concurrent request already switched."""
        if server == self._chosen and len(self.servers) > 1:
            self._chosen = self._shuffled([other for other in self.servers if other != server])[0]

    def _shuffled(self, servers: Sequence[str]) -> list[str]:
        return sorted(servers, key=lambda _: self._random.random())


class _Request(NamedTuple):
    method: str
    path: str
    data: bytes | None
    query: Mapping[str, str]
    headers: Mapping[str, str]
    seconds: float
    may_move: bool
    is_own: bool  # to this process's own server


def explain(error: Exception, server: str) -> str:
    """Return why a server has not answered, for people."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return (
            f"the certificate of {server} is not trusted ({cause.verify_message}); name the authority that signed it in"
            " SSL_CERT_FILE"
        )
    return f"no answer from {server} ({_reason(error)}); is a Mainspring server running there?"


def _reason(error: Exception) -> str:
    """Say in few words why there was no answer."""
    if isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error
        known = os.strerror(cause.errno) if cause.errno is not None and cause.errno > 0 else cause.strerror
        return (known or str(cause)).lower()
    return str(error) or type(error).__name__


def _media_type(operation: Operation[Any]) -> str:
    return JSON if operation.body is None else operation.body.media_types[0]


def _encode(operation: Operation[Any], body: object) -> bytes:
    """Return a request's body: JSON, or what it is."""
    if operation.body is None or operation.body.decoded_as is not bytes:
        return encode_body(body)
    if not isinstance(body, bytes | str):
        raise InvalidInput("body", f"must be bytes or text, not {kind(body)}")
    check_texts({"body": body})
    return body.encode() if isinstance(body, str) else body


def make_refusal(status: int, text: bytes, operation: Operation[Any], key: str | None) -> MainspringError:
    """Return the error that an answer stands for."""
    try:
        problem = msgspec.json.decode(text, type=_Problem)
    except msgspec.DecodeError:
        problem = _Problem(status, text[:200].decode(errors="replace"))
    first = problem.errors[0] if problem.errors else None
    if status == 401:
        return NotAuthenticated(problem.detail)
    if status == 403:
        field, message = ("request", problem.detail) if first is None else (first.field, first.message)
        return NeedsRight(field, message)
    if status == 404:
        if operation.variable is None or key is None:
            named = _NOT_THERE.match(problem.detail)  # in the body
            if named is not None:
                return NotFound(named["kind"], named["key"])
            return NotFound("path", operation.path, remedy="the server may be of an earlier release")
        return NotFound(operation.variable.removesuffix("_id"), key)
    if status == 409:
        return Conflict(first.field if first else "request", first.message if first else problem.detail)
    if status == 501:
        return MainspringError(problem.detail)
    if status == 429:
        field, message = ("request", problem.detail) if first is None else (first.field, first.message)
        return TooMany(field, message, retry_after=problem.retry_after_seconds)
    if status in {502, 503, 504}:
        return StoreUnavailable(problem.detail)
    if 400 <= status < 500:
        return _invalid(problem)
    return MainspringError(f"the server failed: {problem.detail}")


def _invalid(problem: _Problem) -> InvalidInput:
    errors = [InvalidInput(error.field, error.message) for error in problem.errors or ()]
    if not errors:
        return InvalidInput("request", problem.detail)
    return InvalidFields(errors) if len(errors) > 1 else errors[0]
