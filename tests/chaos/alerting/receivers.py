"""Receivers of alerts as a process: `python -m tests.chaos.alerting.receivers FILE [--flaky 0.3] [--seed 1]`.

A webhook that checks the signature of Standard Webhooks, a mailbox, and what a real Alertmanager tells its receiver.
Each message becomes a line of the file before it is answered. The first line of stdout says which ports they have.
`--flaky` has the webhook refuse some messages that it has taken, or hang up on them: a sender has to try these again.
It imports nothing of the product, so it cannot share its mistakes.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import hmac
import json
import os
import re
import sys
import time
from collections.abc import Sequence
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from random import Random
from typing import Any

from aiohttp import web
from aiosmtpd.smtp import SMTP, Envelope, Session

from tests.chaos.lines import append_line

KEY_VARIABLE = "SIGNING_KEY"
WEBHOOK, MAIL, ALERTMANAGER = "webhook", "mail", "Alertmanager"
_KINDS = {"firing": "firing", "still firing": "repeat", "resolved": "resolved", "test": "test"}
_OLDEST = 300.0
"""Seconds that a signature may be old, as Standard Webhooks advises."""


class Receivers:
    """Takes messages and writes them down.

    Args:
        file: where each becomes a line.
        key: the signing key of the webhook, `whsec_…`.
        flaky: the share of messages that the webhook does not answer well, although it took them.
    """

    def __init__(self, file: Path, *, key: str, flaky: float = 0.0, seed: int = 1) -> None:
        self._file = file
        self._key = base64.b64decode(key.removeprefix("whsec_"))
        self._flaky = flaky
        self._random = Random(f"receivers:{seed}")

    def note(self, by: str, kind: str, message: str, alerts: Sequence[Sequence[str]], more: int = 0) -> None:
        """Write down who was told what."""
        line = {"at": time.time(), "by": by, "kind": kind, "id": message, "alerts": alerts, "more": more}
        append_line(self._file, json.dumps(line))

    async def take_webhook(self, request: web.Request) -> web.Response:
        """Check a message of Standard Webhooks, and take it."""
        body = await request.read()
        trouble = self._find_trouble(request, body)
        if trouble is not None:
            self.note(WEBHOOK, f"refused: {trouble}", request.headers.get("webhook-id", ""), [])
            return web.Response(status=401, text=trouble)
        message = json.loads(body)
        data = message["data"]
        alerts = [
            [data["tenant"], data["rule"], one["subject"], str(one["alert_id"])] for one in data["alerts"]
        ]
        kind = message["type"].removeprefix("mainspring.alert.")
        self.note(WEBHOOK, kind, request.headers["webhook-id"], alerts, data["more"])
        fate = self._random.random() / self._flaky if self._flaky else 1.0
        if fate < 0.5:
            return web.Response(status=503)
        if fate < 1.0 and request.transport is not None:
            request.transport.abort()
        return web.Response(status=204)

    def _find_trouble(self, request: web.Request, body: bytes) -> str | None:
        names = ("webhook-id", "webhook-timestamp", "webhook-signature")
        message, at, signatures = (request.headers.get(name, "") for name in names)
        if not at.isdigit() or abs(time.time() - int(at)) > _OLDEST:
            return "the timestamp is missing or old"
        signed = f"{message}.{at}.".encode() + body
        mine = b"v1," + base64.b64encode(hmac.digest(self._key, signed, hashlib.sha256))
        if not any(hmac.compare_digest(mine, theirs.encode()) for theirs in signatures.split()):
            return "the signature is wrong"
        return None

    async def take_notification(self, request: web.Request) -> web.Response:
        """Take what an Alertmanager tells its receiver."""
        told = json.loads(await request.read())
        for alert in told["alerts"]:
            labels = alert["labels"]
            about = [labels["tenant"], labels["alertname"], labels["subject"], alert["startsAt"]]
            self.note(ALERTMANAGER, alert["status"], alert["fingerprint"], [about])
        return web.Response()

    async def handle_DATA(  # noqa: N802 -- the library's name
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        """Take a mail."""
        del server, session
        content = envelope.content
        assert isinstance(content, bytes)
        mail = message_from_bytes(content, _class=EmailMessage, policy=policy.default)
        word = re.match(r"\[([\w ]+)\]", mail["Subject"].strip())
        kind = "other" if word is None else _KINDS[word[1]]
        tenant, rule = mail["X-Mainspring-Tenant"], mail["X-Mainspring-Rule"]
        text = mail.get_content().replace("\r\n", "\n")
        alerts = [
            [tenant, rule, subject, ""]
            for subject in re.findall(r"^(?:FIRING|RESOLVED)  (.*)$", text, re.MULTILINE)
        ]
        more = re.search(r"^… and (\d+) more\.$", text, re.MULTILINE)
        self.note(MAIL, kind, mail["Message-ID"], alerts, 0 if more is None else int(more[1]))
        return "250 OK"


async def receive(receivers: Receivers) -> None:
    """Listen until this process is ended."""
    loop = asyncio.get_running_loop()
    mailbox = await loop.create_server(lambda: SMTP(receivers, hostname="mail.test"), "127.0.0.1", 0)
    app = web.Application()
    app.router.add_post("/hook", receivers.take_webhook)
    app.router.add_post("/alertmanager", receivers.take_notification)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    ports: dict[str, Any] = {"http": runner.addresses[0][1], "mail": mailbox.sockets[0].getsockname()[1]}
    print(json.dumps(ports), flush=True)
    await asyncio.Event().wait()


def main() -> None:
    """Receive until this process is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--flaky", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    receivers = Receivers(given.file, key=os.environ[KEY_VARIABLE], flaky=given.flaky, seed=given.seed)
    try:
        asyncio.run(receive(receivers))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
