"""What attempts write while they run, and how far they say they are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from mainspring.core.ids import RunId, SessionId
from mainspring.core.run_logs import LogPart, RunProgress
from mainspring.core.values import value


@value()
class LogEntry:
    """What a worker tells of an attempt under way. Its fields are positional for speed.

    Attributes:
        forget: the places from and to which parts are not kept any longer; None if all stay.
        progress: None if there is nothing new.
    """

    run_id: RunId
    token: int
    session_id: SessionId
    parts: tuple[LogPart, ...] = ()
    forget: tuple[int, int] | None = None
    progress: RunProgress | None = None


@value()
class LogPlace:
    """Where a reader of an attempt's output has got to."""

    run_id: RunId
    token: int
    start: int = 0


@value()
class KeptProgress:
    """A progress, with the token of the lease under which it was told, and when."""

    token: int
    progress: RunProgress
    at: datetime


class RunLogStore(Protocol):
    """The output of attempts under way. It expires before the history does.

    It outlasts the death of every process. A power cut may take the last of it from a store that is a file.
    """

    async def add_run_logs(self, entries: Sequence[LogEntry], *, now: datetime) -> list[bool]:
        """Keep what attempts have written. Return for each whether its lease is still held; if not, nothing is kept.

        An entry that is repeated changes nothing for readers.
        """
        ...

    async def list_log_parts(self, places: Sequence[LogPlace], *, limit: int) -> list[list[LogPart]]:
        """Return for each place the parts that reach beyond it, by their places, at most `limit`.

        A part may come twice.
        """
        ...

    async def get_progress(self, run_ids: Sequence[RunId]) -> list[KeptProgress | None]:
        """Return the newest progress of each run."""
        ...

    async def prepare_run_logs(self, *, now: datetime) -> None:
        """Prepare room (partitions on PostgreSQL)."""
        ...

    async def prune_run_logs(self, *, before: datetime, limit: int) -> int:
        """Remove what was kept before this instant; return how much went, as `UpkeepStore.prune_history` does."""
        ...
