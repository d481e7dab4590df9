"""What operators set for the whole store, apart from jobs: the settings of tenants and queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from mainspring.core.audit import AuditEntry
from mainspring.core.intake import WaitingCount
from mainspring.core.queues import Queue
from mainspring.core.tenants import Tenant
from mainspring.core.values import value


@value(kw_only=True)
class Policies:
    """All that is set.

    Attributes:
        revision: grows with every change.
        tenants: by name; those for which nothing was set are left out.
        queues: likewise.
    """

    revision: int
    tenants: Mapping[str, Tenant]
    queues: Mapping[str, Queue]


@value()
class PermitRequest:
    """Submissions of a tenant that come together."""

    tenant: str
    count: int


class PolicyStore(Protocol):
    """The settings that every process follows."""

    async def read_policies(self, *, known: int | None = None) -> Policies | None:
        """Return all that is set, as of one instant; None if it is still that of the revision `known`."""
        ...

    async def write_tenants(
        self, tenants: Sequence[Tenant], *, audit: Sequence[AuditEntry] = ()
    ) -> list[bool]:
        """Store the settings of tenants. Return for each whether nothing was set for it before."""
        ...

    async def write_queues(self, queues: Sequence[Queue], *, audit: Sequence[AuditEntry] = ()) -> list[bool]:
        """Store the settings of queues. Return for each whether nothing was set for it before."""
        ...

    async def count_jobs(self, tenant: str, *, most: int) -> int:
        """Count the jobs of a tenant that exist, up to `most`."""
        ...

    async def count_waiting(self, counts: Sequence[WaitingCount]) -> list[int]:
        """Count the runs that wait (PENDING or RETRYING, due or not) in queues or of tenants, each up to its `most`.

        Raises:
            TookTooLong: it took longer than a list or count may take.
        """
        ...

    async def count_running(self, tenants: Sequence[str]) -> dict[str, int]:
        """Count the RUNNING runs of each of these tenants, also of sessions that have ended, as of one instant."""
        ...

    async def take_permits(
        self, requests: Sequence[PermitRequest], *, now: datetime
    ) -> list[datetime | None]:
        """Take permits out of the buckets of tenants that have a submit rate, one request after the other.

        Returns:
            For each request None if it got its permits, or if its tenant has no rate; else when to come again. Then it
            has taken nothing.
        """
        ...
