"""Webhooks: JSON, signed as the specification Standard Webhooks has it."""

from __future__ import annotations

import json

from mainspring.channels.posting import Poster
from mainspring.core.channel_settings import WebhookChannel
from mainspring.core.notifications import Message, describe_message
from mainspring.core.webhooks import identify, sign
from mainspring.egress.secrets import Revealer
from mainspring.ports.clock import Clock


class WebhookSender:
    """Posts messages to the URLs of webhooks."""

    def __init__(self, poster: Poster, clock: Clock) -> None:
        self._poster = poster
        self._clock = clock

    async def send(self, config: WebhookChannel, message: Message, revealer: Revealer) -> None:
        """Post a message; see `ports.channel.Sender`."""
        body = json.dumps(describe_message(message), ensure_ascii=False, separators=(",", ":")).encode()
        now = self._clock.now()  # not the message's own time: a receiver refuses what was signed long ago
        headers = revealer.fill_headers(config.headers)
        if config.signing is None:
            headers |= identify(message.id, now)
        else:
            headers |= sign(revealer.signing_keys(config.signing), message.id, now, body)
        await self._poster.post(revealer.fill(config.url), body, headers, revealer)
