"""Worker sessions and their heartbeats on SQLite."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

import apsw

from mainspring.core.ids import RunId, SessionId
from mainspring.core.reconciliation import reconcile
from mainspring.ports.store.sessions import Beat, BeatResult, NewSession, SessionFacts, SessionPulse
from mainspring.stores.sqlite.base import Part, execute, execute_many, fetch_all, fetch_first, fetch_named
from mainspring.stores.sqlite.rows import (
    count_micros,
    make_held,
    make_session,
    to_json,
    to_micros,
    to_optional_duration,
)


class SqliteSessionStore(Part):
    """Implements `SessionStore`."""

    async def add_sessions(self, sessions: Sequence[NewSession], *, now: datetime) -> list[SessionId]:
        """See `SessionStore`."""
        if not sessions:
            return []
        at = to_micros(now)
        return await self._write(lambda db: [_add_session(db, session, at) for session in sessions])

    async def beat_sessions(self, beats: Sequence[Beat], *, now: datetime) -> list[BeatResult]:
        """See `SessionStore`."""
        if not beats:
            return []
        at = to_micros(now)
        return await self._write(lambda db: [_beat(db, beat, at) for beat in beats])

    async def close_sessions(self, session_ids: Sequence[SessionId], *, now: datetime) -> None:
        """See `SessionStore`."""
        values = [{"session_id": session_id, "now": to_micros(now)} for session_id in session_ids]
        if values:
            await self._write(lambda db: execute_many(db, "close_session", values))

    async def list_sessions(self) -> list[SessionFacts]:
        """See `SessionStore`."""
        rows = await self._read(lambda db: fetch_all(db, "list_sessions"))
        return [make_session(row) for row in rows]

    async def read_pulses(self) -> dict[SessionId, SessionPulse]:
        """See `SessionStore`."""
        rows = await self._read(lambda db: fetch_all(db, "read_pulses"))
        return {row[0]: SessionPulse(row[1], to_optional_duration(row[2])) for row in rows}

    async def expire_sessions(self, judged: Sequence[tuple[SessionId, int]], *, now: datetime) -> list[bool]:
        """See `SessionStore`."""
        if not judged:
            return []
        at = to_micros(now)

        def work(db: apsw.Connection) -> list[bool]:
            return [
                fetch_first(db, "expire_session", {"session_id": session_id, "beats": beats, "now": at})
                is not None
                for session_id, beats in judged
            ]

        return await self._write(work)


def _add_session(db: apsw.Connection, session: NewSession, now: int) -> SessionId:
    values = {
        "worker": session.worker,
        "host": session.host,
        "pid": session.pid,
        "slots": session.slots,
        "queues": to_json(session.queues),
        "types": to_json(session.types),
        "functions": to_json(session.functions),
        "labels": to_json(session.labels),
        "beat_period": count_micros(session.beat_period),
        "now": now,
    }
    row = fetch_first(db, "add_session", values)
    assert row is not None
    return SessionId(row[0])


def _beat(db: apsw.Connection, beat: Beat, now: int) -> BeatResult:
    row = fetch_first(db, "lock_session", {"session_id": beat.session_id})
    if row is None:
        return BeatResult(is_session_live=False)
    missing_json, held_from, claim_number = row
    rows = fetch_all(db, "held_by_session", {"session_id": beat.session_id, "held_from": held_from})
    found = reconcile(
        beat.held,
        rows,
        answered=beat.answered,
        missing_before={(RunId(run_id), token) for run_id, token in json.loads(missing_json)},
    )
    values = {
        "session_id": beat.session_id,
        "now": now,
        "held_from": min((row[2] for row in rows), default=claim_number + 1),
        "missing": to_json(sorted(found.missing)),
    }
    execute(db, "beat_session", values)
    unknown = [run_id for run_id, _ in found.unknown]
    facts = fetch_named(db, "read_held", {"run_ids": to_json(unknown)}) if unknown else []
    return BeatResult(
        is_session_live=True, lost=found.lost, cancel=found.cancel, unknown=tuple(map(make_held, facts))
    )
