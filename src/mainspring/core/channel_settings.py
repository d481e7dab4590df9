"""The settings of a channel, by kind: where its messages go, and which secrets it names.

A channel's settings are what a user wrote. They hold no secret, only references; see `core.secrets`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar

from mainspring.core.fields import read_choice, read_mapping, read_text, show_key
from mainspring.core.kinds import Kind, Schema
from mainspring.core.options import Option, Options
from mainspring.core.secrets import SecretName, check_marks, is_mark, names_in
from mainspring.core.targets.http import Headers, Url
from mainspring.core.values import value
from mainspring.errors import InvalidInput

MOST_RECIPIENTS = 50
_LONGEST_ADDRESS = 254
_ADDRESS = re.compile(
    r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?", re.ASCII
)
_OWN_HEADERS = frozenset(
    {"content-type", "user-agent", "webhook-id", "webhook-timestamp", "webhook-signature"}
)


class ChannelKind(StrEnum):
    """How a channel delivers its messages."""

    WEBHOOK = "webhook"
    SLACK = "slack"
    EMAIL = "email"
    ALERTMANAGER = "alertmanager"


RESENT_EACH: Mapping[ChannelKind, timedelta] = MappingProxyType(
    {ChannelKind.ALERTMANAGER: timedelta(minutes=1)}
)
"""Kinds that are to hear of what fires as often as this, whatever the channel's `repeat` says: an Alertmanager takes an
alert that it does not hear of for ended, and decides itself how often to tell people."""


@value(kw_only=True)
class WebhookChannel:
    """A URL that takes signed JSON.

    Attributes:
        url: an address, or one `${secret:NAME}`.
        signing: the name of the secret that signs; None leaves messages unsigned.
        headers: further header fields, whose values may hold `${secret:NAME}`.
    """

    kind: ClassVar[ChannelKind] = ChannelKind.WEBHOOK
    url: str
    signing: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@value(kw_only=True)
class SlackChannel:
    """An incoming webhook of Slack, or of a service that takes the same (Mattermost, Rocket.Chat).

    Attributes:
        url: an address, or one `${secret:NAME}`: whoever knows the address may post there.
    """

    kind: ClassVar[ChannelKind] = ChannelKind.SLACK
    url: str


@value(kw_only=True)
class EmailChannel:
    """Some mailboxes. Which mail server sends is the server's setting.

    Attributes:
        to: their addresses.
    """

    kind: ClassVar[ChannelKind] = ChannelKind.EMAIL
    to: tuple[str, ...]


@value(kw_only=True)
class AlertmanagerChannel:
    """An Alertmanager of Prometheus, which decides itself whom to tell.

    Attributes:
        url: its address, such as `http://alertmanager:9093`, or one `${secret:NAME}`.
        headers: further header fields, whose values may hold `${secret:NAME}`.
    """

    kind: ClassVar[ChannelKind] = ChannelKind.ALERTMANAGER
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)


ChannelConfig = WebhookChannel | SlackChannel | EmailChannel | AlertmanagerChannel


@value()
class _ChannelUrl(Url):
    """An address, or the secret that holds it."""

    def read(self, value: object, path: str, old: Any) -> str:
        """Read a URL or a reference."""
        if isinstance(value, str) and "$" in value:
            check_marks(value, path, is_strict=True)
            if is_mark(value):
                return value
            if names_in(value):
                raise InvalidInput(path, "a secret stands for the whole URL: ${secret:NAME} alone")
        return Url.read(self, value, path, old)

    def limits(self) -> str:
        """Say what else it may be."""
        return f"{Url.limits(self)}; or `${{secret:NAME}}`"


@value()
class _ChannelHeaders(Headers):
    """Header fields that a channel adds to its messages, whose values may hold secrets."""

    def read(self, value: object, path: str, old: Any) -> dict[str, str]:
        """Read names and texts."""
        headers = Headers.read(self, value, path, old)
        for name, text in headers.items():
            where = f"{path}.{show_key(name)}"
            if name.lower() in _OWN_HEADERS:
                raise InvalidInput(where, "is set by the server")
            check_marks(text, where, is_strict=True)
        return headers

    def limits(self) -> str:
        """Say how many there may be, and which are taken."""
        own = ", ".join(f"`{name}`" for name in sorted(_OWN_HEADERS))
        return f"{Headers.limits(self)}, and so are {own}"


@value()
class _Recipients(Kind):
    """Addresses of mailboxes; a text alone is a list of one."""

    metavar: ClassVar[str] = "ADDRESS"
    is_json: ClassVar[bool] = False
    is_list: ClassVar[bool] = True

    def read(self, value: object, path: str, old: Any) -> tuple[str, ...]:
        """Read a list of addresses."""
        del old
        entries = [value] if isinstance(value, str) else value
        if not isinstance(entries, list | tuple) or not 1 <= len(entries) <= MOST_RECIPIENTS:
            raise InvalidInput(path, f"must be a list of 1 to {MOST_RECIPIENTS} addresses")
        return tuple(dict.fromkeys(_read_address(item, f"{path}[{n}]") for n, item in enumerate(entries)))

    def store(self, value: tuple[str, ...]) -> list[str]:
        """Return a list."""
        return list(value)

    def load(self, plain: list[str]) -> tuple[str, ...]:
        """Return the addresses."""
        return tuple(plain)

    def schema(self) -> Schema:
        """Return a list's schema."""
        address = {"type": "string", "maxLength": _LONGEST_ADDRESS}
        return {
            "anyOf": [
                {"type": "array", "minItems": 1, "maxItems": MOST_RECIPIENTS, "items": address},
                address,
            ]
        }

    def limits(self) -> str:
        """Say how many there may be."""
        return f"1 to {MOST_RECIPIENTS} addresses like `ops@example.com`"


def _read_address(value: object, field: str) -> str:
    text = read_text(value, field, longest=_LONGEST_ADDRESS)
    if not _ADDRESS.fullmatch(text) or ".." in text:
        raise InvalidInput(field, f"must be a plain address like ops@example.com, not {text[:60]!r}")
    return text


_HEADERS = Option(
    name="headers",
    kind=_ChannelHeaders(),
    summary="Further header fields.",
    detail="`${secret:NAME}` in a value stands for a secret.",
    default={},
    example={"Authorization": "Bearer ${secret:ops-token}"},
)

CHANNEL_OPTIONS: Mapping[ChannelKind, Options] = MappingProxyType(
    {
        ChannelKind.WEBHOOK: Options(
            Option(
                name="url",
                kind=_ChannelUrl(),
                summary="Post here.",
                example="https://hooks.example.com/alerts",
            ),
            Option(
                name="signing",
                kind=SecretName(),
                summary="The secret that signs.",
                default=None,
                is_nullable=True,
                example="secret:ops-hook",
            ),
            _HEADERS,
        ),
        ChannelKind.SLACK: Options(
            Option(
                name="url",
                kind=_ChannelUrl(),
                summary="The incoming webhook.",
                detail="Everyone who knows it may post there, so let it be a secret.",
                example="${secret:slack-url}",
            ),
        ),
        ChannelKind.EMAIL: Options(
            Option(name="to", kind=_Recipients(), summary="The mailboxes.", example=["ops@example.com"]),
        ),
        ChannelKind.ALERTMANAGER: Options(
            Option(
                name="url",
                kind=_ChannelUrl(),
                summary="The Alertmanager's address, without `/api`.",
                example="http://alertmanager:9093",
            ),
            _HEADERS,
        ),
    }
)
"""The options of each kind's settings."""

_TYPES: Mapping[ChannelKind, type[ChannelConfig]] = MappingProxyType(
    {
        ChannelKind.WEBHOOK: WebhookChannel,
        ChannelKind.SLACK: SlackChannel,
        ChannelKind.EMAIL: EmailChannel,
        ChannelKind.ALERTMANAGER: AlertmanagerChannel,
    }
)


def read_channel_kind(value: object, field: str = "kind") -> ChannelKind:
    """Return a channel's kind from its word.

    Raises:
        InvalidInput: there is no such kind.
    """
    return read_choice(value, field, ChannelKind)


def read_channel(kind: ChannelKind, given: object, path: str = "config") -> ChannelConfig:
    """Return the settings that a user wrote for a channel of this kind.

    Args:
        path: the name of the field that holds them.

    Raises:
        InvalidInput: one is wrong or missing, or there is no such setting.
    """
    values = CHANNEL_OPTIONS[kind].read_all(read_mapping(given, path), lambda name: f"{path}.{name}")
    return _TYPES[kind](**values)


def plain_from_channel(config: ChannelConfig) -> dict[str, Any]:
    """Return a channel's settings as they are kept and shown; `read_channel` reads them."""
    plain: dict[str, Any] = {}
    CHANNEL_OPTIONS[config.kind].store_into(plain, config)
    return {name: value for name, value in plain.items() if value is not None}


def secrets_of(config: ChannelConfig) -> tuple[str, ...]:
    """Return the names of the secrets that a channel's settings refer to, each once."""
    names: list[str] = []
    if not isinstance(config, EmailChannel):
        names += names_in(config.url)
    if isinstance(config, WebhookChannel) and config.signing is not None:
        names.append(config.signing)
    if isinstance(config, WebhookChannel | AlertmanagerChannel):
        names += [name for text in config.headers.values() for name in names_in(text)]
    return tuple(dict.fromkeys(names))
