"""Use cases on tenants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mainspring.core.fields import read_word
from mainspring.core.tenants import Tenant, change_tenant
from mainspring.ports.store import Store


class Tenants:
    """What is set for tenants. A tenant need not be created: it is there when somebody acts for it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get(self, name: str) -> Tenant:
        """Return a tenant's settings, the defaults if nothing was set.

        Raises:
            InvalidInput: this cannot be a tenant's name.
        """
        return (await self._read()).get(read_word(name, "tenant"), Tenant(name=name))

    async def list_page(self, *, after: str | None = None, limit: int = 100) -> list[Tenant]:
        """Return a page of the tenants for which something was set, by name."""
        tenants = await self._read()
        names = sorted(name for name in tenants if after is None or name > after)
        return [tenants[name] for name in names[:limit]]

    async def put(self, name: str, body: Mapping[str, Any]) -> tuple[Tenant, bool]:
        """Set what a body says, and the defaults for what it leaves out. Return that, and whether nothing was set.

        Raises:
            InvalidInput: a value is wrong. Nothing is stored.
        """
        tenant = change_tenant(Tenant(name=read_word(name, "tenant")), body)
        [is_new] = await self._store.write_tenants([tenant])
        return tenant, is_new

    async def _read(self) -> Mapping[str, Tenant]:
        policies = await self._store.read_policies()
        assert policies is not None, "nothing is known, so all is read"
        return policies.tenants
