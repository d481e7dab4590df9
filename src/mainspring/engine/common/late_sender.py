"""A sender that is made when it is first needed: most processes tell nobody anything, and start sooner without it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mainspring.core.channel_settings import ChannelConfig
from mainspring.core.notifications import Message
from mainspring.ports.channel import Sender


class LateSender:
    """Delivers messages by another sender; see `ports.channel.Sender`.

    Args:
        make: makes that sender, without starting it.
    """

    def __init__(self, make: Callable[[], Sender]) -> None:
        self._make = make
        self._made: Sender | None = None
        self._is_started = False
        self._starting = asyncio.Lock()

    async def start(self) -> None:
        """Do nothing: the first message starts it."""

    async def send(self, config: ChannelConfig, message: Message) -> None:
        """Deliver a message."""
        sender = self._get()
        async with self._starting:
            if not self._is_started:
                await sender.start()
                self._is_started = True
        await sender.send(config, message)

    def check(self, config: ChannelConfig, tenant: str, path: str = "config") -> None:
        """Refuse settings of which it is known that no message could be sent with them."""
        self._get().check(config, tenant, path)

    async def stop(self) -> None:
        """Stop what was started."""
        if self._made is not None and self._is_started:
            self._is_started = False
            await self._made.stop()

    def _get(self) -> Sender:
        if self._made is None:
            self._made = self._make()
        return self._made
