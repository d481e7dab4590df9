"""What both dialects do with the parts of the archive."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from mainspring.core.archive import ArchiveBatch, ArchiveKind, ArchivePart, ArchiveState, RowSum

TABLES = {ArchiveKind.RUNS: "run_history", ArchiveKind.ATTEMPTS: "attempt"}


def make_part(row: Mapping[str, Any], day: date, changed_at: datetime) -> ArchivePart:
    """Make a part from its row."""
    return ArchivePart(
        day=day,
        kind=ArchiveKind(row["kind"]),
        number=row["number"],
        url=row["url"],
        sum=RowSum(row["rows"], int(row["sum_ids"])),
        first_id=row["first_id"],
        last_id=row["last_id"],
        bytes=row["bytes"],
        digest=bytes(row["digest"]),
        state=ArchiveState(row["state"]),
        changed_at=changed_at,
        known=RowSum(row["known_rows"], int(row["known_ids"])),
    )


def make_batch(row: Mapping[str, Any], day: date, changed_at: datetime) -> ArchiveBatch:
    """Make a batch from the row that sums up its parts."""
    return ArchiveBatch(
        day=day,
        kind=ArchiveKind(row["kind"]),
        number=row["number"],
        state=ArchiveState(row["state"]),
        parts=row["parts"],
        rows=row["rows"],
        known=row["known"],
        bytes=row["bytes"],
        changed_at=changed_at,
    )


def values_of_part(part: ArchivePart) -> dict[str, Any]:
    """Return the values of a part's columns that both dialects write alike."""
    return {
        "kind": part.kind.value,
        "number": part.number,
        "url": part.url,
        "rows": part.sum.rows,
        "sum_ids": str(part.sum.ids),
        "first_id": part.first_id,
        "last_id": part.last_id,
        "bytes": part.bytes,
        "digest": part.digest,
        "known_rows": part.known.rows,
        "known_ids": str(part.known.ids),
    }
