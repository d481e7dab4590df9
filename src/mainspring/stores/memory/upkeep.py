"""The janitor's verbs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice

from mainspring.core.model import Attempt
from mainspring.core.states import FINAL_STATES, RunState
from mainspring.ports.store.sessions import WorkerName
from mainspring.ports.store.upkeep import UniqueKeyPlace
from mainspring.stores.memory.archive import ArchiveParts, bound_by_archive
from mainspring.stores.memory.audit import prune_audit
from mainspring.stores.memory.once import is_void
from mainspring.stores.memory.tables import Tables


class MemoryUpkeepStore:
    """`UpkeepStore` in memory."""

    _tables: Tables
    _archive: ArchiveParts

    async def prepare_history(self, *, now: datetime) -> None:
        """Do nothing: there are no partitions."""

    async def prune_history(
        self, *, before: datetime, limit: int, audit_before: datetime | None = None
    ) -> int:
        tables = self._tables
        before = bound_by_archive(tables, self._archive, before)
        ended = list(islice(tables.history.between(None, (before,)), limit))
        for _, run_id in ended:
            tables.remove_run(tables.runs[run_id])
        attempts = list(islice(self._attempts_before(before), limit))
        for attempt in attempts:
            kept = tables.attempts[attempt.run_id]
            kept.remove(attempt)
            if not kept:
                del tables.attempts[attempt.run_id]
        closed = (
            fire_range
            for fire_range in tables.fire_ranges.values()
            if fire_range.closed_at is not None and fire_range.closed_at < before
        )
        fire_ranges = list(islice(closed, limit))
        for fire_range in fire_ranges:
            del tables.fire_ranges[fire_range.id]
            tables.fire_ranges_of_job[fire_range.job_id].remove(fire_range)
        entries = 0 if audit_before is None else prune_audit(tables, audit_before, limit)
        return max(len(ended), len(attempts), len(fire_ranges), entries)

    def _attempts_before(self, before: datetime) -> Iterator[Attempt]:
        """Yield the attempts that ended before this instant, except those of live and of dead runs."""
        for run_id, attempts in self._tables.attempts.items():
            run = self._tables.runs.get(run_id)
            if run is None or run.state in FINAL_STATES - {RunState.FAILED}:
                yield from (attempt for attempt in attempts if attempt.finished_at < before)

    async def prune_keys(self, *, now: datetime, limit: int) -> int:
        keys = self._tables.keys
        expired = list(islice((key for key, row in keys.items() if row.known.expires_at <= now), limit))
        for key in expired:
            del keys[key]
        return len(expired)

    async def prune_unique_keys(
        self, *, now: datetime, after: UniqueKeyPlace | None, limit: int
    ) -> tuple[int, UniqueKeyPlace | None]:
        keys = self._tables.unique_keys
        start = None if after is None else (after.tenant, after.job_id, after.key)
        places = sorted(place for place in keys if start is None or place > start)[:limit]
        void = [place for place in places if is_void(self._tables, keys[place], now)]
        for place in void:
            del keys[place]
        return len(void), UniqueKeyPlace(*places[-1]) if len(places) == limit else None

    async def prune_sessions(self, *, before: datetime, limit: int) -> int:
        sessions = self._tables.sessions
        ended = (
            session.id
            for session in sessions.values()
            if session.ended_at is not None and session.ended_at < before and not len(session.running)
        )
        gone = list(islice(ended, limit))
        for session_id in gone:
            session = sessions.pop(session_id)
            assert session.ended_at is not None, "only what has ended is removed"
            name = WorkerName(session.offer.worker, session.offer.host)
            self._tables.past_sessions[session_id] = name, session.ended_at
        return len(gone)

    async def prune_workers(self, *, before: datetime, limit: int) -> int:
        past = self._tables.past_sessions
        old = (session_id for session_id, (_, ended_at) in past.items() if ended_at < before)
        gone = list(islice(old, limit))
        for session_id in gone:
            del past[session_id]
        return len(gone)

    async def prune_lanes(self, *, limit: int) -> int:
        tables = self._tables
        empty = list(islice((lane for lane in tables.lanes.values() if not lane.live), limit))
        for lane in empty:
            del tables.lanes[lane.id]
            del tables.lane_ids[lane.key]
        return len(empty)
