"""Dead letters: found, counted in groups, discarded. `RunStore.submit_runs` redrives them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from mainspring.core.audit import AuditEntry
from mainspring.core.dead_letters import DeadFilter, DeadGroup, DeadRun, SettledLetter
from mainspring.core.ids import RunId


class DeadStore(Protocol):
    """Dead letters.

    The lists are stopped at the time limit of lists, and raise `TookTooLong` then.
    """

    async def list_dead(
        self, tenant: str, wanted: DeadFilter, *, before: RunId | None = None, limit: int = 100
    ) -> list[DeadRun]:
        """Return a page of dead letters, those with the highest ids first."""
        ...

    async def group_dead(self, tenant: str, wanted: DeadFilter, *, limit: int) -> list[DeadGroup]:
        """Return the groups of dead letters that failed alike, the largest first; of equal ones the newest first."""
        ...

    async def count_dead(self, tenant: str, wanted: DeadFilter) -> int:
        """Return how many open dead letters there are."""
        ...

    async def read_settled(self, run_ids: Sequence[RunId]) -> list[SettledLetter | None]:
        """Return what became of dead letters; None for open ones, and for runs that are none."""
        ...

    async def discard_dead(
        self,
        tenant: str,
        wanted: DeadFilter,
        *,
        reason: str,
        now: datetime,
        limit: int,
        audit: Sequence[AuditEntry] = (),
    ) -> list[RunId]:
        """Settle open dead letters as discarded, the newest runs first, at most `limit`. Return which.

        Of a redrive and a discard at the same time, one takes effect.
        """
        ...

    async def prune_dead(self, *, before: datetime, limit: int) -> int:
        """Remove dead letters that were settled before this instant, with what is kept of their attempts."""
        ...
