"""The API on a real port of this machine, served by uvicorn in the test's own loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from datetime import timedelta

import uvicorn

from mainspring.api import Api, create_api
from mainspring.api.principals import identify_anybody
from mainspring.core.ids import RunId, SessionId
from mainspring.ports.gateway import (
    BeatReply,
    ClaimCall,
    ClaimReply,
    LogReport,
    LogResult,
    Registration,
    Report,
    ReportResult,
    Session,
)
from mainspring.testing.manual import ManualRuntime


class PromptGateway:
    """A manual runtime's gateway that answers claims at once: nobody ticks the matcher by itself there."""

    def __init__(self, runtime: ManualRuntime) -> None:
        self._runtime = runtime

    async def register(self, registration: Registration) -> Session:
        return await self._runtime.gateway.register(registration)

    async def claim(self, call: ClaimCall) -> ClaimReply:
        return await self._runtime.ask(replace(call, wait=timedelta(0)))

    async def beat(
        self, session_id: SessionId, held: tuple[tuple[RunId, int], ...], *, answered: int | None = None
    ) -> BeatReply:
        return await self._runtime.gateway.beat(session_id, held, answered=answered)

    async def report(
        self, session_id: SessionId, reports: tuple[Report, ...], *, tenant: str | None = None
    ) -> tuple[ReportResult, ...]:
        return await self._runtime.gateway.report(session_id, reports, tenant=tenant)

    async def log(self, session_id: SessionId, reports: tuple[LogReport, ...]) -> tuple[LogResult, ...]:
        return await self._runtime.gateway.log(session_id, reports)

    async def leave(self, session_id: SessionId) -> None:
        await self._runtime.gateway.leave(session_id)


def make_api(runtime: ManualRuntime) -> Api:
    """Return the API of a manual runtime."""
    return create_api(
        runtime.client,
        PromptGateway(runtime),
        identify=identify_anybody,
        store_name="memory",
        ping=runtime.store.read_time,
    )


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def serving(api: Api) -> AsyncIterator[str]:
    """Serve until the block ends; yield the address."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(
            api, http="httptools", log_config=None, timeout_graceful_shutdown=1, ws="none"
        )
        server = _Server(config)
        task = asyncio.create_task(server.serve([listener]))
        while not server.started:
            assert not task.done(), "the server did not start"
            await asyncio.sleep(0.005)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what the server does of itself."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 -- of what the server does nobody is told
            await asyncio.sleep(0.005)
