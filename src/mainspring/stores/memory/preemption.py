"""Preemption in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice

from mainspring.core.claiming import is_expired
from mainspring.core.ids import SessionId
from mainspring.core.model import Priority
from mainspring.core.preemption import Lease
from mainspring.core.states import RunState
from mainspring.ports.store.preemption import PreemptionRequest, SeatedRun, WaitingRun
from mainspring.stores.memory.index import LAST_ID
from mainspring.stores.memory.rows import LaneRow
from mainspring.stores.memory.tables import Tables


class MemoryPreemptionStore:
    """`PreemptionStore` in memory."""

    _tables: Tables

    async def read_kept_waiting(
        self, queues: Mapping[str, datetime], tenants: Collection[str] = (), *, now: datetime, limit: int
    ) -> list[WaitingRun]:
        found: list[WaitingRun] = []
        for lane in self._tables.lanes.values():
            is_theirs = lane.key.tenant in tenants
            if lane.key.queue in queues and (is_theirs or lane.key.priority is not Priority.LOW):
                since = now if is_theirs else min(queues[lane.key.queue], now)
                found += islice(self._waiting(lane, since, now), limit)
        return found

    def _waiting(self, lane: LaneRow, since: datetime, now: datetime) -> Iterator[WaitingRun]:
        for ready_at, run_id in lane.ready.between(None, (since, LAST_ID)):
            run = self._tables.runs[run_id]
            if not is_expired(run.expires_at, now):
                yield WaitingRun(
                    run_id, lane.id, lane.key, lane.preempted_at, run.job_id, run.version, ready_at
                )

    async def read_seated(self, session_ids: Sequence[SessionId]) -> list[SeatedRun]:
        return [
            seated
            for session_id in dict.fromkeys(session_ids)
            if (session := self._tables.sessions.get(session_id)) is not None and session.is_live
            for (run_id,) in session.running
            for seated in [self._tables.runs[run_id].seated()]
        ]

    async def request_preemptions(
        self, requests: Sequence[PreemptionRequest], *, now: datetime
    ) -> list[tuple[Lease, ...]]:
        return [self._request(request, now) for request in requests]

    def _request(self, request: PreemptionRequest, now: datetime) -> tuple[Lease, ...]:
        lane = self._tables.lanes.get(request.lane_id)
        if lane is None or (lane.preempted_at is not None and lane.preempted_at > request.sought_before):
            return ()
        lane.preempted_at = now
        asked: list[Lease] = []
        for victim in request.victims:
            run = self._tables.runs.get(victim.run_id)
            if (
                run is not None
                and run.state is RunState.RUNNING
                and run.token == victim.token
                and run.mark == victim.old
                and not run.is_cancel_requested
            ):
                run.mark = victim.mark
                asked.append((run.id, run.token))
        return tuple(asked)
