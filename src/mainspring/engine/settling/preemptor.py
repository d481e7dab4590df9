"""Asks preemptible runs to give up their slots for more urgent work that has waited for too long."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from datetime import datetime, timedelta

import structlog

from mainspring.core.claiming import accepts_route
from mainspring.core.ids import JobId, LaneId, SessionId, format_run_id
from mainspring.core.model import JobSpec, LaneKey
from mainspring.core.preemption import (
    MOST_TOGETHER,
    KeptWaiting,
    Seated,
    Seats,
    choose_victims,
    count_slots,
    may_be_preempted,
    may_preempt,
    next_look,
)
from mainspring.engine.common.definitions import Definitions
from mainspring.engine.common.restrictions import RestrictionFollower
from mainspring.engine.common.wakeups import Wakeups
from mainspring.ports.clock import Clock, Waiter
from mainspring.ports.store import Store
from mainspring.ports.store.policies import Policies
from mainspring.ports.store.preemption import PreemptionRequest, SeatedRun, WaitingRun
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
        self._restrictions = restrictions
        self._wakeups = wakeups
        self.waiter = waiter
        self._periods: dict[str, timedelta] = {}

    def follow(self, policies: Policies) -> None:
        """Look at the queues that say so, from now on."""
        self._periods = {
            name: queue.preempt_after
            for name, queue in policies.queues.items()
            if queue.preempt_after is not None
        }

    async def tick(self, now: datetime) -> float:
        """Look once. Return the seconds until the next look."""
        if not self._periods:
            return PERIOD
        begun = self._clock.monotonic()
        since = {queue: now - period for queue, period in self._periods.items()}
        waiting = await self._store.read_kept_waiting(since, now=now, limit=MOST_TOGETHER)
        waiters = await self._find_waiters(waiting, now)
        if waiters:
            await self._seek_slots(waiters, now)
        # Where many workers hold much that cannot be preempted, looks take half of the time at most.
        return max(next_look(self._periods), self._clock.monotonic() - begun)

    async def _find_waiters(self, waiting: Sequence[WaitingRun], now: datetime) -> list[KeptWaiting]:
        pauses = self._restrictions.current.pauses
        due = [
            run
            for run in waiting
            if (run.preempted_at is None or run.preempted_at <= self._sought_before(run.lane, now))
            and pauses.find(run.lane, now) is None
        ]
        specs = await self._definitions.load((run.job_id, run.version) for run in due)
        by_lane: dict[LaneId, list[WaitingRun]] = defaultdict(list)
        for run in due:
            spec = specs.get((run.job_id, run.version))
            if spec is not None and may_preempt(spec, run.lane.priority):
                by_lane[run.lane_id].append(run)
        return [
            KeptWaiting(lane_id, runs[0].lane, len(runs), min(run.ready_at for run in runs))
            for lane_id, runs in by_lane.items()
        ]

    def _sought_before(self, lane: LaneKey, now: datetime) -> datetime:
        return now - self._periods[lane.queue]

    async def _seek_slots(self, waiters: Sequence[KeptWaiting], now: datetime) -> None:
        fits = {
            session.id: (session.slots, fitting)
            for session in await self._store.list_sessions()
            if (fitting := {one.lane_id for one in waiters if _can_execute(session, one.lane)})
        }
        chosen = choose_victims(waiters, await self._read_seats(fits), now=now)
        requests = [
            PreemptionRequest(
                lane_id=one.waiter.lane_id,
                sought_before=self._sought_before(one.waiter.lane, now),
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
        tier=run.tier,
        is_preemptible=is_preemptible,
        is_ending=run.is_cancel_requested,
        started_at=run.started_at,
        mark=run.mark,
    )
