"""E-mail, through the mail server of the operator's settings. It needs the extra `mail`."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from datetime import datetime, timedelta
from email.message import EmailMessage
from email.utils import format_datetime, parseaddr
from typing import TYPE_CHECKING

from mainspring.core.channel_settings import EmailChannel
from mainspring.core.ids import format_run_id
from mainspring.core.mail_server import MailServer
from mainspring.core.notifications import AlertFacts, Message
from mainspring.egress.secrets import Revealer
from mainspring.errors import MissingExtra
from mainspring.ports.channel import ChannelUnavailable, MessageRefused
from mainspring.ports.clock import Clock
from mainspring.ports.secrets import Secrets

if TYPE_CHECKING:
    from aiosmtplib.response import SMTPResponse

MOST_SUBJECT = 200
_MOST_ANSWER = 200
NO_MAIL = "this server sends no mail: its operator has to set mail.url and mail.from"

NOT_THERE = "is not where channels of tenants may mail to (the operator's setting mail.recipients)"


class MailSender:
    """Hands mail over to a server.

    Args:
        server: None sends no mail.
        limit: for each step: connecting, logging in, handing over.
        tls: how certificates are checked; by default against the system's authorities.

    Raises:
        MissingExtra: there is a server, and aiosmtplib is not installed.
    """

    def __init__(
        self,
        server: MailServer | None,
        secrets: Secrets,
        clock: Clock,
        *,
        limit: timedelta,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        if server is not None:
            try:
                import aiosmtplib  # noqa: F401  -- told at the start, not at the first alert
            except ImportError:
                raise MissingExtra("mail.url", "mail") from None
        self.server = server
        self._secrets = secrets
        self._clock = clock
        self._limit = limit.total_seconds()
        self._tls = tls

    async def send(self, config: EmailChannel, message: Message) -> None:
        """Hand a message over; see `ports.channel.Sender`."""
        server = self.server
        if server is None:
            raise ChannelUnavailable(NO_MAIL)
        for address in config.to:  # the operator may have changed the setting since the channel was made
            if not server.may_mail(message.channel_tenant or message.tenant, address):
                raise MessageRefused(f"{address} {NOT_THERE}")
        import aiosmtplib

        revealer = Revealer(self._secrets, None)  # the password is the server's, not a tenant's
        password = None if server.password is None else revealer.reveal(server.password)
        try:
            refused, _ = await aiosmtplib.send(
                write_mail(message, config.to, server.sender, self._clock.now()),
                hostname=server.host,
                port=server.port,
                username=server.user,
                password=password,
                use_tls=server.is_tls,
                start_tls=not server.is_tls and not server.is_plain,
                tls_context=self._tls,
                timeout=self._limit,
            )
        except aiosmtplib.SMTPRecipientsRefused as error:
            answers = {one.recipient: (one.code, one.message) for one in error.recipients}
            is_final = all(code >= 500 for code, _ in answers.values())
            raise (MessageRefused if is_final else ChannelUnavailable)(
                f"no mailbox took it: {_list(answers, revealer)}"
            ) from None
        except (aiosmtplib.SMTPSenderRefused, aiosmtplib.SMTPDataError) as error:
            text = f"the mail server said {error.code} {_shorten(revealer.hide(error.message))}"
            raise (MessageRefused if error.code >= 500 else ChannelUnavailable)(text) from None
        except (aiosmtplib.SMTPException, OSError, ValueError) as error:
            raise ChannelUnavailable(_explain(error, server, revealer)) from None
        if refused:  # tried again, it would come twice to the others
            raise MessageRefused(f"taken, but not by all: {_list(_plain(refused), revealer)}")


def write_mail(message: Message, to: tuple[str, ...], sender: str, now: datetime) -> EmailMessage:
    """Return a message as mail. A retry has the same Message-ID, by which mailboxes know what comes twice."""
    mail = EmailMessage()
    mail["From"] = sender
    mail["To"] = ", ".join(to)
    mail["Subject"] = _one_line(message.title, MOST_SUBJECT)
    mail["Date"] = format_datetime(now)
    domain = parseaddr(sender)[1].rpartition("@")[2]
    mail["Message-ID"] = f"<{message.id}.{int(message.at.timestamp() * 1_000_000)}@{domain}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail["X-Mainspring-Rule"] = _one_line(message.rule, MOST_SUBJECT)
    mail["X-Mainspring-Tenant"] = message.tenant
    parts = [f"Rule {message.rule}, severity {message.severity}, tenant {message.tenant}."]
    parts += [_describe(alert) for alert in message.alerts]
    if message.more:
        parts.append(f"… and {message.more} more.")
    mail.set_content("\n\n".join(parts) + "\n")
    return mail


def _describe(alert: AlertFacts) -> str:
    lines = [f"{alert.state}  {alert.subject}", alert.summary, f"since {alert.since:%Y-%m-%d %H:%M:%S %Z}"]
    if alert.resolved_at is not None:
        lines.append(f"until {alert.resolved_at:%Y-%m-%d %H:%M:%S %Z}")
    if alert.run_id is not None:
        lines.append(f"run {format_run_id(alert.run_id)}")
    if alert.url is not None:
        lines.append(alert.url)
    return "\n".join(lines)


def _one_line(text: str, most: int) -> str:
    line = "".join(letter if letter.isprintable() else "\ufffd" for letter in " ".join(text.split()))
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _plain(refused: Mapping[str, SMTPResponse]) -> dict[str, tuple[int, str]]:
    return {address: (answer.code, answer.message) for address, answer in refused.items()}


def _list(answers: Mapping[str, tuple[int, str]], revealer: Revealer) -> str:
    return "; ".join(
        f"{address} ({code} {_shorten(revealer.hide(text))})" for address, (code, text) in answers.items()
    )


def _shorten(text: str) -> str:
    return _one_line(text, _MOST_ANSWER)


def _explain(error: Exception, server: MailServer, revealer: Revealer) -> str:
    where = f"{server.host}:{server.port}"
    if isinstance(error, TimeoutError):
        return f"the mail server {where} did not answer in time"
    if isinstance(error, ssl.SSLCertVerificationError) or isinstance(
        error.__cause__, ssl.SSLCertVerificationError
    ):
        return f"the certificate of the mail server {where} is not accepted"
    return f"the mail server {where}: {_shorten(revealer.hide(str(error))) or type(error).__name__}"
