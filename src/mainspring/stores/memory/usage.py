"""What became of runs, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from mainspring.core.usage import NO_USAGE, QueueKey, Usage, UsageLine, UsageStep
from mainspring.ports.store.nodes import Epochs
from mainspring.stores.memory.tables import Tables


@dataclass(slots=True)
class UsageTables:
    """Minutes by process, and hours."""

    minutes: dict[tuple[datetime, QueueKey, str], Usage] = field(default_factory=dict)
    hours: dict[tuple[datetime, QueueKey], Usage] = field(default_factory=dict)


class MemoryUsageStore:
    """`UsageStore` in memory."""

    _usage: UsageTables
    _tables: Tables

    async def write_usage(self, lines: Sequence[UsageLine], *, process: str) -> None:
        for line in lines:
            self._usage.minutes[line.at, line.key, process] = line.usage

    async def list_usage(
        self,
        step: UsageStep,
        *,
        since: datetime,
        until: datetime,
        tenant: str | None = None,
        queues: Sequence[str] | None = None,
    ) -> list[UsageLine]:
        found = dict(self._usage.hours) if step is UsageStep.HOUR else {}
        if step is UsageStep.MINUTE:
            for (at, key, _), usage in self._usage.minutes.items():
                found[at, key] = found.get((at, key), NO_USAGE) + usage
        return [
            UsageLine(at=at, tenant=key.tenant, queue=key.queue, usage=usage)
            for (at, key), usage in sorted(found.items(), key=lambda item: item[0])
            if since <= at < until
            and tenant in {None, key.tenant}
            and (queues is None or key.queue in queues)
        ]

    async def write_usage_hours(self, lines: Sequence[UsageLine], *, epochs: Epochs) -> bool:
        if epochs.get(0) != self._tables.shards[0].epoch:
            return False
        self._usage.hours.update({(line.at, line.key): line.usage for line in lines})
        return True

    async def prune_usage(
        self, *, minutes_before: datetime, hours_before: datetime, epochs: Epochs, limit: int
    ) -> int:
        if epochs.get(0) != self._tables.shards[0].epoch:
            return 0
        minutes = [key for key in sorted(self._usage.minutes) if key[0] < minutes_before][:limit]
        hours = [key for key in sorted(self._usage.hours) if key[0] < hours_before][:limit]
        for minute in minutes:
            del self._usage.minutes[minute]
        for hour in hours:
            del self._usage.hours[hour]
        return len(minutes) + len(hours)
