"""Has this process follow what restricts claims: at once after a hint, otherwise within a second of the change."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from mainspring.engine.common.wakeups import Wakeups
from mainspring.ports.clock import Waiter
from mainspring.ports.store import Store
from mainspring.ports.store.restrictions import Restrictions

PERIOD = 1.0
"""Seconds between two looks. As long as nothing has changed, a look reads one number."""


class RestrictionFollower:
    """Reads the restrictions when they have changed, and tells those who follow them.

    Claims keep them even before that, because the store refuses a claim under an old policy epoch. This is what ends a
    pause soon, and what the scheduler goes by.

    Attributes:
        current: what is known now.
    """

    name = "restrictions"

    def __init__(self, store: Store, *, wakeups: Wakeups, waiter: Waiter) -> None:
        self.current = Restrictions()
        self._store = store
        self.waiter = waiter
        self._known: int | None = None
        self._followers: list[Callable[[Restrictions], None]] = []
        wakeups.subscribe_restrictions(waiter.signal)

    def tell(self, follower: Callable[[Restrictions], None]) -> None:
        """Call `follower` with the restrictions, now and whenever they change."""
        self._followers.append(follower)

    async def tick(self, now: datetime) -> float:
        """Look whether anything has changed."""
        del now
        found = await self._store.read_restrictions(known=self._known)
        if found is not None:
            self._known, self.current = found.epoch, found
            for follower in self._followers:
                follower(found)
        return PERIOD
