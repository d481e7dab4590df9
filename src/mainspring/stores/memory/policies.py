"""The settings that every process follows."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.core.tenants import Tenant
from mainspring.ports.store.policies import Policies
from mainspring.stores.memory.tables import Tables


class MemoryPolicyStore:
    """`PolicyStore` in memory."""

    _tables: Tables

    async def read_policies(self, *, known: int | None = None) -> Policies | None:
        tables = self._tables
        if known == tables.policy_revision:
            return None
        return Policies(revision=tables.policy_revision, tenants=dict(tables.tenant_settings))

    async def write_tenants(self, tenants: Sequence[Tenant]) -> list[bool]:
        if not tenants:
            return []
        settings = self._tables.tenant_settings
        are_new = [tenant.name not in settings for tenant in tenants]
        settings.update((tenant.name, tenant) for tenant in tenants)
        self._tables.policy_revision += 1
        return are_new
