"""The archive, as the HTTP API shows it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from mainspring.core.archive import ArchiveDay
from mainspring.wire.views import Instant


class ArchiveDayView(Struct, kw_only=True):
    """A day of the history that is written into the archive."""

    day: Annotated[str, Meta(description="The day, in UTC, on which its runs ended.")]
    state: Annotated[
        str,
        Meta(
            description="`WRITTEN`: some of it is. `VERIFIED`: all of it was read back and may be removed from the"
            " history. `DROPPED`: the history has nothing of it any more."
        ),
    ]
    parts: Annotated[int, Meta(description="Files.")]
    runs: int
    attempts: int
    bytes: Annotated[int, Meta(description="The size of the files.")]
    changed_at: Annotated[Instant, Meta(description="When the last of its files got its state.")]


class ArchivePage(Struct):
    """A page of days, the newest first; `next` is the value of `before` for the page that follows."""

    items: list[ArchiveDayView]
    next: str | None


def view_archive_day(day: ArchiveDay) -> ArchiveDayView:
    """Show a day of the archive."""
    return ArchiveDayView(
        day=day.day.isoformat(),
        state=day.state.value,
        parts=day.parts,
        runs=day.runs,
        attempts=day.attempts,
        bytes=day.bytes,
        changed_at=day.changed_at,
    )
