"""`MemoryStore`: the whole port, atomic because no verb awaits anything, deterministic because it keeps order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from mainspring.ports.store import FailoverFacts, StoreCapabilities
from mainspring.stores.memory.claims import ClaimVerbs
from mainspring.stores.memory.jobs import JobVerbs
from mainspring.stores.memory.nodes import NodeVerbs
from mainspring.stores.memory.runs import RunVerbs
from mainspring.stores.memory.schedule import ClockVerbs
from mainspring.stores.memory.sessions import SessionVerbs
from mainspring.stores.memory.tables import Tables
from mainspring.stores.memory.upkeep import UpkeepVerbs

_CAPABILITIES = StoreCapabilities(
    concurrent_writers=False, is_durable=False, time_precision=timedelta(microseconds=1)
)


class MemoryStore(JobVerbs, ClockVerbs, RunVerbs, ClaimVerbs, SessionVerbs, NodeVerbs, UpkeepVerbs):
    """A `Store` that lives and dies with the process.

    Args:
        time: what `read_time` answers; no other verb reads a clock.
    """

    def __init__(self, *, time: Callable[[], datetime]) -> None:
        self._tables = Tables()
        self._time = time

    @property
    def capabilities(self) -> StoreCapabilities:
        """What this store can do."""
        return _CAPABILITIES

    @property
    def failovers(self) -> Sequence[FailoverFacts]:
        """None: there is nothing to fail over to."""
        return ()

    async def open(self) -> None:
        """Nothing to connect to."""

    async def close(self) -> None:
        """Nothing to finish; what it holds stays readable, so that a test may look after the end."""

    async def read_time(self) -> datetime:
        """Return the injected clock's instant."""
        return self._time()
