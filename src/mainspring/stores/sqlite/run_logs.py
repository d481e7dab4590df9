"""What attempts write while they run, on SQLite: in a file beside the store's."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import apsw

from mainspring.core.ids import RunId
from mainspring.core.run_logs import LogPart, RunProgress
from mainspring.ports.store.run_logs import KeptProgress, LogEntry, LogPlace
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.log_file import or_nothing
from mainspring.stores.sqlite.rows import to_instant, to_json, to_micros
from mainspring.stores.sqlite.statements import execute, execute_many, fetch_rows, fetch_tuples


class SqliteRunLogStore:
    """Implements `RunLogStore`. A lease is looked at in the transaction that writes: there is one writer."""

    _reader: Database
    _writer: Database

    async def add_run_logs(self, entries: Sequence[LogEntry], *, now: datetime) -> list[bool]:
        """See `RunLogStore`."""
        if not entries:
            return []
        leases = to_json([(entry.run_id, entry.token, entry.session_id) for entry in entries])
        at = to_micros(now)

        def work(db: apsw.Connection) -> list[bool]:
            held = {(row[0], row[1]) for row in fetch_tuples(db, "hold_logged_runs", {"leases": leases})}
            kept = [entry for entry in entries if (entry.run_id, entry.token) in held]
            _keep(db, kept, at)
            return [(entry.run_id, entry.token) in held for entry in entries]

        return await or_nothing(self._writer.call(work), [False] * len(entries))

    async def list_log_parts(self, places: Sequence[LogPlace], *, limit: int) -> list[list[LogPart]]:
        """See `RunLogStore`."""

        def work(db: apsw.Connection) -> list[list[LogPart]]:
            found = []
            for place in places:
                values = {
                    "run_id": place.run_id,
                    "token": place.token,
                    "start": place.start,
                    "limit": limit,
                }
                found.append([LogPart(*row) for row in fetch_tuples(db, "list_log_chunks", values)])
            return found

        if not places:
            return []
        return await or_nothing(self._reader.call(work), [[] for _ in places])

    async def get_progress(self, run_ids: Sequence[RunId]) -> list[KeptProgress | None]:
        """See `RunLogStore`."""
        if not run_ids:
            return []
        values = {"run_ids": to_json(list(run_ids))}
        rows = await or_nothing(self._reader.call(lambda db: fetch_rows(db, "get_run_progress", values)), [])
        found = {
            row.run_id: KeptProgress(
                row.token, RunProgress(row.done, row.total, row.message), to_instant(row.at)
            )
            for row in rows
        }
        return [found.get(run_id) for run_id in run_ids]

    async def prepare_run_logs(self, *, now: datetime) -> None:
        """Do nothing: there are no partitions."""

    async def prune_run_logs(self, *, before: datetime, limit: int) -> int:
        """See `RunLogStore`."""
        values = {"before": to_micros(before), "limit": limit}

        def work(db: apsw.Connection) -> int:
            execute(db, "prune_log_chunks", values)
            removed: int = db.changes()
            execute(db, "prune_run_progress", values)
            return max(removed, db.changes())

        return await or_nothing(self._writer.call(work), 0)


def _keep(db: apsw.Connection, entries: Sequence[LogEntry], now: int) -> None:
    parts = [
        {
            "run_id": entry.run_id,
            "token": entry.token,
            "start": part.start,
            "size": part.size,
            "now": now,
            "data": part.data,
        }
        for entry in entries
        for part in entry.parts
    ]
    execute_many(db, "add_log_chunk", parts)
    for entry in entries:
        if entry.forget is not None:
            start, until = entry.forget
            places = {"run_id": entry.run_id, "token": entry.token, "start": start, "until": until}
            execute(db, "forget_log_chunks", places)
        if entry.progress is not None:
            values: dict[str, object] = {
                "run_id": entry.run_id,
                "token": entry.token,
                "done": entry.progress.done,
                "total": entry.progress.total,
                "message": entry.progress.message,
                "now": now,
            }
            execute(db, "set_run_progress", values)
