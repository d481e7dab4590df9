"""The archive's verbs in memory. A day is one range of each kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from mainspring.core.archive import (
    COLUMNS,
    ArchiveDay,
    ArchiveKind,
    ArchivePart,
    ArchiveRange,
    ArchiveState,
    RowSum,
    encode_line,
    first_of_batch,
    start_of_day,
)
from mainspring.core.model import Attempt
from mainspring.core.states import FINAL_STATES, RunState
from mainspring.ports.store.archive import CopySink
from mainspring.ports.store.nodes import Epochs
from mainspring.stores.memory.rows import RunRow
from mainspring.stores.memory.tables import Tables

ArchiveParts = dict[tuple[date, ArchiveKind, int], ArchivePart]
"""Parts by what they are of."""
_DAY = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STATES = tuple(ArchiveState)


class MemoryArchiveStore:
    """`ArchiveStore` in memory."""

    _archive: ArchiveParts
    _tables: Tables

    async def find_unarchived_day(self, *, before: datetime) -> date | None:
        instants = [ended_at for ended_at, _ in self._tables.history.between(None, (before,))]
        instants += [attempt.finished_at for attempt in self._attempts()]
        days = sorted({instant.astimezone(UTC).date() for instant in instants})
        return next(
            (day for day in days if start_of_day(day) + _DAY <= before and not self._is_settled(day)), None
        )

    async def outline_archive_day(self, day: date) -> list[ArchiveRange]:
        ranges = [ArchiveRange(kind, 0, 0, 1) for kind in ArchiveKind]
        return [of for of in ranges if any(True for _ in self._rows(day, of.kind))]

    async def copy_archive_range(self, day: date, of: ArchiveRange, sink: CopySink) -> None:
        lines = [encode_line(row, COLUMNS[of.kind]) for row in self._rows(day, of.kind)]
        await sink.begin()
        await sink.write("".join(lines).encode())

    async def count_archive_range(self, day: date, of: ArchiveRange) -> RowSum:
        ids = [row[0] for row in self._rows(day, of.kind)]
        return RowSum(len(ids), sum(ids))

    async def may_archive_day(self, day: date, *, epochs: Epochs, number: int = 0) -> bool:
        return self._owns_archive(epochs) and not self._is_archived(day, first_of_batch(number))

    async def save_archive_part(self, part: ArchivePart, *, epochs: Epochs) -> bool:
        if not await self.may_archive_day(part.day, epochs=epochs, number=part.number):
            return False
        self._archive[part.day, part.kind, part.number] = part
        return True

    async def list_archive_parts(self, day: date) -> list[ArchivePart]:
        kinds = list(ArchiveKind)
        parts = [part for part in self._archive.values() if part.day == day]
        return sorted(parts, key=lambda part: (kinds.index(part.kind), part.number))

    async def verify_archive_day(self, day: date, *, epochs: Epochs, now: datetime) -> bool:
        return self._owns_archive(epochs) and self._set_state(day, ArchiveState.VERIFIED, now)

    async def forget_archive_day(self, day: date, *, epochs: Epochs) -> None:
        if self._owns_archive(epochs):
            for key, part in list(self._archive.items()):
                if part.day == day and part.state is ArchiveState.WRITTEN:
                    del self._archive[key]

    async def drop_archive_days(self, *, epochs: Epochs, now: datetime) -> list[date]:
        if not self._owns_archive(epochs):
            return []
        verified = {part.day for part in self._archive.values() if part.state is ArchiveState.VERIFIED}
        gone = sorted(day for day in verified if not self._holds(day))
        for day in gone:
            self._set_state(day, ArchiveState.DROPPED, now)
        return gone

    async def list_archive_days(self, *, before: date | None = None, limit: int) -> Sequence[ArchiveDay]:
        days = {part.day for part in self._archive.values() if before is None or part.day < before}
        newest = sorted(days, reverse=True)[:limit]
        return [_sum_up(day, [part for part in self._archive.values() if part.day == day]) for day in newest]

    def _owns_archive(self, epochs: Epochs) -> bool:
        return epochs.get(0) == self._tables.shards[0].epoch

    def _is_archived(self, day: date, first: int) -> bool:
        return any(
            part.state is ArchiveState.VERIFIED
            or (part.state is ArchiveState.DROPPED and part.number >= first)
            for part in self._archive.values()
            if part.day == day
        )

    def _is_settled(self, day: date) -> bool:
        """Return whether nothing of a day is to be archived: attempts of runs that stay are no rows that came again."""
        states = {part.state for part in self._archive.values() if part.day == day}
        if ArchiveState.DROPPED in states and not self._holds(day):
            return True
        return ArchiveState.VERIFIED in states

    def _set_state(self, day: date, state: ArchiveState, now: datetime) -> bool:
        before = _STATES[_STATES.index(state) - 1]
        found = [key for key, part in self._archive.items() if part.day == day and part.state is before]
        for key in found:
            self._archive[key] = replace(self._archive[key], state=state, changed_at=now)
        return bool(found)

    def _holds(self, day: date) -> bool:
        """Return whether the janitor has anything of a day left to remove."""
        if any(True for _ in self._rows(day, ArchiveKind.RUNS)):
            return True
        return any(_is_of(day, attempt) and self._goes(attempt) for attempt in self._attempts())

    def _goes(self, attempt: Attempt) -> bool:
        run = self._tables.runs.get(attempt.run_id)
        return run is None or run.state in FINAL_STATES - {RunState.FAILED}

    def _attempts(self) -> Iterator[Attempt]:
        for attempts in self._tables.attempts.values():
            yield from attempts

    def _rows(self, day: date, kind: ArchiveKind) -> Iterator[tuple[Any, ...]]:
        if kind is ArchiveKind.ATTEMPTS:
            yield from (_attempt_row(attempt) for attempt in self._attempts() if _is_of(day, attempt))
            return
        since = start_of_day(day)
        for ended_at, run_id in self._tables.history.between((since,), (since + _DAY,)):
            if ended_at < since + _DAY:
                yield self._run_row(self._tables.runs[run_id])

    def _run_row(self, run: RunRow) -> tuple[Any, ...]:
        job, lane = self._tables.jobs.get(run.job_id), run.lane.key
        times = (run.fire_at, run.due_at, run.created_at, run.started_at, run.finished_at)
        return (
            *(run.id, run.job_id, None if job is None else job.spec.name, run.version, run.tenant),
            *(lane.queue, lane.route, int(lane.priority), run.kind.value, run.state.value, run.reason),
            *map(_micros, times),
            *(run.attempt, run.token, run.crashes, run.session_id, run.error, run.payload, run.result),
            *(run.output, run.target_key, run.fire_range_id, run.redrive_of),
            None if run.trace is None else run.trace.hex(),
        )


def _attempt_row(attempt: Attempt) -> tuple[Any, ...]:
    return (
        *(attempt.run_id, attempt.token, attempt.number, attempt.outcome, attempt.worker, attempt.host),
        *(_micros(attempt.started_at), _micros(attempt.finished_at), attempt.error, attempt.output),
    )


def _is_of(day: date, attempt: Attempt) -> bool:
    return attempt.finished_at.astimezone(UTC).date() == day


def _micros(instant: datetime | None) -> int | None:
    return None if instant is None else (instant - _EPOCH) // timedelta(microseconds=1)


def _sum_up(day: date, parts: Sequence[ArchivePart]) -> ArchiveDay:
    sums = {
        kind: sum((part.sum for part in parts if part.kind is kind), RowSum()).rows for kind in ArchiveKind
    }
    return ArchiveDay(
        day=day,
        state=min((part.state for part in parts), key=_STATES.index),
        parts=len(parts),
        runs=sums[ArchiveKind.RUNS],
        attempts=sums[ArchiveKind.ATTEMPTS],
        bytes=sum(part.bytes for part in parts),
        changed_at=max(part.changed_at for part in parts),
    )
