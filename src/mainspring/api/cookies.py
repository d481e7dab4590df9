"""The cookie of a session in a browser, and what a request that comes with it must prove.

A browser sends the cookie with every request to this server, whoever caused it. So a request that may change something
must also show that it comes from a page of this server: by its origin, and by a header that no foreign page can send.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from datetime import timedelta
from urllib.parse import urlsplit

from starlette.types import Scope

from mainspring.api.errors import Rejected

CSRF_HEADER = "Mainspring-Csrf"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_SESSION = "mainspring"
_LOGIN = "mainspring-login"
_HOST = "__Host-"
"""Browsers take a cookie of such a name only over TLS, from the host itself and for all its paths."""
_PORTS = {"http": 80, "https": 443}
_OF_FORMS = frozenset({"application/x-www-form-urlencoded", "multipart/form-data", "text/plain"})
"""What a foreign page may send without asking first."""


def is_secure(scope: Scope) -> bool:
    """Return whether a request came over TLS, to this server or to the proxy in front of it."""
    return bool(scope.get("scheme") == "https")


def read_session(headers: Mapping[str, str], *, secure: bool) -> str | None:
    """Return the token in a request's cookie; None if there is none, or more than one."""
    return _read(headers.get("cookie"), _name(_SESSION, secure=secure))


def read_attempt(headers: Mapping[str, str], *, secure: bool) -> str | None:
    """Return what the browser keeps of a login that is under way at an identity provider."""
    return _read(headers.get("cookie"), _name(_LOGIN, secure=secure))


def write_session(text: str, *, secure: bool, lasts: timedelta) -> str:
    """Return the header that gives a browser the cookie of a session."""
    return _write(_SESSION, text, secure=secure, lasts=lasts)


def write_attempt(text: str, *, secure: bool, lasts: timedelta) -> str:
    """Return the header that gives a browser what it keeps of a login that is under way."""
    return _write(_LOGIN, text, secure=secure, lasts=lasts)


def drop_session(*, secure: bool) -> str:
    """Return the header that takes the cookie of a session away."""
    return _write(_SESSION, "", secure=secure, lasts=timedelta(0))


def drop_attempt(*, secure: bool) -> str:
    """Return the header that takes away what the browser keeps of a login that was under way."""
    return _write(_LOGIN, "", secure=secure, lasts=timedelta(0))


def csrf_of(text: str) -> str:
    """Return what a request with this session must send in `Mainspring-Csrf`. It tells nothing of the session."""
    return hmac.digest(text.encode(), b"mainspring csrf", "sha256").hex()


def check_csrf(text: str, given: str | None) -> None:
    """Refuse a request that does not know what its session's page knows.

    Raises:
        Rejected: 403.
    """
    if given is None or not hmac.compare_digest(csrf_of(text).encode(), given.encode()):
        raise Rejected(
            403,
            f"a request that comes with a cookie and may change something needs the header {CSRF_HEADER}; GET"
            " /api/v1/me has its value",
        )


def check_same_origin(scope: Scope, headers: Mapping[str, str]) -> None:
    """Refuse a request that no page of this very server has caused: same scheme, host and port.

    Raises:
        Rejected: 403.
    """
    origin, host = headers.get("origin"), headers.get("host")
    scheme = str(scope.get("scheme", "http"))
    if (
        origin is not None
        and host is not None
        and _read_origin(origin) == _read_origin(f"{scheme}://{host}") is not None
    ):
        return
    why = (
        f"the origin {origin[:80]!r} is not"
        if origin is not None
        else "there is no header Origin, so it is not"
    )
    raise Rejected(
        403,
        f"this takes a page of this server, {scheme}://{(host or '')[:80]}, and {why}; a proxy in front must send"
        " X-Forwarded-Proto and pass the host on",
    )


def check_form_free(headers: Mapping[str, str]) -> None:
    """Refuse a body that a form of a foreign page could have sent.

    Raises:
        Rejected: 415.
    """
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in _OF_FORMS:
        raise Rejected(415, f"a request that comes with a cookie must be JSON, not {kind[:60]}")


def _name(name: str, *, secure: bool) -> str:
    return f"{_HOST}{name}" if secure else name


def _read(cookie: str | None, name: str) -> str | None:
    if cookie is None or name not in cookie:
        return None
    pairs = [part.strip().partition("=") for part in cookie.split(";")]
    found = [value for key, separator, value in pairs if key == name and separator]
    # Of two, one may be of another host of the same domain.
    return found[0] if len(found) == 1 and found[0] else None


def _write(name: str, text: str, *, secure: bool, lasts: timedelta) -> str:
    given = f"{_name(name, secure=secure)}={text}; Path=/; HttpOnly; SameSite=Lax; Max-Age={int(lasts.total_seconds())}"
    return f"{given}; Secure" if secure else given


def _read_origin(text: str) -> tuple[str, str, int] | None:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in _PORTS or parts.hostname is None or parts.username is not None or parts.path:
        return None
    return parts.scheme, parts.hostname, port or _PORTS[parts.scheme]
