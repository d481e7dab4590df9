"""Giving runs out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

from asyncpg import Record

from mainspring.ports.store_types import ClaimedRun, ClaimRequest, ClaimResult
from mainspring.stores.postgres.connection import Connections, Session
from mainspring.stores.postgres.dialing import Role
from mainspring.stores.postgres.rows import EVER

_FIELDS = len(fields(ClaimedRun))
_NOT_LIVE = ClaimResult((), is_session_live=False)


class ClaimVerbs:
    """The part of `RunStore` that gives runs out. Repeatable, because each request bears a number."""

    _connections: Connections

    async def claim_runs(self, requests: Sequence[ClaimRequest], *, now: datetime) -> list[ClaimResult]:
        if not requests:
            return []
        if len(requests) == 1 and not requests[0].is_alone:
            [request] = requests
            rows = await self._connections.fetch(
                Role.CLAIM, "claim_runs", is_repeatable=True, **_values_of(request, now)
            )
            if rows:
                return [_result_of(rows, request)]
            # A repeat, no live session, or one that changed while the statement waited for it: look again, locked.

        async def work(session: Session) -> list[ClaimResult]:
            session_ids = sorted({request.session_id for request in requests})
            await session.fetch("lock_claimers", session_ids=session_ids)
            return [await _claim(session, request, now) for request in requests]

        return await self._connections.transact(Role.CLAIM, work, is_repeatable=True)


async def _claim(session: Session, request: ClaimRequest, now: datetime) -> ClaimResult:
    """Claim for a session whose row is locked, so that the statement sees all that the session runs."""
    name = "claim_alone" if request.is_alone else "claim_runs"
    rows = await session.fetch(name, **_values_of(request, now))
    if not rows:
        rows = await session.fetch("repeat_claim", session_id=request.session_id, number=request.number)
    return _result_of(rows, request) if rows else _NOT_LIVE


def _values_of(request: ClaimRequest, now: datetime) -> dict[str, Any]:
    lanes = list(dict.fromkeys(request.lanes))
    return {
        "session_id": request.session_id,
        "number": request.number,
        "lanes": lanes,
        "lows": [request.lows.get(lane_id, EVER) for lane_id in lanes],
        "limit": request.limit,
        "now": now,
    }


def _result_of(rows: list[Record], request: ClaimRequest) -> ClaimResult:
    if rows[0]["id"] is None:
        return ClaimResult(())
    places = {lane_id: place for place, lane_id in enumerate(dict.fromkeys(request.lanes))}

    def preference(row: Record) -> tuple[int, datetime, int]:
        return places.get(row["lane_id"], 0), row["rank"], row["id"]

    rows.sort(key=preference)
    # The statements' columns stand in the order of the fields, with what they are sorted by at the end.
    return ClaimResult(tuple([ClaimedRun(*row[:_FIELDS]) for row in rows]))
