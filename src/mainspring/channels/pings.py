"""Pings a monitor elsewhere, which watches the watchdog: when the pings end, it says so."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from datetime import timedelta

from mainspring.channels.posting import Poster, parts_of
from mainspring.channels.reach import ChannelReach
from mainspring.core.rights import ALL_TENANTS
from mainspring.core.secrets import is_mark, names_in
from mainspring.egress.client import GuardedClient, Lookup
from mainspring.egress.policy import parse_url
from mainspring.egress.secrets import Revealer
from mainspring.errors import InvalidInput
from mainspring.ports.channel import ChannelUnavailable
from mainspring.ports.secrets import SecretMissing, Secrets


class UrlPinger:
    """Gets a URL of the operator's, where channels of the cluster may lead, too; see `ports.channel.Pinger`.

    Args:
        url: may hold secrets, as `${secret:NAME}`.
        field: the setting that it comes from, for errors.
        allow, allow_http, limit, lookup, tls: as for `Senders`.

    Raises:
        InvalidInput: the URL cannot be read, or this process has no such secret.
    """

    def __init__(
        self,
        url: str,
        field: str,
        *,
        secrets: Secrets,
        allow: Iterable[str] = (),
        allow_http: bool = False,
        limit: timedelta = timedelta(seconds=10),
        lookup: Lookup | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        if not is_mark(url):
            parse_url(url, field)
        for name in names_in(url):
            try:
                secrets.check(name, None)
            except SecretMissing as error:
                raise InvalidInput(field, str(error)) from None
        self._url = url
        self._secrets = secrets
        self._reach = ChannelReach(
            allow,
            allow_http=allow_http,
            make=lambda policy: GuardedClient(policy, connect_timeout=limit, lookup=lookup, tls=tls),
        )
        self._poster = Poster(self._reach, limit)

    async def start(self) -> None:
        """Make ready."""
        await self._reach.start()

    async def ping(self) -> None:
        """Get the URL."""
        revealer = Revealer(self._secrets, ALL_TENANTS)
        try:
            # What the setting names is the operator's own, whichever tenants may use it.
            own = Revealer(self._secrets, None)
            url = own.fill(self._url)
        except SecretMissing as error:
            raise ChannelUnavailable(str(error)) from None
        revealer.remember(*parts_of(url))
        await self._poster.get(url, revealer)

    async def stop(self) -> None:
        """Let go of connections."""
        await self._reach.stop()
