import ssl
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.channels.mail import write_mail
from mainspring.channels.senders import Senders
from mainspring.config.settings import Settings
from mainspring.config.table import SETTINGS
from mainspring.core.channel_settings import EmailChannel
from mainspring.core.mail_server import MailServer
from mainspring.errors import InvalidInput
from mainspring.ports.channel import ChannelUnavailable, MessageRefused
from mainspring.testing.clock import FakeClock
from tests.support.certificates import Pair, make_authority, make_certificate
from tests.unit.channels.mailboxes import Mailboxes, running_mailboxes
from tests.unit.channels.messages import NOW, RESOLVED, make_alert, make_message, make_secrets, send

FROM = "Mainspring <alerts@example.com>"
OPS = EmailChannel(to=("ops@example.com", "dev@example.com"))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def served(authority: Pair, tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    pair = make_certificate(tmp_path_factory.mktemp("server"), authority)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.cert, pair.key)
    return context


@pytest.fixture
def trusting(authority: Pair) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority.cert))


def plain(boxes: Mailboxes) -> MailServer:
    return MailServer(host="127.0.0.1", port=boxes.port, sender=FROM, is_plain=True)


async def test_mail_has_what_mailboxes_go_by() -> None:
    message = make_message(make_alert(), RESOLVED, more=2)
    async with running_mailboxes() as boxes:
        await send(OPS, message, mail=plain(boxes))
        await send(OPS, message, mail=plain(boxes))
    (to, mail), (_, again) = boxes.mails
    assert to == list(OPS.to)
    assert mail["Subject"] == "[firing] dead_letters: 120 dead runs in queue mail (and 3 more)"
    assert mail["From"] == FROM
    assert mail["To"] == "ops@example.com, dev@example.com"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail["Message-ID"] == again["Message-ID"] == "<ntf_17.1795353600000000@example.com>"
    assert mail["Date"].datetime == NOW
    assert mail.get_content().replace("\r\n", "\n") == (
        "Rule dead_letters, severity warning, tenant shop.\n\n"
        "FIRING  queue:mail\n120 dead runs in queue mail\nsince 2026-11-22 13:19:20 UTC\n"
        "https://jobs.example.org/alerts/12\n\n"
        "RESOLVED  queue:mail\n120 dead runs in queue mail\nsince 2026-11-22 13:19:20 UTC\n"
        "until 2026-11-22 13:19:55 UTC\nrun run_0000000000080\n\n"
        "… and 2 more.\n"
    )


TEXT = st.text(st.characters(codec="utf-8"), max_size=300)


@given(rule=TEXT, summary=TEXT, subject=TEXT)
def test_no_text_makes_a_header_of_its_own(rule: str, summary: str, subject: str) -> None:
    message = make_message(make_alert(summary=summary, subject=subject), rule=rule)
    mail = write_mail(message, OPS.to, FROM, NOW)
    names = {line.partition(b":")[0] for line in mail.as_bytes().partition(b"\n\n")[0].splitlines()}
    known = {name.encode() for name in mail}
    assert {name for name in names if not name.startswith(b" ")} <= known | {b""}
    assert "Bcc" not in mail


def test_line_break_in_a_rule_is_a_blank() -> None:
    message = make_message(rule="a\r\nBcc: evil@example.com")
    mail = write_mail(message, OPS.to, FROM, NOW)
    assert mail["X-Mainspring-Rule"] == "a Bcc: evil@example.com"
    assert mail["Bcc"] is None


async def test_starttls_and_login_with_the_servers_own_secret(
    served: ssl.SSLContext, trusting: ssl.SSLContext
) -> None:
    async with running_mailboxes(starttls=served, needs_login=True) as boxes:
        server = MailServer(host="localhost", port=boxes.port, sender=FROM, user="me", password="own")
        await send(OPS, mail=server, tls=trusting, secrets=make_secrets(own="pass word"))
        assert boxes.was_tls == [True]
        with pytest.raises(ChannelUnavailable, match="535") as failed:
            await send(OPS, mail=server, tls=trusting, secrets=make_secrets(own="hunter2"))
        with pytest.raises(ChannelUnavailable, match="there is no secret 'own' in the settings"):
            await send(OPS, mail=server, tls=trusting)
    assert {*boxes.logins} == {("me", "pass word"), ("me", "hunter2")}  # the wrong one by each mechanism
    assert "hunter2" not in str(failed.value)


async def test_tls_from_the_start(served: ssl.SSLContext, trusting: ssl.SSLContext) -> None:
    async with running_mailboxes(tls=served) as boxes:
        server = MailServer(host="localhost", port=boxes.port, sender=FROM, is_tls=True)
        await send(OPS, mail=server, tls=trusting)
        assert len(boxes.mails) == 1


@pytest.mark.parametrize("is_tls", [True, False])
async def test_server_whose_certificate_is_not_known_gets_no_mail(
    served: ssl.SSLContext, is_tls: bool
) -> None:
    async with running_mailboxes(
        tls=served if is_tls else None, starttls=None if is_tls else served
    ) as boxes:
        server = MailServer(host="localhost", port=boxes.port, sender=FROM, is_tls=is_tls)
        with pytest.raises(
            ChannelUnavailable, match=r"the certificate of the mail server .* is not accepted"
        ):
            await send(OPS, mail=server)
        assert boxes.mails == []


async def test_server_without_starttls_gets_no_mail_unless_the_settings_say_so() -> None:
    async with running_mailboxes() as boxes:
        server = MailServer(host="127.0.0.1", port=boxes.port, sender=FROM)
        with pytest.raises(ChannelUnavailable, match="STARTTLS"):
            await send(OPS, mail=server)
        assert boxes.mails == []


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ("554 5.7.1 spam", MessageRefused),
        ("552 too large", MessageRefused),
        ("451 later", ChannelUnavailable),
        ("421 closing", ChannelUnavailable),
    ],
)
async def test_answer_to_the_mail_says_whether_to_try_again(answer: str, error: type[Exception]) -> None:
    async with running_mailboxes() as boxes:
        boxes.answer = answer
        with pytest.raises(error, match=answer[:3]):
            await send(OPS, mail=plain(boxes))


@pytest.mark.parametrize(
    ("first", "second", "error", "taken"),
    [
        ("550 no such user", "550 no such user", MessageRefused, 0),
        ("450 greylisted", "550 no such user", ChannelUnavailable, 0),
        ("550 no such user", None, MessageRefused, 1),
        ("450 greylisted", None, MessageRefused, 1),
    ],
)
async def test_answers_to_recipients(
    first: str, second: str | None, error: type[Exception], taken: int
) -> None:
    async with running_mailboxes() as boxes:
        boxes.answers[OPS.to[0]] = first
        if second is not None:
            boxes.answers[OPS.to[1]] = second
        with pytest.raises(error, match=first) as failed:
            await send(OPS, mail=plain(boxes))
        assert str(failed.value).startswith("taken, but not by all: " if taken else "no mailbox took it: ")
        assert len(boxes.mails) == taken


async def test_server_that_is_away() -> None:
    async with running_mailboxes() as boxes:
        server = plain(boxes)
    with pytest.raises(ChannelUnavailable, match=r"^the mail server 127\.0\.0\.1:\d+: "):
        await send(OPS, mail=server, limit=timedelta(seconds=5))


async def test_without_a_mail_server_no_mail_leaves() -> None:
    with pytest.raises(ChannelUnavailable, match="this server sends no mail"):
        await send(OPS)


def test_extra_that_is_missing_is_named_at_the_start(tmp_path: Path) -> None:
    code = """
import sys
sys.modules["aiosmtplib"] = None
from mainspring.config.settings import Settings
from mainspring.runtime import make_senders
from mainspring.testing.clock import FakeClock
make_senders(Settings(), FakeClock())
make_senders(Settings(mail_url="smtp://h", mail_from="a@b.c"), FakeClock())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert (
        "MissingExtra: mail.url: the extra 'mail' is not installed here; pip install 'mainspring[mail]'"
        in done.stderr
    )


CLUSTER = make_message(channel_tenant="*")


@pytest.mark.parametrize(
    ("recipients", "taken", "refused"),
    [
        ((), ["a@example.com", "A@Example.COM"], ["a@example.org", "a@sub.example.com", "example.com@b.org"]),
        (("B.org", "a@c.org"), ["x@b.org", "A@c.org"], ["x@c.org", "a@example.com", "x@a.b.org"]),
        (("*",), ["x@b.org"], []),
    ],
)
async def test_channels_of_tenants_mail_where_the_operator_lets_them(
    recipients: tuple[str, ...], taken: list[str], refused: list[str]
) -> None:
    async with running_mailboxes() as boxes:
        server = replace(plain(boxes), recipients=recipients)
        senders = Senders(secrets=make_secrets(), clock=FakeClock(NOW), mail=server)
        for address in taken:
            senders.check(EmailChannel(to=(address,)), "shop")
            await send(EmailChannel(to=(address,)), mail=server)
        for address in refused:
            config = EmailChannel(to=(taken[0], address))
            with pytest.raises(InvalidInput, match=rf"^config\.to\[1\]: {address} is not where"):
                senders.check(config, "shop")
            with pytest.raises(MessageRefused, match=r"mail\.recipients"):
                await send(config, mail=server)
            senders.check(config, "*")
            await send(config, CLUSTER, mail=server)
    assert len(boxes.mails) == len(taken) + len(refused)


@pytest.mark.parametrize("entry", ["", "a b", "a@", "@b.org", "*.b.org", "b.org."])
def test_wrong_recipient_names_the_setting(entry: str) -> None:
    with pytest.raises(InvalidInput, match=r"^mail\.recipients"):
        SETTINGS["mail.recipients"].kind.read([entry], "mail.recipients", None)


def test_recipients_go_with_a_mail_server() -> None:
    with pytest.raises(InvalidInput, match=r"^mail\.recipients: goes with a mail server"):
        _ = Settings(mail_recipients=("*",)).mail_server
