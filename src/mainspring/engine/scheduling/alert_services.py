"""Puts together what judges alerts and what delivers their messages."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from mainspring.engine.common.restrictions import RestrictionFollower
from mainspring.engine.common.service import Service
from mainspring.engine.scheduling.alert_reading import AlertReader
from mainspring.engine.scheduling.notifier import Notifier
from mainspring.engine.scheduling.ownership import Ownership
from mainspring.engine.scheduling.watchdog import Watchdog
from mainspring.ports.channel import Sender
from mainspring.ports.clock import Clock, Waiter
from mainspring.ports.store import Store


def make_alert_services(
    store: Store,
    sender: Sender | None,
    restrictions: RestrictionFollower,
    *,
    clock: Clock,
    ownership: Ownership,
    waiter: Callable[[], Waiter],
    kept: timedelta,
) -> list[Service]:
    """Return the watchdog and the notifier, which it wakes.

    Args:
        sender: delivers messages; None delivers none, and there is no notifier.
        waiter: makes a waiter.
        kept: how long runs that have ended are kept.
    """
    news = waiter()
    watchdog = Watchdog(
        store,
        AlertReader(store, restrictions, kept=kept),
        ownership=ownership,
        waiter=waiter(),
        on_messages=news.signal,
        kept=kept,
    )
    if sender is None:
        return [watchdog]
    return [watchdog, Notifier(store, sender, clock=clock, ownership=ownership, waiter=news)]
