"""The one way in: every request passes through here, before and after its handler.

The order is: no header twice, the guard (host and origin), the caller's principal and its rate, the route, the right
that the operation requires, the query, the body within its limit, the handler. A refusal at any step is answered with
problem details.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from http import HTTPStatus

import msgspec
import structlog
from starlette.types import Receive, Scope, Send

from mainspring.api.browser_headers import browser_headers
from mainspring.api.call import Answer, Call, Services, Streamed
from mainspring.api.cookies import CSRF_HEADER
from mainspring.api.errors import Rejected, Reply, answer_error
from mainspring.api.gatekeeper import Gatekeeper
from mainspring.api.guard import Guard, WrongAddress
from mainspring.api.hiding import check_filters, hide_payloads
from mainspring.api.reading import refuse_body
from mainspring.api.request_times import Denial
from mainspring.api.routing import Found, Route, Routes
from mainspring.api.streaming import Stream, send_stream
from mainspring.core.access import Identity
from mainspring.core.rights import Principal, Right
from mainspring.objects import ObjectsUnavailable
from mainspring.ports.clock import IdSource
from mainspring.wire.operations import OPERATIONS

Observe = Callable[[str, int, float], None]
"""Called for each answered request with the operation's id (empty if none was found), the status, and the seconds."""
Deny = Callable[[Denial], None]
"""Called for each request that is denied, with why."""

_log = structlog.get_logger(__name__)
_encode = msgspec.json.Encoder().encode
_NO_HEADERS: Mapping[str, str] = {}
_HEADERS = {
    name.lower().encode(): name.lower()
    for name in (
        *("Host", "Origin", "Authorization", "Content-Type", "Content-Length", "X-Request-Id"),
        *("Cookie", CSRF_HEADER, "Last-Event-ID"),
        *(header.name for operation in OPERATIONS for header in operation.all_headers),
    )
}
"""The headers that this step or an operation uses."""
_MAY_REPEAT = frozenset({"x-request-id"})
"""Those of which the first one counts. Any other is refused if it is given twice: a proxy may have read another one."""
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:+/=@-]{1,128}")


class Admission:
    """Admits requests to their handlers, and sends the answers.

    Args:
        gatekeeper: knows who calls.
        monotonic: the clock that times requests, in seconds.
        observe: called for each answered request. None costs nothing.
        deny: called for each request that is denied, with why.
    """

    def __init__(
        self,
        routes: Routes,
        services: Services,
        *,
        guard: Guard,
        gatekeeper: Gatekeeper,
        ids: IdSource,
        monotonic: Callable[[], float],
        observe: Observe | None = None,
        deny: Deny | None = None,
    ) -> None:
        self._routes = routes
        self._services = services
        self._guard = guard
        self._gatekeeper = gatekeeper
        self._new_request_id = _number_requests(ids).__next__
        self._monotonic = monotonic
        self._observe = observe
        self._deny = deny

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        begun_at = 0.0 if self._observe is None else self._monotonic()
        headers, repeated = _read_headers(scope)
        request_id = self._identify_request(headers)
        route: Route | None = None
        identity: Identity | None = None
        is_known = False
        reply: Reply | Stream
        try:
            if repeated is not None:
                raise Rejected(400, f"the header {repeated.title()} is given twice; give it once")
            self._check_addressed(scope, headers)
            found = self._routes.find(scope["path"])
            route = None if found is None else found.methods.get(scope["method"])
            operation = None if route is None else route.operation
            keeper = self._gatekeeper
            known = keeper.recognize(scope, headers, operation)
            principal, identity = known or await keeper.admit(scope, headers, operation)
            is_known = True
            if route is None:
                reply = _answer_unrouted(scope["method"], scope["path"], found)
            else:
                assert found is not None
                call = self._make_call(
                    route, found.key, scope, receive, headers, principal, identity, request_id
                )
                reply = await self._carry_out(route, call, receive, headers)
        except asyncio.CancelledError:  # the server stops; this is mostly a worker's long poll
            reply = answer_error(
                Rejected(503, "the server is stopping; try again"), path=scope["path"], request_id=request_id
            )
        except Exception as error:  # noqa: BLE001 - every error gets an answer; an unexpected one is logged
            reply = answer_error(error, path=scope["path"], request_id=request_id)
            self._note_denial(error, reply.status, is_known=is_known)
        browsers = _for_browsers(scope, headers, route, identity)
        if isinstance(reply, Reply):
            await _send(send, reply, request_id, browsers)
        self._note(route, 200 if isinstance(reply, Stream) else reply.status, begun_at)
        if isinstance(reply, Stream):  # its end is not the server's doing
            await send_stream(reply, receive, send, _headers_of(reply, request_id, browsers))

    def _note(self, route: Route | None, status: int, begun_at: float) -> None:
        if self._observe is not None:
            seconds = self._monotonic() - begun_at
            self._observe("" if route is None else route.operation.id, status, seconds)

    def _identify_request(self, headers: Mapping[str, str]) -> str:
        """Return the id that a request brings; a new one if it brings none."""
        given = headers.get("x-request-id")
        return self._new_request_id() if given is None or _REQUEST_ID.fullmatch(given) is None else given

    def _note_denial(self, error: Exception, status: int, *, is_known: bool) -> None:
        reason = None if self._deny is None else _why_denied(error, status, is_known=is_known)
        if self._deny is not None and reason is not None:
            self._deny(reason)

    def _check_addressed(self, scope: Scope, headers: dict[str, str]) -> None:
        server = scope.get("server")
        self._guard.check(
            host=headers.get("host"),
            origin=headers.get("origin"),
            arrived_at=str(server[0]) if server else None,
        )

    def _make_call(
        self,
        route: Route,
        key: str,
        scope: Scope,
        receive: Receive,
        headers: dict[str, str],
        principal: Principal,
        identity: Identity | None,
        request_id: str,
    ) -> Call:
        query = route.query.read(scope["query_string"])
        if principal.hides_payloads:
            check_filters(query)
        return Call(
            scope,
            receive,
            services=self._services,
            principal=principal,
            identity=identity,
            key=key,
            query=query,
            fields=headers,
            operation=route.operation,
            request_id=request_id,
        )

    async def _carry_out(
        self, route: Route, call: Call, receive: Receive, headers: dict[str, str]
    ) -> Reply | Stream:
        if route.body is None:
            if not route.is_streamed:
                await refuse_body(receive)
            content = await route.handle(call)
        else:
            body = await route.body.read(
                receive,
                media_type=headers.get("content-type", ""),
                length=headers.get("content-length", ""),
            )
            content = await route.handle(call, body)
        if isinstance(content, Stream):
            return content
        status, more = route.status, _NO_HEADERS
        given: tuple[str, ...] = ()
        if isinstance(content, Answer):
            content, status, more, given = content
        if isinstance(content, Streamed):
            pieces, length, kind = content
            return Reply(status, b"", kind.encode(), more, given, pieces, length)
        if call.principal.hides_payloads:
            hide_payloads(content)
        if isinstance(content, str):  # it is not JSON
            media_type = route.operation.media_type.encode()
            return Reply(status, content.encode(), media_type=media_type, headers=more, cookies=given)
        return Reply(status, b"" if content is None else _encode(content), headers=more, cookies=given)


def _for_browsers(
    scope: Scope, headers: Mapping[str, str], route: Route | None, identity: Identity | None
) -> Sequence[tuple[bytes, bytes]]:
    """Return what an answer says for browsers, which workers do without."""
    if route is not None and route.right is Right.WORK:
        return ()
    by_cookie = identity is not None and "authorization" not in headers
    return browser_headers(scope, headers.get("host"), is_private=by_cookie)


def _read_headers(scope: Scope) -> tuple[dict[str, str], str | None]:
    """Return the headers that are used, by name in lower case, and the name of one that is wrongly given twice."""
    found: dict[str, str] = {}
    repeated: str | None = None
    for raw, value in scope["headers"]:
        name = _HEADERS.get(raw)
        if name is None:
            continue
        if name not in found:
            found[name] = value.decode() if value.isascii() else _decode(value)
        elif name not in _MAY_REPEAT:
            repeated = name
    return found, repeated


def _decode(value: bytes) -> str:
    """Read a header as UTF-8, as bodies are: the same idempotency key is the same text in both. Else as Latin-1."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _why_denied(error: Exception, status: int, *, is_known: bool) -> Denial | None:
    """Return why a request was denied; None if it failed for another reason.

    Args:
        is_known: it was found out who makes it.
    """
    if isinstance(error, WrongAddress):
        return Denial.ADDRESS
    if status == HTTPStatus.UNAUTHORIZED:
        return Denial.TOKEN
    if status == HTTPStatus.TOO_MANY_REQUESTS and not is_known:
        return Denial.RATE
    return Denial.RIGHT if status == HTTPStatus.FORBIDDEN else None


def _answer_unrouted(method: str, path: str, found: Found | None) -> Reply:
    """Answer a request that has no operation. Say which methods the path has, if any.

    Raises:
        Rejected: 404 or 405.
    """
    if found is None:
        raise Rejected(404, f"there is nothing at {path}; see /openapi.json")
    allow = {"allow": ", ".join(sorted([*found.methods, "OPTIONS"]))}
    if method == "OPTIONS":
        return Reply(204, b"", headers=allow)
    raise Rejected(405, f"{method} is not allowed here; see /openapi.json", headers=allow)


def _headers_of(
    stream: Stream, request_id: str, more: Sequence[tuple[bytes, bytes]]
) -> list[tuple[bytes, bytes]]:
    own = [(name.encode(), text.encode()) for name, text in stream.headers.items()]
    names = {name for name, _ in own}
    return [
        (b"x-request-id", request_id.encode()),
        (b"content-type", stream.media_type.encode()),
        *own,
        *(header for header in more if header[0] not in names),
    ]


async def _send(send: Send, reply: Reply, request_id: str, more: Sequence[tuple[bytes, bytes]] = ()) -> None:
    body = reply.body
    headers = [(b"x-request-id", request_id.encode())]
    if reply.status != 204:
        headers.append((b"content-type", reply.media_type))
        length = len(body) if reply.pieces is None else reply.length
        headers.append((b"content-length", b"%d" % length))
    if reply.headers:
        own = [(name.encode(), value.encode()) for name, value in reply.headers.items()]
        names = {name for name, _ in own}
        headers += [*own, *(header for header in more if header[0] not in names)]
    else:
        headers += more
    if reply.cookies:
        headers += [(b"set-cookie", cookie.encode()) for cookie in reply.cookies]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    if reply.pieces is None:
        await send({"type": "http.response.body", "body": body})
    else:
        await _send_pieces(send, reply.pieces)


async def _send_pieces(send: Send, pieces: AsyncGenerator[bytes, None]) -> None:
    """Send the content of an answer. If it breaks off, the connection is closed before the end that was announced."""
    async with aclosing(pieces):
        try:
            async for piece in pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        except ObjectsUnavailable as error:
            _log.warning("answer_broken_off", error=str(error))
            return
    await send({"type": "http.response.body", "body": b""})


def _number_requests(ids: IdSource) -> Iterator[str]:
    """Yield request ids that are unique across processes and restarts."""
    prefix = ids.new_uuid().hex[-12:]
    return (f"req_{prefix}-{number:x}" for number in itertools.count(1))
