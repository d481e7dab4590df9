"""What attempts write while they run, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from mainspring.core.fencing import is_held
from mainspring.core.ids import RunId
from mainspring.core.run_logs import LogPart
from mainspring.ports.store.run_logs import KeptProgress, LogEntry, LogPlace
from mainspring.stores.memory.tables import Tables


@dataclass(slots=True)
class RunLogTables:
    """The parts of each attempt by their places, each with when it was kept; and the progress of runs."""

    parts: dict[tuple[RunId, int], dict[int, tuple[datetime, LogPart]]] = field(default_factory=dict)
    progress: dict[RunId, KeptProgress] = field(default_factory=dict)


class MemoryRunLogStore:
    """`RunLogStore` in memory."""

    _run_logs: RunLogTables
    _tables: Tables

    async def add_run_logs(self, entries: Sequence[LogEntry], *, now: datetime) -> list[bool]:
        results = []
        for entry in entries:
            run = self._tables.runs.get(entry.run_id)
            results.append(run is not None and is_held(run, entry.token, entry.session_id))
            if results[-1]:
                self._keep(entry, now)
        return results

    def _keep(self, entry: LogEntry, now: datetime) -> None:
        if entry.parts:
            kept = self._run_logs.parts.setdefault((entry.run_id, entry.token), {})
            for part in entry.parts:
                kept.setdefault(part.start, (now, part))
            if entry.forget is not None:
                for start in [start for start in kept if entry.forget[0] <= start < entry.forget[1]]:
                    del kept[start]
        if entry.progress is not None:
            told = self._run_logs.progress.get(entry.run_id)
            if told is None or told.token <= entry.token:
                self._run_logs.progress[entry.run_id] = KeptProgress(entry.token, entry.progress, now)

    async def list_log_parts(self, places: Sequence[LogPlace], *, limit: int) -> list[list[LogPart]]:
        found = []
        for place in places:
            kept = self._run_logs.parts.get((place.run_id, place.token), {})
            parts = [part for _, (_, part) in sorted(kept.items()) if part.end > place.start]
            found.append(parts[:limit])
        return found

    async def get_progress(self, run_ids: Sequence[RunId]) -> list[KeptProgress | None]:
        return [self._run_logs.progress.get(run_id) for run_id in run_ids]

    async def prepare_run_logs(self, *, now: datetime) -> None:
        """Do nothing: there are no partitions."""

    async def prune_run_logs(self, *, before: datetime, limit: int) -> int:
        logs, removed = self._run_logs, 0
        for key, kept in list(logs.parts.items()):
            for start in [start for start, (at, _) in kept.items() if at < before][: limit - removed]:
                del kept[start]
                removed += 1
            if not kept:
                del logs.parts[key]
        old = [run_id for run_id, told in logs.progress.items() if told.at < before][:limit]
        for run_id in old:
            del logs.progress[run_id]
        return max(removed, len(old))
