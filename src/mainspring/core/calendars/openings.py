"""How a search for moved fires passes over time in which none of them finds a date."""

from __future__ import annotations

from datetime import datetime, timedelta

from mainspring.core.calendars.sieve import STEPS_BACK, Sieve
from mainspring.core.model import Roll

REACH = 366
"""Days that a fire may move, at most. Beyond that, it is left out."""
REACH_TIME = timedelta(days=REACH + 2)
"""More than any fire moves, whatever clocks do meanwhile."""
MOST_STUCK = 1000
"""Openings of its calendars that help no fire, within a search, before it gives up."""
_TICK = timedelta(microseconds=1)
_NO_TIME = timedelta()


class OpeningsAhead:
    """Tells a search that has found nothing after an instant where it goes on.

    A fire is passed over only if nothing gets through wherever it could move to, as long as that is after the instant.
    That the last fire found no date says little of the next one, which may have another wall time.
    """

    __slots__ = ("_instant", "_is_next", "_opens_at", "_seen", "_sieve")

    def __init__(self, sieve: Sieve, instant: datetime) -> None:
        self._sieve = sieve
        self._instant = instant
        self._is_next = sieve.roll is Roll.NEXT
        self._opens_at: datetime | None = None
        self._seen = 0

    def skip_from(self, fire: datetime) -> datetime | None:
        """Return the instant beyond which the search goes on, from a fire in vain; None if it gives up."""
        low = fire if self._is_next else max(self._instant + _TICK, fire - REACH_TIME)
        if self._opens_at is None or self._opens_at < low:
            self._opens_at = self._sieve.next_open(low)
            self._seen += 1
        if self._opens_at is None or self._seen > MOST_STUCK:
            return None
        return max(fire, self._opens_at - (REACH_TIME if self._is_next else _TICK))


class OpeningsBehind:
    """Tells a search that has found nothing before an instant where it goes on, as `OpeningsAhead` does."""

    __slots__ = ("_instant", "_is_next", "_opens_at", "_reach", "_seen", "_sieve")

    def __init__(self, sieve: Sieve, instant: datetime) -> None:
        self._sieve = sieve
        self._instant = instant
        self._is_next = sieve.roll is Roll.NEXT
        self._reach = _NO_TIME if self._is_next else REACH_TIME
        self._opens_at: datetime | None = None
        self._seen = 0

    def skip_from(self, fire: datetime) -> datetime | None:
        """Return the instant ahead of which the search goes on, from a fire in vain; None if it gives up.

        It gives up too where nothing gets through for eleven years.
        """
        end = min(self._instant, fire + REACH_TIME) if self._is_next else fire
        skipped_to = fire
        for back in STEPS_BACK:
            low = fire - back - self._reach
            if self._opens_at is None or not low <= self._opens_at < end:
                self._opens_at = self._sieve.next_open(low)
                self._seen += 1
            if self._opens_at is not None and self._opens_at < end:
                return skipped_to if self._seen <= MOST_STUCK else None
            skipped_to = fire - back
        return None
