"""The archive's verbs in memory. A day is one range of each kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import groupby, islice
from typing import Any

from mainspring.core.archive import (
    BATCH,
    COLUMNS,
    PART_WEIGHT,
    ArchiveBatch,
    ArchiveDay,
    ArchiveHome,
    ArchiveKind,
    ArchivePart,
    ArchiveRange,
    ArchiveState,
    RowSum,
    encode_line,
    first_of_batch,
    last_midnight,
    start_of_day,
    sum_up_days,
    weigh,
)
from mainspring.core.model import Attempt
from mainspring.core.states import FINAL_STATES, RunState
from mainspring.core.workflows.step_jobs import is_step_job, workflow_job_id
from mainspring.ports.store.archive import CopySink
from mainspring.ports.store.nodes import Epochs
from mainspring.stores.memory.rows import RunRow
from mainspring.stores.memory.tables import Tables

ArchiveParts = dict[tuple[date, ArchiveKind, int], ArchivePart]
"""Parts by what they are of."""
_DAY = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STATES = tuple(ArchiveState)
_MANY = 2**62
INSTALLATION = "memory"
"""All such stores are one: what one has written, another that starts in its place goes on with."""


class MemoryArchiveStore:
    """`ArchiveStore` in memory."""

    _archive: ArchiveParts
    _tables: Tables

    async def claim_archive(self, url: str, *, epochs: Epochs) -> str | None:
        if not self._owns_archive(epochs):
            return None
        self._tables.archive_url = url
        return INSTALLATION

    async def read_archive(self) -> ArchiveHome:
        return ArchiveHome(installation=INSTALLATION, url=self._tables.archive_url)

    async def end_archive(self) -> None:
        self._tables.archive_url = None

    async def watch_archive_day(self, day: date) -> None:
        """Do nothing: all days are watched here."""

    async def find_unarchived_day(self, *, before: datetime) -> date | None:
        reopen_days(self._tables, self._archive)
        return find_unarchived(self._tables, self._archive, before)

    async def outline_archive_day(self, day: date, *, most: int = PART_WEIGHT) -> list[ArchiveRange]:
        return [of for kind in ArchiveKind for of in self._outline(day, kind, most)]

    def _outline(self, day: date, kind: ArchiveKind, most: int) -> Iterator[ArchiveRange]:
        number = first = weight = size = count = 0
        for row in self._rows(day, kind):
            row_size = len(encode_line(row, COLUMNS[kind]))
            if weight and weight + weigh(row_size) > most:
                yield ArchiveRange(kind, number, first, count, bytes=size)
                number, first, weight, size = number + 1, count, 0, 0
            weight, size, count = weight + weigh(row_size), size + row_size, count + 1
        if count:
            yield ArchiveRange(kind, number, first, _MANY, bytes=size)

    async def copy_archive_range(self, day: date, of: ArchiveRange, sink: CopySink) -> None:
        await sink.begin()
        for row in islice(self._rows(day, of.kind), of.first, of.end):
            await sink.write(encode_line(row, COLUMNS[of.kind]).encode())

    async def count_archive_range(self, day: date, of: ArchiveRange) -> RowSum:
        ids = [row[0] for row in islice(self._rows(day, of.kind), of.first, of.end)]
        return RowSum(len(ids), sum(ids))

    async def may_archive_day(self, day: date, *, epochs: Epochs, number: int = 0) -> bool:
        return self._owns_archive(epochs) and not self._is_archived(day, first_of_batch(number))

    async def save_archive_part(self, part: ArchivePart, *, epochs: Epochs) -> bool:
        if not await self.may_archive_day(part.day, epochs=epochs, number=part.number):
            return False
        self._archive[part.day, part.kind, part.number] = part
        return True

    async def list_archive_parts(self, day: date) -> list[ArchivePart]:
        reopen_days(self._tables, self._archive)
        kinds = list(ArchiveKind)
        parts = [part for part in self._archive.values() if part.day == day]
        return sorted(parts, key=lambda part: (kinds.index(part.kind), part.number))

    async def verify_archive_day(self, day: date, *, epochs: Epochs, now: datetime) -> bool:
        reopen_days(self._tables, self._archive)
        return self._owns_archive(epochs) and self._set_state(day, ArchiveState.VERIFIED, now)

    async def forget_archive_day(self, day: date, *, epochs: Epochs) -> None:
        if self._owns_archive(epochs):
            for key, part in list(self._archive.items()):
                if part.day == day and part.state is ArchiveState.WRITTEN:
                    del self._archive[key]

    async def drop_archive_days(self, *, epochs: Epochs, now: datetime) -> list[date]:
        if not self._owns_archive(epochs):
            return []
        reopen_days(self._tables, self._archive)
        verified = {part.day for part in self._archive.values() if part.state is ArchiveState.VERIFIED}
        gone = sorted(day for day in verified if not self._holds(day))
        for day in gone:
            self._set_state(day, ArchiveState.DROPPED, now)
        return gone

    async def list_archive_days(self, *, before: date | None = None, limit: int) -> Sequence[ArchiveDay]:
        reopen_days(self._tables, self._archive)
        days = {part.day for part in self._archive.values() if before is None or part.day < before}
        newest = sorted(days, reverse=True)[:limit]
        of_days = [[part for part in self._archive.values() if part.day == day] for day in newest]
        return sum_up_days(batch for parts in of_days for batch in _batches_of(parts))

    def _owns_archive(self, epochs: Epochs) -> bool:
        return epochs.get(0) == self._tables.shards[0].epoch

    def _is_archived(self, day: date, first: int) -> bool:
        reopen_days(self._tables, self._archive)
        return any(
            part.state is ArchiveState.VERIFIED
            or (part.state is ArchiveState.DROPPED and part.number >= first)
            for part in self._archive.values()
            if part.day == day
        )

    def _set_state(self, day: date, state: ArchiveState, now: datetime) -> bool:
        before = _STATES[_STATES.index(state) - 1]
        found = [key for key, part in self._archive.items() if part.day == day and part.state is before]
        for key in found:
            self._archive[key] = replace(self._archive[key], state=state, changed_at=now)
        return bool(found)

    def _holds(self, day: date) -> bool:
        return _holds_history(self._tables, day)

    def _rows(self, day: date, kind: ArchiveKind) -> Iterator[tuple[Any, ...]]:
        if kind is ArchiveKind.ATTEMPTS:
            yield from (_attempt_row(one) for one in _attempts(self._tables) if _is_of(day, one))
            return
        since = start_of_day(day)
        for ended_at, run_id in self._tables.history.between((since,), (since + _DAY,)):
            if ended_at < since + _DAY:
                yield self._run_row(self._tables.runs[run_id])

    def _run_row(self, run: RunRow) -> tuple[Any, ...]:
        owner = workflow_job_id(run.job_id) if is_step_job(run.job_id) else run.job_id
        job, lane = self._tables.jobs.get(owner), run.lane.key
        place, state = run.place, self._tables.flows.ended.get(run.id)
        times = (run.fire_at, run.due_at, run.created_at, run.started_at, run.finished_at)
        return (
            *(run.id, run.job_id, None if job is None else job.spec.name, run.version, run.tenant),
            *(lane.queue, lane.route, int(lane.priority), run.kind.value, run.state.value, run.reason),
            *map(_micros, times),
            *(run.attempt, run.token, run.crashes, run.session_id, run.error, run.payload, run.result),
            *(run.output, run.target_key, run.fire_range_id, run.redrive_of),
            None if run.trace is None else run.trace.hex(),
            *((None,) * 3 if place is None else (place.flow_id, place.step, place.item)),
            None if state is None else state.hex(),
        )


def reopen_days(tables: Tables, parts: ArchiveParts) -> None:
    """Have the days that got rows written again, as far as they are in the archive."""
    for key, part in list(parts.items()):
        if part.day not in tables.changed_days:
            continue
        if part.state is ArchiveState.WRITTEN:
            del parts[key]
        elif part.state is ArchiveState.VERIFIED:
            parts[key] = replace(part, state=ArchiveState.DROPPED)
    tables.changed_days.clear()


def find_unarchived(tables: Tables, parts: ArchiveParts, before: datetime) -> date | None:
    """Return the first day that ended at this instant or before it, has rows, and is not verified."""
    instants = [ended_at for ended_at, _ in tables.history.between(None, (before,))]
    instants += [attempt.finished_at for attempt in _attempts(tables)]
    days = sorted({instant.astimezone(UTC).date() for instant in instants})
    over = (day for day in days if start_of_day(day) + _DAY <= before)
    return next((day for day in over if not _is_settled(tables, parts, day)), None)


def bound_by_archive(tables: Tables, parts: ArchiveParts, before: datetime) -> datetime:
    """Return the instant before which the history may go, of what is over at another one."""
    if tables.archive_url is None:
        return before
    reopen_days(tables, parts)
    whole = last_midnight(before)
    waiting = find_unarchived(tables, parts, whole)
    return whole if waiting is None else start_of_day(waiting)


def _is_settled(tables: Tables, parts: ArchiveParts, day: date) -> bool:
    """Return whether nothing of a day is to be archived: attempts of runs that stay are no rows that came again."""
    states = {part.state for part in parts.values() if part.day == day}
    if ArchiveState.DROPPED in states and not _holds_history(tables, day):
        return True
    return ArchiveState.VERIFIED in states


def _holds_history(tables: Tables, day: date) -> bool:
    """Return whether the janitor has anything of a day left to remove."""
    since = start_of_day(day)
    if any(ended_at < since + _DAY for ended_at, _ in tables.history.between((since,), (since + _DAY,))):
        return True
    return any(_is_of(day, attempt) and _goes(tables, attempt) for attempt in _attempts(tables))


def _goes(tables: Tables, attempt: Attempt) -> bool:
    run = tables.runs.get(attempt.run_id)
    return run is None or run.state in FINAL_STATES - {RunState.FAILED}


def _attempts(tables: Tables) -> Iterator[Attempt]:
    for attempts in tables.attempts.values():
        yield from attempts


def _attempt_row(attempt: Attempt) -> tuple[Any, ...]:
    return (
        *(attempt.run_id, attempt.token, attempt.number, attempt.outcome, attempt.worker, attempt.host),
        *(_micros(attempt.started_at), _micros(attempt.finished_at), attempt.error, attempt.output),
    )


def _is_of(day: date, attempt: Attempt) -> bool:
    return attempt.finished_at.astimezone(UTC).date() == day


def _micros(instant: datetime | None) -> int | None:
    return None if instant is None else (instant - _EPOCH) // timedelta(microseconds=1)


def _batches_of(parts: Sequence[ArchivePart]) -> Iterator[ArchiveBatch]:
    """Yield what a day's parts make up, batch by batch."""
    kinds = list(ArchiveKind)

    def batch_of(part: ArchivePart) -> tuple[int, int]:
        return kinds.index(part.kind), part.number // BATCH

    for (kind, number), found in groupby(sorted(parts, key=batch_of), key=batch_of):
        batch = list(found)
        yield ArchiveBatch(
            day=batch[0].day,
            kind=kinds[kind],
            number=number,
            state=min((part.state for part in batch), key=_STATES.index),
            parts=sum(1 for part in batch if part.sum.rows),
            rows=sum(part.sum.rows for part in batch),
            known=sum(part.known.rows for part in batch),
            bytes=sum(part.bytes for part in batch),
            changed_at=max(part.changed_at for part in batch),
        )
