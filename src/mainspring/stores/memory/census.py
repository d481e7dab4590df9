"""How many runs there are: always known."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from mainspring.core.census import Census, DeadLine, EndedLine, LiveLine
from mainspring.core.states import FINAL_STATES, RunState
from mainspring.ports.store.census import MOST_OVERDUE, Counted
from mainspring.ports.store.nodes import Epochs
from mainspring.stores.memory.tables import Tables


class MemoryCensusStore:
    """`CensusStore` in memory."""

    _tables: Tables

    async def count_runs(self, tenant: str) -> dict[RunState, int]:
        counts = self._tables.counts[tenant]
        return {state: counts[state] for state in RunState if counts[state]}

    async def count_lines(self, tenant: str) -> Counted:
        counted = self._count_all()
        return Counted(
            [line for line in counted.live if line.tenant == tenant],
            [line for line in counted.ended if line.tenant == tenant],
            [line for line in counted.dead if line.tenant == tenant],
        )

    async def count_all_runs(self, *, overdue_before: datetime) -> Counted:
        overdue = sum(
            job.next_fire is not None and job.next_fire.due_at < overdue_before
            for job in self._tables.jobs.values()
        )
        return self._count_all()._replace(overdue=min(overdue, MOST_OVERDUE))

    def _count_all(self) -> Counted:
        lines: dict[tuple[str, str, RunState], LiveLine] = {}
        dead: Counter[tuple[str, str]] = Counter()
        for run in self._tables.runs.values():
            if run.state in FINAL_STATES:
                dead[run.tenant, run.lane.key.queue] += run.state is RunState.FAILED and run.settled is None
                continue
            key = (run.tenant, run.lane.key.queue, run.state)
            known = lines.get(key)
            earliest = run.ready_at if known is None else min(known.earliest_ready_at, run.ready_at)
            lines[key] = LiveLine(*key, 1 if known is None else known.runs + 1, earliest)
        ended = [
            EndedLine(tenant, state, runs)
            for tenant, counts in self._tables.counts.items()
            for state, runs in counts.items()
            if runs and state in FINAL_STATES
        ]
        letters = [DeadLine(tenant, queue, runs) for (tenant, queue), runs in dead.items() if runs]
        return Counted(list(lines.values()), ended, letters)

    async def settle_ends(self, *, before: datetime, epochs: Epochs) -> bool:
        """Do nothing: ended runs are counted when they end."""
        return False

    async def put_census(self, census: Census, *, epochs: Epochs) -> bool:
        if epochs.get(0) != self._tables.shards[0].epoch:
            return False
        self._tables.census = census
        return True

    async def read_census(self) -> Census | None:
        return self._tables.census
