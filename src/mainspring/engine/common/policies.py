"""Has this process follow what operators set, within a second of the change."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from mainspring.ports.clock import Waiter
from mainspring.ports.store import Store
from mainspring.ports.store.policies import Policies

PERIOD = 1.0
"""Seconds between two looks. As long as nothing has changed, a look reads one number."""


class PolicyFollower:
    """Reads the settings when they have changed, and tells those who follow them."""

    name = "policies"

    def __init__(self, store: Store, *, waiter: Waiter) -> None:
        self._store = store
        self.waiter = waiter
        self._known: int | None = None
        self._followers: list[Callable[[Policies], None]] = []

    def tell(self, follower: Callable[[Policies], None]) -> None:
        """Call `follower` with the settings, now and whenever they change."""
        self._followers.append(follower)

    async def tick(self, now: datetime) -> float:
        """Look whether anything has changed."""
        del now
        policies = await self._store.read_policies(known=self._known)
        if policies is not None:
            self._known = policies.revision
            for follower in self._followers:
                follower(policies)
        return PERIOD
