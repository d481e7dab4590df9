"""Use cases on blackouts: what stands still while a calendar holds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from mainspring.core.actors import Actor
from mainspring.core.audit import entries
from mainspring.core.blackouts import Blackout, BlackoutState, WantedBlackout, read_blackouts, state_of
from mainspring.core.ids import DEFAULT_TENANT
from mainspring.core.pauses import LanePauses, PauseKey, PauseScope
from mainspring.engine.common.restrictions import RestrictionReader
from mainspring.engine.common.wakeups import Wakeups
from mainspring.engine.usecases import auditing
from mainspring.engine.usecases.pauses import key_of
from mainspring.errors import Conflict, InvalidInput, StoreUnavailable
from mainspring.ports.clock import Clock
from mainspring.ports.store import Store

_TRIES = 20


class Blackouts:
    """Says by which calendars queues, tenants and everything stand still."""

    def __init__(self, store: Store, reader: RestrictionReader, *, clock: Clock, wakeups: Wakeups) -> None:
        self._store = store
        self._reader = reader
        self._clock = clock
        self._wakeups = wakeups

    async def read(self) -> LanePauses:
        """Return what is paused, and all blackouts, ready to be asked."""
        found = await self._reader.read()
        assert found is not None, "nothing is known, so all is read"
        return found.pauses

    async def list_all(self) -> list[BlackoutState]:
        """Return all blackouts as they stand, in order of what they stop."""
        found, now = await self.read(), self._clock.now()
        return [state_of(window, now) for window in found.blackouts]

    async def list_of(self, scope: PauseScope, name: str) -> list[BlackoutState]:
        """Return the blackouts of a queue, of a tenant, or of everything.

        Raises:
            InvalidInput: this cannot be the name of a queue or tenant.
        """
        key = key_of(scope, name)
        return [state for state in await self.list_all() if state.blackout.key == key]

    async def put(
        self,
        scope: PauseScope,
        name: str,
        body: Mapping[str, Any],
        *,
        tenant: str,
        made_by: str,
        by: Actor | None = None,
    ) -> list[BlackoutState]:
        """Give a queue, a tenant or everything these blackouts, instead of those that it has. Return them.

        When this returns, no worker gets a run while one of them holds; runs under way go on.

        Args:
            name: of the queue or tenant; empty for everything.
            tenant: whose calendars a queue's blackouts name. Those of a tenant name its own ones, and those of
                everything name the default tenant's.
            by: who does it, for the audit.

        Raises:
            InvalidInput: a value is wrong, or there is no such calendar. Nothing is stored.
            Conflict: programs of an older release are running, which would keep no blackout.
        """
        key, wanted = key_of(scope, name), read_blackouts(body)
        owner = {PauseScope.QUEUE: tenant, PauseScope.TENANT: name, PauseScope.ALL: DEFAULT_TENANT}[scope]
        for _ in range(_TRIES):
            now = self._clock.now()
            # The revision first: if something is written in between, it no longer fits, and the write fails.
            revision = await self._store.read_calendar_revision()
            blackouts = await self._make(key, wanted, owner=owner, made_by=made_by, now=now)
            after = {"calendars": [f"{one.tenant}/{one.named}" for one in blackouts]}
            audit = entries(by, auditing.of_lanes(key), at=now, after=after)
            written = await self._store.set_blackouts(
                key, blackouts=blackouts, revision=revision, now=now, audit=audit
            )
            if written.older:
                running = ", ".join(written.older)
                raise Conflict(
                    "release", f"an older release is running, and would keep no blackout: {running}"
                )
            if not written.is_moved:
                self._wakeups.restrictions_changed()
                return await self.list_of(scope, name)
        raise StoreUnavailable("the calendars kept changing")

    async def _make(
        self, key: PauseKey, wanted: list[WantedBlackout], *, owner: str, made_by: str, now: datetime
    ) -> list[Blackout]:
        found = await self._store.read_calendars(
            owner, [(one.calendar.name, one.calendar.version) for one in wanted]
        )
        blackouts: list[Blackout] = []
        for number, (one, version) in enumerate(zip(wanted, found, strict=True)):
            if version is None or version.is_deleted:
                raise InvalidInput(
                    f"items[{number}].calendar",
                    f"tenant {owner!r} has no calendar {str(one.calendar)!r}; create it first",
                )
            blackouts.append(
                Blackout(
                    scope=key.scope,
                    name=key.name,
                    tenant=owner,
                    calendar=version.name,
                    version=version.version,
                    is_pinned=one.calendar.version is not None,
                    mode=one.mode,
                    note=one.note,
                    made_by=made_by,
                    since=now,
                )
            )
        return blackouts
