"""What attempts write while they run, on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mainspring.core.ids import RunId
from mainspring.core.run_logs import LogPart, RunProgress
from mainspring.ports.store.run_logs import KeptProgress, LogEntry, LogPlace
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction


class PostgresRunLogStore:
    """`RunLogStore` on PostgreSQL. What is written shares a connection with what followers read, and with no run."""

    _connections: Connections

    async def add_run_logs(self, entries: Sequence[LogEntry], *, now: datetime) -> list[bool]:
        """See `RunLogStore`. The runs are locked, so that nobody takes them away meanwhile."""
        if not entries:
            return []
        wanted = sorted({(entry.run_id, entry.token, entry.session_id) for entry in entries})

        async def work(transaction: Transaction) -> set[tuple[int, int]]:
            rows = await transaction.fetch(
                "hold_logged_runs",
                run_ids=[lease[0] for lease in wanted],
                tokens=[lease[1] for lease in wanted],
                session_ids=[lease[2] for lease in wanted],
            )
            held = {(row["id"], row["token"]) for row in rows}
            await _keep(transaction, [entry for entry in entries if (entry.run_id, entry.token) in held], now)
            return held

        held = await self._connections.transact(Role.LOG, work, is_repeatable=True)
        return [(entry.run_id, entry.token) in held for entry in entries]

    async def list_log_parts(self, places: Sequence[LogPlace], *, limit: int) -> list[list[LogPart]]:
        """See `RunLogStore`."""
        if not places:
            return []
        rows = await self._connections.fetch(
            Role.LOG,
            "list_log_chunks",
            is_repeatable=True,
            run_ids=[place.run_id for place in places],
            tokens=[place.token for place in places],
            starts=[place.start for place in places],
            limit=limit,
        )
        found: list[list[LogPart]] = [[] for _ in places]
        for place, start, size, data in map(tuple, rows):
            found[place - 1].append(LogPart(start, size, data))
        return found

    async def get_progress(self, run_ids: Sequence[RunId]) -> list[KeptProgress | None]:
        """See `RunLogStore`."""
        if not run_ids:
            return []
        rows = await self._connections.fetch(
            Role.LOG, "get_run_progress", is_repeatable=True, run_ids=list(run_ids)
        )
        found = {
            row["run_id"]: KeptProgress(
                row["token"], RunProgress(row["done"], row["total"], row["message"]), row["at"]
            )
            for row in rows
        }
        return [found.get(run_id) for run_id in run_ids]

    async def prepare_run_logs(self, *, now: datetime) -> None:
        """See `RunLogStore`."""
        await self._connections.fetch(Role.UPKEEP, "prepare_run_logs", is_repeatable=True, now=now)

    async def prune_run_logs(self, *, before: datetime, limit: int) -> int:
        """See `RunLogStore`. Of days that are dropped whole, the count is an estimate."""
        removed = 0
        for row in await self._connections.fetch(
            Role.UPKEEP, "list_detached_log_days", is_repeatable=True
        ):  # of a process that died
            removed += await self._drop_day(row["name"])
        days = await self._connections.fetch(
            Role.UPKEEP, "list_closed_log_days", is_repeatable=True, before=before
        )
        for row in days:
            [detached] = await self._connections.fetch(
                Role.UPKEEP, "detach_log_day", is_repeatable=True, day=row["day"]
            )
            if detached["is_detached"]:
                removed += await self._drop_day(f"dropped_log_chunk_{row['day']:%Y%m%d}")
        return max(
            removed,
            await self._prune_rows("prune_log_chunks", before, limit),
            await self._prune_rows("prune_run_progress", before, limit),
        )

    async def _drop_day(self, name: str) -> int:
        [row] = await self._connections.fetch(Role.UPKEEP, "drop_day", is_repeatable=True, name=name)
        removed: int = row["removed"]
        return removed

    async def _prune_rows(self, name: str, before: datetime, limit: int) -> int:
        async def work(transaction: Transaction) -> int:
            return await transaction.execute(name, before=before, limit=limit)

        return await self._connections.run(Role.UPKEEP, work, is_repeatable=True, is_atomic=True)


async def _keep(transaction: Transaction, entries: Sequence[LogEntry], now: datetime) -> None:
    parts = [(entry, part) for entry in entries for part in entry.parts]
    if parts:
        await transaction.execute(
            "add_log_chunks",
            run_ids=[entry.run_id for entry, _ in parts],
            tokens=[entry.token for entry, _ in parts],
            starts=[part.start for _, part in parts],
            sizes=[part.size for _, part in parts],
            datas=[part.data for _, part in parts],
            now=now,
        )
    for entry in entries:
        if entry.forget is not None:
            start, until = entry.forget
            await transaction.execute(
                "forget_log_chunks", run_id=entry.run_id, token=entry.token, start=start, until=until
            )
    told = {entry.run_id: entry for entry in entries if entry.progress is not None}  # the newest of each
    if told:
        newest = [told[run_id] for run_id in sorted(told)]  # rows are locked in the order of their ids
        progress = [entry.progress for entry in newest if entry.progress is not None]
        await transaction.execute(
            "set_run_progress",
            run_ids=[entry.run_id for entry in newest],
            tokens=[entry.token for entry in newest],
            dones=[one.done for one in progress],
            totals=[one.total for one in progress],
            messages=[one.message for one in progress],
            now=now,
        )
