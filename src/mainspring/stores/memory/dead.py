"""Dead letters in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice

from mainspring.core.audit import AuditEntry, count_discarded
from mainspring.core.dead_letters import DeadFilter, DeadGroup, DeadRun, SettledLetter, Settlement, group_of
from mainspring.core.ids import JobId, RunId
from mainspring.core.states import RunState
from mainspring.stores.memory.audit import add_entries
from mainspring.stores.memory.rows import RunRow
from mainspring.stores.memory.tables import Tables


class MemoryDeadStore:
    """`DeadStore` in memory."""

    _tables: Tables

    async def list_dead(
        self, tenant: str, wanted: DeadFilter, *, before: RunId | None = None, limit: int = 100
    ) -> list[DeadRun]:
        return [_view(row) for row in islice(self._find(tenant, wanted, before), limit)]

    async def group_dead(self, tenant: str, wanted: DeadFilter, *, limit: int) -> list[DeadGroup]:
        groups: dict[tuple[JobId, str], list[RunRow]] = {}
        for row in self._find(tenant, replace(wanted, is_settled=False), None):
            groups.setdefault((row.job_id, group_of(row.error)), []).append(row)
        found = [
            DeadGroup(
                job_id=job_id,
                error_group=error_group,
                count=len(rows),
                first_at=min(_end_of(row) for row in rows),
                last_at=max(_end_of(row) for row in rows),
                newest=max(row.id for row in rows),
            )
            for (job_id, error_group), rows in groups.items()
        ]
        return sorted(found, key=lambda group: (-group.count, -group.newest))[:limit]

    async def count_dead(self, tenant: str, wanted: DeadFilter) -> int:
        return sum(1 for _ in self._find(tenant, replace(wanted, is_settled=False), None))

    async def read_settled(self, run_ids: Sequence[RunId]) -> list[SettledLetter | None]:
        rows = (self._tables.runs.get(run_id) for run_id in run_ids)
        return [None if row is None else row.settled for row in rows]

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
        rows = list(islice(self._find(tenant, replace(wanted, is_settled=False), None), limit))
        for row in rows:
            row.settled = SettledLetter(settlement=Settlement.DISCARDED, at=now, reason=reason)
        done = [row.id for row in rows]
        add_entries(self._tables, count_discarded(audit, done))
        return done

    async def prune_dead(self, *, before: datetime, limit: int) -> int:
        tables = self._tables
        old = (row for row in tables.runs.values() if row.settled is not None and row.settled.at < before)
        gone = list(islice(old, limit))
        for row in gone:
            tables.remove_run(row)
            tables.attempts.pop(row.id, None)
        return len(gone)

    def _find(self, tenant: str, wanted: DeadFilter, before: RunId | None) -> Iterator[RunRow]:
        """Yield the dead letters that are meant, those with the highest ids first."""
        for key in self._tables.runs_of_tenant[tenant].below(None if before is None else (before,)):
            row = self._tables.runs[key[0]]
            if row.state is RunState.FAILED and wanted.admits(
                row.view(), group_of(row.error), is_settled=row.settled is not None
            ):
                yield row


def settle_redriven(row: RunRow, redriven_as: RunId, now: datetime) -> None:
    """Settle a dead letter that a run repeats, if it is open."""
    if row.state is RunState.FAILED and row.settled is None:
        row.settled = SettledLetter(settlement=Settlement.REDRIVEN, at=now, redriven_as=redriven_as)


def _view(row: RunRow) -> DeadRun:
    run = replace(row.view(), payload=None, result=None, output=None)
    return DeadRun(run=run, error_group=group_of(row.error), settled=row.settled)


def _end_of(row: RunRow) -> datetime:
    assert row.finished_at is not None, "a dead letter has ended"
    return row.finished_at
