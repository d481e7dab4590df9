"""The settings that every process follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from mainspring.core.queues import Queue
from mainspring.core.tenants import Tenant
from mainspring.ports.store.policies import Policies
from mainspring.stores.memory.tables import Tables

T = TypeVar("T", Tenant, Queue)


class MemoryPolicyStore:
    """`PolicyStore` in memory."""

    _tables: Tables

    async def read_policies(self, *, known: int | None = None) -> Policies | None:
        tables = self._tables
        if known == tables.policies.revision:
            return None
        return Policies(
            revision=tables.policies.revision,
            tenants=dict(tables.policies.tenants),
            queues=dict(tables.policies.queues),
        )

    async def write_tenants(self, tenants: Sequence[Tenant]) -> list[bool]:
        return self._write(self._tables.policies.tenants, tenants)

    async def write_queues(self, queues: Sequence[Queue]) -> list[bool]:
        return self._write(self._tables.policies.queues, queues)

    def _write(self, settings: dict[str, T], changed: Sequence[T]) -> list[bool]:
        if not changed:
            return []
        are_new = [one.name not in settings for one in changed]
        settings.update((one.name, one) for one in changed)
        self._tables.policies.revision += 1
        return are_new
