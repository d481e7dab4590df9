"""The settings of channels: where they may lead, and the server through which mail leaves.

They are a part of `table`, and like it import nothing slow.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

from mainspring.config.kinds import OneLine, SecretUrl, Several, TenantTarget, is_address
from mainspring.config.setting import SERVER, UP, Setting
from mainspring.core.kinds import Flag
from mainspring.core.mail_server import MailServer
from mainspring.core.rates import Rate, RateText
from mainspring.core.secrets import check_marks, is_mark, read_reference
from mainspring.core.times import Duration
from mainspring.core.values import value
from mainspring.errors import InvalidInput

_HOSTS = (UP, SERVER)
_PORTS = {"smtp": 587, "smtps": 465}
_EXAMPLE = "smtp://alerts@mail.example.com, or smtps:// where the connection begins with TLS"
_RECIPIENT = re.compile(
    r"\*|(?:[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@)?[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?", re.ASCII
)
_SENDER = re.compile(
    r"(?:[A-Za-z0-9 ._-]{1,100} <)?[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9][A-Za-z0-9.-]{0,252}>?",
    re.ASCII,
)


@value()
class MailUrl(SecretUrl):
    """The address of a mail server."""

    def read(self, value: object, path: str, old: Any) -> str:
        """Read a URL."""
        text = SecretUrl.read(self, value, path, old)
        _split(text, path)
        return text

    def limits(self) -> str:
        """Say which forms it has."""
        return "`smtp://[USER@]HOST[:PORT]` or `smtps://…`"


@value()
class _Sender(OneLine):
    """The address that mail comes from."""

    def read(self, value: object, path: str, old: Any) -> str:
        """Read an address, with or without a name before it."""
        text = OneLine.read(self, value, path, old)
        if not _SENDER.fullmatch(text) or ("<" in text) != text.endswith(">"):
            raise InvalidInput(path, "must be like alerts@example.com or Mainspring <alerts@example.com>")
        return text


@value()
class _Recipient(OneLine):
    """To whom channels of tenants may mail."""

    def read(self, value: object, path: str, old: Any) -> str:
        """Read a domain, an address, or `*`."""
        text = OneLine.read(self, value, path, old)
        if not _RECIPIENT.fullmatch(text):
            raise InvalidInput(path, f"{text[:60]!r} is neither a domain nor an address, nor * for any")
        return text


@value()
class SecretReference(OneLine):
    """The name of a secret."""

    def read(self, value: object, path: str, old: Any) -> str:
        """Read a reference; it is kept as it was written."""
        read_reference(value, path)
        return OneLine.read(self, value, path, old)

    def limits(self) -> str:
        """Say how it is written."""
        return "`secret:NAME`"


def read_mail_server(
    url: str | None, sender: str | None, password: str | None, recipients: tuple[str, ...] = ()
) -> MailServer | None:
    """Return the mail server that the settings name together; None if there is none.

    Raises:
        InvalidInput: one of them is missing, or there is nothing that it goes with.
    """
    if url is None:
        others = {"mail.from": sender, "mail.password": password, "mail.recipients": recipients or None}
        for name, value in others.items():
            if value is not None:
                raise InvalidInput(name, "goes with a mail server; set mail.url, too")
        return None
    if sender is None:
        raise InvalidInput("mail.url", "needs the address that mail comes from; set mail.from, too")
    host, port, user, options = _split(url, "mail.url")
    if user is not None and password is None:
        raise InvalidInput("mail.url", "has a user; name the secret that holds his password in mail.password")
    if user is None and password is not None:
        raise InvalidInput("mail.password", "goes with a user; write mail.url as smtp://USER@HOST")
    is_plain = options == "tls=never"
    if is_plain and user is not None:
        raise InvalidInput("mail.url", "would send the password without TLS; leave tls=never or the user out")
    return MailServer(
        host=host,
        port=port,
        sender=sender,
        is_tls=url.startswith("smtps://"),
        is_plain=is_plain,
        user=user,
        password=None if password is None else read_reference(password, "mail.password"),
        recipients=recipients,
    )


def _split(url: str, path: str) -> tuple[str, int, str | None, str]:
    """Return host, port, user and parameter of a mail server's URL; no message shows any of it."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidInput(path, f"is no URL; write {_EXAMPLE}") from None
    if (
        parts.scheme not in _PORTS
        or not parts.hostname
        or parts.path.strip("/")
        or parts.fragment
        or port == 0
    ):
        raise InvalidInput(path, f"must be like {_EXAMPLE}")
    if parts.password is not None:
        raise InvalidInput(path, "must not hold a password; name the secret that holds it in mail.password")
    if parts.query and (parts.query != "tls=never" or parts.scheme == "smtps"):
        raise InvalidInput(path, "has an unknown parameter; smtp:// takes tls=never, which sends without TLS")
    user = None if parts.username is None else unquote(parts.username)
    return parts.hostname, port or _PORTS[parts.scheme], user, parts.query


@value()
class PingUrl(SecretUrl):
    """The address of a monitor elsewhere."""

    def read(self, value: object, path: str, old: Any) -> str:
        """Read an address of http or https, or a secret that holds one."""
        text = SecretUrl.read(self, value, path, old)
        check_marks(text, path)
        if not is_mark(text) and not is_address(text):
            raise InvalidInput(path, "must be an address like https://hc.example.com/0e1f, or ${secret:NAME}")
        return text

    def limits(self) -> str:
        """Say which forms it has."""
        return "URL, which may hold `${secret:NAME}`"


@value()
class PublicUrl(OneLine):
    """The address under which people reach a server."""

    metavar: ClassVar[str] = "URL"

    def read(self, value: object, path: str, old: Any) -> str:
        """Read an address of http or https, which others may see; return it without a slash at its end."""
        text = OneLine.read(self, value, path, old)
        if not is_address(text) or any(mark in text for mark in "?#@"):
            raise InvalidInput(
                path, "must be an address like https://jobs.example.org, without user or query"
            )
        return text.rstrip("/")

    def limits(self) -> str:
        """Name it."""
        return "URL"


CHANNEL_SETTINGS = (
    Setting(
        name="channels.allow",
        kind=Several(
            item=TenantTarget(),
            words="list of networks or hosts, with or without `:PORT`, each alone or after `TENANT=` or `*=`",
        ),
        metavar="ENTRY",
        default=(),
        field="channel_allow",
        flag="--channel-allow",
        used_by=_HOSTS,
        words="Internal targets that channels of the cluster may reach: network or host, with or without :port. With"
        " TENANT= before it, it is for that tenant's channels; with *=, for all tenants'. Repeatable.",
    ),
    Setting(
        name="channels.allow_http",
        kind=Flag(),
        default=False,
        field="channel_allow_http",
        used_by=_HOSTS,
        words="Let channels use plain http to public addresses, too.",
    ),
    Setting(
        name="channels.timeout",
        kind=Duration(timedelta(seconds=0.1), timedelta(minutes=5)),
        default=timedelta(seconds=10),
        field="channel_timeout",
        used_by=_HOSTS,
        words="How long a receiver may take to accept a message; for mail, how long each step may take.",
    ),
    Setting(
        name="channels.test_rate",
        kind=RateText(),
        default=Rate(10, timedelta(minutes=1)),
        field="channel_test_rate",
        used_by=_HOSTS,
        words="How often one caller may have a server test channels; what one period allows may come at once.",
    ),
    Setting(
        name="public_url",
        kind=PublicUrl(),
        default=None,
        default_words="messages have no links",
        field="public_url",
        used_by=_HOSTS,
        words="Where people reach this server. Messages of alerts link to the run, job or monitor there.",
    ),
    Setting(
        name="watchdog.ping_url",
        kind=PingUrl(),
        default=None,
        default_words="nothing is pinged",
        field="watchdog_ping_url",
        used_by=_HOSTS,
        words="The URL of a monitor elsewhere, which is fetched once a minute while the rules of alerts are judged. It"
        " leads where channels of the cluster may lead.",
    ),
    Setting(
        name="mail.url",
        kind=MailUrl(),
        default=None,
        default_words="no mail is sent",
        field="mail_url",
        used_by=_HOSTS,
        words="The mail server of channels of kind email. smtp:// insists on STARTTLS; with ?tls=never it sends in the"
        " clear, for a relay on this host.",
    ),
    Setting(
        name="mail.from",
        kind=_Sender(),
        metavar="ADDRESS",
        default=None,
        default_words="none; mail.url needs it",
        field="mail_from",
        used_by=_HOSTS,
        words="The address that mail comes from.",
    ),
    Setting(
        name="mail.password",
        kind=SecretReference(),
        metavar="secret:NAME",
        default=None,
        default_words="no login",
        field="mail_password",
        used_by=_HOSTS,
        words="The secret that holds the password of mail.url's user. Let its tenants be an empty list.",
    ),
    Setting(
        name="mail.recipients",
        kind=Several(item=_Recipient(), words="list of domains and addresses, or `*` for any"),
        metavar="ENTRY",
        default=(),
        default_words="the domain of mail.from",
        field="mail_recipients",
        used_by=_HOSTS,
        words="Where channels of tenants may mail to; a domain is without those below it. Channels of the cluster may"
        " mail to any address.",
    ),
)
