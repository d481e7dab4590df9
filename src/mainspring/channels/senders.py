"""The sender of all kinds of channels."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from datetime import timedelta

from mainspring.channels.alertmanager import AlertmanagerSender
from mainspring.channels.mail import NO_MAIL, NOT_THERE, MailSender
from mainspring.channels.posting import Poster, parts_of
from mainspring.channels.reach import ChannelReach
from mainspring.channels.slack import SlackSender
from mainspring.channels.webhook import WebhookSender
from mainspring.core.channel_settings import (
    AlertmanagerChannel,
    ChannelConfig,
    EmailChannel,
    SlackChannel,
    WebhookChannel,
    secrets_of,
)
from mainspring.core.mail_server import MailServer
from mainspring.core.notifications import Message
from mainspring.core.secrets import is_mark
from mainspring.egress.client import GuardedClient, Lookup
from mainspring.egress.policy import parse_url
from mainspring.egress.secrets import Revealer
from mainspring.errors import InvalidInput
from mainspring.ports.channel import ChannelUnavailable
from mainspring.ports.clock import Clock
from mainspring.ports.secrets import SecretMissing, Secrets


class Senders:
    """Delivers messages by the kind of their channel; see `ports.channel.Sender`.

    Args:
        secrets: those that channels name.
        clock: gives the instants that signatures and alerts have.
        mail: the server through which mail leaves; None sends none.
        allow: internal targets that channels may reach: entries as in `executors.http.allow`, for channels of the
            cluster, or `TENANT=ENTRY` and `*=ENTRY` for those of one tenant and of all.
        allow_http: channels may use plain http to public addresses, too.
        limit: how long delivery may take.
        lookup: resolves a host; by default through the system's resolver.
        tls: how certificates are checked; by default against the system's authorities.

    Raises:
        InvalidInput: an entry of `allow` cannot be read.
        MissingExtra: mail is to be sent, and the extra `mail` is not installed.
    """

    def __init__(
        self,
        *,
        secrets: Secrets,
        clock: Clock,
        mail: MailServer | None = None,
        allow: Iterable[str] = (),
        allow_http: bool = False,
        limit: timedelta = timedelta(seconds=10),
        lookup: Lookup | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._secrets = secrets
        self._reach = ChannelReach(
            allow,
            allow_http=allow_http,
            make=lambda policy: GuardedClient(policy, connect_timeout=limit, lookup=lookup, tls=tls),
        )
        poster = Poster(self._reach, limit)
        self._webhook = WebhookSender(poster, clock)
        self._slack = SlackSender(poster)
        self._alertmanager = AlertmanagerSender(poster, clock)
        self._mail = MailSender(mail, secrets, clock, limit=limit, tls=tls)

    async def start(self) -> None:
        await self._reach.start()

    async def send(self, config: ChannelConfig, message: Message) -> None:
        revealer = Revealer(self._secrets, message.channel_tenant or message.tenant)
        try:
            await self._send(config, message, revealer)
        except SecretMissing as error:  # the operator may add it while the message is tried again
            raise ChannelUnavailable(str(error)) from None

    async def _send(self, config: ChannelConfig, message: Message, revealer: Revealer) -> None:
        if not isinstance(config, EmailChannel):
            revealer.remember(*parts_of(revealer.fill(config.url)))
        if isinstance(config, WebhookChannel | AlertmanagerChannel):
            revealer.remember(*map(revealer.fill, config.headers.values()))
        match config:
            case WebhookChannel():
                await self._webhook.send(config, message, revealer)
            case SlackChannel():
                await self._slack.send(config, message, revealer)
            case AlertmanagerChannel():
                await self._alertmanager.send(config, message, revealer)
            case EmailChannel():
                await self._mail.send(config, message)

    def check(self, config: ChannelConfig, tenant: str, path: str = "config") -> None:
        if isinstance(config, EmailChannel):
            if self._mail.server is None:
                raise InvalidInput(path, NO_MAIL)
            for number, address in enumerate(config.to):
                if not self._mail.server.may_mail(tenant, address):
                    raise InvalidInput(f"{path}.to[{number}]", f"{address} {NOT_THERE}")
            return
        if not is_mark(config.url):
            parse_url(config.url, f"{path}.url")
        for name in secrets_of(config):
            try:
                self._secrets.check(name, tenant)
            except SecretMissing as error:
                raise InvalidInput(path, str(error)) from None

    async def stop(self) -> None:
        await self._reach.stop()
