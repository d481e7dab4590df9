"""Writes days of the history into the archive before the janitor may remove them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta

import structlog

from mainspring.core.archive import (
    MARGIN,
    ArchivedFile,
    ArchivePart,
    ArchiveRange,
    ArchiveState,
    RowSum,
    first_of_batch,
    last_midnight,
    next_batch,
    part_name,
    start_of_day,
)
from mainspring.core.values import value
from mainspring.engine.common.archiving import check_part, compare_day, write_part
from mainspring.engine.scheduling.ownership import Ownership
from mainspring.ports.archive import Archive, ArchiveFull, ArchiveMismatch, ArchiveUnavailable
from mainspring.ports.clock import Waiter
from mainspring.ports.store import Store
from mainspring.ports.store.nodes import Epochs
from mainspring.ports.telemetry import Measure

_log = structlog.get_logger(__name__)
PERIOD = 60.0
RETRY = 60.0
"""Seconds until the next try when the archive cannot be reached."""


@value()
class _Plan:
    """The ranges of a day, numbered from the first number of their batch on."""

    day: date
    first: int
    ranges: Sequence[ArchiveRange]


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
        self._plan: _Plan | None = None
        self._claimed: Epochs = {}
        self._installation = ""
        self._step: asyncio.Task[float] | None = None
        self._is_stopping = False
        self._waiting: date | None = None
        self._written = RowSum()
        self._bytes = 0
        self._failures = {"unreachable": 0, "no_room": 0, "mismatch": 0}
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
            self._forget()
            self._waiting = None
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
        if not await self._claim(epochs):
            self._ownership.fence([0], used=epochs)
            return PERIOD
        for dropped in await self._store.drop_archive_days(epochs=epochs, now=now):
            _log.info("history_day_dropped", day=dropped.isoformat())
        day = await self._store.find_unarchived_day(before=last_midnight(now - self._keep))
        self._waiting = day
        if day is None:
            self._forget()
            return PERIOD
        try:
            if not await self._work_on(day, epochs, now):
                self._ownership.fence([0], used=epochs)
                return PERIOD
        except ArchiveUnavailable as error:
            self._tell_trouble(day, error)
            return RETRY
        except ArchiveMismatch as error:
            self._failures["mismatch"] += 1
            self._forget()
            await self._store.forget_archive_day(day, epochs=epochs)
            _log.error(
                "archive_mismatch", day=day.isoformat(), error=str(error), next="the day is written anew"
            )
            return RETRY
        return 0.0

    def _forget(self) -> None:
        """Begin again with the day, with what is in the store of it."""
        self._checked, self._plan = {}, None

    async def _claim(self, epochs: Epochs) -> bool:
        """Have all servers keep what is not in the archive. Answers False if this node has lost shard 0."""
        if self._claimed != epochs:
            installation = await self._store.claim_archive(self._archive.url, epochs=epochs)
            if installation is None:
                return False
            self._claimed, self._installation = epochs, installation
        return True

    async def _make_plan(self, day: date, known: Sequence[ArchivePart]) -> _Plan:
        """Return how the day is cut. That takes a look at each of its rows, so it is done once."""
        written = [part.number for part in known if part.state is ArchiveState.WRITTEN]
        last = await self._archive.begin(day, installation=self._installation)
        first = first_of_batch(min(written)) if written else next_batch(known, last=last)
        ranges = await self._store.outline_archive_day(day, most=self._archive.part_weight)
        return _Plan(day, first, [replace(of, number=first + of.number) for of in ranges])

    async def _work_on(self, day: date, epochs: Epochs, now: datetime) -> bool:
        """Do the next step of a day. Answers False if this node has lost shard 0."""
        # Asked first: whoever is late then takes a dropped day for one of its own batch, and may not write it.
        known = await self._store.list_archive_parts(day)
        if self._plan is None or self._plan.day != day:
            self._forget()
            self._plan = await self._make_plan(day, known)
        first, ranges = self._plan.first, self._plan.ranges
        parts = {(part.kind, part.number): part for part in known if part.state is ArchiveState.WRITTEN}
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
        await self._store.watch_archive_day(day)
        await compare_day(self._store, day, ranges, list(parts.values()))
        files = [self._checked[part_name(day, part.kind, part.number)] for part in parts.values()]
        await self._archive.finish(day, [file for file in files if file.sum.rows])
        if not await self._store.verify_archive_day(day, epochs=epochs, now=now):
            if await self._store.may_archive_day(day, epochs=epochs, number=first):
                raise ArchiveMismatch(f"{day.isoformat()}: it got rows while it was written")
            return False
        self._forget()
        self._tell(day, list(parts.values()), is_again=bool(first))
        return True

    def _tell_trouble(self, day: date, error: ArchiveUnavailable) -> None:
        is_full = isinstance(error, ArchiveFull)
        self._failures["no_room" if is_full else "unreachable"] += 1
        tell = _log.error if is_full else _log.warning
        event = "archive_full" if is_full else "archive_unavailable"
        tell(event, day=day.isoformat(), error=str(error), kept="nothing is removed")

    def _tell(self, day: date, parts: Sequence[ArchivePart], *, is_again: bool) -> None:
        written = sum((part.sum for part in parts), RowSum())
        known = sum((part.known for part in parts), RowSum())
        if is_again and written.rows:
            _log.error(
                "history_day_again",
                day=day.isoformat(),
                reason="it was in the archive, and has rows that were not: was the store's clock ahead, or the store"
                " restored?",
                kept="they are in the archive, in parts of their own",
            )
        _log.info(
            "history_day_archived",
            day=day.isoformat(),
            parts=sum(1 for part in parts if part.sum.rows),
            rows=written.rows,
            known=known.rows,
        )

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
