"""Worker sessions and their heartbeats."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mainspring.core.ids import SessionId
from mainspring.core.preemption import is_asked
from mainspring.core.reconciliation import reconcile
from mainspring.ports.store.sessions import (
    Beat,
    BeatResult,
    NewSession,
    SessionFacts,
    SessionOwner,
    SessionPulse,
    WorkerName,
)
from mainspring.stores.memory.rows import SessionRow
from mainspring.stores.memory.tables import Tables


class MemorySessionStore:
    """`SessionStore` in memory."""

    _tables: Tables

    async def add_sessions(self, sessions: Sequence[NewSession], *, now: datetime) -> list[SessionId]:
        ids = []
        for offer in sessions:
            session_id = SessionId(next(self._tables.session_sequence))
            row = SessionRow(
                id=session_id,
                offer=offer,
                started_at=now,
                last_beat_at=now,
                policy_epoch=self._tables.policies.restrictions.epoch,
            )
            self._tables.sessions[session_id] = row
            ids.append(session_id)
        return ids

    async def beat_sessions(self, beats: Sequence[Beat], *, now: datetime) -> list[BeatResult]:
        return [self._beat(beat, now) for beat in beats]

    def _beat(self, beat: Beat, now: datetime) -> BeatResult:
        tables = self._tables
        session = tables.sessions.get(beat.session_id)
        if session is None or not session.is_live:
            return BeatResult(is_session_live=False)
        session.beats += 1
        session.last_beat_at = now
        running = [tables.runs[run_id] for (run_id,) in session.running]
        found = reconcile(
            beat.held,
            [
                (run.id, run.token, run.claim_number, run.is_cancel_requested, is_asked(run.mark, run.token))
                for run in running
            ],
            answered=beat.answered,
            missing_before=session.missing,
        )
        session.missing = found.missing
        return BeatResult(
            is_session_live=True,
            lost=found.lost,
            cancel=found.cancel,
            preempt=found.preempt,
            unknown=tuple(tables.runs[run_id].held() for run_id, _ in found.unknown),
        )

    async def close_sessions(self, session_ids: Sequence[SessionId], *, now: datetime) -> None:
        for session_id in session_ids:
            session = self._tables.sessions.get(session_id)
            if session is not None and session.is_live:
                session.ended_at = now

    async def list_sessions(self) -> list[SessionFacts]:
        return [session.view() for session in self._tables.sessions.values() if session.is_live]

    async def find_workers(self, session_ids: Sequence[SessionId]) -> dict[SessionId, WorkerName]:
        known = {key: name for key, (name, _) in self._tables.past_sessions.items()}
        known |= {
            key: WorkerName(row.offer.worker, row.offer.host) for key, row in self._tables.sessions.items()
        }
        return {key: known[key] for key in session_ids if key in known}

    async def find_session_owners(self, session_ids: Sequence[SessionId]) -> dict[SessionId, SessionOwner]:
        offers = {key: row.offer for key, row in self._tables.sessions.items()}
        return {
            key: SessionOwner(offers[key].account, offers[key].tenant, offers[key].queues)
            for key in session_ids
            if key in offers
        }

    async def read_pulses(self) -> dict[SessionId, SessionPulse]:
        return {
            session.id: SessionPulse(session.beats, session.offer.beat_period)
            for session in self._tables.sessions.values()
            if session.is_live
        }

    async def expire_sessions(self, judged: Sequence[tuple[SessionId, int]], *, now: datetime) -> list[bool]:
        return [self._expire(session_id, beats, now) for session_id, beats in judged]

    def _expire(self, session_id: SessionId, beats: int, now: datetime) -> bool:
        session = self._tables.sessions.get(session_id)
        if session is None or not session.is_live or session.beats != beats:
            return False
        session.ended_at, session.is_lost = now, True
        return True
