"""The janitor's verbs on SQLite."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

import apsw

from mainspring.ports.store.upkeep import UniqueKeyPlace
from mainspring.stores.sqlite.archive import bound_by_archive
from mainspring.stores.sqlite.audit import prune_audit
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.inserts import InternedLanes
from mainspring.stores.sqlite.once import prune_unique_keys
from mainspring.stores.sqlite.rows import NamedRow, to_micros
from mainspring.stores.sqlite.statements import execute, execute_many, fetch_rows


class SqliteUpkeepStore:
    """Implements `UpkeepStore`."""

    _writer: Database
    _lane_ids: InternedLanes

    async def prepare_history(self, *, now: datetime) -> None:
        """Do nothing: the history is one table here."""

    async def prune_history(
        self, *, before: datetime, limit: int, audit_before: datetime | None = None
    ) -> int:
        """See `UpkeepStore`."""

        def work(db: apsw.Connection) -> int:
            # Asked where it is removed: a row may just have come into a day that was in the archive.
            values = {"before": to_micros(bound_by_archive(db, before)), "limit": limit}
            execute(db, "keep_attempts", values)
            return max(
                _prune_runs(db, values),
                _remove(db, "prune_attempts", values),
                _remove(db, "prune_kept_attempts", {"limit": limit}),
                _remove(db, "prune_fire_ranges", values),
                0 if audit_before is None else prune_audit(db, audit_before, limit),
            )

        return await self._writer.call(work)

    async def prune_keys(self, *, now: datetime, limit: int) -> int:
        """See `UpkeepStore`."""
        values = {"now": to_micros(now), "limit": limit}
        return await self._writer.call(lambda db: _remove(db, "prune_keys", values))

    async def prune_unique_keys(
        self, *, now: datetime, after: UniqueKeyPlace | None, limit: int
    ) -> tuple[int, UniqueKeyPlace | None]:
        """See `UpkeepStore`."""
        return await self._writer.call(lambda db: prune_unique_keys(db, now, after, limit))

    async def prune_sessions(self, *, before: datetime, limit: int) -> int:
        """See `UpkeepStore`."""
        values = {"before": to_micros(before), "limit": limit}

        def work(db: apsw.Connection) -> int:
            gone = fetch_rows(db, "prune_sessions", values)
            names = ("session_id", "worker", "host", "end_at")
            execute_many(db, "add_past_session", [dict(zip(names, row, strict=True)) for row in gone])
            return len(gone)

        return await self._writer.call(work)

    async def prune_workers(self, *, before: datetime, limit: int) -> int:
        """See `UpkeepStore`."""
        values = {"before": to_micros(before), "limit": limit}
        return await self._writer.call(lambda db: _remove(db, "prune_workers", values))

    async def prune_lanes(self, *, limit: int) -> int:
        """See `UpkeepStore`."""

        def work(db: apsw.Connection) -> int:
            removed = _remove(db, "delete_empty_lanes", {"limit": limit})
            if removed:
                self._lane_ids.clear()
            return removed

        return await self._writer.call(work)


def _prune_runs(db: apsw.Connection, values: Mapping[str, object]) -> int:
    removed = fetch_rows(db, "prune_history", values)
    take_off_tally(db, removed)
    return len(removed)


def take_off_tally(db: apsw.Connection, removed: Sequence[NamedRow]) -> None:
    """Take removed runs off the tally, each with its tenant and state, and the day if it is counted there."""
    tally = Counter((row.tenant, row.day, row.state) for row in removed if row.day is not None)
    for (tenant, day, state), runs in tally.items():
        execute(db, "unsettle", {"tenant": tenant, "day": day, "state": state, "runs": runs})
    if tally:
        execute(db, "drop_empty_tallies")


def _remove(db: apsw.Connection, name: str, values: Mapping[str, object]) -> int:
    execute(db, name, values)
    return db.changes()
