"""Alerts in a real Alertmanager, Debian's: they fire, are told on, and end."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from aiohttp import web

from mainspring.channels.senders import Senders
from mainspring.core.channel_settings import AlertmanagerChannel
from mainspring.core.notifications import AlertState, MessageKind
from mainspring.ports.channel import ChannelUnavailable, MessageRefused
from mainspring.testing.clock import FakeClock
from tests.deployment.prometheus import CANNOT_BE_HAD, SCRIPT, free_port
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
    command = [str(SCRIPT), "prometheus-alertmanager"]
    found = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False, timeout=120)
    if found.returncode == CANNOT_BE_HAD:
        if os.environ.get("CI") == "true":
            pytest.fail(found.stderr)
        pytest.skip(found.stderr.strip().splitlines()[-1])
    route = {"receiver": "test", "group_wait": "0s", "group_interval": "1s", "group_by": ["alertname"]}
    hook = {"url": receiver, "send_resolved": True}
    (folder / "alertmanager.yml").write_text(
        yaml.safe_dump({"route": route, "receivers": [{"name": "test", "webhook_configs": [hook]}]})
    )
    port = free_port()
    options = {
        "config.file": folder / "alertmanager.yml",
        "storage.path": folder / "data",
        "web.listen-address": f"127.0.0.1:{port}",
        "cluster.listen-address": "",
    }
    with (folder / "alertmanager.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, *(f"--{name}={value}" for name, value in options.items())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        wait_until_ready(f"http://127.0.0.1:{port}/-/ready", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def wait_until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until it answers; fail if it ends instead."""
    while True:
        try:
            if httpx.get(url).is_success:
                return
        except httpx.TransportError:
            assert process.poll() is None, "Alertmanager has ended; see alertmanager.log"
            time.sleep(0.1)


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
