"""The restrictions that every claim keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from mainspring.core.audit import AuditEntry
from mainspring.core.blackouts import Blackout, renew_blackout
from mainspring.core.calendars.resolved import CalendarVersion
from mainspring.core.lane_caps import KnownCap, LaneCaps, cap_key_of
from mainspring.core.limits import CLUSTER
from mainspring.core.pauses import LanePauses, Pause, PauseKey, epoch_number, is_over_for_long, renew
from mainspring.ports.store.restrictions import KEEPS_RESTRICTIONS, BlackoutsWritten, Restrictions
from mainspring.stores.memory.audit import write_audit
from mainspring.stores.memory.tables import Tables


class MemoryRestrictionStore:
    """`RestrictionStore` in memory."""

    _tables: Tables

    async def read_restrictions(self, *, known: int | None = None) -> Restrictions | None:
        held = self._tables.policies.restrictions
        if known == held.epoch:
            return None
        blackouts = tuple(one for key in sorted(held.blackouts) for one in held.blackouts[key])
        return Restrictions(held.epoch, LanePauses(held.pauses.values()), blackouts, caps_of(self._tables))

    async def list_older_programs(self, *, protocol: int = KEEPS_RESTRICTIONS) -> list[str]:
        return []

    async def add_pauses(
        self, pauses: Sequence[Pause], *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[str]:
        if pauses:
            held = self._tables.policies.restrictions.pauses
            before = dict(held)
            for pause in pauses:
                held[pause.key] = renew(pause, held.get(pause.key))
            raise_epoch(self._tables, now)
            changed = [held.get(pause.key) != before.get(pause.key) for pause in pauses]
            write_audit(self._tables, audit, changed)
        return []

    async def lift_pauses(
        self, keys: Sequence[PauseKey], *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[bool]:
        if not keys:
            return []
        gone = {key: self._tables.policies.restrictions.pauses.pop(key, None) for key in dict.fromkeys(keys)}
        raise_epoch(self._tables, now)
        were_on = [pause is not None and pause.is_on(now) for pause in map(gone.__getitem__, keys)]
        write_audit(self._tables, audit, were_on)
        return were_on

    async def set_blackouts(
        self,
        key: PauseKey,
        blackouts: Sequence[Blackout],
        *,
        revision: int,
        now: datetime,
        audit: Sequence[AuditEntry] = (),
    ) -> BlackoutsWritten:
        if revision != self._tables.calendars.revision:
            return BlackoutsWritten(is_moved=True)
        held = self._tables.policies.restrictions.blackouts
        before = {(one.tenant, one.calendar): one for one in held.pop(key, ())}
        renewed = [renew_blackout(one, before.get((one.tenant, one.calendar))) for one in blackouts]
        if blackouts:
            held[key] = tuple(sorted(renewed, key=lambda one: (one.tenant, one.calendar)))
        raise_epoch(self._tables, now)
        write_audit(self._tables, audit, [set(renewed) != set(before.values())])
        return BlackoutsWritten()

    async def begin_blackouts(self, begun_at: datetime, *, now: datetime) -> bool:
        if self._tables.policies.restrictions.epoch >= epoch_number(begun_at):
            return False
        raise_epoch(self._tables, now)
        return True


def follow_calendars(tables: Tables, versions: Sequence[CalendarVersion]) -> None:
    """Have blackouts go by the new versions of the calendars that they follow."""
    newest = {(one.tenant, one.name): one.version for one in versions}
    held, is_moved = tables.policies.restrictions.blackouts, False
    for key, blackouts in held.items():
        moved = tuple(
            one
            if one.is_pinned
            else replace(one, version=newest.get((one.tenant, one.calendar), one.version))
            for one in blackouts
        )
        is_moved = is_moved or moved != blackouts
        held[key] = moved
    if is_moved:
        raise_epoch(tables, max(one.created_at for one in versions))


def raise_epoch(tables: Tables, now: datetime) -> None:
    """Have every claim that was chosen before give nothing."""
    held = tables.policies.restrictions
    for key in [key for key, pause in held.pauses.items() if is_over_for_long(pause, now)]:
        del held.pauses[key]
    held.epoch = max(held.epoch + 1, epoch_number(now))
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
