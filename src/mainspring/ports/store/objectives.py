"""Objectives of tenants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mainspring.core.audit import AuditEntry
from mainspring.core.objectives import Objective


class ObjectiveStore(Protocol):
    """Objectives: how many runs are to start in time, or to succeed."""

    async def put_objective(self, objective: Objective, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """Insert an objective, or replace the one of its tenant and name. Return whether it is new."""
        ...

    async def delete_objective(self, tenant: str, name: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """Delete an objective. Return whether there was one."""
        ...

    async def list_objectives(self, tenant: str | None = None) -> list[Objective]:
        """Return the objectives of a tenant, or of all, by tenant and name."""
        ...
