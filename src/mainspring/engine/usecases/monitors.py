"""Use cases on monitors, which watch jobs that run elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mainspring.core.actors import Actor
from mainspring.core.alerts import check_count
from mainspring.core.audit import Subject, entries
from mainspring.core.fields import read_word
from mainspring.core.monitors import (
    KEY_BYTES,
    MOST_MONITORS_OF_TENANT,
    Monitor,
    Ping,
    PingKind,
    hash_key,
    judge_monitor,
    make_monitor,
    ping_of_exit,
    plain_from_plan,
    take_ping,
    write_key,
)
from mainspring.core.triggers import store_trigger
from mainspring.core.values import value
from mainspring.errors import NotFound
from mainspring.ports.clock import Clock, IdSource
from mainspring.ports.store import Store


@value()
class SetMonitor:
    """A monitor that was set.

    Attributes:
        key: that its pings bear, if it is new; the store keeps only its hash.
    """

    monitor: Monitor
    key: str | None


class Monitors:
    """The monitors of tenants. What is returned is as it is known now."""

    def __init__(self, store: Store, *, clock: Clock, ids: IdSource) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids

    async def list_all(self, tenant: str) -> list[Monitor]:
        """Return the monitors of a tenant, by name."""
        now = self._clock.now()
        return [judge_monitor(monitor, now) for monitor in await self._store.list_monitors(tenant)]

    async def get(self, tenant: str, name: str) -> Monitor:
        """Return a monitor.

        Raises:
            NotFound: there is none of that name.
        """
        stored = await self._store.get_monitor(tenant, name)
        if stored is None:
            raise NotFound("monitor", name)
        return judge_monitor(stored.monitor, self._clock.now())

    async def put(
        self, tenant: str, name: str, body: Mapping[str, Any], *, by: Actor | None = None
    ) -> SetMonitor:
        """Set what a body says, and the defaults for what it leaves out. A monitor that there is keeps its key.

        Raises:
            InvalidInput: a field is wrong. Nothing is stored.
            Conflict: the tenant has as many monitors as it may.
        """
        read_word(name, "monitor")
        while True:  # until no other has changed it in between
            now = self._clock.now()
            stored = await self._store.get_monitor(tenant, name)
            old = None if stored is None else stored.monitor
            monitor = make_monitor(tenant, name, body, now=now, old=old)
            audit = entries(
                by,
                Subject(kind="monitor", id=name, tenant=tenant),
                at=now,
                before=None if old is None else _show(old),
                after=_show(monitor),
            )
            if stored is not None:
                if await self._store.save_monitor(replace(stored, monitor=monitor), audit=audit):
                    return SetMonitor(monitor, None)
                continue
            held = len(await self._store.list_monitors(tenant))
            check_count(held, MOST_MONITORS_OF_TENANT, tenant, field="monitor", noun="monitors")
            key = write_key(self._ids.new_secret(KEY_BYTES))
            key_hash = hash_key(key)
            assert key_hash is not None, "it has the form of a key"
            if await self._store.add_monitor(monitor, key_hash=key_hash, audit=audit):
                return SetMonitor(monitor, key)

    async def delete(self, tenant: str, name: str, *, by: Actor | None = None) -> None:
        """Delete a monitor. Its key is worth nothing from then on.

        Raises:
            NotFound: there is none of that name.
        """
        monitor = await self.get(tenant, name)
        subject = Subject(kind="monitor", id=name, tenant=tenant)
        audit = entries(by, subject, at=self._clock.now(), before=_show(monitor))
        if not await self._store.delete_monitor(tenant, name, audit=audit):
            raise NotFound("monitor", name)

    async def take_ping(self, key: str, kind: PingKind, *, exit_code: int | None = None) -> Monitor:
        """Note what a job says, and return its monitor.

        Args:
            exit_code: how the job ended; it says whether that was a success.

        Raises:
            NotFound: no monitor has this key.
        """
        key_hash = hash_key(key)
        while key_hash is not None:
            stored = await self._store.find_monitor(key_hash)
            if stored is None:
                break
            now = self._clock.now()
            ping = Ping(kind, now) if exit_code is None else ping_of_exit(exit_code, now)
            monitor = take_ping(stored.monitor, ping)
            if await self._store.save_monitor(replace(stored, monitor=monitor)):
                return monitor
        raise NotFound("monitor with the key", f"{key[:4]}…")


def _show(monitor: Monitor) -> dict[str, Any]:
    return {"trigger": store_trigger(monitor.plan.trigger), **plain_from_plan(monitor.plan)}
