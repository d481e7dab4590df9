"""Reserved slots as the store has counted them, and which tenants have been short of them for how long."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from datetime import datetime

from mainspring.core.values import value


@value()
class ReserveCounts:
    """How many slots are reserved for tenants, and how many they have.

    Attributes:
        slots: by tenant, at least 1.
        running: by tenant; one that is not in here counts as having what is reserved for it.
    """

    slots: Mapping[str, int] = field(default_factory=dict)
    running: Mapping[str, int] = field(default_factory=dict)

    def missing(self, tenant: str) -> int:
        """Return how many slots a tenant is short of."""
        return max(-self._beyond(tenant), 0)

    def spare(self, tenant: str) -> int:
        """Return how many slots a tenant with a reserve has beyond it."""
        return max(self._beyond(tenant), 0)

    def _beyond(self, tenant: str) -> int:
        reserved = self.slots.get(tenant, 0)
        return self.running.get(tenant, reserved) - reserved


NO_RESERVES = ReserveCounts()


class ShortTenants:
    """Since when tenants with a reserve have been short of slots, look by look."""

    def __init__(self) -> None:
        self._since: dict[str, datetime] = {}

    def note(self, reserves: ReserveCounts, ready: Collection[str], now: datetime) -> None:
        """Note what a look has found.

        Args:
            ready: the tenants that have something ready. Others are short of nothing.
        """
        self._since = {
            tenant: self._since.get(tenant, now)
            for tenant in reserves.slots
            if tenant in ready and reserves.missing(tenant)
        }

    def is_since(self, tenant: str, instant: datetime) -> bool:
        """Say whether a tenant was short at an instant, and at each look since then."""
        since = self._since.get(tenant)
        return since is not None and since <= instant
