"""The server through which mail leaves."""

from __future__ import annotations

from mainspring.core.limits import CLUSTER
from mainspring.core.values import value


@value(kw_only=True)
class MailServer:
    """How mail is handed over.

    Attributes:
        is_tls: the connection begins with TLS.
        is_plain: there is no TLS at all. Otherwise STARTTLS is a must.
        user: None does not log in.
        password: the name of the secret that holds it; None if there is no user.
        sender: the address that mail comes from, with or without a name before it.
        recipients: domains and addresses to which channels of tenants may mail; `*` is any. Empty is the sender's own
            domain.
    """

    host: str
    port: int
    sender: str
    is_tls: bool = False
    is_plain: bool = False
    user: str | None = None
    password: str | None = None
    recipients: tuple[str, ...] = ()

    def may_mail(self, tenant: str, address: str) -> bool:
        """Say whether a tenant's channels may mail to an address. Those of the cluster may mail to any."""
        if tenant == CLUSTER:
            return True
        own = self.sender.rpartition("@")[2].removesuffix(">")
        allowed = {entry.lower() for entry in self.recipients or (own,)}
        address = address.lower()
        return not allowed.isdisjoint({"*", address, address.rpartition("@")[2]})
