"""Reads what live workers offer, for answers to people. What is a second old is new enough."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.core.serving import Offers
from mainspring.engine.common.group_commit import GroupCommit
from mainspring.engine.common.wakeups import Wakeups
from mainspring.ports.clock import Clock
from mainspring.ports.store import Store

MAX_AGE = 1.0
"""Seconds for which what was read counts as new."""


class OfferReader:
    """Knows what live workers offer.

    Sessions of one fleet offer the same, so what is kept of thousands of them is little. A worker that registers with
    this process counts at once: most often, the first one starts just after the server.
    """

    def __init__(self, store: Store, *, clock: Clock, wakeups: Wakeups) -> None:
        self._store = store
        self._clock = clock
        self._read_at = float("-inf")
        self._came = 0
        self._offers = Offers(())
        self._reads: GroupCommit[None, Offers] = GroupCommit(self._read_for)
        wakeups.subscribe_workers(self._forget)

    async def read(self) -> Offers:
        """Return what live workers offer."""
        at = self._clock.monotonic()
        if at - self._read_at > MAX_AGE:
            came = self._came
            (self._offers,) = await self._reads([None])
            if came == self._came:  # else a worker has registered meanwhile, and the read may have missed it
                self._read_at = at
        return self._offers

    def _forget(self) -> None:
        self._came += 1
        self._read_at = float("-inf")

    async def _read_for(self, askers: Sequence[None]) -> list[Offers]:
        """Return what live workers offer, once for each asker."""
        return [await self.read_now()] * len(askers)

    async def read_now(self) -> Offers:
        """Return what live workers offer at this moment."""
        return Offers(await self._store.list_sessions())
