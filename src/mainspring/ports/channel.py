"""The port of channels, which carry alerts to people: webhook, Slack, e-mail, Alertmanager."""

from __future__ import annotations

from datetime import timedelta
from typing import Protocol

from mainspring.core.channel_settings import ChannelConfig
from mainspring.core.notifications import Message
from mainspring.errors import MainspringError


class MessageRefused(MainspringError):
    """The receiver will not take this message, or the channel's settings are wrong. Do not try again.

    The message of the error may be shown to the owner of the channel: it holds no secret.
    """


class ChannelUnavailable(MainspringError):
    """The receiver did not take the message now. Try again later, with the same message.

    Attributes:
        retry_after: how long the receiver asks to wait; None if it does not say.
    """

    def __init__(self, message: str, *, retry_after: timedelta | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Sender(Protocol):
    """Delivers messages. One sender serves all channels; call `start` first, and `stop` at the end."""

    async def start(self) -> None:
        """Make ready to send."""
        ...

    async def send(self, config: ChannelConfig, message: Message) -> None:
        """Deliver a message; return once the receiver has taken it. May be called many times at once.

        A message that was sent may arrive twice if its answer is lost; it has the same id each time.

        Args:
            config: the channel's settings; secrets are those that the message's tenant may use.

        Raises:
            MessageRefused: it will never be taken.
            ChannelUnavailable: it was not taken now.
        """
        ...

    def check(self, config: ChannelConfig, tenant: str, path: str = "config") -> None:
        """Refuse settings of which it is known that no message could be sent with them.

        Args:
            path: the name of the field that holds them.

        Raises:
            InvalidInput: a URL is not plain, this server has no such secret for this tenant, or it sends no mail.
        """
        ...

    async def stop(self) -> None:
        """Let go of connections. Messages that are under way fail as unavailable."""
        ...


class Pinger(Protocol):
    """Tells a monitor elsewhere that this cluster is watched. Call `start` first, and `stop` at the end."""

    async def start(self) -> None:
        """Make ready to ping."""
        ...

    async def ping(self) -> None:
        """Ping once; return when the monitor has taken it.

        Raises:
            MessageRefused: it will never take it.
            ChannelUnavailable: it did not take it now.
        """
        ...

    async def stop(self) -> None:
        """Let go of connections."""
        ...
