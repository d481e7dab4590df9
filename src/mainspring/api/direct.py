"""Answers requests that come by the thousand without what the framework does for each of them.

The framework knows these routes all the same: it describes them, and answers whatever is not plain (a query, a header
given twice, another spelling of the path, a host that the guard does not let pass). Where a request is plain, its own
part of it, finding the route, binding arguments and building a response, would take longer than everything else.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec
from litestar import Litestar, Request, Response
from litestar.enums import ScopeType
from litestar.handlers import HTTPRouteHandler

from mainspring.api.errors import BadBody, handle
from mainspring.api.guard import Guard

if TYPE_CHECKING:
    from litestar.types import HTTPScope, LifeSpanReceive, LifeSpanScope, LifeSpanSend, Receive, Scope, Send

_HEADERS = {
    name.encode(): name for name in ("host", "origin", "content-type", "content-length", "idempotency-key")
}
"""Those that handlers and guard look at."""
_RUNS_HEAD = "/api/v1/jobs/"
_RUNS_TAIL = "/runs"


class DirectRequest(Request[Any, Any, Any]):
    """A request as handlers see it, with nothing read that they do not ask for."""

    __slots__ = ("_plain",)

    def __init__(self, scope: HTTPScope, receive: Receive, headers: Mapping[str, str]) -> None:
        # Not the parent's: it prepares caches for a dozen things that are not looked at.
        self.scope = scope
        self.receive = receive
        self._plain = headers

    @property
    def headers(self) -> Mapping[str, str]:  # type: ignore[override]  # of the framework's only `get` is used
        """The headers that matter, names in lower case."""
        return self._plain

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """Give the body, piece by piece."""
        while True:
            event = await self.receive()
            if event["type"] != "http.request":
                raise BadBody(400, "the connection was closed before the body had come")
            if event["body"]:
                yield event["body"]
            if not event.get("more_body", False):
                return


class _Route(NamedTuple):
    handle: Callable[..., Awaitable[Any]]
    status: int


class DirectRoutes:
    """The routes that are answered here.

    Args:
        plain: handlers by their whole path.
        submit: the handler of `POST /api/v1/jobs/{job_id}/runs`.
    """

    def __init__(self, guard: Guard, plain: Mapping[str, HTTPRouteHandler], submit: HTTPRouteHandler) -> None:
        self._guard = guard
        self._plain = {path: _route(handler) for path, handler in plain.items()}
        self._submit = _route(submit)

    async def answer(self, app: Litestar, scope: HTTPScope, receive: Receive, send: Send) -> bool:
        """Answer a request; False where it is the framework's, and nothing was read of it."""
        if scope["method"] != "POST" or scope["query_string"]:
            return False
        route, arguments = self._find(scope["path"])
        headers = _read_headers(scope)
        if route is None or headers is None or not self._is_let_pass(scope, headers):
            return False
        scope["app"] = scope["litestar_app"] = app
        request = DirectRequest(scope, receive, headers)
        status = route.status
        try:
            content = await route.handle(request, *arguments)
            if isinstance(content, Response):
                status, content = content.status_code or status, content.content
            body = msgspec.json.encode(content)
        except Exception as error:  # noqa: BLE001 - as the framework does: every error is an answer
            refusal = handle(request, error).to_asgi_response(None, request)
            await refusal(scope, receive, send)
            return True
        length = str(len(body)).encode()
        await send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [(b"content-type", b"application/json"), (b"content-length", length)],
            }
        )
        await send({"type": "http.response.body", "body": body, "more_body": False})
        return True

    def _find(self, path: str) -> tuple[_Route | None, tuple[str, ...]]:
        route = self._plain.get(path)
        if route is not None:
            return route, ()
        if path.startswith(_RUNS_HEAD) and path.endswith(_RUNS_TAIL):
            job_id = path[len(_RUNS_HEAD) : -len(_RUNS_TAIL)]
            if job_id and "/" not in job_id:
                return self._submit, (job_id,)
        return None, ()

    def _is_let_pass(self, scope: HTTPScope, headers: Mapping[str, str]) -> bool:
        server = scope["server"]
        arrived_at = str(server[0]) if server else None
        try:
            self._guard.check_headers(
                host=headers.get("host"), origin=headers.get("origin"), arrived_at=arrived_at
            )
        except BadBody:
            return False  # the framework asks the guard again, and says why not
        return True


class DirectApi(Litestar):
    """The application, with some of its routes answered directly.

    Attributes:
        direct: which; None before they are set, which is right after the application was made.
    """

    direct: DirectRoutes | None = None

    async def __call__(
        self,
        scope: Scope | LifeSpanScope,
        receive: Receive | LifeSpanReceive,
        send: Send | LifeSpanSend,
    ) -> None:
        """Answer a request, directly where that can be."""
        if scope["type"] == ScopeType.HTTP and self.direct is not None:
            request = cast("HTTPScope", scope)
            if await self.direct.answer(self, request, cast("Receive", receive), cast("Send", send)):
                return
        await super().__call__(scope, receive, send)


def _route(handler: HTTPRouteHandler) -> _Route:
    return _Route(handler.fn, handler.status_code)


def _read_headers(scope: HTTPScope) -> dict[str, str] | None:
    """Return the headers that matter; None where one is given twice."""
    found: dict[str, str] = {}
    for raw, value in scope["headers"]:
        name = _HEADERS.get(raw)
        if name is not None:
            if name in found:
                return None
            found[name] = value.decode("latin-1")
    return found
