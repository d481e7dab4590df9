"""Dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from asyncpg import Record

from mainspring.core.audit import AuditEntry, count_discarded
from mainspring.core.dead_letters import DeadFilter, DeadGroup, DeadRun, SettledLetter, Settlement
from mainspring.core.ids import RunId
from mainspring.ports.store.runs import NewRun
from mainspring.stores.postgres.audit import add_entries
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction
from mainspring.stores.postgres.rows import run_of

_LAST_ID = 2**63 - 1


class PostgresDeadStore:
    """`DeadStore` on PostgreSQL."""

    _connections: Connections

    async def list_dead(
        self, tenant: str, wanted: DeadFilter, *, before: RunId | None = None, limit: int = 100
    ) -> list[DeadRun]:
        rows = await self._connections.fetch(
            Role.BROWSE,
            "list_dead",
            is_repeatable=True,
            **values_of(tenant, wanted),
            is_settled=wanted.is_settled,
            before=_LAST_ID if before is None else before,
            limit=limit,
            is_brief=True,
        )
        return [
            DeadRun(run=run_of(row), error_group=row["error_group"], settled=_settled_of(row)) for row in rows
        ]

    async def group_dead(self, tenant: str, wanted: DeadFilter, *, limit: int) -> list[DeadGroup]:
        rows = await self._connections.fetch(
            Role.BROWSE, "group_dead", is_repeatable=True, **values_of(tenant, wanted), limit=limit
        )
        return [
            DeadGroup(
                job_id=row["job_id"],
                error_group=row["error_group"],
                count=row["letters"],
                first_at=row["first_at"],
                last_at=row["last_at"],
                newest=RunId(row["newest"]),
            )
            for row in rows
        ]

    async def count_dead(self, tenant: str, wanted: DeadFilter) -> int:
        [row] = await self._connections.fetch(
            Role.BROWSE, "count_dead", is_repeatable=True, **values_of(tenant, wanted)
        )
        count: int = row["letters"]
        return count

    async def read_settled(self, run_ids: Sequence[RunId]) -> list[SettledLetter | None]:
        if not run_ids:
            return []
        rows = await self._connections.fetch(
            Role.READ, "read_settled_dead", is_repeatable=True, run_ids=list(run_ids)
        )
        found = {row["id"]: _settled_of(row) for row in rows}
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
        async def work(transaction: Transaction) -> list[RunId]:
            found = await transaction.fetch("find_dead_to_discard", **values_of(tenant, wanted), limit=limit)
            locked = await transaction.fetch("lock_dead", run_ids=[row["id"] for row in found])
            still_open = [row["id"] for row in locked if row["settled_at"] is None]
            if still_open:
                await transaction.execute("discard_dead", run_ids=still_open, reason=reason, now=now)
                if entries := count_discarded(audit, still_open):
                    await add_entries(transaction, entries)
            return still_open

        return await self._connections.transact(Role.EDIT, work)

    async def prune_dead(self, *, before: datetime, limit: int) -> int:
        async def work(transaction: Transaction) -> int:
            # The lock comes first: what ends up in the tally meanwhile is seen by the statement that follows.
            [mark] = await transaction.fetch("share_settled")
            [row] = await transaction.fetch(
                "prune_dead", before=before, limit=limit, settled_before=mark["settled_before"]
            )
            removed: int = row["removed"]
            return removed

        return await self._connections.transact(Role.UPKEEP, work, is_repeatable=True)


async def lock_settled(transaction: Transaction, runs: Sequence[NewRun]) -> dict[RunId, SettledLetter]:
    """Lock the dead letters that runs repeat. Return what became of those that are settled."""
    repeated = sorted({run.redrive_of for run in runs if run.redrive_of is not None})
    if not repeated:
        return {}
    rows = await transaction.fetch("lock_dead", run_ids=repeated)
    found = ((RunId(row["id"]), _settled_of(row)) for row in rows)
    return {run_id: settled for run_id, settled in found if settled is not None}


async def settle_redriven(transaction: Transaction, redriven: dict[RunId, RunId], now: datetime) -> None:
    """Settle locked dead letters that are open: each is repeated by a run."""
    if redriven:
        await transaction.execute(
            "settle_redrives", run_ids=list(redriven), redriven_as=list(redriven.values()), now=now
        )


def values_of(tenant: str, wanted: DeadFilter) -> dict[str, object]:
    """Return the values of `is_dead_wanted`."""
    return {
        "tenant": tenant,
        "job_id": wanted.job_id,
        "queue": wanted.queue,
        "reason": wanted.reason,
        "error": wanted.error,
        "error_group": wanted.error_group,
        "since": wanted.since,
        "until": wanted.until,
        "run_ids": None if wanted.run_ids is None else list(wanted.run_ids),
    }


def _settled_of(row: Record) -> SettledLetter | None:
    if row["settled_at"] is None:
        return None
    redriven_as = row["redriven_as"]
    return SettledLetter(
        settlement=Settlement(row["settlement"]),
        at=row["settled_at"],
        reason=row["settle_reason"],
        redriven_as=None if redriven_as is None else RunId(redriven_as),
    )
