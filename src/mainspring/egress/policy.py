"""Decides where calls to addresses that users name may connect (reliability 4.3).

It is pure: texts and addresses in, a verdict out; no DNS.

An address is judged in the form that is used to connect, never by the text of the URL. So `0x7f.1`, `2130706433` and
a name that resolves to 127.0.0.1 are all the same. IPv6 forms that carry an IPv4 address are unwrapped and judged
again, since `ipaddress` calls some of them global.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Literal
from urllib.parse import urlsplit

from mainspring.core.allow_list import HOST_NAME, Address, AllowEntry, read_allow_entry
from mainspring.core.targets.http import MAX_URL
from mainspring.core.values import value
from mainspring.errors import InvalidInput

DEFAULT_PORTS = frozenset({80, 443, 8080, 8443})

_GLOBAL_V6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
_6TO4 = IPv6Network("2002::/16")
_EMBEDS_V4 = (IPv6Network("::/96"), IPv6Network("::ffff:0:0/96"), IPv6Network("::ffff:0:0:0/96"), _NAT64)
_NEVER_GLOBAL = (
    IPv4Network("192.0.0.0/24"),  # protocol assignments
    IPv4Network("192.88.99.0/24"),  # 6to4 relays
    IPv6Network("2001::/23"),  # protocol assignments, Teredo among them
    IPv6Network("3fff::/20"),  # documentation
)
_METADATA = frozenset(
    map(ip_address, ("169.254.169.254", "169.254.170.2", "168.63.129.16", "100.100.100.200", "fd00:ec2::254"))
)
_ISATAP = (0x00005EFE, 0x02005EFE)


class Blocked(Exception):
    """A connection is not allowed. The message may be shown to the owner of the job or channel."""


@value()
class Destination:
    """The endpoint that a URL names.

    Attributes:
        host: a name in lower case without a final dot, or an address without brackets.
    """

    scheme: Literal["http", "https"]
    host: str
    port: int


@value(kw_only=True)
class EgressPolicy:
    """Decides which connections are allowed.

    Attributes:
        allow: internal targets that the operator allows; they may also be reached by plain http.
        allow_http: plain http is allowed to public addresses, too.
        ports: the ports allowed at public addresses.
    """

    allow: tuple[AllowEntry, ...] = ()
    allow_http: bool = False
    ports: frozenset[int] = field(default=DEFAULT_PORTS)

    def check(self, endpoint: Destination, addresses: Iterable[str]) -> None:
        """Check every address that a host resolved to.

        Raises:
            Blocked: one of them is not allowed, or there is none.
        """
        is_empty = True
        for text in addresses:
            is_empty = False
            self._check_one(endpoint, text)
        if is_empty:
            raise Blocked(f"{endpoint.host} has no address")

    def _check_one(self, endpoint: Destination, text: str) -> None:
        address = _parse_address(text)
        refused = f"{endpoint.host} is not a public address, and not on the allow-list"
        if address is None or any(form in _METADATA for form in _forms(address)):
            raise Blocked(refused)
        if any(_covers(entry, endpoint, address) for entry in self.allow):
            return
        if not is_public(address):
            raise Blocked(refused)
        if endpoint.scheme != "https" and not self.allow_http:
            raise Blocked("only https is allowed, and plain http for targets on the allow-list")
        if endpoint.port not in self.ports:
            raise Blocked(f"port {endpoint.port} is not allowed")


def make_policy(
    allow: Iterable[str] = (), *, allow_http: bool = False, field: str = "executors.http.allow"
) -> EgressPolicy:
    """Read the operator's settings: entries like `127.0.0.0/8`, `10.1.2.3:9000`, `[::1]:80`, `localhost:8099`.

    Args:
        field: the setting that holds them.

    Raises:
        InvalidInput: an entry is neither a network nor a host.
    """
    entries = tuple(read_allow_entry(text, field) for text in allow)
    return EgressPolicy(allow=entries, allow_http=allow_http)


@lru_cache(maxsize=1024)
def check_url(url: str, field: str = "callback_url") -> None:
    """Check the form of a URL when a job is created: syntax, scheme, no credentials. No DNS.

    What is right is remembered: many jobs call the same URL.

    Raises:
        InvalidInput: names `field`.
    """
    parse_url(url, field)


def parse_url(url: object, field: str = "target.url") -> Destination:
    """Read the endpoint that a URL names. It is strict, so that no other parser can read something else.

    Raises:
        InvalidInput: names `field`.
    """
    if not isinstance(url, str) or not url or len(url) > MAX_URL:
        raise InvalidInput(field, f"a URL of at most {MAX_URL} characters")
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise InvalidInput(field, "ASCII without blanks and backslashes; encode the rest (punycode, percent)")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidInput(field, "not a URL: its host or port cannot be read") from None
    if parts.scheme not in {"https", "http"} or not url[len(parts.scheme) :].startswith("://"):
        raise InvalidInput(field, "a URL that begins with https:// or http://")
    if "@" in parts.netloc:
        raise InvalidInput(field, "no user name or password in the URL; use a header")
    if port == 0 or parts.netloc.endswith(":"):
        raise InvalidInput(field, "a port from 1 to 65535")
    host = _read_host(parts.netloc)
    if host is None:
        raise InvalidInput(
            field, "a host name (letters, digits, - and .), an IPv4 address, or [IPv6] without a zone"
        )
    scheme: Literal["http", "https"] = "https" if parts.scheme == "https" else "http"
    return Destination(scheme, host, port if port is not None else 443 if scheme == "https" else 80)


def is_public(address: Address) -> bool:
    """Say whether an address is a global unicast address in every form that it can be read as."""
    if isinstance(address, IPv6Address):
        embedded = list(_embedded(address))
        if address.ipv4_mapped is not None or address in _NAT64:
            return all(map(is_public, embedded))
        if address not in _GLOBAL_V6 or address.scope_id is not None or not all(map(is_public, embedded)):
            return False
    if address.is_multicast or any(address in network for network in _NEVER_GLOBAL):
        return False
    return address.is_global or (isinstance(address, IPv6Address) and address in _6TO4)


def _covers(entry: AllowEntry, endpoint: Destination, address: Address) -> bool:
    """Say whether an entry allows a connection to this address."""
    if entry.port is not None and entry.port != endpoint.port:
        return False
    if entry.network is None:
        return entry.name == endpoint.host
    return any(form in entry.network for form in _forms(address))


def _forms(address: Address) -> Iterator[Address]:
    yield address
    if isinstance(address, IPv6Address):
        yield from _embedded(address)


def _embedded(address: IPv6Address) -> Iterator[IPv4Address]:
    """Yield the IPv4 addresses that an IPv6 address carries: mapped, compatible, NAT64, 6to4, Teredo, ISATAP."""
    number = int(address)
    if any(address in network for network in _EMBEDS_V4):
        yield IPv4Address(number & 0xFFFFFFFF)
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if number >> 32 & 0xFFFFFFFF in _ISATAP:
        yield IPv4Address(number & 0xFFFFFFFF)


def _parse_address(text: str) -> Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return None if isinstance(address, IPv6Address) and address.scope_id is not None else address


def _read_host(netloc: str) -> str | None:
    if netloc.startswith("["):
        text = netloc[1:].partition("]")[0]
        address = _parse_address(text)
        return text.lower() if isinstance(address, IPv6Address) else None
    host = netloc.partition(":")[0].lower()
    return host.removesuffix(".") if HOST_NAME.match(host) and ".." not in host else None
