"""A real HTTP server for callbacks: it writes an effect for each before it answers."""

from __future__ import annotations

from pathlib import Path
from random import Random

import aiohttp.web

from tests.chaos.effects import Pen

FLAKY = "/flaky"
STEADY = "/hook"


class Receiver:
    """Listens on loopback; what comes to `/flaky` fails at times.

    Attributes:
        address: host and port, once started.
    """

    def __init__(self, effects: Path) -> None:
        self._path = effects / "http.effects"
        self._runner: aiohttp.web.AppRunner | None = None
        self.address = ""

    async def start(self) -> None:
        """Listen on a free port."""
        app = aiohttp.web.Application()
        app.router.add_post(STEADY, self._receive)
        app.router.add_post(FLAKY, self._receive)
        self._runner = aiohttp.web.AppRunner(app)
        await self._runner.setup()
        site = aiohttp.web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.address = f"{host}:{port}"

    async def _receive(self, request: aiohttp.web.Request) -> aiohttp.web.Response:
        of = {
            name: request.headers[f"Mainspring-{name}"] for name in ("Run-Id", "Job-Id", "Token", "Attempt")
        }
        pen = Pen(self._path, of["Run-Id"], of["Job-Id"], int(of["Token"]), int(of["Attempt"]), "http")
        pen.start()
        is_bad = request.path == FLAKY and Random(f"{pen.run}:{pen.token}").random() < 0.3
        pen.end("failed" if is_bad else "done")
        return aiohttp.web.Response(status=500 if is_bad else 200, text=str(pen.token))

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()
