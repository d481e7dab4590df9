"""Pings a monitor elsewhere while the watchdog judges, so that its end is told by someone else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

import structlog

from mainspring.ports.channel import ChannelUnavailable, MessageRefused, Pinger
from mainspring.ports.clock import Waiter
from mainspring.ports.telemetry import Measure

_log = structlog.get_logger(__name__)
PERIOD = 10.0
PING_EVERY = 60.0
"""Seconds between two pings, about. A monitor should expect one a minute, and wait a few minutes before it tells."""


class WatchdogPing:
    """Pings once a minute, if the watchdog of this process has judged since the last ping.

    Args:
        judged_at: returns when the watchdog last judged, and saved what it found; None if it does not judge here.
    """

    name = "watchdog_ping"

    def __init__(self, pinger: Pinger, judged_at: Callable[[], datetime | None], *, waiter: Waiter) -> None:
        self._pinger = pinger
        self._judged_at = judged_at
        self._told: datetime | None = None
        self._is_failing = False
        self._counts = {"sent": 0, "failed": 0}
        self.waiter = waiter

    def measures(self) -> Iterator[Measure]:
        """Yield how many pings arrived, and how many did not."""
        for outcome, count in self._counts.items():
            yield Measure("watchdog_pings_total", count, (outcome,))

    async def tick(self, now: datetime) -> float:
        """Ping, if there is something new to tell. One that fails is followed by another one soon."""
        del now
        judged_at = self._judged_at()
        if judged_at is None or judged_at == self._told:
            return PERIOD
        try:
            await self._pinger.ping()
        except (MessageRefused, ChannelUnavailable) as error:
            self._note(error)
            return PERIOD
        self._note(None)
        self._told = judged_at
        return PING_EVERY

    def _note(self, error: Exception | None) -> None:
        """Count a ping, and log once that pings fail, and once that they do not any more."""
        self._counts["sent" if error is None else "failed"] += 1
        if error is not None and not self._is_failing:
            _log.warning("watchdog_ping_failed", error=str(error))
        elif error is None and self._is_failing:
            _log.info("watchdog_ping_arrived_again")
        self._is_failing = error is not None
