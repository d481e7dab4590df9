"""Messages, secrets and receivers for the tests of channels."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from aiohttp import web

from mainspring.channels.senders import Senders
from mainspring.config.secret_settings import SecretPlace
from mainspring.config.secrets import ConfiguredSecrets
from mainspring.core.channel_settings import ChannelConfig
from mainspring.core.ids import RunId
from mainspring.core.notifications import AlertFacts, AlertState, Message, MessageKind, Severity
from mainspring.testing.clock import FakeClock

NOW = datetime(2026, 11, 22, 13, 20, tzinfo=UTC)
LOOPBACK = ("*=127.0.0.0/8",)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_alert(number: int = 12, **changes: object) -> AlertFacts:
    """Make an alert that fires."""
    facts = {
        "alert_id": number,
        "subject": "queue:mail",
        "state": AlertState.FIRING,
        "since": NOW - timedelta(seconds=40),
        "summary": "120 dead runs in queue mail",
        "value": 120.0,
        "url": f"https://jobs.example.org/alerts/{number}",
    }
    return AlertFacts(**{**facts, **changes})  # type: ignore[arg-type]


def make_message(*alerts: AlertFacts, **changes: object) -> Message:
    """Make a message that tells of an alert."""
    facts = {
        "id": "ntf_17",
        "kind": MessageKind.FIRING,
        "tenant": "shop",
        "rule": "dead_letters",
        "severity": Severity.WARNING,
        "alerts": alerts or (make_alert(),),
        "at": NOW,
    }
    return Message(**{**facts, **changes})  # type: ignore[arg-type]


RESOLVED = make_alert(
    state=AlertState.RESOLVED, resolved_at=NOW - timedelta(seconds=5), run_id=RunId(256), value=None, url=None
)


def make_secrets(**secrets: str) -> ConfiguredSecrets:
    """Make secrets of the tenant `shop`, and one of no tenant, whose name is `own`."""
    places = [
        SecretPlace(name, f"env:{name.upper()}", () if name == "own" else ("shop",)) for name in secrets
    ]
    return ConfiguredSecrets(places, {name.upper(): text for name, text in secrets.items()})


class Receiver:
    """A real server on loopback.

    Attributes:
        requests: path, header fields and body of each.
        handler: answers; by default 204.
    """

    def __init__(self) -> None:
        self.port = 0
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.handler: Handler | None = None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Keep a request and answer it."""
        headers = {name.lower(): text for name, text in request.headers.items()}
        self.requests.append((request.path, headers, await request.read()))
        return await self.handler(request) if self.handler else web.Response(status=204)

    def answer(self, status: int, text: str = "", **headers: str) -> None:
        """Answer so from now on."""

        async def handler(request: web.Request) -> web.Response:
            return web.Response(status=status, text=text, headers=headers)

        self.handler = handler

    @property
    def url(self) -> str:
        """Where it takes messages."""
        return f"http://127.0.0.1:{self.port}/hook"


@asynccontextmanager
async def running_receiver() -> AsyncIterator[Receiver]:
    """Run a receiver."""
    receiver = Receiver()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", receiver.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    receiver.port = runner.addresses[0][1]
    try:
        yield receiver
    finally:
        await runner.cleanup()


async def send(config: ChannelConfig, message: Message | None = None, **options: object) -> None:
    """Send one message through senders that may reach loopback."""
    secrets = options.pop("secrets", make_secrets())
    settings = {"secrets": secrets, "clock": FakeClock(NOW), "allow": LOOPBACK, **options}
    senders = Senders(**settings)  # type: ignore[arg-type]
    await senders.start()
    try:
        await senders.send(config, message or make_message())
    finally:
        await senders.stop()
