"""Dead letters on SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import apsw

from mainspring.core.audit import AuditEntry, count_discarded
from mainspring.core.dead_letters import DeadFilter, DeadGroup, DeadRun, SettledLetter, Settlement
from mainspring.core.ids import RunId
from mainspring.stores.sqlite.audit import add_entries
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.rows import (
    NamedRow,
    make_job_id,
    make_run,
    to_instant,
    to_json,
    to_micros,
    to_optional_instant,
)
from mainspring.stores.sqlite.statements import execute, fetch_rows, fetch_value, fetch_values
from mainspring.stores.sqlite.upkeep import take_off_tally

_LAST_ID = 2**63 - 1


class SqliteDeadStore:
    """Implements `DeadStore`."""

    _browser: Database
    _reader: Database
    _writer: Database

    async def list_dead(
        self, tenant: str, wanted: DeadFilter, *, before: RunId | None = None, limit: int = 100
    ) -> list[DeadRun]:
        """See `DeadStore`."""

        def work(db: apsw.Connection) -> list[NamedRow]:
            with db:  # one snapshot: a letter may be settled in between
                found = _find(db, tenant, wanted, before=before, limit=limit)
                rows = fetch_rows(db, "read_dead", {"run_ids": to_json(found)})
            return sorted(rows, key=lambda row: -row.id)

        return [
            DeadRun(run=make_run(row), error_group=row.error_group, settled=_make_settled(row))
            for row in await self._browser.call(work)
        ]

    async def group_dead(self, tenant: str, wanted: DeadFilter, *, limit: int) -> list[DeadGroup]:
        """See `DeadStore`."""
        values = {**values_of(tenant, wanted), "limit": limit}
        rows = await self._browser.call(lambda db: fetch_rows(db, "group_dead", values))
        return [
            DeadGroup(
                job_id=make_job_id(row.job_id),
                error_group=row.error_group,
                count=row.letters,
                first_at=to_instant(row.first_at),
                last_at=to_instant(row.last_at),
                newest=RunId(row.newest),
            )
            for row in rows
        ]

    async def count_dead(self, tenant: str, wanted: DeadFilter) -> int:
        """See `DeadStore`."""
        values = values_of(tenant, wanted)
        count: int = await self._browser.call(lambda db: fetch_value(db, "count_dead", values))
        return count

    async def read_settled(self, run_ids: Sequence[RunId]) -> list[SettledLetter | None]:
        """See `DeadStore`."""
        if not run_ids:
            return []
        found = await self._reader.call(lambda db: read_settled(db, run_ids))
        return [found.get(run_id) for run_id in run_ids]

    async def discard_dead(
        self,
        tenant: str,
        wanted: DeadFilter,
        *,
        reason: str,
        now: datetime,
        limit: int,
        audit: Sequence[AuditEntry] = (),
    ) -> list[RunId]:
        """See `DeadStore`."""

        def work(db: apsw.Connection) -> list[RunId]:
            found = _find(db, tenant, wanted, before=None, limit=limit)
            values = {"run_ids": to_json(found), "reason": reason, "now": to_micros(now)}
            done = [RunId(run_id) for run_id in fetch_values(db, "discard_dead", values)]
            if entries := count_discarded(audit, done):
                add_entries(db, entries)
            return done

        return await self._writer.call(work)

    async def prune_dead(self, *, before: datetime, limit: int) -> int:
        """See `DeadStore`."""
        values = {"before": to_micros(before), "limit": limit}

        def work(db: apsw.Connection) -> int:
            gone = fetch_rows(db, "prune_dead", values)
            execute(db, "drop_kept_attempts", {"run_ids": to_json([row.id for row in gone])})
            take_off_tally(db, gone)
            return len(gone)

        return await self._writer.call(work)


def read_settled(db: apsw.Connection, run_ids: Sequence[RunId]) -> dict[RunId, SettledLetter]:
    """Return what became of dead letters, by run; open ones are left out."""
    rows = fetch_rows(db, "read_settled_dead", {"run_ids": to_json(list(run_ids))})
    found = ((RunId(row.id), _make_settled(row)) for row in rows)
    return {run_id: settled for run_id, settled in found if settled is not None}


def settle_redriven(db: apsw.Connection, run_id: RunId, redriven_as: RunId, now: datetime) -> None:
    """Settle a dead letter that a run repeats, if it is open."""
    values = {"run_id": run_id, "redriven_as": redriven_as, "now": to_micros(now)}
    execute(db, "settle_redrive", values)


def _find(
    db: apsw.Connection, tenant: str, wanted: DeadFilter, *, before: RunId | None, limit: int
) -> list[int]:
    values = {
        **values_of(tenant, wanted),
        "before": _LAST_ID if before is None else before,
        "limit": limit,
    }
    if wanted.run_ids is not None:
        return fetch_values(db, "find_named_dead", {**values, "is_settled": wanted.is_settled})
    if wanted.is_settled:
        return fetch_values(db, "find_settled_dead", values)
    return fetch_values(db, "find_open_dead" if wanted.job_id is None else "find_open_dead_of_job", values)


def values_of(tenant: str, wanted: DeadFilter) -> dict[str, object]:
    """Return the values of `is_dead_wanted`."""
    return {
        "tenant": tenant,
        "job_id": None if wanted.job_id is None else wanted.job_id.bytes,
        "queue": wanted.queue,
        "reason": wanted.reason,
        "error": wanted.error,
        "error_group": wanted.error_group,
        "since": None if wanted.since is None else to_micros(wanted.since),
        "until": None if wanted.until is None else to_micros(wanted.until),
        "run_ids": None if wanted.run_ids is None else to_json(list(wanted.run_ids)),
    }


def _make_settled(row: NamedRow) -> SettledLetter | None:
    at = to_optional_instant(row.settled_at)
    if at is None:
        return None
    return SettledLetter(
        settlement=Settlement(row.settlement),
        at=at,
        reason=row.settle_reason,
        redriven_as=None if row.redriven_as is None else RunId(row.redriven_as),
    )
