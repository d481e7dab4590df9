"""Which jobs come from the code of which owner."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from mainspring.core.audit import AuditEntry
from mainspring.core.ids import JobId
from mainspring.core.model import Job
from mainspring.core.owners import OwnerChange


class OwnerStore(Protocol):
    """Which jobs come from the code of which owner, and whether that still defines them."""

    async def own_jobs(
        self,
        tenant: str,
        owner: str,
        names: Sequence[str],
        *,
        now: datetime,
        audit: Sequence[AuditEntry] = (),
    ) -> OwnerChange:
        """Note that an owner's code defines the tenant's jobs of these names, and no others.

        They belong to it from now on. Its other jobs are undefined since `now`, or since earlier. What is defined from
        now on has its clock's revision raised, so that a deletion which was decided before loses.
        """
        ...

    async def list_owned(
        self, tenant: str, owner: str, *, after: JobId | None = None, limit: int = 100
    ) -> list[Job]:
        """Return a page of the tenant's jobs that belong to an owner, defined or not, in order of id."""
        ...

    async def list_undefined(
        self, tenant: str, *, owner: str | None = None, after: JobId | None = None, limit: int = 100
    ) -> list[Job]:
        """Return a page of the tenant's jobs that their owner does not define any more, in order of id.

        Args:
            owner: only those of this owner; None is all.
        """
        ...

    async def page_jobs(self, *, after: tuple[str, JobId] | None = None, limit: int = 100) -> list[Job]:
        """Return a page of the jobs of all tenants, in order of tenant and id.

        Args:
            after: the tenant and the id of the last job of the previous page.
        """
        ...
