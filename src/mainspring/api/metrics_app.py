"""The application of the metrics port: it answers nothing but `/metrics`, so Prometheus needs no access to the API."""

from __future__ import annotations

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from mainspring.api.errors import Rejected
from mainspring.api.guard import Guard
from mainspring.config.access import Access
from mainspring.wire.operation import EXPOSITION


def make_metrics_app(expose: Callable[[], str]) -> Starlette:
    """Make the application.

    Args:
        expose: returns all that the process measures, in Prometheus's text format.
    """
    guard = Guard(Access())

    async def answer(request: Request) -> PlainTextResponse:
        headers, server = request.headers, request.scope.get("server")
        try:
            # A page that a browser has loaded from elsewhere learns nothing here either.
            guard.check(
                host=headers.get("host"),
                origin=headers.get("origin"),
                arrived_at=str(server[0]) if server else None,
            )
        except Rejected as error:
            return PlainTextResponse(f"{error.detail}\n", status_code=error.status)
        return PlainTextResponse(expose(), media_type=EXPOSITION)

    return Starlette(routes=[Route("/metrics", answer)])
