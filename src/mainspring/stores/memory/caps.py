"""Caps of queues, tenants and labels."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mainspring.core.audit import AuditEntry
from mainspring.core.lane_caps import CapHolder, CapKey, CapUse, LaneCap, cap_keys_of
from mainspring.core.limits import CLUSTER
from mainspring.stores.memory.audit import write_audit
from mainspring.stores.memory.lined_up import is_counted
from mainspring.stores.memory.restrictions import raise_epoch
from mainspring.stores.memory.tables import Tables

_MOST_SHOWN = 5


class MemoryCapStore:
    """`CapStore` in memory."""

    _tables: Tables

    async def write_caps(
        self, caps: Sequence[LaneCap], *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[str]:
        if caps:
            raise_epoch(self._tables, now)
        for cap in caps:
            self._tables.limits.rules[CLUSTER, cap.key.limit] = cap.rule
            if cap.max_running is not None:
                self._count_running(cap.key)
        write_audit(self._tables, audit, [True] * len(caps))
        return []

    def _count_running(self, cap: CapKey) -> None:
        """Give places to the runs that are under way."""
        row = self._tables.limits.key_of(CLUSTER, cap.run_key)
        for run in self._tables.runs.values():
            if run.takes_slot and cap in cap_keys_of(run.lane.key):
                row.holds[run.id] = run.token

    async def read_cap_uses(self, keys: Sequence[CapKey]) -> list[CapUse]:
        return [self._use_of(key) for key in keys]

    def _use_of(self, cap: CapKey) -> CapUse:
        tables = self._tables
        key_id = tables.limits.key_ids.get((CLUSTER, cap.run_key))
        if key_id is None or not tables.limits.rules[CLUSTER, cap.limit].is_set:
            return CapUse()
        row = tables.limits.keys[key_id]
        held = [run_id for run_id, token in row.holds.items() if is_counted(tables, row, run_id, token)]
        holders = tuple(CapHolder(run_id, tables.runs[run_id].tenant) for run_id in held[:_MOST_SHOWN])
        return CapUse(len(held), holders)
