"""Caps of queues, tenants and labels: how many of their runs may be under way at a time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from mainspring.core.audit import AuditEntry
from mainspring.core.lane_caps import CapKey, CapUse, LaneCap


class CapStore(Protocol):
    """The caps that are about whole lanes.

    They are among the restrictions (`RestrictionStore.read_restrictions`): a claim names the keys of its lanes' caps,
    and the policy epoch says that these are all. The places are those of limits.
    """

    async def write_caps(
        self, caps: Sequence[LaneCap], *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[str]:
        """Set caps, or unset them.

        When this returns, no claim starts a run beyond them. What is under way has a place under each, also what
        started before there was a cap; it goes on, whatever the cap is now.

        Returns:
            The servers and workers of older releases that are alive, and would not keep a cap; if there are any, and
            one of the caps is to be set, nothing was written.
        """
        ...

    async def read_cap_uses(self, keys: Sequence[CapKey]) -> list[CapUse]:
        """Return how much of each cap is taken; of one that is not set, nothing."""
        ...
