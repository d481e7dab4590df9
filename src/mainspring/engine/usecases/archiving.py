"""The archive, as operators ask for it: which days it has, and a day that is written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta

from mainspring.core.archive import MARGIN, ArchiveDay, ArchivePart, ArchiveState, next_batch, start_of_day
from mainspring.engine.common.archiving import check_part, compare_day, write_part
from mainspring.errors import Conflict, InvalidInput
from mainspring.ports.archive import Archive
from mainspring.ports.store import Store


class ArchiveDays:
    """Shows the days that were written."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def list_page(self, *, before: date | None, limit: int) -> Sequence[ArchiveDay]:
        """Return a page of days, the newest first; `before` is the last day of the page before."""
        return await self._store.list_archive_days(before=before, limit=limit)


async def write_day(store: Store, archive: Archive, day: date, *, now: datetime) -> list[ArchivePart]:
    """Write a day into the archive, so that it can be read there before its time has come.

    It stays in the history, whose servers write it again before they remove it: to the same files.

    Raises:
        InvalidInput: the day is not over.
        Conflict: it is in the archive already, and perhaps not whole in the history any more; or it has no rows.
        ArchiveUnavailable, ArchiveMismatch: it cannot be written, or is not right where it lies.
    """
    if start_of_day(day) + timedelta(days=1) + MARGIN > now:
        raise InvalidInput(
            "day", f"{day.isoformat()} is not over for an hour yet, in UTC; give an earlier one"
        )

    async def is_whole() -> bool:
        parts = await store.list_archive_parts(day)
        return all(part.state is ArchiveState.WRITTEN for part in parts)

    gone = Conflict("day", f"{day.isoformat()} is in the archive already, as its servers have written it")
    if not await is_whole():
        raise gone
    home = await store.read_archive()
    last = await archive.begin(day, installation=home.installation)
    first = next_batch(await store.list_archive_parts(day), last=last)
    outline = await store.outline_archive_day(day, most=archive.part_weight)
    ranges = [replace(of, number=first + of.number) for of in outline]
    parts = []
    for of in ranges:
        part = await write_part(store, archive, day, of, now=now, may=is_whole)
        if part is None:
            raise gone
        parts.append(part)
    if not any(part.total.rows for part in parts):
        raise Conflict("day", f"the history has nothing that ended on {day.isoformat()}, in UTC")
    files = [await check_part(archive, part) for part in parts]
    await compare_day(store, day, ranges, parts)
    await archive.finish(day, [file for file in files if file.sum.rows])
    return parts
