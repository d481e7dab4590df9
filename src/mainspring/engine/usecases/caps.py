"""Use cases on the caps of queues, tenants and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mainspring.core.actors import Actor
from mainspring.core.fields import read_word
from mainspring.core.lane_caps import CapKey, CapScope, LaneCap, LaneCaps, read_label_cap
from mainspring.engine.common.wakeups import Wakeups
from mainspring.engine.usecases import auditing
from mainspring.errors import Conflict
from mainspring.ports.clock import Clock
from mainspring.ports.store import Store


class ShownCap(NamedTuple):
    """A cap, and how much of it is taken.

    Attributes:
        max_running: how many runs may be under way at a time; None is no cap.
        running: how many of them are under way; None without a cap, as nobody counts them then.
    """

    max_running: int | None
    running: int | None


NO_CAP = ShownCap(None, None)


class CapSwitch:
    """Sets how many runs of a queue, of a tenant or with a label may be under way, and shows how many are."""

    def __init__(self, store: Store, *, clock: Clock, wakeups: Wakeups) -> None:
        self._store = store
        self._clock = clock
        self._wakeups = wakeups

    async def read(self) -> LaneCaps:
        """Return the caps that are set."""
        restrictions = await self._store.read_restrictions()
        assert restrictions is not None, "nothing is known, so all is read"
        return restrictions.caps

    async def set(self, cap: LaneCap, *, by: Actor | None = None) -> None:
        """Set a cap, or unset it. When this returns, no run starts beyond it; those under way go on.

        Raises:
            Conflict: programs of an older release are running, which would not keep the cap.
        """
        old = (await self.read()).get(cap.key)
        if old == cap.max_running:
            return
        now = self._clock.now()
        older = await self._store.write_caps([cap], now=now, audit=auditing.cap_set(by, cap, old, now))
        if older:
            running = ", ".join(older)
            raise Conflict("release", f"an older release is running, and would keep no cap: {running}")
        self._wakeups.restrictions_changed()

    async def show(self, scope: CapScope, names: Sequence[str]) -> list[ShownCap]:
        """Return the caps of queues, tenants or labels."""
        caps = await self.read()
        keys = [CapKey(scope, name) for name in names]
        capped = [key for key in keys if caps.get(key) is not None]
        uses = dict(zip(capped, await self._store.read_cap_uses(capped), strict=True))
        return [ShownCap(caps.get(key), uses[key].held) if key in uses else NO_CAP for key in keys]


class Labels:
    """What is set for labels. A label need not be created: it is there when a job or a worker names it."""

    def __init__(self, caps: CapSwitch) -> None:
        self._caps = caps

    async def get(self, name: str) -> ShownCap:
        """Return the cap of a label.

        Raises:
            InvalidInput: this cannot be a label's name.
        """
        [shown] = await self._caps.show(CapScope.LABEL, [read_word(name, "label")])
        return shown

    async def list_page(self, *, after: str | None = None, limit: int = 100) -> list[tuple[str, ShownCap]]:
        """Return a page of the labels that have a cap, by name."""
        caps = (await self._caps.read()).of(CapScope.LABEL)
        names = [cap.key.name for cap in caps if after is None or cap.key.name > after][:limit]
        return list(zip(names, await self._caps.show(CapScope.LABEL, names), strict=True))

    async def put(
        self, name: str, body: Mapping[str, Any], *, by: Actor | None = None
    ) -> tuple[ShownCap, bool]:
        """Set what a body says; no cap if it leaves that out. Return it, and whether there was none before.

        Raises:
            InvalidInput: a value is wrong. Nothing is stored.
            Conflict: see `CapSwitch.set`.
        """
        cap = read_label_cap(read_word(name, "label"), body)
        is_new = (await self._caps.read()).get(cap.key) is None
        await self._caps.set(cap, by=by)
        return await self.get(name), is_new

    async def delete(self, name: str, *, by: Actor | None = None) -> None:
        """Unset the cap of a label, if it has one."""
        await self._caps.set(LaneCap(CapKey(CapScope.LABEL, read_word(name, "label")), None), by=by)
