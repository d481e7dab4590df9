"""The settings that every process follows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import apsw

from mainspring.core.queues import Queue, QueueOrder
from mainspring.core.tenants import Tenant
from mainspring.ports.store.policies import Policies
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.rows import to_json
from mainspring.stores.sqlite.statements import execute, fetch_rows, fetch_tuples


class SqlitePolicyStore:
    """`PolicyStore` on SQLite."""

    _reader: Database
    _writer: Database

    async def read_policies(self, *, known: int | None = None) -> Policies | None:
        """See `PolicyStore`."""
        rows = await self._reader.call(lambda db: fetch_rows(db, "read_policies", {"known": known}))
        if not rows:
            return None
        tenants = {
            row.tenant: Tenant(name=row.tenant, weight=row.weight) for row in rows if row.tenant is not None
        }
        queues = {
            row.queue: Queue(
                name=row.queue,
                order=QueueOrder(row.ordering),
                aging=timedelta(milliseconds=row.aging_ms),
                aging_share=row.aging_share,
            )
            for row in rows
            if row.queue is not None
        }
        return Policies(revision=rows[0].number, tenants=tenants, queues=queues)

    async def write_tenants(self, tenants: Sequence[Tenant]) -> list[bool]:
        """See `PolicyStore`."""
        if not tenants:
            return []
        return await self._writer.call(lambda db: _write_tenants(db, tenants))

    async def write_queues(self, queues: Sequence[Queue]) -> list[bool]:
        """See `PolicyStore`."""
        if not queues:
            return []
        return await self._writer.call(lambda db: _write_queues(db, queues))


def _write_tenants(db: apsw.Connection, tenants: Sequence[Tenant]) -> list[bool]:
    names = [tenant.name for tenant in tenants]
    known = {name for (name,) in fetch_tuples(db, "find_tenants", {"names": to_json(names)})}
    last = {tenant.name: tenant for tenant in tenants}
    values = [[tenant.name, tenant.weight] for tenant in last.values()]
    execute(db, "write_tenants", {"tenants": to_json(values)})
    execute(db, "raise_revision", {})
    return [name not in known for name in names]


def _write_queues(db: apsw.Connection, queues: Sequence[Queue]) -> list[bool]:
    names = [queue.name for queue in queues]
    known = {name for (name,) in fetch_tuples(db, "find_queues", {"names": to_json(names)})}
    last = {queue.name: queue for queue in queues}
    values = [
        [queue.name, queue.order.value, queue.aging // timedelta(milliseconds=1), queue.aging_share]
        for queue in last.values()
    ]
    execute(db, "write_queues", {"queues": to_json(values)})
    execute(db, "raise_revision", {})
    return [name not in known for name in names]
