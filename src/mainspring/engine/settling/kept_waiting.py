"""Finds what has waited for a slot for so long that it may take those of others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from mainspring.core.ids import LaneId
from mainspring.core.lane_caps import CapKey, LaneCap
from mainspring.core.model import LaneKey
from mainspring.core.preemption import MOST_TOGETHER, KeptWaiting, may_preempt
from mainspring.core.unmet import NO_RESERVES, ReserveCounts, ShortTenants
from mainspring.core.values import value
from mainspring.engine.common.definitions import Definitions
from mainspring.engine.common.restrictions import RestrictionFollower
from mainspring.errors import TookTooLong
from mainspring.ports.store import Store
from mainspring.ports.store.policies import Policies
from mainspring.ports.store.preemption import WaitingRun


@value()
class LongWaiting:
    """What waits for slots, and what bounds the slots that it may get.

    Attributes:
        reserves: the reserved slots of all tenants, as counted just now.
        room: how many more runs the caps of the waiters allow.
    """

    waiters: Sequence[KeptWaiting] = ()
    reserves: ReserveCounts = NO_RESERVES
    room: Mapping[CapKey, int] | None = None


class KeptWaitingFinder:
    """Finds urgent runs, and runs of tenants that are short of reserved slots, that have waited for too long.

    What could not start in a free slot either is left out: lanes that are paused, in a blackout, or under a full cap.

    Attributes:
        periods: how long the work of a queue waits before it takes slots; no other queues are looked at.
    """

    def __init__(self, store: Store, definitions: Definitions, restrictions: RestrictionFollower) -> None:
        self.periods: Mapping[str, timedelta] = {}
        self._store = store
        self._definitions = definitions
        self._restrictions = restrictions
        self._reserved: Mapping[str, int] = {}
        self._short = ShortTenants()

    def follow(self, policies: Policies) -> None:
        """Look at the queues, and keep the reserves, that are set from now on."""
        self.periods = {
            name: queue.preempt_after
            for name, queue in policies.queues.items()
            if queue.preempt_after is not None
        }
        self._reserved = {
            tenant.name: tenant.reserved for tenant in policies.tenants.values() if tenant.reserved
        }

    def sought_before(self, lane: LaneKey, now: datetime) -> datetime:
        """Return when slots must have been sought for a lane at the latest, so that it may be done again."""
        return now - self.periods[lane.queue]

    async def find(self, now: datetime) -> LongWaiting:
        """Look once."""
        since = {queue: now - period for queue, period in self.periods.items()}
        waiting = await self._store.read_kept_waiting(since, self._reserved, now=now, limit=MOST_TOGETHER)
        pauses = self._restrictions.current.pauses
        startable = [run for run in waiting if not pauses.is_held(run.lane, now)]
        reserves = await self._count_reserves(bool(startable))
        self._short.note(reserves, {run.lane.tenant for run in startable}, now)
        waiters = await self._make_waiters(startable, now)
        room = await self._read_room(waiters)
        able = [one for one in waiters if all(room.get(cap, 1) > 0 for cap in one.caps)]
        return LongWaiting(able, reserves, room)

    async def _count_reserves(self, is_needed: bool) -> ReserveCounts:
        """Count the slots of all tenants with a reserve. What is not known in time counts as met."""
        if not self._reserved or not is_needed:
            return NO_RESERVES
        try:
            return ReserveCounts(self._reserved, await self._store.count_running(list(self._reserved)))
        except TookTooLong:
            return ReserveCounts(self._reserved)

    async def _make_waiters(self, runs: Sequence[WaitingRun], now: datetime) -> list[KeptWaiting]:
        # A tenant's slots are sought for all its lanes together: those that make room are for any of them.
        sought = {run.lane.tenant for run in runs if not self._is_due(run, now)}
        long = [
            run
            for run in runs
            if self._is_due(run, now) and run.ready_at <= self.sought_before(run.lane, now)
        ]
        specs = await self._definitions.load((run.job_id, run.version) for run in long)
        urgent: dict[LaneId, int] = defaultdict(int)
        by_lane: dict[LaneId, list[WaitingRun]] = defaultdict(list)
        for run in long:
            spec = specs.get((run.job_id, run.version))
            by_lane[run.lane_id].append(run)
            urgent[run.lane_id] += spec is not None and may_preempt(spec, run.lane.priority)
        found = []
        for lane_id, some in by_lane.items():
            lane = some[0].lane
            is_short = lane.tenant not in sought and self._short.is_since(
                lane.tenant, self.sought_before(lane, now)
            )
            if urgent[lane_id] or is_short:
                found.append(
                    KeptWaiting(
                        lane_id,
                        lane,
                        urgent[lane_id],
                        min(run.ready_at for run in some),
                        reserved=len(some) if is_short else 0,
                        caps=tuple(cap.key for cap in self._caps_of(lane)),
                    )
                )
        return found

    def _is_due(self, run: WaitingRun, now: datetime) -> bool:
        return run.preempted_at is None or run.preempted_at <= self.sought_before(run.lane, now)

    def _caps_of(self, lane: LaneKey) -> list[LaneCap]:
        return self._restrictions.current.caps.about(lane)

    async def _read_room(self, waiters: Sequence[KeptWaiting]) -> dict[CapKey, int]:
        caps = {cap.key: cap.max_running for one in waiters for cap in self._caps_of(one.lane)}
        if not caps:
            return {}
        uses = await self._store.read_cap_uses(list(caps))
        return {
            key: max(most - use.held, 0)
            for (key, most), use in zip(caps.items(), uses, strict=True)
            if most is not None
        }
