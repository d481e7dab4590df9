"""The monitor that watches the watchdog: it hears nothing once the watchdog judges nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import structlog.testing
from aiohttp import web

from mainspring.channels.pings import UrlPinger
from mainspring.config.settings import Settings, StoreLocation
from mainspring.engine.scheduling.watchdog_ping import PERIOD, PING_EVERY
from mainspring.errors import InvalidInput
from mainspring.runtime import open_engine
from mainspring.testing.manual import ManualRuntime
from tests.integration.test_watchdog import Post
from tests.unit.channels.messages import Receiver, make_secrets, running_receiver


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with running_receiver() as receiver:
        yield receiver


@pytest.fixture
async def runtime(receiver: Receiver) -> AsyncIterator[ManualRuntime]:
    pinger = UrlPinger(
        f"http://127.0.0.1:{receiver.port}/ping/0e1f",
        "watchdog.ping_url",
        secrets=make_secrets(),
        allow=("127.0.0.1",),
    )
    await pinger.start()
    async with ManualRuntime(sender=Post(), pinger=pinger) as runtime:
        yield runtime
    await pinger.stop()


async def tick_ping(runtime: ManualRuntime) -> float:
    return await runtime.services["watchdog_ping"].tick(runtime.clock.now())


def counted(runtime: ManualRuntime) -> dict[str, float]:
    figures = runtime.telemetry.figures()
    return {end: figures[f"watchdog_pings_total.{end}"] for end in ("sent", "failed")}


async def test_it_is_pinged_while_the_watchdog_judges_and_not_once_it_has_stopped(
    runtime: ManualRuntime, receiver: Receiver
) -> None:
    assert await tick_ping(runtime) == PERIOD
    assert receiver.requests == []  # nothing was judged yet
    for _ in range(3):
        await runtime.tick("watchdog")
        assert await tick_ping(runtime) == PING_EVERY
        runtime.clock.advance(PING_EVERY)
    assert len(receiver.requests) == 3
    for _ in range(10):  # the watchdog stands still
        assert await tick_ping(runtime) == PERIOD
        runtime.clock.advance(PERIOD)
    assert len(receiver.requests) == 3
    await runtime.tick("watchdog")
    await tick_ping(runtime)
    assert len(receiver.requests) == 4
    assert counted(runtime) == {"sent": 4, "failed": 0}


async def test_a_server_that_does_not_judge_pings_nothing(runtime: ManualRuntime, receiver: Receiver) -> None:
    await runtime.tick("watchdog")
    runtime.ownership.fence([0], used={0: runtime.ownership.epochs[0]})
    runtime.clock.advance(10)
    await runtime.tick("watchdog")
    await tick_ping(runtime)
    assert receiver.requests == []


async def test_what_fails_is_tried_again_soon_and_logged_once(
    runtime: ManualRuntime, receiver: Receiver
) -> None:
    receiver.answer(503)
    with structlog.testing.capture_logs() as logs:
        await runtime.tick("watchdog")
        for _ in range(3):
            assert await tick_ping(runtime) == PERIOD
        receiver.answer(200)
        assert await tick_ping(runtime) == PING_EVERY
    assert [entry["event"] for entry in logs if entry["event"].startswith("watchdog_ping")] == [
        "watchdog_ping_failed",
        "watchdog_ping_arrived_again",
    ]
    assert counted(runtime) == {"sent": 1, "failed": 3}


async def test_a_server_pings_what_its_settings_name(receiver: Receiver, tmp_path: Path) -> None:
    arrived = asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        arrived.set()
        return web.Response()

    receiver.handler = handler
    settings = Settings(
        store=StoreLocation("sqlite", str(tmp_path)),
        watchdog_ping_url=f"http://127.0.0.1:{receiver.port}/ping/0e1f",
        channel_allow=("127.0.0.1",),
    )
    async with open_engine(settings), asyncio.timeout(60):
        await arrived.wait()
    assert receiver.requests[0][0] == "/ping/0e1f"


async def test_a_server_does_not_start_with_a_secret_that_it_has_not(tmp_path: Path) -> None:
    settings = Settings(
        store=StoreLocation("sqlite", str(tmp_path)), watchdog_ping_url="https://hc.example.com/${secret:k}"
    )
    with pytest.raises(InvalidInput, match=r"watchdog\.ping_url.*there is no secret 'k'"):
        async with open_engine(settings):
            pass
