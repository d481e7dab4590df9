"""The restrictions that every claim keeps."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mainspring.core.lane_caps import KnownCap, LaneCaps, cap_key_of
from mainspring.core.limits import CLUSTER
from mainspring.core.pauses import LanePauses, Pause, PauseKey, is_over_for_long, renew
from mainspring.ports.store.restrictions import Restrictions
from mainspring.stores.memory.tables import Tables


class MemoryRestrictionStore:
    """`RestrictionStore` in memory."""

    _tables: Tables

    async def read_restrictions(self, *, known: int | None = None) -> Restrictions | None:
        held = self._tables.policies.restrictions
        if known == held.epoch:
            return None
        return Restrictions(held.epoch, LanePauses(held.pauses.values()), caps_of(self._tables))

    async def list_older_programs(self) -> list[str]:
        return []

    async def add_pauses(self, pauses: Sequence[Pause], *, now: datetime) -> list[str]:
        if pauses:
            held = self._tables.policies.restrictions.pauses
            for pause in pauses:
                held[pause.key] = renew(pause, held.get(pause.key))
            raise_epoch(self._tables, now)
        return []

    async def lift_pauses(self, keys: Sequence[PauseKey], *, now: datetime) -> list[bool]:
        if not keys:
            return []
        gone = {key: self._tables.policies.restrictions.pauses.pop(key, None) for key in dict.fromkeys(keys)}
        raise_epoch(self._tables, now)
        return [pause is not None and pause.is_on(now) for pause in map(gone.__getitem__, keys)]


def raise_epoch(tables: Tables, now: datetime) -> None:
    """Have every claim that was chosen before give nothing."""
    held = tables.policies.restrictions
    for key in [key for key, pause in held.pauses.items() if is_over_for_long(pause, now)]:
        del held.pauses[key]
    held.epoch += 1
    for session in tables.sessions.values():
        session.policy_epoch = held.epoch


def caps_of(tables: Tables) -> LaneCaps:
    """Return the caps of lanes that are set."""
    rules = tables.limits.rules
    found = {}
    for key in tables.limits.keys.values():
        if key.tenant == CLUSTER and ":" in key.limit:
            cap = rules[key.tenant, key.limit].max_running
            if cap is not None:
                found[cap_key_of(key.limit)] = KnownCap(cap, key.id)
    return LaneCaps(found)
