"""Reads a PostgreSQL DSN: which parameters are ours, which the driver takes, and which neither supports.

The driver passes every parameter that it does not know to the server as a setting, and answers a wrong address with
an exception of its own. So everything that can be checked before connecting is checked here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import SplitResult, unquote, unquote_plus, urlsplit

from mainspring.errors import InvalidInput

_OWN = frozenset({"pooler", "statement_cache", "connect_timeout"})

_IGNORED = frozenset(
    {
        "application_name",  # each connection shows its role in it
        "fallback_application_name",
        "channel_binding",
        "gssencmode",
        "keepalives",
        "keepalives_count",
        "keepalives_idle",
        "keepalives_interval",
        "load_balance_hosts",
        "sslcompression",
        "sslsni",
        "tcp_user_timeout",
    }
)
"""Parameters of libpq that the driver does not support, and that can be ignored without loss of safety."""

_REFUSED = {
    "hostaddr": "give the address as the host",
    "ssl": "give sslmode=require, or verify-full with sslrootcert=FILE",
    "pgbouncer": "for a pooler in transaction mode give pooler=transaction",
    **dict.fromkeys(
        (
            "gssdelegation",
            "max_protocol_version",
            "min_protocol_version",
            "replication",
            "require_auth",
            "requirepeer",
            "requiressl",
            "scram_client_key",
            "scram_server_key",
            "servicefile",
            "sslcertmode",
            "sslcrldir",
            "sslkeylogfile",
        ),
        "leave it out",
    ),
}
"""Parameters that other programs know, with what to do instead. Ignoring them might weaken what they ask for."""

_CHOICES = {
    "sslmode": ("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    "sslnegotiation": ("postgres", "direct"),
    "target_session_attrs": ("any", "read-write", "read-only", "primary", "standby", "prefer-standby"),
    "channel_binding": ("disable", "prefer", "require"),
    "gssencmode": ("disable", "prefer", "require"),
}
_FILES = frozenset({"sslcert", "sslkey", "sslrootcert", "sslcrl"})
_LONGEST_CONNECT = 300
_ENCODE = "in user, password and names write @ as %40, / as %2F, ? as %3F, # as %23, : as %3A"
"""The usual reason why an address cannot be read. The text itself is never shown: it may be half a password."""


def read_dsn(url: str, field: str) -> tuple[str, dict[str, str], tuple[str, ...]]:
    """Check a DSN as far as possible without a server.

    Args:
        field: the setting that holds it, for errors.

    Returns:
        The DSN for the driver, without the parameters that are not for it; our own parameters; the names of ignored
        parameters.

    Raises:
        InvalidInput: it cannot be read, or has a parameter that is not supported.
    """
    _check_address(url, field)
    base, _, query = url.partition("?")
    given: dict[str, str] = {}
    kept: list[str] = []
    for part in filter(None, query.split("&")):
        name, separator, value = part.partition("=")
        if not separator:
            raise InvalidInput(field, "a parameter after '?' has no '='; write NAME=VALUE, joined by '&'")
        if name in _OWN and name in given:
            raise InvalidInput(field, f"{name} is given twice")
        given[name] = unquote_plus(value)
        if name not in _OWN | _IGNORED:
            kept.append(part)
    _check_parameters(given, field)
    own = {name: value for name, value in given.items() if name in _OWN}
    dsn = f"{base}?{'&'.join(kept)}" if kept else base
    return dsn, own, tuple(sorted(_IGNORED & given.keys()))


def read_connect_timeout(text: str, field: str) -> float:
    """Return libpq's `connect_timeout`, in seconds.

    Raises:
        InvalidInput: it is not a number of seconds, or is 0, which means no limit.
    """
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= _LONGEST_CONNECT):
        raise InvalidInput(field, f"connect_timeout={text!r} is not a number from 1 to {_LONGEST_CONNECT}")
    return float(text)


def hide_password(url: str) -> str:
    """Return a URL without its passwords, even if it cannot be parsed."""
    try:
        parts = urlsplit(url)
        query = re.sub(r"(?<![^&])(password|sslpassword)=[^&]*", r"\1=***", parts.query)
        if "@" in parts.path + query + parts.fragment:
            return _hide_roughly(url)
        if query != parts.query:
            parts = parts._replace(query=query)
        elif parts.password is None:
            return url
        if parts.password is None:
            return parts.geturl()
        return parts._replace(netloc=f"{parts.username}:***@{parts.netloc.rpartition('@')[2]}").geturl()
    except ValueError:
        return _hide_roughly(url)


def _hide_roughly(url: str) -> str:
    """Show the scheme, and nothing that might be part of a password."""
    scheme, separator, _ = url.partition("://")
    return f"{scheme}://…" if separator else "…"


def _check_address(url: str, field: str) -> None:
    try:
        parts = urlsplit(url)
    except ValueError:
        message = f"its host cannot be read; an IPv6 address is written [::1]:5432, and {_ENCODE}"
        raise InvalidInput(field, message) from None
    user, _, hosts = parts.netloc.rpartition("@")
    if "@" in user + parts.path or parts.fragment:
        raise InvalidInput(field, f"it cannot be read; {_ENCODE}")
    for host in hosts.split(",") if hosts else ():
        _check_host(host, field)
    _check_ports(parts, field)


def _check_host(host: str, field: str) -> None:
    pattern = r"\[[^\]]+\](?::([0-9]+))?" if host.startswith("[") else r"[^:]+(?::([0-9]*))?"
    found = re.fullmatch(pattern, unquote(host), re.ASCII)
    if found is None or not _is_port(found[1] or "5432"):
        message = "a host is not HOST:PORT with a port from 1 to 65535"
        raise InvalidInput(field, f"{message}; an IPv6 address is written [::1]:5432, and {_ENCODE}")


def _check_ports(parts: SplitResult, field: str) -> None:
    for part in parts.query.split("&"):
        name, _, value = part.partition("=")
        if name == "port" and not all(map(_is_port, unquote_plus(value).split(","))):
            raise InvalidInput(field, "port is not a number from 1 to 65535")


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= 65535


def _check_parameters(given: Mapping[str, str], field: str) -> None:
    for name, remedy in _REFUSED.items():
        if name in given:
            raise InvalidInput(field, f"the parameter {name} is not known here; {remedy}")
    for name, choices in _CHOICES.items():
        if name in given and given[name] not in choices:
            raise InvalidInput(field, f"{name}={given[name]!r} is none of {', '.join(choices)}")
    if given.get("gssencmode") == "require":
        raise InvalidInput(
            field, "gssencmode=require is not supported; give sslmode=verify-full, or leave it out"
        )
    # The driver cannot bind channels. A verified certificate also proves that nobody is in between.
    if given.get("channel_binding") == "require" and given.get("sslmode") != "verify-full":
        message = "channel_binding=require is not supported; give sslmode=verify-full&sslrootcert=FILE, which proves"
        raise InvalidInput(field, f"{message} the server by its certificate, or leave channel_binding out")
    for name in sorted(_FILES & given.keys()):
        _check_file(name, given[name], field)


def _check_file(name: str, value: str, field: str) -> None:
    if name == "sslrootcert" and value == "system":
        message = "sslrootcert=system is not known here; name the system's file of certificates"
        raise InvalidInput(field, f"{message} (Debian: /etc/ssl/certs/ca-certificates.crt)")
    try:
        with Path(value).open("rb"):
            pass
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "no file name"
        raise InvalidInput(field, f"{name}={value!r} cannot be read ({why})") from None
    if name in {"sslrootcert", "sslcrl"}:
        import ssl  # costs milliseconds, and is rarely needed

        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=value)
        except ssl.SSLError:
            raise InvalidInput(field, f"{name}={value!r} holds no certificates in PEM") from None
