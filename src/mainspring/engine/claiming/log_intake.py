"""Keeps what attempts write while they run, for all workers of the process together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mainspring.core.ids import SessionId
from mainspring.core.run_logs import check_part, make_progress
from mainspring.engine.common.group_commit import GroupCommit
from mainspring.engine.common.log_feed import LogFeed
from mainspring.errors import InvalidInput
from mainspring.ports.clock import Clock
from mainspring.ports.gateway import LogReport, LogResult
from mainspring.ports.store import Store
from mainspring.ports.store.run_logs import LogEntry
from mainspring.ports.telemetry import Measure

MOST_TOGETHER = 1000
"""Attempts in one transaction, at most. The runs are locked meanwhile."""


class LogIntake:
    """Keeps the parts and the progress that workers send. Concurrent calls share transactions.

    Attributes:
        bytes: how many bytes were kept, as they were written.
        stale: reports that were refused, because the session did not hold the lease any more.
    """

    def __init__(self, store: Store, feed: LogFeed, *, clock: Clock) -> None:
        self._store = store
        self._feed = feed
        self._clock = clock
        self._calls: GroupCommit[LogEntry, bool] = GroupCommit(self._keep, most=MOST_TOGETHER)
        self.bytes: int = 0
        self.stale: int = 0

    def measures(self) -> Iterator[Measure]:
        """Yield what was kept."""
        yield Measure("run_log_bytes_total", self.bytes)
        yield Measure("run_logs_stale_total", self.stale)

    async def keep(self, session_id: SessionId, reports: Sequence[LogReport]) -> tuple[LogResult, ...]:
        """Keep what attempts under way have written. Return one result per report.

        Raises:
            InvalidInput: a part is not what it says, or a progress is none. Nothing is kept.
        """
        entries = [_entry(session_id, report, f"reports[{place}]") for place, report in enumerate(reports)]
        kept = await self._calls(entries)
        return tuple(LogResult.KEPT if is_held else LogResult.STALE for is_held in kept)

    async def _keep(self, entries: Sequence[LogEntry]) -> Sequence[bool]:
        kept = await self._store.add_run_logs(entries, now=self._clock.now())
        told = [entry for entry, is_held in zip(entries, kept, strict=True) if is_held and entry.parts]
        self.bytes += sum(part.size for entry in told for part in entry.parts)
        self.stale += len(kept) - sum(kept)
        self._feed.note_parts(entry.run_id for entry in told)
        return kept


def _entry(session_id: SessionId, report: LogReport, field: str) -> LogEntry:
    for place, part in enumerate(report.parts):
        check_part(part, f"{field}.parts[{place}]")
    if report.forget is not None and not 0 <= report.forget[0] < report.forget[1]:
        raise InvalidInput(f"{field}.forget", "must be two places, the lower one first")
    progress = report.progress
    if progress is not None:
        try:
            progress = make_progress(progress.done, progress.total, progress.message)
        except InvalidInput as error:
            raise InvalidInput(f"{field}.progress.{error.field}", error.message) from None
    return LogEntry(report.run_id, report.token, session_id, report.parts, report.forget, progress)
