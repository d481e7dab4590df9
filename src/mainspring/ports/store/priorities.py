"""Priority classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mainspring.core.audit import AuditEntry
from mainspring.core.priorities import PriorityClass


class PriorityStore(Protocol):
    """Priority classes. They are copied into definitions, so no stored job depends on one."""

    async def list_priority_classes(self) -> list[PriorityClass]:
        """Return all classes by name."""
        ...

    async def write_priority_classes(
        self, classes: Sequence[PriorityClass], *, audit: Sequence[AuditEntry] = ()
    ) -> list[bool]:
        """Store classes; of several with one name the last counts. Return for each whether there was none before."""
        ...

    async def delete_priority_classes(
        self, names: Sequence[str], *, audit: Sequence[AuditEntry] = ()
    ) -> list[bool]:
        """Delete classes. Return for each whether there was one."""
        ...
