"""Reads what live workers offer, for answers to people. What is a second old is new enough."""

from __future__ import annotations

from mainspring.core.serving import Offers
from mainspring.ports.clock import Clock
from mainspring.ports.store import Store

MAX_AGE = 1.0
"""Seconds for which what was read counts as new."""


class OfferReader:
    """Knows what live workers offer.

    Sessions of one fleet offer the same, so what is kept of thousands of them is little.
    """

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._read_at = float("-inf")
        self._offers = Offers(())

    async def read(self) -> Offers:
        """Return what live workers offer."""
        at = self._clock.monotonic()
        if at - self._read_at > MAX_AGE:
            self._offers = offers = await self.read_now()
            if offers:  # the first worker counts at once: most often, it starts just after the server
                self._read_at = at
        return self._offers

    async def read_now(self) -> Offers:
        """Return what live workers offer at this moment."""
        return Offers(await self._store.list_sessions())
