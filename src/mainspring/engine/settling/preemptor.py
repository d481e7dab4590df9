"""Asks preemptible runs to give up their slots for urgent or reserved work that has waited for too long."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from datetime import datetime

import structlog

from mainspring.core.claiming import accepts_route
from mainspring.core.ids import JobId, LaneId, SessionId, format_run_id
from mainspring.core.model import JobSpec, LaneKey
from mainspring.core.preemption import (
    Seated,
    Seats,
    choose_victims,
    count_slots,
    may_be_preempted,
    next_look,
)
from mainspring.engine.common.definitions import Definitions
from mainspring.engine.common.restrictions import RestrictionFollower
from mainspring.engine.common.wakeups import Wakeups
from mainspring.engine.settling.kept_waiting import KeptWaitingFinder, LongWaiting
from mainspring.ports.clock import Clock, Waiter
from mainspring.ports.store import Store
from mainspring.ports.store.policies import Policies
from mainspring.ports.store.preemption import PreemptionRequest, SeatedRun
from mainspring.ports.store.sessions import SessionFacts

_log = structlog.get_logger(__name__)
PERIOD = 1.0


class Preemptor:
    """Looks at the queues that have a `preempt_after`, and at nothing else.

    What it finds and asks is in the store, so a crash at any point loses nothing: the next look finds it again.
    """

    name = "preemptor"

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        definitions: Definitions,
        restrictions: RestrictionFollower,
        wakeups: Wakeups,
        waiter: Waiter,
    ) -> None:
        self._store = store
        self._clock = clock
        self._definitions = definitions
        self._finder = KeptWaitingFinder(store, definitions, restrictions)
        self._wakeups = wakeups
        self.waiter = waiter

    def follow(self, policies: Policies) -> None:
        """Look at the queues that say so, and keep the reserves, from now on."""
        self._finder.follow(policies)

    async def tick(self, now: datetime) -> float:
        """Look once. Return the seconds until the next look."""
        periods = self._finder.periods
        if not periods:
            return PERIOD
        begun = self._clock.monotonic()
        found = await self._finder.find(now)
        if found.waiters:
            await self._seek_slots(found, now)
        # Where many workers hold much that cannot be preempted, looks take half of the time at most.
        return max(next_look(periods), self._clock.monotonic() - begun)

    async def _seek_slots(self, found: LongWaiting, now: datetime) -> None:
        fits = {
            session.id: (session.slots, fitting)
            for session in await self._store.list_sessions()
            if (fitting := {one.lane_id for one in found.waiters if _can_execute(session, one.lane)})
        }
        seats = await self._read_seats(fits)
        chosen = choose_victims(found.waiters, seats, now=now, reserves=found.reserves, room=found.room)
        requests = [
            PreemptionRequest(
                lane_id=one.waiter.lane_id,
                sought_before=self._finder.sought_before(one.waiter.lane, now),
                victims=one.victims,
            )
            for one in chosen
        ]
        asked = await self._store.request_preemptions(requests, now=now)
        for one, leases in zip(chosen, asked, strict=True):
            if leases:
                runs = [format_run_id(run_id) for run_id, _ in leases]
                _log.info("preemption_requested", by=one.waiter.words, runs=runs)
        if any(asked):
            self._wakeups.cancel_requested()

    async def _read_seats(self, fits: dict[SessionId, tuple[int, set[LaneId]]]) -> list[Seats]:
        held: dict[SessionId, list[SeatedRun]] = defaultdict(list)
        for run in await self._store.read_seated(list(fits)):
            held[run.session_id].append(run)
        specs = await self._definitions.load(
            (run.job_id, run.version) for runs in held.values() for run in runs
        )
        return [
            _seats(session_id, slots, fitting, held[session_id], specs)
            for session_id, (slots, fitting) in fits.items()
        ]


def _seats(
    session_id: SessionId,
    slots: int,
    fits: Collection[LaneId],
    held: Sequence[SeatedRun],
    specs: Mapping[tuple[JobId, int], JobSpec],
) -> Seats:
    plain: list[Seated] = []
    calls: dict[Hashable, tuple[int, int]] = {}
    for run in held:
        spec = specs.get((run.job_id, run.version))
        if spec is not None and spec.batch is not None:
            call = (run.claim_number, run.job_id, run.version, run.key_id)
            calls[call] = calls.get(call, (0, 0))[0] + 1, spec.batch.size
        else:
            plain.append(_seated(run, is_preemptible=spec is not None and may_be_preempted(spec)))
    return Seats(
        session_id=session_id,
        slots=slots,
        taken=len(plain) + count_slots(calls),
        fits=fits,
        runs=plain,
        is_closed=any(run.is_quarantined for run in held),
    )


def _can_execute(session: SessionFacts, lane: LaneKey) -> bool:
    if session.tenant not in {None, lane.tenant}:
        return False
    if session.queues and lane.queue not in session.queues:
        return False
    return accepts_route(
        lane.route,
        types=frozenset(session.types),
        functions=frozenset(session.functions),
        labels=frozenset(session.labels),
    )


def _seated(run: SeatedRun, *, is_preemptible: bool) -> Seated:
    return Seated(
        run_id=run.run_id,
        token=run.token,
        tenant=run.tenant,
        tier=run.tier,
        is_preemptible=is_preemptible,
        is_ending=run.is_cancel_requested,
        started_at=run.started_at,
        mark=run.mark,
    )
