"""Writes days of the history into the archive before the janitor may remove them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta

import structlog

from mainspring.core.archive import (
    MARGIN,
    ArchivedFile,
    ArchiveRange,
    ArchiveState,
    RowSum,
    last_midnight,
    next_batch,
    part_name,
    start_of_day,
)
from mainspring.engine.common.archiving import check_part, compare_day, write_part
from mainspring.engine.scheduling.ownership import Ownership
from mainspring.ports.archive import Archive, ArchiveMismatch, ArchiveUnavailable
from mainspring.ports.clock import Waiter
from mainspring.ports.store import Store
from mainspring.ports.store.nodes import Epochs
from mainspring.ports.telemetry import Measure

_log = structlog.get_logger(__name__)
PERIOD = 60.0
RETRY = 60.0
"""Seconds until the next try when the archive cannot be reached."""


class Archiver:
    """Writes the oldest day that waits, a part in each tick, if this node owns shard 0.

    What is done is in the store, so another owner goes on where this one stopped: a part that is written is not written
    again, and a day is removed only after all its parts were read back from where they lie.

    Args:
        keep: how long ended runs are kept; a day is written when that is over.
    """

    name = "archiver"

    def __init__(
        self, store: Store, archive: Archive, *, ownership: Ownership, waiter: Waiter, keep: timedelta
    ) -> None:
        self._store = store
        self._archive = archive
        self._ownership = ownership
        self._keep = max(keep, MARGIN)
        self.waiter = waiter
        self._checked: dict[str, ArchivedFile] = {}
        self._step: asyncio.Task[float] | None = None
        self._is_stopping = False
        self._waiting: date | None = None
        self._written = RowSum()
        self._bytes = 0
        self._failures = {"unreachable": 0, "mismatch": 0}
        self._now: datetime | None = None

    def measures(self) -> Iterator[Measure]:
        """Yield what was written, what failed, and how long the oldest day waits."""
        yield Measure("archive_rows_total", self._written.rows)
        yield Measure("archive_bytes_total", self._bytes)
        for reason, count in self._failures.items():
            yield Measure("archive_failures_total", count, (reason,))
        late = 0.0
        if self._waiting is not None and self._now is not None:
            due = start_of_day(self._waiting) + timedelta(days=1) + self._keep
            late = max(0.0, (self._now - due).total_seconds())
        yield Measure("archive_waiting_seconds", late)

    def give_up(self) -> None:
        """End the tick that is under way, because the process stops. The next owner does what it was about."""
        self._is_stopping = True
        if self._step is not None:
            self._step.cancel()

    async def tick(self, now: datetime) -> float:
        """Write or check a part, or settle what the janitor has removed. Come back at once while there is more."""
        epoch = self._ownership.epochs.get(0)
        if epoch is None or self._is_stopping:
            self._checked, self._waiting = {}, None
            return PERIOD
        self._step = asyncio.ensure_future(self._advance({0: epoch}, now))
        try:
            return await self._step
        except asyncio.CancelledError:
            if not self._is_stopping or not self._step.cancelled():
                self._step.cancel()
                raise
            return PERIOD
        finally:
            self._step = None

    async def _advance(self, epochs: Epochs, now: datetime) -> float:
        self._now = now
        for dropped in await self._store.drop_archive_days(epochs=epochs, now=now):
            _log.info("history_day_dropped", day=dropped.isoformat())
        day = await self._store.find_unarchived_day(before=last_midnight(now - self._keep))
        self._waiting = day
        if day is None:
            self._checked = {}
            return PERIOD
        try:
            if not await self._work_on(day, epochs, now):
                self._ownership.fence([0], used=epochs)
                return PERIOD
        except ArchiveUnavailable as error:
            self._failures["unreachable"] += 1
            _log.warning(
                "archive_unavailable", day=day.isoformat(), error=str(error), kept="nothing is removed"
            )
            return RETRY
        except ArchiveMismatch as error:
            self._failures["mismatch"] += 1
            self._checked = {}
            await self._store.forget_archive_day(day, epochs=epochs)
            _log.error(
                "archive_mismatch", day=day.isoformat(), error=str(error), next="the day is written anew"
            )
            return RETRY
        return 0.0

    async def _work_on(self, day: date, epochs: Epochs, now: datetime) -> bool:
        """Do the next step of a day. Answers False if this node has lost shard 0."""
        # Asked first: whoever is late then takes a dropped day for one of its own batch, and may not write it.
        known = await self._store.list_archive_parts(day)
        first = next_batch(known)
        parts = {(part.kind, part.number): part for part in known if part.state is not ArchiveState.DROPPED}
        ranges = [replace(of, number=first + of.number) for of in await self._store.outline_archive_day(day)]
        for of in ranges:
            part = parts.get((of.kind, of.number))
            # What lies elsewhere was written before the archive's address was changed.
            if part is None or part.url != self._archive.url_of(part_name(day, of.kind, of.number)):
                return await self._write(day, of, epochs, now)
        for part in parts.values():
            name = part_name(day, part.kind, part.number)
            if name not in self._checked:
                self._checked[name] = await check_part(self._archive, part)
                return True
        await compare_day(self._store, day, ranges, list(parts.values()))
        names = [part_name(day, part.kind, part.number) for part in parts.values()]
        await self._archive.finish(day, [self._checked[name] for name in names])
        if not await self._store.verify_archive_day(day, epochs=epochs, now=now):
            return False
        self._checked = {}
        if first:
            _log.error(
                "history_day_again",
                day=day.isoformat(),
                reason="it was in the archive and removed, and got rows again: was the store's clock ahead?",
                kept="they are in the archive, in parts of their own",
            )
        total = sum((part.sum for part in parts.values()), RowSum())
        _log.info("history_day_archived", day=day.isoformat(), parts=len(parts), rows=total.rows)
        return True

    async def _write(self, day: date, of: ArchiveRange, epochs: Epochs, now: datetime) -> bool:
        part = await write_part(
            self._store,
            self._archive,
            day,
            of,
            now=now,
            may=lambda: self._store.may_archive_day(day, epochs=epochs, number=of.number),
        )
        if part is None:
            return False
        if not await self._store.save_archive_part(part, epochs=epochs):
            return False
        self._written += part.sum
        self._bytes += part.bytes
        _log.info("archive_part_written", part=part.url, rows=part.sum.rows, bytes=part.bytes)
        return True
