"""Where channels may lead: each tenant's to public addresses, and to the internal ones that the operator gives it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mainspring.core.allow_list import EVERY_TENANT, AllowEntry, read_tenant_entry
from mainspring.egress.client import GuardedClient
from mainspring.egress.policy import EgressPolicy

_FIELD = "channels.allow"


class ChannelReach:
    """The clients of channels, by whose channel it is.

    Tenants with different targets never share a client: a connection that one keeps open would serve the other.

    Args:
        allow: the entries of the setting `channels.allow`.
        allow_http: plain http is allowed to public addresses, too.
        make: makes a client that holds to a policy.

    Raises:
        InvalidInput: an entry cannot be read.
    """

    def __init__(
        self, allow: Iterable[str], *, allow_http: bool, make: Callable[[EgressPolicy], GuardedClient]
    ) -> None:
        entries = [read_tenant_entry(text, _FIELD) for text in allow]

        def make_for(*whose: str | None) -> GuardedClient:
            theirs: tuple[AllowEntry, ...] = tuple(entry for tenant, entry in entries if tenant in whose)
            return make(EgressPolicy(allow=theirs, allow_http=allow_http))

        named = {tenant for tenant, _ in entries if tenant is not None} - {EVERY_TENANT}
        self._others = make_for(EVERY_TENANT)
        self._clients = {tenant: make_for(tenant, EVERY_TENANT) for tenant in named}
        self._clients[EVERY_TENANT] = make_for(None, EVERY_TENANT)

    def client_of(self, tenant: str | None) -> GuardedClient:
        """Return the client for a tenant's channels; `*` is the cluster."""
        return self._others if tenant is None else self._clients.get(tenant, self._others)

    async def start(self) -> None:
        """Make ready for calls, on this event loop."""
        for client in (self._others, *self._clients.values()):
            await client.start()

    async def stop(self) -> None:
        """Close all connections."""
        for client in (self._others, *self._clients.values()):
            await client.stop()
