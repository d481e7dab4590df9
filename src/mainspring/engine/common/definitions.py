"""A cache of kept definitions: a version never changes, so it is read once."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from mainspring.core.ids import JobId
from mainspring.core.model import JobSpec
from mainspring.ports.store import Store

_CAPACITY = 30_000


class Definitions:
    """Looks up definitions by (job, version), a batch at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[tuple[JobId, int], JobSpec] = {}

    async def load(self, keys: Iterable[tuple[JobId, int]]) -> dict[tuple[JobId, int], JobSpec]:
        """Return the definitions of these keys; a key that was never kept is left out."""
        known = self._known
        # Taken before the wait: what is known now may have made room for something else by then.
        wanted = {key: known.get(key) for key in keys}
        missing = [key for key, spec in wanted.items() if spec is None]
        if missing:
            specs = await self._store.read_versions(missing)
            read = {key: spec for key, spec in zip(missing, specs, strict=True) if spec is not None}
            self._keep(read)
            wanted |= read
        return {key: spec for key, spec in wanted.items() if spec is not None}

    def _keep(self, read: dict[tuple[JobId, int], JobSpec]) -> None:
        """Remember definitions, and forget the oldest where there are too many."""
        excess = len(self._known) + len(read) - _CAPACITY
        if excess > 0:
            for key in list(islice(self._known, max(excess, _CAPACITY // 10))):
                del self._known[key]
        self._known |= read
