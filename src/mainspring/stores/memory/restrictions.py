"""The restrictions that every claim keeps."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mainspring.core.pauses import LanePauses, Pause, PauseKey, is_over_for_long, renew
from mainspring.ports.store.restrictions import Restrictions
from mainspring.stores.memory.tables import Tables


class MemoryRestrictionStore:
    """`RestrictionStore` in memory."""

    _tables: Tables

    async def read_restrictions(self, *, known: int | None = None) -> Restrictions | None:
        held = self._tables.policies.restrictions
        return None if known == held.epoch else Restrictions(held.epoch, LanePauses(held.pauses.values()))

    async def list_older_programs(self) -> list[str]:
        return []

    async def add_pauses(self, pauses: Sequence[Pause], *, now: datetime) -> list[str]:
        if pauses:
            held = self._tables.policies.restrictions.pauses
            for pause in pauses:
                held[pause.key] = renew(pause, held.get(pause.key))
            self._raise_epoch(now)
        return []

    async def lift_pauses(self, keys: Sequence[PauseKey], *, now: datetime) -> list[bool]:
        if not keys:
            return []
        gone = {key: self._tables.policies.restrictions.pauses.pop(key, None) for key in dict.fromkeys(keys)}
        self._raise_epoch(now)
        return [pause is not None and pause.is_on(now) for pause in map(gone.__getitem__, keys)]

    def _raise_epoch(self, now: datetime) -> None:
        tables = self._tables
        held = tables.policies.restrictions
        for key in [key for key, pause in held.pauses.items() if is_over_for_long(pause, now)]:
            del held.pauses[key]
        held.epoch += 1
        for session in tables.sessions.values():
            session.policy_epoch = held.epoch
