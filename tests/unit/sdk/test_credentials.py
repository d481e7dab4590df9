"""A token that is replaced in its file: requests that were refused with the old one are repeated with the new one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from mainspring.errors import NotAuthenticated
from mainspring.sdk.credentials import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE
from mainspring.sdk.transport import Transport
from mainspring.wire import operations

OLD, NEW = "ms_old", "ms_new"
TOGETHER = 3


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that has the token, as the environment names it."""
    file = tmp_path / "token"
    file.write_text(OLD)
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    monkeypatch.setenv(TOKEN_FILE_VARIABLE, str(file))
    return file


def replace(file: Path) -> None:
    file.write_text(NEW)


@asynccontextmanager
async def serving(file: Path, *, replaces: bool) -> AsyncIterator[tuple[Transport, list[str]]]:
    """Run a server that knows the new token only, and answers those with the old one once all of them have come."""
    asked: list[str] = []
    all_came = asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        token = request.headers["Authorization"].removeprefix("Bearer ")
        asked.append(token)
        if token == NEW:
            return web.json_response({"status": "ok"})
        if asked.count(OLD) == TOGETHER:
            if replaces:
                replace(file)
            all_came.set()
        await all_came.wait()
        return web.json_response({"status": 401, "detail": "it was revoked"}, status=401)

    app = web.Application()
    app.router.add_get("/health", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        async with Transport(f"http://127.0.0.1:{runner.addresses[0][1]}") as transport:
            yield transport, asked
    finally:
        await runner.cleanup()


async def test_all_requests_that_were_refused_together_are_repeated_with_the_new_token(file: Path) -> None:
    async with serving(file, replaces=True) as (transport, asked):
        calls = [transport.call_as(operations.GET_HEALTH, str) for _ in range(TOGETHER)]
        assert await asyncio.gather(*calls) == ['{"status": "ok"}'] * TOGETHER
    assert asked == [OLD] * TOGETHER + [NEW] * TOGETHER


async def test_a_token_that_is_still_the_same_is_not_sent_again(file: Path) -> None:
    async with serving(file, replaces=False) as (transport, asked):
        calls = [transport.call_as(operations.GET_HEALTH, str) for _ in range(TOGETHER)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [str(answer) for answer in answers] == ["it was revoked"] * TOGETHER
        assert all(isinstance(answer, NotAuthenticated) for answer in answers)
    assert asked == [OLD] * TOGETHER
