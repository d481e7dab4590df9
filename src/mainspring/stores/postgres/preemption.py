"""Preemption on PostgreSQL."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from asyncpg import Record

from mainspring.core.ids import JobId, KeyId, LaneId, RunId, SessionId
from mainspring.core.model import LaneKey, Priority
from mainspring.core.preemption import Lease, Victim, load_mark, store_mark
from mainspring.ports.store.preemption import PreemptionRequest, SeatedRun, WaitingRun
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction


class PostgresPreemptionStore:
    """`PreemptionStore` on PostgreSQL."""

    _connections: Connections

    async def read_kept_waiting(
        self, queues: Mapping[str, datetime], tenants: Collection[str] = (), *, now: datetime, limit: int
    ) -> list[WaitingRun]:
        if not queues:
            return []
        rows = await self._connections.fetch(
            Role.WATCH,
            "read_kept_waiting",
            is_repeatable=True,
            queues=list(queues),
            sinces=[min(since, now) for since in queues.values()],
            lowest=int(Priority.LOW),
            tenants=sorted(tenants),
            now=now,
            limit=limit,
        )
        return [
            WaitingRun(
                RunId(row["id"]),
                LaneId(row["lane_id"]),
                LaneKey(row["queue"], row["route"], row["tenant"], Priority(row["priority"])),
                row["preempted_at"],
                JobId(row["job_id"]),
                row["version"],
                row["ready_at"],
            )
            for row in rows
        ]

    async def read_seated(self, session_ids: Sequence[SessionId]) -> list[SeatedRun]:
        if not session_ids:
            return []
        rows = await self._connections.fetch(
            Role.WATCH, "read_seated", is_repeatable=True, session_ids=sorted(set(session_ids))
        )
        return [_seated_of(row) for row in rows]

    async def request_preemptions(
        self, requests: Sequence[PreemptionRequest], *, now: datetime
    ) -> list[tuple[Lease, ...]]:
        if not requests:
            return []
        first = {request.lane_id: request for request in reversed(requests)}
        lanes = sorted(first.items())

        async def work(transaction: Transaction) -> list[tuple[Lease, ...]]:
            rows = await transaction.fetch(
                "seek_slots",
                lane_ids=[lane_id for lane_id, _ in lanes],
                soughts_before=[request.sought_before for _, request in lanes],
                now=now,
            )
            won = {row["id"] for row in rows}
            winners = {
                place: request
                for place, request in enumerate(requests)
                if request.lane_id in won and first[request.lane_id] is request
            }
            owners = {
                victim.run_id: (place, victim)
                for place, request in reversed(winners.items())
                for victim in request.victims
            }
            marked = await _mark(transaction, [victim for _, (_, victim) in sorted(owners.items())])
            asked: list[list[Lease]] = [[] for _ in requests]
            for place, victim in owners.values():
                if victim.run_id in marked:
                    asked[place].append((victim.run_id, victim.token))
            return [tuple(leases) for leases in asked]

        return await self._connections.transact(Role.BEAT, work)


async def _mark(transaction: Transaction, victims: Sequence[Victim]) -> set[int]:
    """Mark runs, in order of id and each once. Return the ids of those that were marked."""
    if not victims:
        return set()
    rows = await transaction.fetch(
        "mark_preempted",
        run_ids=[victim.run_id for victim in victims],
        tokens=[victim.token for victim in victims],
        marks=[store_mark(victim.mark) for victim in victims],
        olds=[None if victim.old is None else store_mark(victim.old) for victim in victims],
    )
    return {row["id"] for row in rows}


def _seated_of(row: Record) -> SeatedRun:
    return SeatedRun(
        run_id=RunId(row["id"]),
        token=row["token"],
        session_id=SessionId(row["session_id"]),
        job_id=JobId(row["job_id"]),
        version=row["version"],
        tenant=row["tenant"],
        tier=Priority(row["priority"]),
        claim_number=row["claim_number"],
        key_id=None if row["key_id"] is None else KeyId(row["key_id"]),
        is_quarantined=row["is_quarantined"],
        is_cancel_requested=row["is_cancel_requested"],
        started_at=row["started_at"],
        mark=load_mark(row["preemption"]),
    )
