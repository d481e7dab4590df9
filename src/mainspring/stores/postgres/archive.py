"""The archive's verbs. Ranges are pages of the table that holds a day."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

from mainspring.core.archive import (
    PART_WEIGHT,
    WIDE,
    WIDE_FACTOR,
    ArchiveDay,
    ArchiveHome,
    ArchiveKind,
    ArchivePart,
    ArchiveRange,
    RowSum,
    first_of_batch,
    start_of_day,
    sum_up_days,
)
from mainspring.ports.store.archive import CopySink
from mainspring.ports.store.nodes import Epochs
from mainspring.stores._sql.archive import TABLES, make_batch, make_part, values_of_part
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction
from mainspring.stores.postgres.nodes import holds_shard_0

if TYPE_CHECKING:
    from asyncpg import Record

PAGES = 50_000
"""Pages that are looked through at once, and of a range at most: 400 MB, without what lies beside them."""
_LAST_PAGE = 2**32 - 2
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

    async def outline_archive_day(self, day: date, *, most: int = PART_WEIGHT) -> list[ArchiveRange]:
        return [of for kind in ArchiveKind for of in await self._outline(day, kind, most)]

    async def _outline(self, day: date, kind: ArchiveKind, most: int) -> list[ArchiveRange]:
        of_day = {"kind": TABLES[kind], "day": day}
        cuts = []
        for pages in await self._fetch_archived("outline_archive", step=PAGES, **of_day):
            bounds = {"first": pages["first"], "until": pages["until"]}
            cuts += await self._fetch_archived(
                "cut_archive_pages", most=most, wide=WIDE, factor=WIDE_FACTOR, **bounds, **of_day
            )
        ends = [cut["until"] for cut in cuts[:-1]] + [_LAST_PAGE]  # the last has also what comes yet
        return [
            ArchiveRange(kind, number, cut["first"], end, bytes=cut["bytes"])
            for number, (cut, end) in enumerate(zip(cuts, ends, strict=False))
        ]

    async def _fetch_archived(self, query: str, /, **values: object) -> list[Record]:
        return await self._connections.fetch(Role.ARCHIVE, query, is_repeatable=True, **values)

    async def claim_archive(self, url: str, *, epochs: Epochs) -> str | None:
        async def work(transaction: Transaction) -> str | None:
            if not await holds_shard_0(transaction, epochs):
                return None
            [row] = await transaction.fetch("claim_archive", url=url)
            installation: str = row["installation"]
            return installation

        return await self._connections.transact(Role.ARCHIVE, work, is_repeatable=True)

    async def read_archive(self) -> ArchiveHome:
        [row] = await self._connections.fetch(Role.UPKEEP, "read_archive", is_repeatable=True)
        return ArchiveHome(installation=row["installation"], url=row["archive_url"])

    async def end_archive(self) -> None:
        async def work(transaction: Transaction) -> None:
            await transaction.execute("end_archive")

        await self._connections.transact(Role.ARCHIVE, work, is_repeatable=True)

    async def watch_archive_day(self, day: date) -> None:
        async def work(transaction: Transaction) -> None:
            await transaction.fetch("watch_archive_day", day=day)

        await self._connections.transact(Role.ARCHIVE, work, is_repeatable=True)

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
            Role.BROWSE, "list_archive_batches", is_repeatable=True, before=before or _LAST, limit=limit
        )
        return sum_up_days(make_batch(dict(row), row["day"], row["changed_at"]) for row in rows)


async def _may_archive(transaction: Transaction, day: date, number: int, epochs: Epochs) -> bool:
    if not await holds_shard_0(transaction, epochs):
        return False
    [row] = await transaction.fetch("is_archived", day=day, first=first_of_batch(number))
    return not row["is_archived"]


def _values_of(day: date, of: ArchiveRange) -> dict[str, object]:
    since = start_of_day(day)
    return {"since": since, "before": since + _DAY, "first": of.first, "until": of.end}
