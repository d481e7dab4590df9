"""The expiries of queues, as this process knows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mainspring.core.expiry import QueueExpiries, outline_with_expiry
from mainspring.core.outlines import RunOutline
from mainspring.ports.store.policies import Policies
from mainspring.ports.store.schedule import DueClock


class QueueExpiryFollower:
    """Keeps the expiries of queues, for whatever makes runs.

    Attributes:
        by_queue: queues without one are left out.
    """

    def __init__(self) -> None:
        self.by_queue: QueueExpiries = {}

    def follow(self, policies: Policies) -> None:
        """Go by these settings from now on."""
        self.by_queue = {
            queue.name: queue.expires_after
            for queue in policies.queues.values()
            if queue.expires_after is not None
        }

    def apply_to_clocks(self, clocks: Sequence[DueClock]) -> list[DueClock]:
        """Return clocks with outlines whose runs expire as their queues say, unless their jobs say so."""
        if not self.by_queue:
            return list(clocks)
        # Clocks that share an outline go on to share one: stores go by that.
        known: dict[int, RunOutline] = {}
        changed: list[DueClock] = []
        for clock in clocks:
            outline = clock.outline
            assert outline is not None, "only a clock with an outline fires in a set"
            found = known.get(id(outline))
            if found is None:
                found = known[id(outline)] = outline_with_expiry(outline, self.by_queue)
            changed.append(clock if found is outline else replace(clock, outline=found))
        return changed
