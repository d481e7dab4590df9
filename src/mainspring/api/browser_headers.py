"""What every answer says that a browser may show: it runs nothing of others, and no other page shows it."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.types import Scope

from mainspring.api.cookies import is_secure
from mainspring.config.access import is_loopback

_Headers = tuple[tuple[bytes, bytes], ...]
_PLAIN: _Headers = (
    (b"content-security-policy", b"default-src 'self'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)
_SECURE: _Headers = (*_PLAIN, (b"strict-transport-security", b"max-age=31536000"))
_PRIVATE: _Headers = ((b"cache-control", b"no-store"),)


def browser_headers(scope: Scope, host: str | None, *, is_private: bool) -> _Headers:
    """Return the headers of an answer.

    Args:
        is_private: the answer is for whoever is signed in, so that no cache may keep it.
    """
    headers = _SECURE if is_secure(scope) and not _is_local(host) else _PLAIN
    return headers + _PRIVATE if is_private else headers


def _is_local(host: str | None) -> bool:
    """Return whether a browser would insist on TLS for everything else on its own machine, too."""
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return True
    return host is None or name is None or is_loopback(name)
