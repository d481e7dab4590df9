"""What operators set for the whole store, apart from jobs: the settings of tenants and queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mainspring.core.queues import Queue
from mainspring.core.tenants import Tenant


@dataclass(frozen=True, slots=True, kw_only=True)
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


class PolicyStore(Protocol):
    """The settings that every process follows."""

    async def read_policies(self, *, known: int | None = None) -> Policies | None:
        """Return all that is set, as of one instant; None if it is still that of the revision `known`."""
        ...

    async def write_tenants(self, tenants: Sequence[Tenant]) -> list[bool]:
        """Store the settings of tenants. Return for each whether nothing was set for it before."""
        ...

    async def write_queues(self, queues: Sequence[Queue]) -> list[bool]:
        """Store the settings of queues. Return for each whether nothing was set for it before."""
        ...
