"""Worker sessions and their heartbeats, on SQLite."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

import apsw

from mainspring.core.ids import RunId, SessionId
from mainspring.core.preemption import is_asked, load_mark
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
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.rows import (
    count_micros,
    make_held,
    make_session,
    to_json,
    to_micros,
    to_optional_duration,
)
from mainspring.stores.sqlite.statements import (
    execute,
    execute_many,
    fetch_row,
    fetch_rows,
    fetch_tuples,
    fetch_value,
)


class SqliteSessionStore:
    """Implements `SessionStore`."""

    _reader: Database
    _writer: Database

    async def add_sessions(self, sessions: Sequence[NewSession], *, now: datetime) -> list[SessionId]:
        """See `SessionStore`."""
        if not sessions:
            return []
        at = to_micros(now)
        return await self._writer.call(lambda db: [_add_session(db, session, at) for session in sessions])

    async def beat_sessions(self, beats: Sequence[Beat], *, now: datetime) -> list[BeatResult]:
        """See `SessionStore`."""
        if not beats:
            return []
        at = to_micros(now)
        return await self._writer.call(lambda db: [_beat(db, beat, at) for beat in beats])

    async def close_sessions(self, session_ids: Sequence[SessionId], *, now: datetime) -> None:
        """See `SessionStore`."""
        values = [{"session_id": session_id, "now": to_micros(now)} for session_id in session_ids]
        if values:
            await self._writer.call(lambda db: execute_many(db, "close_session", values))

    async def list_sessions(self) -> list[SessionFacts]:
        """See `SessionStore`."""
        rows = await self._reader.call(lambda db: fetch_rows(db, "list_sessions"))
        return [make_session(row) for row in rows]

    async def find_workers(self, session_ids: Sequence[SessionId]) -> dict[SessionId, WorkerName]:
        """See `SessionStore`."""
        if not session_ids:
            return {}
        values = {"session_ids": to_json(list(session_ids))}
        rows = await self._reader.call(lambda db: fetch_rows(db, "find_workers", values))
        return {SessionId(row.id): WorkerName(row.worker, row.host) for row in rows}

    async def find_session_owners(self, session_ids: Sequence[SessionId]) -> dict[SessionId, SessionOwner]:
        """See `SessionStore`."""
        if not session_ids:
            return {}
        values = {"session_ids": to_json(list(session_ids))}
        rows = await self._reader.call(lambda db: fetch_rows(db, "find_session_owners", values))
        return {
            SessionId(row.id): SessionOwner(row.account, row.tenant, tuple(json.loads(row.queues)))
            for row in rows
        }

    async def read_pulses(self) -> dict[SessionId, SessionPulse]:
        """See `SessionStore`."""
        rows = await self._reader.call(lambda db: fetch_rows(db, "read_pulses"))
        return {
            SessionId(row.id): SessionPulse(row.beats, to_optional_duration(row.beat_period)) for row in rows
        }

    async def expire_sessions(self, judged: Sequence[tuple[SessionId, int]], *, now: datetime) -> list[bool]:
        """See `SessionStore`."""
        if not judged:
            return []
        at = to_micros(now)

        def work(db: apsw.Connection) -> list[bool]:
            return [
                fetch_value(db, "expire_session", {"session_id": session_id, "beats": beats, "now": at})
                is not None
                for session_id, beats in judged
            ]

        return await self._writer.call(work)


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
        "account": session.account,
        "tenant": session.tenant,
        "now": now,
    }
    return SessionId(fetch_value(db, "add_session", values))


def _beat(db: apsw.Connection, beat: Beat, now: int) -> BeatResult:
    session = fetch_row(db, "lock_session", {"session_id": beat.session_id})
    if session is None:
        return BeatResult(is_session_live=False)
    window = {"session_id": beat.session_id, "held_from": session.held_from}
    running = fetch_tuples(db, "held_by_session", window)
    found = reconcile(
        beat.held,
        [(*lease, mark is not None and is_asked(load_mark(mark), lease[1])) for *lease, mark in running],
        answered=beat.answered,
        missing_before={(RunId(run_id), token) for run_id, token in json.loads(session.missing)},
    )
    values = {
        "session_id": beat.session_id,
        "now": now,
        "held_from": min((number for _, _, number, _, _ in running), default=session.claim_number + 1),
        "missing": to_json(sorted(found.missing)),
    }
    execute(db, "beat_session", values)
    unknown = [run_id for run_id, _ in found.unknown]
    facts = fetch_rows(db, "read_held", {"run_ids": to_json(unknown)}) if unknown else []
    return BeatResult(
        is_session_live=True,
        lost=found.lost,
        cancel=found.cancel,
        preempt=found.preempt,
        unknown=tuple(map(make_held, facts)),
    )
