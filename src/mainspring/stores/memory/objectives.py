"""Objectives, in memory."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.core.audit import AuditEntry
from mainspring.core.objectives import Objective
from mainspring.stores.memory.audit import write_audit
from mainspring.stores.memory.tables import Tables


class MemoryObjectiveStore:
    """`ObjectiveStore` in memory."""

    _tables: Tables
    _objectives: dict[tuple[str, str], Objective]

    async def put_objective(self, objective: Objective, *, audit: Sequence[AuditEntry] = ()) -> bool:
        key = objective.tenant, objective.name
        is_new = key not in self._objectives
        self._objectives[key] = objective
        write_audit(self._tables, audit, [True])
        return is_new

    async def delete_objective(self, tenant: str, name: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        is_gone = self._objectives.pop((tenant, name), None) is not None
        write_audit(self._tables, audit, [is_gone])
        return is_gone

    async def list_objectives(self, tenant: str | None = None) -> list[Objective]:
        return [one for key, one in sorted(self._objectives.items()) if tenant in {None, key[0]}]
