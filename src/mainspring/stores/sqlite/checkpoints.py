"""What the steps of durable functions have come to, on SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import apsw

from mainspring.core.checkpoints import Checkpoint, CheckpointVerdict, NewCheckpoint
from mainspring.core.ids import RunId
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.rows import to_instant, to_json, to_micros
from mainspring.stores.sqlite.statements import execute, fetch_rows, fetch_value


class SqliteCheckpointStore:
    """Implements `CheckpointStore`. A lease is looked at in the transaction that writes: there is one writer."""

    _reader: Database
    _writer: Database

    async def keep_checkpoints(
        self, items: Sequence[NewCheckpoint], *, now: datetime
    ) -> list[CheckpointVerdict]:
        """See `CheckpointStore`."""
        if not items:
            return []
        leases = to_json([(item.run_id, item.token, item.session_id) for item in items])
        at = to_micros(now)

        def work(db: apsw.Connection) -> list[CheckpointVerdict]:
            rows = fetch_rows(db, "hold_checkpointed_runs", {"leases": leases})
            held = {(row.id, row.token, row.session_id) for row in rows}
            crashed = [row.id for row in rows if row.quarantined_crashes]
            if crashed:
                execute(db, "forget_crashes", {"run_ids": to_json(crashed)})
            return [
                _keep(db, item, at)
                if (item.run_id, item.token, item.session_id) in held
                else CheckpointVerdict.STALE
                for item in items
            ]

        return await self._writer.call(work)

    async def list_checkpoints(
        self, run_id: RunId, *, after: tuple[str, int] | None = None, limit: int = 100
    ) -> list[Checkpoint]:
        """See `CheckpointStore`."""
        name, number = after or ("", -1)
        values = {"run_id": run_id, "name": name, "number": number, "limit": limit}
        rows = await self._reader.call(lambda db: fetch_rows(db, "list_checkpoints", values))
        return [
            Checkpoint(
                row.name, row.number, row.token, bool(row.is_error), row.value, to_instant(row.kept_at)
            )
            for row in rows
        ]

    async def prune_checkpoints(self, *, before: datetime, limit: int) -> int:
        """See `CheckpointStore`."""
        values = {"before": to_micros(before), "limit": limit}

        def work(db: apsw.Connection) -> int:
            execute(db, "prune_checkpoints", values)
            removed: int = db.changes()
            return removed

        return await self._writer.call(work)


def _keep(db: apsw.Connection, item: NewCheckpoint, now: int) -> CheckpointVerdict:
    values = {
        "run_id": item.run_id,
        "name": item.name,
        "number": item.number,
        "token": item.token,
        "is_error": item.is_error,
        "data": item.value,
        "now": now,
    }
    kept = fetch_value(db, "add_checkpoint", values)
    return CheckpointVerdict.KNOWN if kept is None else CheckpointVerdict.KEPT
