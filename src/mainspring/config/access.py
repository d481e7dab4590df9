"""Who can reach the API, and under which host names it answers (ADR 0018)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address

from mainspring.config.kinds import read_each
from mainspring.core.values import value
from mainspring.errors import InvalidInput

_NAME = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*"
)


@value()
class Access:
    """What the API's guard lets through.

    Attributes:
        is_open: other machines may reach the API, and all of them are trusted as long as there are no accounts.
        needs_accounts: other machines may reach the API, but nobody may do anything without an account.
        names: further names and addresses under which it answers, in the form of `plain_host`. It always answers
            under loopback's and under the address at which a connection arrived.
    """

    is_open: bool = False
    needs_accounts: bool = False
    names: frozenset[str] = frozenset()


def read_access(
    host: str,
    allow_hosts: Iterable[str],
    *,
    trusted_network: bool,
    is_encrypted: bool = False,
    is_proxied: bool = False,
) -> Access:
    """Decide who may reach an API that is bound to `host`.

    Args:
        allow_hosts: further names under which it answers.
        trusted_network: the operator states that everyone who can reach the address may do everything.
        is_encrypted: the API has TLS.
        is_proxied: a proxy in front of it has TLS, and lends its callers its own address.

    Raises:
        InvalidInput: a name or the address is malformed, or the API would be open without the operator's consent.
    """
    names = frozenset(read_each(allow_hosts, _read_name, "allow_host"))
    if host != "localhost" and _address(host) is None:
        raise InvalidInput(
            "host", f"{host[:80]!r} is not an address; give one of this machine, or 0.0.0.0 for all"
        )
    is_reached = not is_loopback(host) or bool(names) or is_proxied
    if is_reached and not (trusted_network or is_encrypted or is_proxied):
        word = (
            "give --tls-cert and --tls-key, or --behind-proxy with the address of a proxy that has TLS; or say with"
            " --trusted-network that nobody listens in, and that as long as there are no accounts everyone who can"
            " reach it may define and run jobs"
        )
        if names:
            raise InvalidInput("allow_host", f"other names mean other callers, and there is no TLS; {word}")
        raise InvalidInput("host", f"{host} is not a loopback address, and there is no TLS; {word}")
    return Access(
        is_open=is_reached and trusted_network, needs_accounts=is_reached and not trusted_network, names=names
    )


def read_proxy(text: str) -> str:
    """Return the address of a proxy.

    Raises:
        InvalidInput: it is not an address.
    """
    if _address(text) is None:
        raise InvalidInput(
            "behind_proxy", f"{text[:80]!r} is not an address; give the one from which the proxy calls"
        )
    return plain_host(text)


def is_loopback(host: str) -> bool:
    """Say whether an address is reachable from this machine only."""
    if host == "localhost":
        return True
    address = _address(host)
    return address is not None and address.is_loopback


def plain_host(text: str) -> str:
    """Return a name or address in the one form that is used for comparison."""
    address = _address(text)
    if isinstance(address, IPv6Address):
        # A dual-stack socket reports IPv4 addresses in mapped form. The zone of a link is dropped: it is local.
        return str(address.ipv4_mapped or IPv6Address(int(address)))
    return str(address) if address is not None else text.lower().removesuffix(".")


def _read_name(text: str) -> str:
    name = plain_host(text.removeprefix("[").removesuffix("]"))
    address = _address(name)
    if address is None and _NAME.fullmatch(name) is None:
        message = "is not a host's name or address; give it without scheme, port and wildcards"
        raise InvalidInput("allow_host", f"{text[:80]!r} {message}")
    if address is not None and address.is_unspecified:
        raise InvalidInput(
            "allow_host", f"{text} is not an address that a client can use; name the ones that clients do use"
        )
    return name


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None
