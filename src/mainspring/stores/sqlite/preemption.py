"""Preemption on SQLite."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

import apsw

from mainspring.core.ids import KeyId, LaneId, RunId, SessionId
from mainspring.core.model import LaneKey, Priority
from mainspring.core.preemption import Lease, load_mark, store_mark
from mainspring.ports.store.preemption import PreemptionRequest, SeatedRun, WaitingRun
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.rows import (
    NamedRow,
    make_job_id,
    to_instant,
    to_json,
    to_micros,
    to_optional_instant,
)
from mainspring.stores.sqlite.statements import fetch_rows, fetch_value


class SqlitePreemptionStore:
    """`PreemptionStore` on SQLite."""

    _reader: Database
    _writer: Database

    async def read_kept_waiting(
        self, queues: Mapping[str, datetime], tenants: Collection[str] = (), *, now: datetime, limit: int
    ) -> list[WaitingRun]:
        """See `PreemptionStore`."""
        if not queues:
            return []
        theirs = to_json(sorted(tenants))

        def work(db: apsw.Connection) -> list[WaitingRun]:
            found = []
            for queue, since in queues.items():
                wanted = {"queue": queue, "lowest": int(Priority.LOW), "tenants": theirs}
                for lane in fetch_rows(db, "read_urgent_lanes", wanted):
                    values = {
                        "lane_id": lane.id,
                        "since": to_micros(now if lane.tenant in tenants else min(since, now)),
                        "now": to_micros(now),
                        "limit": limit,
                    }
                    key = LaneKey(lane.queue, lane.route, lane.tenant, Priority(lane.priority))
                    sought = to_optional_instant(lane.preempted_at)
                    found += [
                        WaitingRun(
                            RunId(row.id),
                            LaneId(lane.id),
                            key,
                            sought,
                            make_job_id(row.job_id),
                            row.version,
                            to_instant(row.ready_at),
                        )
                        for row in fetch_rows(db, "read_kept_waiting", values)
                    ]
            return found

        return await self._reader.call(work)

    async def read_seated(self, session_ids: Sequence[SessionId]) -> list[SeatedRun]:
        """See `PreemptionStore`."""
        if not session_ids:
            return []
        values = {"session_ids": to_json(sorted(set(session_ids)))}
        return [
            _make_seated(row)
            for row in await self._reader.call(lambda db: fetch_rows(db, "read_seated", values))
        ]

    async def request_preemptions(
        self, requests: Sequence[PreemptionRequest], *, now: datetime
    ) -> list[tuple[Lease, ...]]:
        """See `PreemptionStore`."""
        if not requests:
            return []
        at = to_micros(now)
        return await self._writer.call(lambda db: [_request(db, request, at) for request in requests])


def _request(db: apsw.Connection, request: PreemptionRequest, now: int) -> tuple[Lease, ...]:
    lane = {"lane_id": request.lane_id, "sought_before": to_micros(request.sought_before), "now": now}
    if fetch_value(db, "seek_slots", lane) is None:
        return ()
    asked: list[Lease] = []
    for victim in request.victims:
        values = {
            "run_id": victim.run_id,
            "token": victim.token,
            "mark": store_mark(victim.mark),
            "old": None if victim.old is None else store_mark(victim.old),
        }
        if fetch_value(db, "mark_preempted", values) is not None:
            asked.append((victim.run_id, victim.token))
    return tuple(asked)


def _make_seated(row: NamedRow) -> SeatedRun:
    return SeatedRun(
        run_id=RunId(row.id),
        token=row.token,
        session_id=SessionId(row.session_id),
        job_id=make_job_id(row.job_id),
        version=row.version,
        tenant=row.tenant,
        tier=Priority(row.priority),
        claim_number=row.claim_number,
        key_id=None if row.key_id is None else KeyId(row.key_id),
        is_quarantined=bool(row.is_quarantined),
        is_cancel_requested=bool(row.is_cancel_requested),
        started_at=to_instant(row.started_at),
        mark=load_mark(row.preemption),
    )
