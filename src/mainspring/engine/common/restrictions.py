"""Has this process follow what restricts claims: at once after a hint, otherwise within a second of the change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from mainspring.core.blackouts import Blackout, BlackoutWindow
from mainspring.core.triggers import EPOCH
from mainspring.engine.common.calendars import CalendarReader
from mainspring.engine.common.wakeups import Wakeups
from mainspring.ports.clock import Waiter
from mainspring.ports.store import Store
from mainspring.ports.store.restrictions import Restrictions

_log = structlog.get_logger(__name__)
PERIOD = 1.0
"""Seconds between two looks. As long as nothing has changed, a look reads one number."""
_LATE = timedelta(minutes=1)
"""Where blackouts began before that, no claim is under way any more that was chosen before."""


class RestrictionReader:
    """Reads the restrictions, with the calendars of blackouts. Their versions never change, so each is read once."""

    def __init__(self, store: Store, calendars: CalendarReader) -> None:
        self._store = store
        self._calendars = calendars

    async def read(self, *, known: int | None = None) -> Restrictions | None:
        """Return all that restricts claims, ready to be asked; None if it is still that of the epoch `known`."""
        found = await self._store.read_restrictions(known=known)
        if found is None or not found.blackouts:
            return found
        windows = [await self._bind(blackout) for blackout in found.blackouts]
        return replace(found, pauses=found.pauses.with_blackouts(windows))

    async def _bind(self, blackout: Blackout) -> BlackoutWindow:
        key = (blackout.calendar, blackout.version)
        try:
            return BlackoutWindow(blackout, (await self._calendars.resolve(blackout.tenant, [key]))[key])
        except ValueError:  # a zone is unknown here
            _log.exception("blackout_holds_without_its_calendar", what=blackout.what, calendar=blackout.label)
            return BlackoutWindow(blackout, None)


class RestrictionFollower:
    """Reads the restrictions when they have changed, and tells those who follow them.

    Claims keep them even before that, because the store refuses a claim under an old policy epoch. This is what ends a
    pause soon, and what the scheduler goes by. Where a blackout begins, it has the store refuse the claims that were
    chosen before, as a pause does. The first process that comes there does so for all.

    Attributes:
        current: what is known now.
    """

    name = "restrictions"

    def __init__(self, store: Store, reader: RestrictionReader, *, wakeups: Wakeups, waiter: Waiter) -> None:
        self.current: Restrictions = Restrictions()
        self._store = store
        self._reader = reader
        self._wakeups = wakeups
        self.waiter = waiter
        self._known: int | None = None
        self._begun_through: datetime | None = None
        self._followers: list[Callable[[Restrictions], None]] = []
        wakeups.subscribe_restrictions(waiter.signal)

    def tell(self, follower: Callable[[Restrictions], None]) -> None:
        """Call `follower` with the restrictions, now and whenever they change."""
        self._followers.append(follower)

    async def tick(self, now: datetime) -> float:
        """Look whether anything has changed, or a blackout has begun."""
        found = await self._reader.read(known=self._known)
        if found is not None:
            self._known, self.current = found.epoch, found
            for follower in self._followers:
                follower(found)
            # Since the change, a blackout may have begun that was not known here.
            changed_at = max(EPOCH + timedelta(microseconds=found.epoch), now - _LATE)
            self._begun_through = min(self._begun_through or now, changed_at)
        await self._begin_blackouts(now)
        change = self.current.pauses.next_change(now)
        return PERIOD if change is None else min(PERIOD, max((change - now).total_seconds(), 0.0))

    async def _begin_blackouts(self, now: datetime) -> None:
        after = self._begun_through or now
        begun_at = self.current.pauses.last_beginning(after, now) if after < now else None
        if begun_at is not None and await self._store.begin_blackouts(begun_at, now=now):
            self._wakeups.restrictions_changed()
        self._begun_through = max(after, now)
