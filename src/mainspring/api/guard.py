"""Keeps foreign web pages from using the API through a browser that can reach it.

As long as there are no accounts, connections are trusted. A page that a browser has loaded from elsewhere can connect,
too. Its requests carry its origin or, if its name was rebound to this server, its own name as the host.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from mainspring.api.errors import Rejected
from mainspring.config.access import Access, is_loopback, plain_host

_PORTS = {"http": 80, "https": 443}
_MOST_PASSED = 1000
"""How many accepted combinations are remembered, at most. A client sends the same one with each request."""


class _Authority(NamedTuple):
    name: str
    port: int | None


class WrongAddress(Rejected):
    """A request is not addressed to this server, or comes from a foreign page."""


class Guard:
    """Admits a request only if it is addressed to a name of this server, and does not come from a foreign page.

    The check is the same for workers and browsers: every HTTP client sends the name under which it found the server.
    """

    def __init__(self, access: Access) -> None:
        self._names = access.names
        self._passed: set[tuple[str | None, str | None, str | None]] = set()

    def check(self, *, host: str | None, origin: str | None, arrived_at: str | None) -> None:
        """Check the headers of a request.

        A request without `host` does not come from a browser.

        Args:
            arrived_at: the address of this machine to which the connection was made. It is safe as a host, because a
                browser that was led here by a rebound name sends that name.

        Raises:
            WrongAddress: 403, the host or the origin is not this server.
        """
        facts = (host, origin, arrived_at)
        if facts in self._passed:
            return
        self._check(host, origin, arrived_at)
        if len(self._passed) >= _MOST_PASSED:
            self._passed.clear()
        self._passed.add(facts)

    def _check(self, host: str | None, origin: str | None, arrived_at: str | None) -> None:
        asked = _read(f"//{host}") if host is not None else None
        if host is not None and (asked is None or not self._is_ours(asked.name, arrived_at)):
            raise WrongAddress(
                403,
                f"this API does not answer to the host {host[:80]!r}; if that is a name of this server, start it with"
                " --allow-host",
            )
        if origin is not None and not _is_same_site(_read(origin), asked, scheme=origin.partition("://")[0]):
            raise WrongAddress(
                403, f"this API is not for web pages of other sites: {origin[:80]!r} is not its own address"
            )

    def _is_ours(self, name: str, arrived_at: str | None) -> bool:
        return (
            is_loopback(name)
            or name in self._names
            or (arrived_at is not None and name == plain_host(arrived_at))
        )


def _is_same_site(origin: _Authority | None, asked: _Authority | None, *, scheme: str) -> bool:
    """Return whether a page may call the server: on this machine every page of this machine, otherwise only its own."""
    if origin is None or asked is None or scheme not in _PORTS:
        return False
    if is_loopback(origin.name) and is_loopback(asked.name):
        return True
    usual = _PORTS[scheme]
    return (origin.name, origin.port or usual) == (asked.name, asked.port or usual)


def _read(url: str) -> _Authority | None:
    try:
        parts = urlsplit(url)
        name, port = parts.hostname, parts.port
    except ValueError:
        return None
    if name is None or parts.username is not None or parts.path or parts.query or parts.fragment:
        return None
    return _Authority(plain_host(name), port)
