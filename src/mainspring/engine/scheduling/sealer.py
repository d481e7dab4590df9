"""Seals the audit, so that entries that are changed or taken out behind our back are noticed."""

from __future__ import annotations

from datetime import datetime

import structlog

from mainspring.engine.scheduling.ownership import Ownership
from mainspring.ports.clock import Waiter
from mainspring.ports.store import Store

_log = structlog.get_logger(__name__)
PERIOD = 10.0
BATCH = 1000
"""Entries that one seal covers, at most."""


class Sealer:
    """Sets a seal on what has been written into the audit, if this node owns shard 0.

    Its digest goes into the log: whoever keeps that elsewhere can tell whether the chain was made anew.
    """

    name = "sealer"

    def __init__(self, store: Store, *, ownership: Ownership, waiter: Waiter) -> None:
        self._store = store
        self._ownership = ownership
        self.waiter = waiter

    async def tick(self, now: datetime) -> float:
        """Set a seal, if there is anything to seal. Come back at once while there is more than one covers."""
        epoch = self._ownership.epochs.get(0)
        if epoch is None:
            return PERIOD
        seal = await self._store.seal_audit(epochs={0: epoch}, now=now, limit=BATCH)
        if seal is None:
            return PERIOD
        _log.info("audit_sealed", seal=seal.id, entries=seal.entries, digest=seal.digest.hex())
        return 0.0 if seal.entries == BATCH else PERIOD
