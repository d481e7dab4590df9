"""What a server says is not there is told, wherever a request names it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from mainspring.errors import NotFound
from mainspring.sdk.client import AsyncClient


@pytest.fixture
async def details() -> AsyncIterator[tuple[AsyncClient, list[str]]]:
    """A client, and what its server says of each request that it answers with 404."""
    said: list[str] = []

    async def refuse(_: web.Request) -> web.Response:
        return web.json_response(
            {"status": 404, "detail": said[0]}, status=404, content_type="application/problem+json"
        )

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", refuse)
    async with TestServer(app) as server, AsyncClient(f"http://127.0.0.1:{server.port}") as client:
        yield client, said


@pytest.mark.parametrize(
    ("detail", "kind", "key"),
    [
        ("no account 'bea'; GET /api/v1/accounts lists them", "account", "bea"),
        ("no account 'bea'", "account", "bea"),
        ("there is nothing at /api/v1/tokens; see /openapi.json", "path", "/api/v1/tokens"),
        ("", "path", "/api/v1/tokens"),
    ],
)
async def test_what_a_body_names_and_is_not_there_is_told(
    details: tuple[AsyncClient, list[str]], detail: str, kind: str, key: str
) -> None:
    """Else the server is taken for one that does not know the call."""
    client, said = details
    said.append(detail)
    with pytest.raises(NotFound) as refused:
        await client.make_token("t", "viewer", account="bea")
    assert (refused.value.kind, refused.value.key) == (kind, key)
