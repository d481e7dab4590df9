"""Puts together what judges alerts and what delivers their messages."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from mainspring.engine.common.calendars import CalendarReader
from mainspring.engine.common.restrictions import RestrictionFollower
from mainspring.engine.common.service import Service
from mainspring.engine.scheduling.alert_reading import AlertReader
from mainspring.engine.scheduling.notifier import Notifier
from mainspring.engine.scheduling.ownership import Ownership
from mainspring.engine.scheduling.watchdog import Watchdog
from mainspring.engine.scheduling.watchdog_ping import WatchdogPing
from mainspring.ports.channel import Pinger, Sender
from mainspring.ports.clock import Clock, Waiter
from mainspring.ports.store import Store


def make_alert_services(
    store: Store,
    sender: Sender | None,
    restrictions: RestrictionFollower,
    calendars: CalendarReader,
    *,
    clock: Clock,
    ownership: Ownership,
    waiter: Callable[[], Waiter],
    kept: timedelta,
    pinger: Pinger | None,
    public_url: str | None,
) -> list[Service]:
    """Return the watchdog, the notifier, which it wakes, and what pings while it judges.

    Args:
        sender: delivers messages; None delivers none, and there is no notifier.
        waiter: makes a waiter.
        kept: how long runs that have ended are kept.
        pinger: tells a monitor elsewhere that the watchdog judges; None tells none.
        public_url: where messages link to; None links nowhere.
    """
    news = waiter()
    watchdog = Watchdog(
        store,
        AlertReader(store, restrictions, calendars, kept=kept),
        ownership=ownership,
        waiter=waiter(),
        on_messages=news.signal,
        kept=kept,
    )
    services: list[Service] = [watchdog]
    if pinger is not None:
        services.append(WatchdogPing(pinger, lambda: watchdog.judged_at, waiter=waiter()))
    if sender is not None:
        services.append(
            Notifier(store, sender, clock=clock, ownership=ownership, waiter=news, public_url=public_url)
        )
    return services
