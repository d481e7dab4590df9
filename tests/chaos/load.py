"""Submits runs at a steady rate; each has a key and is repeated until it is acknowledged."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import aiohttp.web

from tests.chaos.effects import write_effect
from tests.chaos.processes import Product

_TIMEOUT = aiohttp.ClientTimeout(total=5)


@dataclass(slots=True)
class Load:
    """The submitter.

    Attributes:
        jobs: ids of the jobs that are submitted in turn.
        acknowledged: ids of runs whose submission was answered, by key.
        retries: submissions that had to be repeated.
    """

    product: Product
    jobs: list[str]
    rate: float
    acknowledged: dict[str, str] = field(default_factory=dict)
    retries: int = 0
    is_stopping: bool = False

    async def run(self) -> None:
        """Submit until told to stop, then wait for what is open."""
        async with aiohttp.ClientSession(timeout=_TIMEOUT) as session, asyncio.TaskGroup() as group:
            started, number = time.monotonic(), 0
            while not self.is_stopping:
                group.create_task(self._submit(session, f"key-{number}", self.jobs[number % len(self.jobs)]))
                number += 1
                await asyncio.sleep(max(started + number / self.rate - time.monotonic(), 0))

    async def _submit(self, session: aiohttp.ClientSession, key: str, job_id: str) -> None:
        while True:
            url = f"{self.product.address}/api/v1/jobs/{job_id}/runs"
            try:
                async with session.post(url, headers={"Idempotency-Key": key}, json={}) as answer:
                    body = await answer.json(content_type=None)
                    if answer.status in {200, 202}:
                        self.acknowledged[key] = body["run_id"]
                        return
                    if answer.status != 503:
                        raise RuntimeError(f"submission answered {answer.status}: {body}")
            except (aiohttp.ClientError, TimeoutError, ValueError):
                self.retries += 1  # killed in the middle: nobody knows, the key will tell
            await asyncio.sleep(0.05)


class Receiver:
    """A real HTTP server that writes an effect for each callback before it answers."""

    def __init__(self, effects: Path) -> None:
        self._effects = effects
        self._runner: aiohttp.web.AppRunner | None = None
        self.address = ""

    async def start(self) -> None:
        """Listen on a free loopback port."""
        app = aiohttp.web.Application()
        app.router.add_post("/hook", self._receive)
        self._runner = aiohttp.web.AppRunner(app)
        await self._runner.setup()
        site = aiohttp.web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.address = f"{host}:{port}"

    async def _receive(self, request: aiohttp.web.Request) -> aiohttp.web.Response:
        run_id, token = request.headers["Mainspring-Run-Id"], request.headers["Mainspring-Token"]
        for what in ("start", "end"):
            write_effect(self._effects / "http.effects", what, run_id, token)
        return aiohttp.web.Response(status=204)

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()
