"""Use cases on pauses of queues, of tenants, and of everything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainspring.core.actors import Actor
from mainspring.core.audit import entries
from mainspring.core.fields import read_word
from mainspring.core.pauses import Pause, PauseKey, PauseScope, read_pause
from mainspring.core.times import write_instant
from mainspring.engine.common.wakeups import Wakeups
from mainspring.engine.usecases import auditing
from mainspring.errors import Conflict
from mainspring.ports.clock import Clock
from mainspring.ports.store import Store


class PauseSwitch:
    """Stops what belongs to a queue or a tenant, or everything, and lets it go on."""

    def __init__(self, store: Store, *, clock: Clock, wakeups: Wakeups) -> None:
        self._store = store
        self._clock = clock
        self._wakeups = wakeups

    async def list_all(self) -> list[Pause]:
        """Return the pauses that are on."""
        restrictions = await self._store.read_restrictions()
        assert restrictions is not None, "nothing is known, so all is read"
        return [*restrictions.pauses.on(self._clock.now())]

    async def pause(
        self, scope: PauseScope, name: str, body: Mapping[str, Any], *, made_by: str, by: Actor | None = None
    ) -> list[Pause]:
        """Pause, or replace the pause of the same. Return the pauses that are on.

        When this returns, no worker gets a run of it any more; runs under way go on.

        Args:
            name: of the queue or tenant; empty for everything.
            by: who does it, for the audit.

        Raises:
            InvalidInput: a value is wrong. Nothing is stored.
            Conflict: programs of an older release are running, which would not keep the pause.
        """
        now = self._clock.now()
        pause = read_pause(key_of(scope, name), body, made_by=made_by, now=now)
        after = {"mode": pause.mode.value, "note": pause.note}
        after |= {} if pause.until is None else {"until": write_instant(pause.until)}
        audit = entries(by, auditing.of_lanes(pause.key), at=now, after=after)
        older = await self._store.add_pauses([pause], now=now, audit=audit)
        if older:
            running = ", ".join(older)
            raise Conflict("release", f"an older release is running, and would keep no pause: {running}")
        self._wakeups.restrictions_changed()
        return await self.list_all()

    async def resume(self, scope: PauseScope, name: str, *, by: Actor | None = None) -> list[Pause]:
        """End a pause, if there is one. Return the pauses that are still on.

        Raises:
            InvalidInput: this cannot be the name of a queue or tenant.
        """
        key, now = key_of(scope, name), self._clock.now()
        await self._store.lift_pauses([key], now=now, audit=entries(by, auditing.of_lanes(key), at=now))
        self._wakeups.restrictions_changed()
        return await self.list_all()


def key_of(scope: PauseScope, name: str) -> PauseKey:
    """Return what is paused.

    Raises:
        InvalidInput: this cannot be the name of a queue or tenant.
    """
    return PauseKey(scope, name if scope is PauseScope.ALL else read_word(name, scope.value))
