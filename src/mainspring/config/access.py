"""From where the API may be reached, and under which names it may be asked (ADR 0018)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from mainspring.errors import InvalidInput

_NAME = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*"
)


@dataclass(frozen=True, slots=True)
class Access:
    """What the API's guard lets pass.

    Attributes:
        is_open: others than this machine may reach the API; all of them are trusted, as long as there are no tokens.
        names: names and addresses, in the form of `plain_host`, under which it may be asked, beside loopback's and the
            address at which a connection arrived.
    """

    is_open: bool = False
    names: frozenset[str] = frozenset()


def read_access(host: str, allow_hosts: Iterable[str], *, trusted_network: bool) -> Access:
    """Read who may reach an API that is bound to `host`.

    Args:
        allow_hosts: further names under which it may be asked.
        trusted_network: the operator says that whoever can reach that address may do everything.

    Raises:
        InvalidInput: a name or the address is none, or the API would be open without the operator's word.
    """
    names = frozenset(_read_name(name) for name in allow_hosts)
    if host != "localhost" and _address(host) is None:
        raise InvalidInput(
            "host", f"{host[:80]!r} is not an address; give one of this machine, or 0.0.0.0 for all"
        )
    is_open = not is_loopback(host) or bool(names)
    if is_open and not trusted_network:
        word = "say with --trusted-network that whoever can reach it may define and run jobs"
        if names:
            raise InvalidInput(
                "allow_host", f"other names mean other callers, and there are no access tokens; {word}"
            )
        raise InvalidInput(
            "host", f"{host} is not a loopback address, and there are no access tokens; {word}"
        )
    return Access(is_open=is_open, names=names)


def is_loopback(host: str) -> bool:
    """Say whether an address is reachable from this machine only."""
    if host == "localhost":
        return True
    address = _address(host)
    return address is not None and address.is_loopback


def plain_host(text: str) -> str:
    """Return a name or address in the one form in which they are compared."""
    address = _address(text)
    if isinstance(address, IPv6Address):
        # A socket for both families tells addresses of the old one so; a link's own name is nobody else's business.
        return str(address.ipv4_mapped or IPv6Address(int(address)))
    return str(address) if address is not None else text.lower().removesuffix(".")


def _read_name(text: str) -> str:
    name = plain_host(text.removeprefix("[").removesuffix("]"))
    address = _address(name)
    if address is None and _NAME.fullmatch(name) is None:
        message = "is not a host's name or address; give it without scheme, port and wildcards"
        raise InvalidInput("allow_host", f"{text[:80]!r} {message}")
    if address is not None and address.is_unspecified:
        raise InvalidInput("allow_host", f"{text} is no address to ask at; name those that clients use")
    return name


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None
