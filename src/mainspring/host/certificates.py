"""The server's certificate: read at the start, and again when its files have changed."""

from __future__ import annotations

import ssl
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from mainspring.errors import InvalidInput

if TYPE_CHECKING:
    from mainspring.config.settings import Settings
    from mainspring.ports.clock import Waiter

_log = structlog.get_logger(__name__)
PERIOD = 60.0
"""Seconds between two looks at the files."""


class Certificates:
    """The certificate of a server, for all its connections. A service reads it again, for those to come.

    Args:
        cert, key, client_ca: names of files in PEM; without a key, the first one has it.

    Raises:
        InvalidInput: a file cannot be read, or does not hold what it should.
    """

    name = "certificates"

    def __init__(self, cert: str, key: str | None, client_ca: str | None, *, waiter: Waiter) -> None:
        self._cert, self._key, self._client_ca = cert, key, client_ca
        self.waiter: Waiter = waiter
        self._seen = self._look()
        self.context: ssl.SSLContext = self._read()

    async def tick(self, now: datetime) -> float:
        """Read the files again if they have changed. What is wrong with them is logged, and the old ones stay."""
        del now
        seen = self._look()
        if seen != self._seen:
            self._seen = seen
            try:
                self._read()  # into a context of its own first, so that half of a pair changes nothing
                self.context.load_cert_chain(self._cert, self._key, password=_refuse_password)
            except (InvalidInput, OSError, ValueError) as error:
                _log.error("certificate_refused", error=str(error), meaning="the one before stays in use")
            else:
                _log.info("certificate_renewed", file=self._cert)
        return PERIOD

    def _look(self) -> tuple[float | None, ...]:
        return tuple(_changed_at(name) for name in (self._cert, self._key) if name is not None)

    def _read(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self._cert, self._key, password=_refuse_password)
        except (OSError, ValueError) as error:
            raise _explain(
                error, "tls.cert" if self._key is None else "tls.key", self._cert, self._key
            ) from None
        if self._client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            try:
                context.load_verify_locations(self._client_ca)
            except (OSError, ValueError) as error:
                raise _explain(error, "tls.client_ca", self._client_ca) from None
        return context


def read_certificates(settings: Settings, *, waiter: Waiter) -> Certificates | None:
    """Return the certificate that the settings name; None if they name none.

    Raises:
        InvalidInput: a file cannot be read, or does not hold what it should.
    """
    if settings.tls_cert is None:
        return None
    return Certificates(settings.tls_cert, settings.tls_key, settings.tls_client_ca, waiter=waiter)


def _refuse_password() -> str:
    raise ValueError("the key has a password; write it without one")


def _changed_at(name: str) -> float | None:
    try:
        return Path(name).stat().st_mtime
    except (OSError, ValueError):
        return None


def _explain(error: Exception, field: str, *names: str | None) -> InvalidInput:
    files = [name for name in names if name is not None]
    for name in files:
        try:
            Path(name).read_bytes()
        except (OSError, ValueError) as reason:
            why = getattr(reason, "strerror", None) or str(reason)
            return InvalidInput("tls.cert" if name == files[0] and field != "tls.client_ca" else field,
                                f"{name} cannot be read ({why})")  # fmt: skip
    if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
        return InvalidInput(field, f"{files[-1]} is not the key of the certificate in {files[0]}")
    if isinstance(error, ssl.SSLError):
        return InvalidInput(field, f"{' and '.join(files)} have not what is wanted, as PEM: {_plain(error)}")
    return InvalidInput(field, str(error))


def _plain(error: ssl.SSLError) -> str:
    return (error.reason or "it cannot be read").lower().replace("_", " ")
