"""The operator's list of internal targets that callbacks may reach: how one entry is written."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

from mainspring.core.fields import read_word
from mainspring.core.values import value
from mainspring.errors import InvalidInput

EVERY_TENANT = "*"
Address = IPv4Address | IPv6Address
HOST_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9.])?\Z")


@value()
class AllowEntry:
    """A network or a host name, and one port or any.

    Attributes:
        network: None if the entry is a name.
        name: in lower case without a final dot; None if the entry is a network.
        port: None means any.
    """

    network: IPv4Network | IPv6Network | None
    name: str | None
    port: int | None


def read_allow_entry(text: str, field: str) -> AllowEntry:
    """Read an entry like `127.0.0.0/8`, `10.1.2.3:9000`, `[::1]:80` or `localhost:8099`.

    Raises:
        InvalidInput: it is neither a network nor a host, or has no valid port; names `field`.
    """
    host, port = _split_port(text, field)
    try:
        return AllowEntry(ip_network(host, strict=False), None, port)
    except ValueError:
        name = host.lower().removesuffix(".")
    if not HOST_NAME.match(name) or "/" in name:
        raise InvalidInput(field, f"{text[:80]!r} is neither a network nor a host, with or without a port")
    return AllowEntry(None, name, port)


def read_tenant_entry(text: str, field: str) -> tuple[str | None, AllowEntry]:
    """Read an entry of the targets of channels, and whose channels it holds for.

    `TENANT=ENTRY` holds for that tenant's channels, and `*=ENTRY` for those of all. An entry alone holds for the
    channels of the whole cluster: None.

    Raises:
        InvalidInput: the tenant is no word, or as with `read_allow_entry`.
    """
    tenant, separator, entry = text.partition("=")
    if not separator:
        return None, read_allow_entry(text, field)
    if tenant != EVERY_TENANT:
        read_word(tenant, field)
    return tenant, read_allow_entry(entry, field)


def _split_port(text: str, field: str) -> tuple[str, int | None]:
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    else:
        host, port = text, ""
    if not port:
        return host, None
    if not port.isdecimal() or not port.isascii() or len(port) > 5 or not 0 < int(port) < 65536:
        raise InvalidInput(field, f"{text[:80]!r} has no port from 1 to 65535")
    return host, int(port)
