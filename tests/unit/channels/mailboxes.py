"""A real mail server on loopback."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session


class Mailboxes:
    """Takes mail, as the handler of a server.

    Attributes:
        mails: what was taken, with its recipients.
        was_tls: whether each came over TLS.
        answers: what to say to a recipient instead of taking it.
        answer: what to say to a mail instead of taking it.
        logins: users and passwords that were tried.
    """

    def __init__(self) -> None:
        self.port = 0
        self.mails: list[tuple[list[str], EmailMessage]] = []
        self.was_tls: list[bool] = []
        self.answers: dict[str, str] = {}
        self.answer = "250 OK"
        self.logins: list[tuple[str, str]] = []

    async def handle_RCPT(  # noqa: N802 -- the library's name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Answer to a recipient."""
        if address in self.answers:
            return self.answers[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(  # noqa: N802 -- the library's name
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        """Take a mail."""
        if self.answer.startswith("250"):
            content = envelope.content
            assert isinstance(content, bytes)
            mail = message_from_bytes(content, _class=EmailMessage, policy=policy.default)
            self.mails.append((envelope.rcpt_tos, mail))
            self.was_tls.append(session.ssl is not None)
        return self.answer

    def authenticate(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: object
    ) -> AuthResult:
        """Check a password."""
        assert isinstance(data, LoginPassword)
        login = (data.login.decode(), data.password.decode())
        self.logins.append(login)
        return AuthResult(success=login == ("me", "pass word"), handled=False)


@asynccontextmanager
async def running_mailboxes(
    *, starttls: ssl.SSLContext | None = None, tls: ssl.SSLContext | None = None, needs_login: bool = False
) -> AsyncIterator[Mailboxes]:
    """Run a mail server."""
    boxes = Mailboxes()

    def make() -> SMTP:
        return SMTP(
            boxes,
            hostname="mail.test",
            tls_context=starttls,
            require_starttls=starttls is not None,
            authenticator=boxes.authenticate,
            auth_required=needs_login,
            auth_require_tls=tls is None,
        )

    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0, ssl=tls)
    boxes.port = server.sockets[0].getsockname()[1]
    try:
        yield boxes
    finally:
        server.close()
        await server.wait_closed()
