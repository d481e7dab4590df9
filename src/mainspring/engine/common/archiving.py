"""The steps in which a day of the history becomes files of the archive."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import date, datetime

from mainspring.core.archive import (
    ArchivedFile,
    ArchiveKind,
    ArchivePart,
    ArchiveRange,
    find_gap,
    is_as_written,
    part_name,
)
from mainspring.ports.archive import Archive, ArchiveMismatch
from mainspring.ports.store import Store


async def write_part(
    store: Store,
    archive: Archive,
    day: date,
    of: ArchiveRange,
    *,
    now: datetime,
    may: Callable[[], Awaitable[bool]],
) -> ArchivePart | None:
    """Copy a range out of the store, and make a file of it.

    Args:
        may: says whether the day has lost none of its rows yet, which makes the copy whole. It is asked after the copy.

    Returns:
        The part; None, and nothing was put into the archive, if the day may have lost rows.
    """
    name = part_name(day, of.kind, of.number)
    async with archive.open_spool(of.bytes) as spool:
        await store.copy_archive_range(day, of, spool)
        expected = await store.count_archive_range(day, of)
        if not await may():
            return None
        file = await archive.write(spool, name, of.kind, expected)
    return ArchivePart(
        day=day,
        kind=of.kind,
        number=of.number,
        url=archive.url_of(name),
        sum=file.sum,
        known=file.known,
        first_id=file.first_id,
        last_id=file.last_id,
        bytes=file.bytes,
        digest=file.digest,
        changed_at=now,
    )


async def check_part(archive: Archive, part: ArchivePart) -> ArchivedFile:
    """Read a part back from where it lies.

    Raises:
        ArchiveMismatch: it is not what was written.
    """
    name = part_name(part.day, part.kind, part.number)
    if not part.sum.rows:  # then there is no file
        return ArchivedFile(
            name=name, kind=part.kind, sum=part.sum, first_id=None, last_id=None, digest=b"", bytes=0
        )
    file = await archive.check(name, part.kind)
    if not is_as_written(part, file):
        raise ArchiveMismatch(
            f"{part.url} has {file.sum.rows:,} rows and {file.bytes:,} bytes, and is not what was written there"
        )
    return file


async def compare_day(
    store: Store, day: date, ranges: Sequence[ArchiveRange], parts: Sequence[ArchivePart]
) -> None:
    """Compare the parts of a day with what the store has of it, also of kinds that it had nothing of.

    Raises:
        ArchiveMismatch: they have not the same rows.
    """
    kinds = {of.kind for of in ranges}
    if kinds != set(ArchiveKind):
        ranges = [*ranges, *(of for of in await store.outline_archive_day(day) if of.kind not in kinds)]
    sums = [await store.count_archive_range(day, of) for of in ranges]
    gap = find_gap(ranges, sums, parts)
    if gap is not None:
        raise ArchiveMismatch(f"{day.isoformat()}: {gap}")
