"""Delivers the messages that the watchdog has written, and tries again what could not be delivered."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

import structlog

from mainspring.core.alerts import Channel
from mainspring.core.links import link_message
from mainspring.engine.scheduling.ownership import Ownership
from mainspring.ports.channel import ChannelUnavailable, MessageRefused, Sender
from mainspring.ports.clock import Clock, Waiter
from mainspring.ports.store import Store
from mainspring.ports.store.alerts import Notification, SettledNotification
from mainspring.ports.store.nodes import Epochs
from mainspring.ports.telemetry import Measure

_log = structlog.get_logger(__name__)
PERIOD = 5.0
BATCH = 50
"""Messages that are under way before no more are taken."""
LEASE = timedelta(minutes=2)
"""After a crash, a message that was taken is delivered after this: it may come twice, with one id."""
LONGEST_SEND = 60.0
"""How long one delivery may take in all, in seconds: less than the lease, whatever the time-out of each step is."""
AT_ONCE = 4
"""Messages to one channel that are under way before no more are taken for it. A slow receiver holds up no other."""
AT_ONCE_OF_TENANT = 12
_LOOK = 1.0
"""How often it is looked for other messages, in seconds, while a receiver takes its time."""
GIVEN_UP_AFTER = timedelta(days=1)
_FIRST_PAUSE = timedelta(seconds=5)
_LONGEST_PAUSE = timedelta(minutes=10)
_LONGEST_WISH = timedelta(hours=1)
"""The longest that a receiver may ask us to wait."""
_LONGEST_ERROR = 500


class Notifier:
    """Takes the messages that are due, and has them delivered, if this node owns shard 0.

    Args:
        public_url: where messages link to; None links nowhere.
    """

    name = "notifier"

    def __init__(
        self,
        store: Store,
        sender: Sender,
        *,
        clock: Clock,
        ownership: Ownership,
        waiter: Waiter,
        public_url: str | None = None,
    ) -> None:
        self._store = store
        self._sender = sender
        self._clock = clock
        self._ownership = ownership
        self._public_url = public_url
        self._counts = {"sent": 0, "retried": 0, "given_up": 0}
        self.waiter = waiter

    def measures(self) -> Iterator[Measure]:
        """Yield how many deliveries were made and were not."""
        for outcome, count in self._counts.items():
            yield Measure("notifications_total", count, (outcome,))

    async def tick(self, now: datetime) -> float:
        """Deliver what is due, and settle each message as it ends."""
        if 0 not in self._ownership.epochs:
            return PERIOD
        epochs = {0: self._ownership.epochs[0]}
        under_way: dict[asyncio.Task[SettledNotification], Notification] = {}
        try:
            while await self._begin(under_way, epochs) or under_way:
                if not under_way:
                    continue
                done, _ = await asyncio.wait(under_way, timeout=_LOOK, return_when=asyncio.FIRST_COMPLETED)
                settled = [task.result() for task in done]
                for task in done:
                    del under_way[task]
                if settled and not await self._store.settle_notifications(
                    settled, epochs=epochs, now=self._clock.now()
                ):
                    self._ownership.fence([0], used=epochs)
                    return PERIOD
        except GeneratorExit:  # the loop is gone, and with it what was under way
            under_way.clear()
            raise
        finally:
            for task in under_way:
                task.cancel()
            if under_way:
                await asyncio.gather(*under_way, return_exceptions=True)
        return PERIOD

    async def _begin(
        self, under_way: dict[asyncio.Task[SettledNotification], Notification], epochs: Epochs
    ) -> bool:
        """Begin to deliver what is due, of channels and tenants that are not busy. Return whether anything was."""
        channels: dict[str, Channel] | None = None
        while len(under_way) < BATCH:
            of_channel = Counter(one.channel for one in under_way.values())
            of_tenant = Counter(one.channel.partition("/")[0] for one in under_way.values())
            now = self._clock.now()
            taken = await self._store.take_notifications(
                epochs=epochs,
                now=now,
                again_at=now + LEASE,
                limit=AT_ONCE,
                busy=[key for key, count in of_channel.items() if count >= AT_ONCE],
                busy_tenants=[key for key, count in of_tenant.items() if count >= AT_ONCE_OF_TENANT],
            )
            if not taken:
                break
            if channels is None:
                channels = {channel.key: channel for channel in await self._store.list_channels()}
            for one in taken:
                under_way[asyncio.create_task(self._deliver(one, channels))] = one
        return channels is not None

    async def _deliver(
        self, notification: Notification, channels: Mapping[str, Channel]
    ) -> SettledNotification:
        channel = channels.get(notification.channel)
        if channel is None or not channel.enabled:
            return self._give_up(notification, "the channel was disabled")
        try:
            async with asyncio.timeout(LONGEST_SEND):
                # Not linked in the store: an address that is set anew holds for what waits, too.
                message = link_message(notification.message, self._public_url)
                await self._sender.send(channel.config, message)
        except MessageRefused as error:
            return self._give_up(notification, str(error))
        except ChannelUnavailable as error:
            return self._try_again(notification, error)
        except TimeoutError:
            return self._try_again(notification, ChannelUnavailable(f"no answer within {LONGEST_SEND:g} s"))
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one delivery ends no other
            _log.exception("delivery_broke", channel=notification.channel, message=notification.message.id)
            return self._try_again(notification, ChannelUnavailable(f"it broke: {type(error).__name__}"))
        self._counts["sent"] += 1
        return SettledNotification(notification=notification)

    def _try_again(self, notification: Notification, error: ChannelUnavailable) -> SettledNotification:
        now = self._clock.now()
        again_at = now + pause_of(notification.attempts, error.retry_after)
        if again_at - notification.made_at > GIVEN_UP_AFTER:
            return self._give_up(notification, f"given up after a day: {error}")
        self._counts["retried"] += 1
        if notification.attempts == 1:
            _log.warning(
                "message_delayed",
                channel=notification.channel,
                message=notification.message.id,
                error=str(error),
            )
        return SettledNotification(
            notification=notification, again_at=again_at, error=str(error)[:_LONGEST_ERROR]
        )

    def _give_up(self, notification: Notification, error: str) -> SettledNotification:
        self._counts["given_up"] += 1
        _log.error(
            "message_given_up", channel=notification.channel, message=notification.message.id, error=error
        )
        return SettledNotification(notification=notification, error=error[:_LONGEST_ERROR])


def pause_of(attempts: int, wished: timedelta | None) -> timedelta:
    """Return how long to wait after so many attempts: twice as long each time, or as long as the receiver asks."""
    usual: timedelta = min(_FIRST_PAUSE * (1 << min(attempts - 1, 10)), _LONGEST_PAUSE)
    return usual if wished is None else min(max(usual, wished), _LONGEST_WISH)
