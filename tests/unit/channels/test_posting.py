import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
import standardwebhooks
from aiohttp import web

from mainspring.channels.senders import Senders
from mainspring.core.channel_settings import (
    AlertmanagerChannel,
    ChannelConfig,
    EmailChannel,
    SlackChannel,
    WebhookChannel,
)
from mainspring.core.notifications import MessageKind
from mainspring.errors import InvalidInput
from mainspring.ports.channel import ChannelUnavailable, MessageRefused
from mainspring.testing.clock import FakeClock
from tests.unit.channels.messages import (
    NOW,
    RESOLVED,
    Receiver,
    make_alert,
    make_message,
    make_secrets,
    running_receiver,
    send,
)

KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with running_receiver() as running:
        yield running


async def test_webhook_is_signed_json(receiver: Receiver) -> None:
    config = WebhookChannel(url=receiver.url, signing="hook", headers={"x-key": "Bearer ${secret:token}"})
    await send(config, secrets=make_secrets(hook=KEY, token="t0ken-of-shop"))
    ((path, headers, body),) = receiver.requests
    assert path == "/hook"
    assert headers["content-type"] == "application/json"
    assert headers["x-key"] == "Bearer t0ken-of-shop"
    assert headers["webhook-id"] == "ntf_17"
    assert headers["webhook-timestamp"] == str(int(NOW.timestamp()))
    assert headers["webhook-signature"] == standardwebhooks.Webhook(KEY).sign("ntf_17", NOW, body.decode())
    assert json.loads(body) == {
        "type": "mainspring.alert.firing",
        "timestamp": "2026-11-22T13:20:00Z",
        "data": {
            "tenant": "shop",
            "rule": "dead_letters",
            "severity": "warning",
            "count": 1,
            "more": 0,
            "alerts": [
                {
                    "alert_id": 12,
                    "subject": "queue:mail",
                    "state": "FIRING",
                    "since": "2026-11-22T13:19:20Z",
                    "resolved_at": None,
                    "value": 120.0,
                    "summary": "120 dead runs in queue mail",
                    "run_id": None,
                    "url": "https://jobs.example.org/alerts/12",
                }
            ],
        },
    }


async def test_retry_has_the_same_id_and_body_and_a_fresh_signature(receiver: Receiver) -> None:
    config = WebhookChannel(url=receiver.url, signing="hook")
    clock = FakeClock(NOW)
    senders = Senders(secrets=make_secrets(hook=KEY), clock=clock, allow=("shop=127.0.0.1",))
    await senders.start()
    await senders.send(config, make_message())
    clock.advance(3600)
    await senders.send(config, make_message())
    await senders.stop()
    first, second = receiver.requests
    assert first[2] == second[2]
    assert first[1]["webhook-id"] == second[1]["webhook-id"]
    assert int(second[1]["webhook-timestamp"]) - int(first[1]["webhook-timestamp"]) == 3600
    assert first[1]["webhook-signature"] != second[1]["webhook-signature"]


async def test_webhook_without_a_key_is_not_signed(receiver: Receiver) -> None:
    await send(WebhookChannel(url=receiver.url), make_message(RESOLVED, kind=MessageKind.RESOLVED, more=3))
    ((_, headers, body),) = receiver.requests
    assert "webhook-signature" not in headers
    assert headers["webhook-id"] == "ntf_17"
    told = json.loads(body)
    assert (told["type"], told["data"]["count"], told["data"]["more"]) == ("mainspring.alert.resolved", 4, 3)
    assert told["data"]["alerts"][0]["resolved_at"] == "2026-11-22T13:19:55Z"
    assert told["data"]["alerts"][0]["run_id"] == "run_0000000000080"


async def test_slack_gets_text_and_blocks_at_the_secret_address(receiver: Receiver) -> None:
    await send(SlackChannel(url="${secret:slack}"), secrets=make_secrets(slack=receiver.url))
    ((_, headers, body),) = receiver.requests
    assert headers["content-type"] == "application/json"
    told = json.loads(body)
    assert told["text"].startswith("*[firing] dead_letters: 120 dead runs in queue mail*\n")
    assert told["blocks"][1]["text"]["text"] == (
        "tenant shop, severity warning\n"
        "• queue:mail: 120 dead runs in queue mail <https://jobs.example.org/alerts/12|open>"
    )


async def test_alertmanager_gets_alerts_that_end_unless_they_are_sent_again(receiver: Receiver) -> None:
    config = AlertmanagerChannel(url=receiver.url + "/", headers={"Authorization": "Basic ${secret:am}"})
    await send(config, make_message(make_alert(), RESOLVED), secrets=make_secrets(am="dXNlcjpwYXNz"))
    ((path, headers, body),) = receiver.requests
    assert path == "/hook/api/v2/alerts"
    assert headers["authorization"] == "Basic dXNlcjpwYXNz"
    firing, resolved = json.loads(body)
    labels = {"alertname": "dead_letters", "tenant": "shop", "subject": "queue:mail"}
    assert firing["labels"] == resolved["labels"] == {**labels, "severity": "warning", "source": "mainspring"}
    assert (firing["startsAt"], firing["endsAt"]) == ("2026-11-22T13:19:20Z", "2026-11-22T13:24:00Z")
    assert firing["annotations"] == {"summary": "120 dead runs in queue mail", "value": "120"}
    assert firing["generatorURL"] == "https://jobs.example.org/alerts/12"
    assert resolved["endsAt"] == "2026-11-22T13:19:55Z"
    assert resolved["annotations"]["run_id"] == "run_0000000000080"
    assert "generatorURL" not in resolved


FOREVER = (400, 410, 413, 422)
FOR_NOW = (301, 302, 307, 401, 403, 404, 408, 429, 500, 502, 503, 504)


@pytest.mark.parametrize("status", FOREVER + FOR_NOW)
async def test_status_says_whether_to_try_again(receiver: Receiver, status: int) -> None:
    receiver.answer(status, "why\n not", Location=receiver.url)
    with pytest.raises(MessageRefused if status in FOREVER else ChannelUnavailable) as failed:
        await send(WebhookChannel(url=receiver.url))
    reason = "; redirects are not followed" if 300 <= status < 400 else ": why not"
    assert str(failed.value) == f"response status {status}{reason}"
    assert len(receiver.requests) == 1


@pytest.mark.parametrize(("status", "wait"), [(429, 7), (503, 7), (500, None)])
async def test_receiver_may_ask_to_wait(receiver: Receiver, status: int, wait: int | None) -> None:
    receiver.answer(status, **{"Retry-After": "7"})
    with pytest.raises(ChannelUnavailable) as failed:
        await send(SlackChannel(url=receiver.url))
    assert failed.value.retry_after == (None if wait is None else timedelta(seconds=wait))


async def test_long_answer_is_read_in_part(receiver: Receiver) -> None:
    receiver.answer(500, "x" * 3_000_000)
    with pytest.raises(ChannelUnavailable) as failed:
        await send(WebhookChannel(url=receiver.url))
    assert str(failed.value) == f"response status 500: {'x' * 200}"


async def test_receiver_that_does_not_answer_is_left(receiver: Receiver) -> None:
    has_come = asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        has_come.set()
        await asyncio.Event().wait()
        return web.Response()

    receiver.handler = handler
    with pytest.raises(ChannelUnavailable, match=r"^no answer within 0\.3 s$"):
        await send(WebhookChannel(url=receiver.url), limit=timedelta(seconds=0.3))
    assert has_come.is_set()


async def test_receiver_that_is_away() -> None:
    async with running_receiver() as gone:
        url = gone.url
    with pytest.raises(ChannelUnavailable, match="no connection to 127"):
        await send(WebhookChannel(url=url))


async def lookup(host: str, port: int) -> list[str]:
    return ["127.0.0.1" if host == "inside.example.com" else "169.254.169.254"]


@pytest.mark.parametrize("kind", [WebhookChannel, SlackChannel, AlertmanagerChannel])
@pytest.mark.parametrize("host", ["127.0.0.1", "inside.example.com", "metadata.example.com"])
async def test_no_channel_reaches_where_the_guard_forbids(
    receiver: Receiver, kind: type[Any], host: str
) -> None:
    for url in (f"http://{host}:{receiver.port}/hook", "${secret:url}"):
        secrets = make_secrets(url=f"http://{host}:{receiver.port}/hook")
        with pytest.raises(MessageRefused, match=r"the address is blocked: .* is not a public address"):
            await send(kind(url=url), allow=(), allow_http=True, lookup=lookup, secrets=secrets)
    assert receiver.requests == []


async def test_metadata_is_never_reached_even_if_it_is_on_the_list() -> None:
    with pytest.raises(MessageRefused, match="the address is blocked"):
        await send(WebhookChannel(url="http://169.254.169.254/latest"), allow=("*=169.254.0.0/16",))


async def test_secret_that_is_no_address_is_refused_and_not_shown() -> None:
    with pytest.raises(MessageRefused, match=r"^url: ") as failed:
        await send(SlackChannel(url="${secret:slack}"), secrets=make_secrets(slack="ftp://hunter2-hunter2"))
    assert "hunter2" not in str(failed.value)


async def test_answer_that_repeats_a_secret_does_not_show_it(receiver: Receiver) -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(status=400, text=f"bad token {request.headers['X-Key']}, key {KEY}")

    receiver.handler = handler
    config = WebhookChannel(url=receiver.url, signing="hook", headers={"X-Key": "t ${secret:token}"})
    with pytest.raises(MessageRefused) as failed:
        await send(config, secrets=make_secrets(token="hunter2-hunter2", hook=KEY))
    assert str(failed.value) == "response status 400: bad token ***, key ***"


@pytest.mark.parametrize("most", [200, 1000])
async def test_answer_cut_within_a_secret_shows_no_part_of_it(receiver: Receiver, most: int) -> None:
    secret = "hunter2-" * 150
    receiver.answer(500, "x" * 190 + secret if most == 200 else "x" * 20 + secret)
    with pytest.raises(ChannelUnavailable) as failed:
        await send(
            WebhookChannel(url=receiver.url, headers={"X": "${secret:x}"}), secrets=make_secrets(x=secret)
        )
    assert "hunter" not in str(failed.value)


SAID = "/services/T0123456/B%20X1234?key=hunter2-hunter2&user=somebody"


@pytest.mark.parametrize("kind", [WebhookChannel, SlackChannel, AlertmanagerChannel])
@pytest.mark.parametrize("is_secret", [False, True])
async def test_answer_that_repeats_the_address_does_not_show_what_lists_hide(
    receiver: Receiver, kind: type[Any], is_secret: bool
) -> None:
    url = f"http://127.0.0.1:{receiver.port}{SAID}"
    receiver.answer(404, f"no {SAID}; T0123456, B X1234 and hunter2-hunter2 are unknown in the path of it")
    if is_secret:
        config, secrets = kind(url="${secret:url}"), make_secrets(url=url)
    else:
        config, secrets = kind(url=url), make_secrets()
    with pytest.raises(ChannelUnavailable) as failed:
        await send(config, secrets=secrets)
    assert str(failed.value) == "response status 404: no ***; ***, *** and *** are unknown in the path of it"


@pytest.mark.parametrize("kind", [WebhookChannel, AlertmanagerChannel])
async def test_answer_that_repeats_a_header_does_not_show_it(receiver: Receiver, kind: type[Any]) -> None:
    receiver.answer(403, "who is Token hunter2-hunter2, with hunter2-hunter2?")
    with pytest.raises(ChannelUnavailable) as failed:
        await send(kind(url=receiver.url, headers={"X-Key": "Token hunter2-hunter2"}))
    assert str(failed.value) == "response status 403: who is ***, with ***?"


async def test_secrets_of_other_tenants_stay_out_of_reach(receiver: Receiver) -> None:
    secrets = make_secrets(token="hunter2", own="hunter3")
    for tenant, name in (("bank", "token"), ("shop", "own"), ("shop", "nothing")):
        config = WebhookChannel(url=receiver.url, headers={"X": f"${{secret:{name}}}"})
        with pytest.raises(ChannelUnavailable, match=f"there is no secret '{name}' for tenant '{tenant}'"):
            await send(config, make_message(tenant=tenant), secrets=secrets)
        with pytest.raises(ChannelUnavailable, match=f"there is no secret '{name}' for tenant '{tenant}'"):
            await send(
                WebhookChannel(url=receiver.url, signing=name), make_message(tenant=tenant), secrets=secrets
            )
    assert receiver.requests == []


async def test_secret_that_cannot_be_used_is_told_without_it(receiver: Receiver) -> None:
    secrets = make_secrets(hook="hunter2-hunter2", lines="one\nhunter2")
    with pytest.raises(ChannelUnavailable, match=r"^the secret 'hook' is no signing key") as failed:
        await send(WebhookChannel(url=receiver.url, signing="hook"), secrets=secrets)
    with pytest.raises(ChannelUnavailable, match=r"^the header X would hold a line break") as split:
        await send(WebhookChannel(url=receiver.url, headers={"X": "${secret:lines}"}), secrets=secrets)
    assert "hunter2" not in str(failed.value) + str(split.value)
    assert receiver.requests == []


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (WebhookChannel(url="https://user:hunter2@example.com"), "config.url: no user name or password"),
        (
            WebhookChannel(url="https://example.com", signing="x"),
            "config: there is no secret 'x' for tenant 'shop'",
        ),
        (SlackChannel(url="${secret:x}"), "config: there is no secret 'x' for tenant 'shop'"),
        (EmailChannel(to=("a@b.c",)), "config: this server sends no mail: its operator has to set mail.url"),
    ],
)
def test_settings_that_cannot_work_are_refused(config: ChannelConfig, said: str) -> None:
    senders = Senders(secrets=make_secrets(y="1"), clock=FakeClock())
    with pytest.raises(InvalidInput) as refused:
        senders.check(config, "shop")
    assert str(refused.value).startswith(said)
    senders.check(WebhookChannel(url="https://example.com", headers={"A": "${secret:y}"}), "shop")


def test_wrong_entry_of_the_list_names_its_setting() -> None:
    with pytest.raises(InvalidInput, match=r"^channels\.allow: "):
        Senders(secrets=make_secrets(), clock=FakeClock(), allow=("a b",))


@pytest.mark.parametrize("text", ["a b=127.0.0.1", "=127.0.0.1", "shop=", "shop=a=b"])
def test_wrong_tenant_or_target_of_the_list_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"^channels\.allow: "):
        Senders(secrets=make_secrets(), clock=FakeClock(), allow=(text,))


async def test_internal_target_is_reached_by_channels_of_those_it_is_for_alone(receiver: Receiver) -> None:
    async def reached_by(*allow: str) -> set[str]:
        """Return whose channels reach the receiver, all through the same senders, one after the other."""
        senders = Senders(secrets=make_secrets(), clock=FakeClock(NOW), allow=allow)
        await senders.start()
        reached: set[str] = set()
        for tenant in ("*", "shop", "bank", "*", "shop", "bank"):  # connections of the first may be kept open
            with contextlib.suppress(MessageRefused):
                config = WebhookChannel(url=receiver.url)
                await senders.send(config, make_message(tenant="shop", channel_tenant=tenant))
                reached.add(tenant)
        await senders.stop()
        return reached

    assert await reached_by(f"127.0.0.1:{receiver.port}") == {"*"}
    assert await reached_by("shop=127.0.0.1") == {"shop"}
    assert await reached_by("shop=127.0.0.1", "bank=10.0.0.1", "127.0.0.1") == {"*", "shop"}
    assert await reached_by("*=127.0.0.1", "bank=10.0.0.1") == {"*", "shop", "bank"}
    assert await reached_by("shop=10.0.0.1") == set()
