"""A cache of definitions. A version never changes, so it is read only once."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import structlog

from mainspring.core.ciphertexts import NO_KEYS, has_encrypted
from mainspring.core.ids import JobId, format_job_id
from mainspring.core.model import JobSpec
from mainspring.core.targets import TARGETS
from mainspring.core.triggers import UnknownTrigger
from mainspring.errors import CannotDecrypt
from mainspring.ports.store import Store

_log = structlog.get_logger(__name__)
_CAPACITY = 30_000


class Definitions:
    """Looks up definitions by job and version, a batch at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[tuple[JobId, int], JobSpec] = {}

    async def load(self, keys: Iterable[tuple[JobId, int]]) -> dict[tuple[JobId, int], JobSpec]:
        """Return the definitions of these keys. A key that the store does not have is left out.

        Raises:
            CannotDecrypt: a definition is encrypted, and this process has no keys.
        """
        known = self._known
        # Looked up before the wait: by the end of it, a known entry may have been dropped to make room.
        wanted = {key: known.get(key) for key in keys}
        missing = [key for key, spec in wanted.items() if spec is None]
        if missing:
            specs = await self._store.read_versions(missing)
            read = {key: spec for key, spec in zip(missing, specs, strict=True) if spec is not None}
            _refuse_encrypted(read)
            self._keep(read)
            _warn_of_unknown_types(read)
            wanted |= read
        return {key: spec for key, spec in wanted.items() if spec is not None}

    def _keep(self, read: dict[tuple[JobId, int], JobSpec]) -> None:
        """Remember definitions, and forget the oldest if there are too many."""
        excess = len(self._known) + len(read) - _CAPACITY
        if excess > 0:
            for key in list(islice(self._known, max(excess, _CAPACITY // 10))):
                del self._known[key]
        self._known |= read


def _refuse_encrypted(read: dict[tuple[JobId, int], JobSpec]) -> None:
    """Refuse definitions that are still encrypted: this process reads the store without keys."""
    for (job_id, _), spec in read.items():
        if has_encrypted(spec.target.params):
            raise CannotDecrypt(f"the definition of job {format_job_id(job_id)} is encrypted; {NO_KEYS}")


def _warn_of_unknown_types(read: dict[tuple[JobId, int], JobSpec]) -> None:
    """Warn of types that this process does not know. It keeps such jobs, for processes that know the types."""
    for (job_id, version), spec in read.items():
        if isinstance(spec.trigger, UnknownTrigger):
            name = spec.trigger.type
            _log.warning("trigger_type_unknown", job=format_job_id(job_id), version=version, type=name)
        if spec.target.type not in TARGETS.by_name:
            name = spec.target.type
            _log.warning("target_type_unknown", job=format_job_id(job_id), version=version, type=name)
