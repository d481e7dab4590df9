"""The archive's verbs. Ranges are pages of the table that holds a day."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta

from mainspring.core.archive import (
    ArchiveDay,
    ArchiveKind,
    ArchivePart,
    ArchiveRange,
    RowSum,
    first_of_batch,
    start_of_day,
)
from mainspring.ports.store.archive import CopySink
from mainspring.ports.store.nodes import Epochs
from mainspring.stores._sql.archive import TABLES, make_day, make_part, values_of_part
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction
from mainspring.stores.postgres.nodes import holds_shard_0

PAGES = 50_000
"""Pages of a range: 400 MB."""
LONGEST_COPY = 3600.0
"""How long a range may take to copy, in seconds: its rows go no faster than they are taken."""
_DAY = timedelta(days=1)
_LAST = date(9999, 1, 1)


class PostgresArchiveStore:
    """`ArchiveStore` on PostgreSQL."""

    _connections: Connections

    async def find_unarchived_day(self, *, before: datetime) -> date | None:
        [row] = await self._connections.fetch(
            Role.UPKEEP, "find_unarchived_day", is_repeatable=True, before=before
        )
        day: date | None = row["day"]
        return day

    async def outline_archive_day(self, day: date) -> list[ArchiveRange]:
        ranges = []
        for kind in ArchiveKind:
            rows = await self._connections.fetch(
                Role.ARCHIVE, "outline_archive", is_repeatable=True, kind=TABLES[kind], day=day, step=PAGES
            )
            ranges += [
                ArchiveRange(kind, number, row["first"], row["until"]) for number, row in enumerate(rows)
            ]
        return ranges

    async def copy_archive_range(self, day: date, of: ArchiveRange, sink: CopySink) -> None:
        async def work(transaction: Transaction) -> None:
            await sink.begin()
            await transaction.copy(
                f"copy_archived_{of.kind.value}", sink.write, limit=LONGEST_COPY, **_values_of(day, of)
            )

        await self._connections.run(Role.ARCHIVE, work, is_repeatable=True)

    async def count_archive_range(self, day: date, of: ArchiveRange) -> RowSum:
        [row] = await self._connections.fetch(
            Role.ARCHIVE, f"count_archived_{of.kind.value}", is_repeatable=True, **_values_of(day, of)
        )
        return RowSum(row["rows"], int(row["ids"]))

    async def may_archive_day(self, day: date, *, epochs: Epochs, number: int = 0) -> bool:
        async def work(transaction: Transaction) -> bool:
            return await _may_archive(transaction, day, number, epochs)

        return await self._connections.transact(Role.ARCHIVE, work, is_repeatable=True)

    async def save_archive_part(self, part: ArchivePart, *, epochs: Epochs) -> bool:
        async def work(transaction: Transaction) -> bool:
            if not await _may_archive(transaction, part.day, part.number, epochs):
                return False
            values = values_of_part(part)
            await transaction.execute("save_archive_part", day=part.day, changed_at=part.changed_at, **values)
            return True

        return await self._connections.transact(Role.ARCHIVE, work, is_repeatable=True)

    async def list_archive_parts(self, day: date) -> list[ArchivePart]:
        rows = await self._connections.fetch(Role.READ, "list_archive_parts", is_repeatable=True, day=day)
        return [make_part(dict(row), row["day"], row["changed_at"]) for row in rows]

    async def verify_archive_day(self, day: date, *, epochs: Epochs, now: datetime) -> bool:
        async def work(transaction: Transaction) -> bool:
            if not await holds_shard_0(transaction, epochs):
                return False
            return await transaction.execute("verify_archive_day", day=day, now=now) > 0

        return await self._connections.transact(Role.ARCHIVE, work, is_repeatable=True)

    async def forget_archive_day(self, day: date, *, epochs: Epochs) -> None:
        async def work(transaction: Transaction) -> None:
            if await holds_shard_0(transaction, epochs):
                await transaction.execute("forget_archive_day", day=day)

        await self._connections.transact(Role.ARCHIVE, work, is_repeatable=True)

    async def drop_archive_days(self, *, epochs: Epochs, now: datetime) -> list[date]:
        async def work(transaction: Transaction) -> list[date]:
            if not await holds_shard_0(transaction, epochs):
                return []
            dropped = []
            for row in await transaction.fetch("list_verified_days"):
                [found] = await transaction.fetch("holds_history", day=row["day"])
                if not found["holds_history"]:
                    await transaction.execute("drop_archive_day", day=row["day"], now=now)
                    dropped.append(row["day"])
            return dropped

        return await self._connections.transact(Role.ARCHIVE, work, is_repeatable=True)

    async def list_archive_days(self, *, before: date | None = None, limit: int) -> Sequence[ArchiveDay]:
        rows = await self._connections.fetch(
            Role.BROWSE, "list_archive_days", is_repeatable=True, before=before or _LAST, limit=limit
        )
        return [make_day(dict(row), row["day"], row["changed_at"]) for row in rows]


async def _may_archive(transaction: Transaction, day: date, number: int, epochs: Epochs) -> bool:
    if not await holds_shard_0(transaction, epochs):
        return False
    [row] = await transaction.fetch("is_archived", day=day, first=first_of_batch(number))
    return not row["is_archived"]


def _values_of(day: date, of: ArchiveRange) -> dict[str, object]:
    since = start_of_day(day)
    return {"since": since, "before": since + _DAY, "first": of.first, "until": of.end}
