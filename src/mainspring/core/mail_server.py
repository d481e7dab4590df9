"""The server through which mail leaves."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MailServer:
    """How mail is handed over.

    Attributes:
        is_tls: the connection begins with TLS.
        is_plain: there is no TLS at all. Otherwise STARTTLS is a must.
        user: None does not log in.
        password: the name of the secret that holds it; None if there is no user.
        sender: the address that mail comes from, with or without a name before it.
    """

    host: str
    port: int
    sender: str
    is_tls: bool = False
    is_plain: bool = False
    user: str | None = None
    password: str | None = None
