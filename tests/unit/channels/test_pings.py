"""The pings of a monitor elsewhere: a real server takes them, or does not."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from mainspring.channels.pings import UrlPinger
from mainspring.errors import InvalidInput
from mainspring.ports.channel import ChannelUnavailable, MessageRefused
from tests.unit.channels.messages import Receiver, make_secrets, running_receiver

FIELD = "watchdog.ping_url"


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with running_receiver() as receiver:
        yield receiver


async def ping(url: str, *, allow: tuple[str, ...] = ("127.0.0.1",), **secrets: str) -> None:
    pinger = UrlPinger(url, FIELD, secrets=make_secrets(**secrets), allow=allow)
    await pinger.start()
    try:
        await pinger.ping()
    finally:
        await pinger.stop()


async def test_a_ping_gets_the_url(receiver: Receiver) -> None:
    methods: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        methods.append(request.method)
        return web.Response(text="OK")

    receiver.handler = handler
    await ping(f"http://127.0.0.1:{receiver.port}/ping/0e1f")
    [(path, headers, body)] = receiver.requests
    assert (methods, path, body, headers["user-agent"]) == (["GET"], "/ping/0e1f", b"", "Mainspring")


@pytest.mark.parametrize("form", ["${secret:hook}", "http://127.0.0.1:PORT/ping/${secret:own}"])
async def test_the_url_may_be_or_hold_a_secret(receiver: Receiver, form: str) -> None:
    whole = f"http://127.0.0.1:{receiver.port}/ping/k3v9"
    await ping(form.replace("PORT", str(receiver.port)), hook=whole, own="k3v9")
    assert [path for path, _, _ in receiver.requests] == ["/ping/k3v9"]


@pytest.mark.parametrize("allow", [(), ("shop=127.0.0.1",)], ids=["nowhere", "a tenant's"])
async def test_it_goes_only_where_channels_of_the_cluster_may(
    receiver: Receiver, allow: tuple[str, ...]
) -> None:
    with pytest.raises(MessageRefused, match=r"is blocked: .*channels\.allow"):
        await ping(f"http://127.0.0.1:{receiver.port}/x", allow=allow)
    assert receiver.requests == []


async def test_an_error_does_not_show_the_key(receiver: Receiver) -> None:
    receiver.answer(500, "no such check: k3v9q2xa")
    with pytest.raises(ChannelUnavailable) as caught:
        await ping(f"http://127.0.0.1:{receiver.port}/ping/k3v9q2xa")
    assert "status 500: no such check" in str(caught.value)
    assert "k3v9q2xa" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://hc.example.com/${secret:nope}", "there is no secret 'nope'"),
        ("${secret:nope}", "there is no secret 'nope'"),
        ("https://me@hc.example.com/x", "user"),
    ],
)
def test_what_can_never_work_is_said_at_the_start(url: str, words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        UrlPinger(url, FIELD, secrets=make_secrets())
    assert caught.value.field == FIELD
    assert words in caught.value.message
