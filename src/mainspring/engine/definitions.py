"""A cache of kept definitions: a version never changes, so it is read once."""

from __future__ import annotations

from collections.abc import Iterable

from mainspring.core.ids import JobId
from mainspring.core.model import JobSpec
from mainspring.ports.store import Store

_CAPACITY = 50_000


class Definitions:
    """Looks up definitions by (job, version), a batch at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[tuple[JobId, int], JobSpec] = {}

    async def load(self, keys: Iterable[tuple[JobId, int]]) -> dict[tuple[JobId, int], JobSpec]:
        """Return the definitions of these keys; a key that was never kept is left out."""
        wanted = list(dict.fromkeys(keys))
        missing = [key for key in wanted if key not in self._known]
        if missing:
            if len(self._known) + len(missing) > _CAPACITY:
                self._known.clear()
            for key, spec in zip(missing, await self._store.read_versions(missing), strict=True):
                if spec is not None:
                    self._known[key] = spec
        return {key: self._known[key] for key in wanted if key in self._known}
