"""Knows how many slots tenants with a reserve have: by counts of the store, and by what it sees between two of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from mainspring.core.fairness import LaneOrder
from mainspring.core.ids import RunId
from mainspring.engine.common.pacing import Pacing
from mainspring.errors import TookTooLong
from mainspring.ports.clock import Clock
from mainspring.ports.store import Store
from mainspring.ports.store.claims import ClaimedRun
from mainspring.ports.store.policies import Policies

COUNT_PERIOD = 0.1
"""Seconds between two counts, while a tenant with a reserve has something ready. Several processes that know less of
each other would give the same slots, and then all wait for runs that have ended elsewhere."""
LONGEST = 30.0
"""The most seconds between two counts, however long they take. No claims are served meanwhile, so it is long."""
_MOST_LEASES = 50_000


class ReservedSlots:
    """Keeps the reserves of a lane order. As long as no tenant has one, nothing is done.

    This process sees what it gives out and the ends that are reported to it. What other processes give out, ends that
    are reported to them, and losses it finds with the next count. So until then a tenant may get seats before its turn,
    or not get them, for as many runs as that.

    Args:
        order: whose reserves these are.
    """

    def __init__(self, order: LaneOrder, clock: Clock) -> None:
        self._order = order
        self._clock = clock
        self._leases: dict[RunId, tuple[int, str]] = {}
        self._counted_at: dict[str, float] = {}
        self._due = -1.0e9
        self._pacing = Pacing(longest=LONGEST)

    def follow(self, policies: Policies) -> None:
        """Keep the reserves that are set from now on."""
        reserved = {tenant.name: tenant.reserved for tenant in policies.tenants.values() if tenant.reserved}
        if reserved or self._order.reserves:
            self._order.reserve(reserved, self._clock.now())
            self._counted_at.clear()

    async def renew(self, store: Store, now: datetime) -> None:
        """Count the slots of tenants that have something ready, if that was not done within a period.

        Counts take no more than a twentieth of the time, as long as that means one in 30 seconds at least.
        """
        reserves = self._order.reserves
        if not reserves or (begun := self._clock.monotonic()) < self._due:
            return
        self._order.wake(now)
        tenants = reserves.ready_tenants()
        if all(begun - self._counted_at.get(tenant, -1.0e9) < COUNT_PERIOD for tenant in tenants):
            return
        counts: Mapping[str, int] | None = None  # what is known holds on
        with suppress(TookTooLong):
            counts = await store.count_running(tenants)
        ended = self._clock.monotonic()
        self._due = ended + self._pacing.rest(ended - begun, has_failed=counts is None)
        self._counted_at = dict.fromkeys(tenants, begun)
        reserves.count(counts or {}, now)

    def note(self, runs: Sequence[ClaimedRun], now: datetime) -> None:
        """Note what a session was given."""
        reserves = self._order.reserves
        if not reserves:
            return
        for run in runs:
            known = self._leases.get(run.run_id)
            if run.tenant in reserves and (known is None or known[0] != run.token):
                self._leases[run.run_id] = run.token, run.tenant
                reserves.add_running(run.tenant, 1, now)
        if len(self._leases) > _MOST_LEASES:
            self._leases.clear()

    def note_ends(self, leases: Iterable[tuple[RunId, int]], now: datetime) -> None:
        """Note that attempts, each with its token, have ended."""
        if not self._leases:
            return
        for run_id, token in leases:
            known = self._leases.get(run_id)
            if known is not None and known[0] == token:
                del self._leases[run_id]
                self._order.reserves.add_running(known[1], -1, now)
