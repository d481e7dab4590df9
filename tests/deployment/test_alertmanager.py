"""Alerts in a real Alertmanager, Debian's: they fire, are told on, and end."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web

from mainspring.channels.senders import Senders
from mainspring.core.channel_settings import AlertmanagerChannel
from mainspring.core.notifications import AlertState, MessageKind
from mainspring.ports.channel import ChannelUnavailable, MessageRefused
from mainspring.testing.clock import FakeClock
from tests.deployment.alertmanagers import NoAlertmanagerError, running_alertmanager
from tests.unit.channels.messages import make_alert, make_message, make_secrets, running_receiver

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


class Told:
    """What an Alertmanager tells its own receiver."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def handle(self, request: web.Request) -> web.Response:
        """Keep a notification."""
        await self._queue.put(json.loads(await request.read()))
        return web.Response()

    async def wait(self, status: str) -> list[dict[str, Any]]:
        """Return the alerts of the next notification with this status."""
        while (told := await self._queue.get())["status"] != status:
            pass
        alerts: list[dict[str, Any]] = told["alerts"]
        return alerts


@contextmanager
def alertmanager(folder: Path, receiver: str) -> Iterator[str]:
    """Run an Alertmanager that tells a receiver at once; skip where it cannot be had."""
    try:
        with running_alertmanager(folder, receiver) as url:
            yield url
    except NoAlertmanagerError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))


async def alerts_of(url: str) -> list[dict[str, Any]]:
    """Return the alerts that an Alertmanager knows."""
    async with httpx.AsyncClient() as client:
        answer: list[dict[str, Any]] = (await client.get(f"{url}/api/v2/alerts")).json()
        return answer


async def test_alert_fires_is_told_once_and_ends(tmp_path: Path) -> None:
    told = Told()
    now = datetime.now(UTC)
    alert = make_alert(since=now - timedelta(minutes=1))
    message = make_message(alert, at=now)
    clock = FakeClock(now)
    senders = Senders(secrets=make_secrets(), clock=clock, allow=("*=127.0.0.0/8",))
    await senders.start()
    try:
        async with running_receiver() as receiver:
            with alertmanager(tmp_path, receiver.url) as url:
                receiver.handler = told.handle
                config = AlertmanagerChannel(url=url)
                await senders.send(config, message)
                (fired,) = await told.wait("firing")
                assert fired["labels"] == {
                    "alertname": "dead_letters",
                    "severity": "warning",
                    "source": "mainspring",
                    "subject": "queue:mail",
                    "tenant": "shop",
                }
                assert fired["annotations"] == {"summary": "120 dead runs in queue mail", "value": "120"}
                assert fired["generatorURL"] == alert.url

                clock.advance(60)
                await senders.send(config, replace(message, id="ntf_18", kind=MessageKind.REPEAT))
                (kept,) = await alerts_of(url)
                assert datetime.fromisoformat(kept["startsAt"]) == alert.since.replace(
                    microsecond=alert.since.microsecond // 1000 * 1000
                )
                left = datetime.fromisoformat(kept["endsAt"]) - now
                assert timedelta(minutes=4, seconds=59) < left <= timedelta(minutes=5)

                ended = replace(alert, state=AlertState.RESOLVED, resolved_at=now)
                await senders.send(config, make_message(ended, id="ntf_19", kind=MessageKind.RESOLVED))
                (resolved,) = await told.wait("resolved")
                assert resolved["fingerprint"] == fired["fingerprint"]
                assert await alerts_of(url) == []

                with pytest.raises(ChannelUnavailable, match="response status 404"):
                    await senders.send(AlertmanagerChannel(url=f"{url}/elsewhere"), message)
                with pytest.raises(MessageRefused, match="response status 4"):
                    await senders.send(config, make_message(replace(alert, url="no url"), rule=""))
    finally:
        await senders.stop()
