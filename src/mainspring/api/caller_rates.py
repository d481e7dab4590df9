"""How often each caller may call an operation that costs several reads."""

from __future__ import annotations

from datetime import datetime

from mainspring.core.intake import bounded_wait
from mainspring.core.rates import Bucket, Rate
from mainspring.errors import TooMany

MOST_CALLERS = 10_000


class CallerRates:
    """Counts the calls of each caller on this server.

    Args:
        setting: the setting that the rate comes from, for refusals.
        burst: how many calls may come at once; None is as many as one second allows.
    """

    def __init__(self, rate: Rate, *, setting: str, burst: int | None = None) -> None:
        self._rate = rate
        self._burst = burst or rate.usual_burst
        self._setting = setting
        self._buckets: dict[str, Bucket] = {}

    def take(self, caller: str, *, now: datetime) -> None:
        """Let one call through.

        Raises:
            TooMany: the caller has called too often.
        """
        known = self._buckets.get(caller)
        bucket = (known or Bucket(self._rate, self._burst)).at(now)
        again_at = bucket.next_permit_at()
        if again_at is not None:
            message = f"{caller} asks more often than {self._setting} allows, {self._rate.text}"
            raise TooMany(self._setting, message, retry_after=bounded_wait(again_at - now))
        if known is None and len(self._buckets) >= MOST_CALLERS:
            self._forget_quiet_ones(now)
        self._buckets[caller] = bucket.take(1)

    def give_back(self, caller: str) -> None:
        """Undo a call that was let through, because it does not count."""
        known = self._buckets.get(caller)
        if known is not None:
            self._buckets[caller] = known.take(-1)

    def _forget_quiet_ones(self, now: datetime) -> None:
        """Drop the callers whose buckets are full again. If that drops none, drop all: memory is bounded."""
        busy = {
            caller: bucket for caller, bucket in self._buckets.items() if bucket.at(now).permits < self._burst
        }
        self._buckets = busy if len(busy) < MOST_CALLERS else {}
