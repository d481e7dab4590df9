"""Use cases on tenants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mainspring.core.actors import Actor
from mainspring.core.audit import AuditEntry, Subject, entries, show_settings
from mainspring.core.fields import read_word
from mainspring.core.lane_caps import CapKey, CapScope, LaneCap
from mainspring.core.tenants import TENANT_OPTIONS, Tenant, change_tenant
from mainspring.engine.usecases.caps import CapSwitch
from mainspring.ports.clock import Clock
from mainspring.ports.store import Store


class Tenants:
    """What is set for tenants. A tenant need not be created: it is there when somebody acts for it."""

    def __init__(self, store: Store, caps: CapSwitch, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._caps = caps

    async def get(self, name: str) -> Tenant:
        """Return a tenant's settings, the defaults if nothing was set.

        Raises:
            InvalidInput: this cannot be a tenant's name.
        """
        found = (await self._read()).get(read_word(name, "tenant"), Tenant(name=name))
        [tenant] = await self._with_caps([found])
        return tenant

    async def list_page(self, *, after: str | None = None, limit: int = 100) -> list[Tenant]:
        """Return a page of the tenants for which something was set, by name."""
        tenants = await self._read()
        names = sorted(name for name in tenants if after is None or name > after)
        return await self._with_caps([tenants[name] for name in names[:limit]])

    async def running(self, tenants: Sequence[Tenant]) -> list[int | None]:
        """Return how many runs of each are under way, as far as they have caps."""
        names = [tenant.name for tenant in tenants]
        return [cap.running for cap in await self._caps.show(CapScope.TENANT, names)]

    async def _with_caps(self, tenants: Sequence[Tenant]) -> list[Tenant]:
        caps = await self._caps.read()
        return [
            replace(tenant, max_running=caps.get(CapKey(CapScope.TENANT, tenant.name))) for tenant in tenants
        ]

    async def put(
        self, name: str, body: Mapping[str, Any], *, by: Actor | None = None
    ) -> tuple[Tenant, bool]:
        """Set what a body says, and the defaults for what it leaves out. Return that, and whether nothing was set.

        Raises:
            InvalidInput: a value is wrong. Nothing is stored.
            Conflict: it has a cap on what runs, and programs of an older release are running, which would not keep it.
                Nothing is stored.
        """
        tenant = change_tenant(Tenant(name=read_word(name, "tenant")), body)
        await self._caps.set(LaneCap(CapKey(CapScope.TENANT, name), tenant.max_running), by=by)
        audit = () if by is None else await self._tell(by, tenant)
        [is_new] = await self._store.write_tenants([replace(tenant, max_running=None)], audit=audit)
        return tenant, is_new

    async def _tell(self, by: Actor, tenant: Tenant) -> tuple[AuditEntry, ...]:
        """Tell of settings but for the cap, which has been told of when it was set."""
        name = tenant.name
        old = (await self._read()).get(name, Tenant(name=name))
        return entries(
            by,
            Subject(kind="tenant", id=name, tenant=name),
            at=self._clock.now(),
            before=_show(old),
            after=_show(tenant),
        )

    async def _read(self) -> Mapping[str, Tenant]:
        policies = await self._store.read_policies()
        assert policies is not None, "nothing is known, so all is read"
        return policies.tenants


def _show(tenant: Tenant) -> dict[str, Any]:
    plain = show_settings(TENANT_OPTIONS, tenant)
    del plain["max_running"]
    return plain
