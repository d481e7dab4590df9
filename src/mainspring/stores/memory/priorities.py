"""Priority classes."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.core.audit import AuditEntry
from mainspring.core.priorities import PriorityClass
from mainspring.stores.memory.audit import write_audit
from mainspring.stores.memory.tables import Tables


class MemoryPriorityStore:
    """`PriorityStore` in memory."""

    _tables: Tables

    async def list_priority_classes(self) -> list[PriorityClass]:
        return [one for _, one in sorted(self._tables.policies.classes.items())]

    async def write_priority_classes(
        self, classes: Sequence[PriorityClass], *, audit: Sequence[AuditEntry] = ()
    ) -> list[bool]:
        known = self._tables.policies.classes
        are_new = [one.name not in known for one in classes]
        known.update((one.name, one) for one in classes)
        write_audit(self._tables, audit, [True] * len(classes))
        return are_new

    async def delete_priority_classes(
        self, names: Sequence[str], *, audit: Sequence[AuditEntry] = ()
    ) -> list[bool]:
        known = self._tables.policies.classes
        found = [name in known for name in names]
        for name in names:
            known.pop(name, None)
        write_audit(self._tables, audit, found)
        return found
