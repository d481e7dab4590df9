from typing import Any

import pytest

from mainspring.core.channel_settings import (
    CHANNEL_OPTIONS,
    AlertmanagerChannel,
    ChannelConfig,
    ChannelKind,
    EmailChannel,
    SlackChannel,
    WebhookChannel,
    plain_from_channel,
    read_channel,
    read_channel_kind,
    secrets_of,
)
from mainspring.errors import InvalidInput

URL = "https://hooks.example.com/x"
RIGHT: list[tuple[str, dict[str, Any], ChannelConfig]] = [
    ("webhook", {"url": URL}, WebhookChannel(url=URL)),
    ("webhook", {"url": URL, "signing": None, "headers": {}}, WebhookChannel(url=URL)),
    (
        "webhook",
        {"url": URL, "signing": "secret:hook", "headers": {"X-Key": "a ${secret:b}${secret:c}"}},
        WebhookChannel(url=URL, signing="hook", headers={"X-Key": "a ${secret:b}${secret:c}"}),
    ),
    ("slack", {"url": "${secret:slack}"}, SlackChannel(url="${secret:slack}")),
    (
        "email",
        {"to": ["ops@example.com", "a.b+c@x.org"]},
        EmailChannel(to=("ops@example.com", "a.b+c@x.org")),
    ),
    ("email", {"to": "ops@example.com"}, EmailChannel(to=("ops@example.com",))),
    ("email", {"to": ["a@b.c", "a@b.c"]}, EmailChannel(to=("a@b.c",))),
    (
        "alertmanager",
        {"url": "http://am:9093", "headers": {"Authorization": "Basic ${secret:am}"}},
        AlertmanagerChannel(url="http://am:9093", headers={"Authorization": "Basic ${secret:am}"}),
    ),
]


@pytest.mark.parametrize(("kind", "given", "expected"), RIGHT)
def test_settings_are_read_and_written(kind: str, given: dict[str, Any], expected: ChannelConfig) -> None:
    made = read_channel(read_channel_kind(kind), given)
    assert made == expected
    assert made.kind == kind
    assert read_channel(made.kind, plain_from_channel(made)) == made


WRONG: list[tuple[str, object, str]] = [
    ("webhook", {}, "config.url: is missing"),
    ("webhook", [], "config: must be an object, not a list"),
    ("webhook", {"url": "ftp://x"}, "config.url: must begin with https://"),
    ("webhook", {"url": f"{URL}/${{secret:a}}"}, "config.url: a secret stands for the whole URL"),
    ("webhook", {"url": "${secret:}"}, "config.url: ${secret:NAME} needs a name"),
    ("webhook", {"url": "${env:URL}"}, "config.url: ${env:…} is not read here"),
    ("webhook", {"url": URL, "signing": "whsec_abc"}, "config.signing: must name a secret"),
    ("webhook", {"url": URL, "signing": "env:HOME"}, "config.signing: must name a secret"),
    (
        "webhook",
        {"url": URL, "sign": 1},
        "config.sign: there is no such field; did you mean 'signing'?",
    ),
    (
        "webhook",
        {"url": URL, "headers": {"Webhook-Id": "1"}},
        "config.headers.Webhook-Id: is set by the server",
    ),
    ("webhook", {"url": URL, "headers": {"Host": "1"}}, "config.headers.Host: is set by the scheduler"),
    ("webhook", {"url": URL, "headers": {"A": "x\ny"}}, "config.headers.A: must be text"),
    (
        "webhook",
        {"url": URL, "headers": {"A": "${file:/etc/passwd}"}},
        "config.headers.A: ${file:…} is not read",
    ),
    ("slack", {"url": URL, "headers": {}}, "config.headers: there is no such field"),
    ("email", {"to": []}, "config.to: must be a list of 1 to 50 addresses"),
    ("email", {"to": ["x@y.z"] * 51}, "config.to: must be a list of 1 to 50 addresses"),
    ("email", {"to": ["a", "b"]}, "config.to[0]: must be a plain address like ops@example.com, not 'a'"),
    ("email", {"to": ["a@b.c\nBcc: x@y.z"]}, "config.to[0]: holds characters that cannot be printed"),
    ("email", {"to": ["Ops <a@b.c>"]}, "config.to[0]: must be a plain address"),
    ("email", {"to": [3]}, "config.to[0]: must be text in quotes"),
    ("alertmanager", {"url": 3}, "config.url: must be text"),
]


@pytest.mark.parametrize(("kind", "given", "said"), WRONG)
def test_wrong_settings_are_named_with_what_would_be_right(kind: str, given: object, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_channel(ChannelKind(kind), given)
    assert str(refused.value).startswith(said)


def test_kind_that_does_not_exist_is_refused() -> None:
    with pytest.raises(
        InvalidInput, match=r"^kind: must be one of webhook, slack, email, alertmanager, not 'pager'"
    ):
        read_channel_kind("pager")


def test_secrets_of_a_channel_are_named_once() -> None:
    config = WebhookChannel(
        url="${secret:u}", signing="s", headers={"A": "${secret:s} ${secret:h}", "B": "${secret:h}"}
    )
    assert secrets_of(config) == ("u", "s", "h")
    assert secrets_of(EmailChannel(to=("a@b.c",))) == ()


def test_every_kind_has_options() -> None:
    assert set(CHANNEL_OPTIONS) == set(ChannelKind)
