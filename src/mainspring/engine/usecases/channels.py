"""Use cases on channels: where alerts are told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainspring.core.actors import Actor
from mainspring.core.alerts import CHANNEL_SETTINGS, MOST_CHANNELS_OF_TENANT, Channel, check_count
from mainspring.core.audit import HIDDEN, Subject, entries, show_settings
from mainspring.core.channel_settings import read_channel, read_channel_kind
from mainspring.core.fields import read_word
from mainspring.core.notifications import AlertFacts, AlertState, Message, MessageKind, Severity
from mainspring.core.values import value
from mainspring.errors import Conflict, InvalidInput, NotFound
from mainspring.ports.channel import ChannelUnavailable, MessageRefused, Sender
from mainspring.ports.clock import Clock
from mainspring.ports.store import Store


@value()
class Tried:
    """What became of a message that tries a channel; `error` is None if it was delivered."""

    error: str | None


class Channels:
    """Channels. Every method acts for one tenant, or for `*`: channels that rules and jobs of all tenants may name.

    Args:
        sender: delivers messages; None if this process delivers none.
    """

    def __init__(self, store: Store, *, clock: Clock, sender: Sender | None) -> None:
        self._store = store
        self._clock = clock
        self._sender = sender

    async def list_all(self, tenant: str) -> list[Channel]:
        """Return the channels of a tenant, by name."""
        return [channel for channel in await self._store.list_channels() if channel.tenant == tenant]

    async def get(self, tenant: str, name: str) -> Channel:
        """Return a channel.

        Raises:
            NotFound: there is none of that name.
        """
        for channel in await self.list_all(tenant):
            if channel.name == name:
                return channel
        raise NotFound("channel", name)

    async def put(
        self, tenant: str, name: str, body: Mapping[str, Any], *, by: Actor | None = None
    ) -> tuple[Channel, bool]:
        """Set what a body says, and the defaults for what it leaves out. Return the channel, and whether it is new.

        Raises:
            InvalidInput: a value is wrong or missing. Nothing is stored.
            Conflict: the tenant has as many channels as it may.
        """
        name, settings = read_word(name, "channel"), dict(body)
        for field in ("kind", "config"):
            if field not in settings:
                raise InvalidInput(field, "is missing")
        kind = read_channel_kind(settings.pop("kind"))
        config = read_channel(kind, settings.pop("config"))
        channel = Channel(
            tenant=tenant,
            name=name,
            config=config,
            **CHANNEL_SETTINGS.read_all(settings, lambda option: option),
        )
        if self._sender is not None:
            self._sender.check(config, tenant)
        others = await self.list_all(tenant)
        old = next((one for one in others if one.name == name), None)
        if old is None:
            check_count(len(others), MOST_CHANNELS_OF_TENANT, tenant, field="channel", noun="channels")
        audit = entries(
            by,
            Subject(kind="channel", id=name, tenant=tenant),
            at=self._clock.now(),
            before=None if old is None else _show(old),
            after=_show(channel),
        )
        return channel, await self._store.put_channel(channel, audit=audit)

    async def delete(self, tenant: str, name: str, *, by: Actor | None = None) -> None:
        """Delete a channel, and what it has not delivered yet. Rules that name it tell the others.

        Raises:
            NotFound: there is none of that name.
        """
        channel = await self.get(tenant, name)
        subject = Subject(kind="channel", id=name, tenant=tenant)
        audit = entries(by, subject, at=self._clock.now(), before=_show(channel))
        await self._store.delete_channel(tenant, name, audit=audit)

    async def test(self, tenant: str, name: str) -> Tried:
        """Deliver a message that says it is a test, and wait for what becomes of it.

        Raises:
            NotFound: there is no channel of that name.
            Conflict: this process delivers no messages.
        """
        channel, now = await self.get(tenant, name), self._clock.now()
        if self._sender is None:
            raise Conflict("channel", "this server delivers no messages")
        facts = AlertFacts(
            alert_id=0,
            subject=f"channel:{name}",
            state=AlertState.FIRING,
            since=now,
            summary=f"This message tries the channel {name}; nothing is wrong.",
        )
        message = Message(
            id=f"test_{now.timestamp() * 1e6:.0f}",
            kind=MessageKind.TEST,
            tenant=tenant,
            rule="test",
            severity=Severity.INFO,
            alerts=(facts,),
            at=now,
            channel_tenant=tenant,
        )
        try:
            await self._sender.send(channel.config, message)
        except (MessageRefused, ChannelUnavailable) as error:
            return Tried(str(error))
        return Tried(None)


def _show(channel: Channel) -> dict[str, Any]:
    """Return what the audit has of a channel: not where it leads, which may be a secret."""
    return {
        "kind": channel.config.kind.value,
        "config": HIDDEN,
        **show_settings(CHANNEL_SETTINGS, channel),
    }
