"""The settings that every process follows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import apsw

from mainspring.core.audit import AuditEntry
from mainspring.core.intake import WaitingCount, take_permits
from mainspring.core.queues import Queue, QueueOrder
from mainspring.core.rates import Bucket, Rate
from mainspring.core.tenants import Tenant
from mainspring.ports.store.policies import PermitRequest, Policies
from mainspring.stores.sqlite.audit import write_audit
from mainspring.stores.sqlite.connection import Database
from mainspring.stores.sqlite.rows import NamedRow, to_json, to_micros, to_optional_instant
from mainspring.stores.sqlite.statements import execute, execute_many, fetch_rows, fetch_tuples, fetch_value

_MILLISECOND = timedelta(milliseconds=1)


class SqlitePolicyStore:
    """`PolicyStore` on SQLite."""

    _browser: Database
    _reader: Database
    _writer: Database

    async def read_policies(self, *, known: int | None = None) -> Policies | None:
        """See `PolicyStore`."""
        rows = await self._reader.call(lambda db: fetch_rows(db, "read_policies", {"known": known}))
        if not rows:
            return None
        tenants = {row.tenant: _make_tenant(row) for row in rows if row.tenant is not None}
        queues = {row.queue: _make_queue(row) for row in rows if row.queue is not None}
        return Policies(revision=rows[0].number, tenants=tenants, queues=queues)

    async def write_tenants(
        self, tenants: Sequence[Tenant], *, audit: Sequence[AuditEntry] = ()
    ) -> list[bool]:
        """See `PolicyStore`."""
        if not tenants:
            return []

        def work(db: apsw.Connection) -> list[bool]:
            write_audit(db, audit, [True] * len(tenants))
            return _write_tenants(db, tenants)

        return await self._writer.call(work)

    async def write_queues(self, queues: Sequence[Queue], *, audit: Sequence[AuditEntry] = ()) -> list[bool]:
        """See `PolicyStore`."""
        if not queues:
            return []

        def work(db: apsw.Connection) -> list[bool]:
            write_audit(db, audit, [True] * len(queues))
            return _write_queues(db, queues)

        return await self._writer.call(work)

    async def count_jobs(self, tenant: str, *, most: int) -> int:
        """See `PolicyStore`."""
        values = {"tenant": tenant, "most": most}
        found: int = await self._reader.call(lambda db: fetch_value(db, "count_jobs", values))
        return found

    async def count_waiting(self, counts: Sequence[WaitingCount]) -> list[int]:
        """See `PolicyStore`."""
        if not counts:
            return []

        def work(db: apsw.Connection) -> list[int]:
            found = []
            for (owner, name), most in counts:
                values = {"queue": None, "tenant": None, owner: name, "most": most}
                found.append(fetch_value(db, "count_waiting", values))
            return found

        return await self._browser.call(work)

    async def count_running(self, tenants: Sequence[str]) -> dict[str, int]:
        """See `PolicyStore`."""
        if not tenants:
            return {}
        values = {"tenants": to_json(tenants)}
        found = await self._reader.call(lambda db: fetch_tuples(db, "count_running", values))
        return dict.fromkeys(tenants, 0) | dict(found)

    async def take_permits(
        self, requests: Sequence[PermitRequest], *, now: datetime
    ) -> list[datetime | None]:
        """See `PolicyStore`."""
        if not requests:
            return []
        return await self._writer.call(lambda db: _take_permits(db, requests, now))


def _make_tenant(row: NamedRow) -> Tenant:
    return Tenant(
        name=row.tenant,
        weight=row.weight,
        reserved=row.reserved,
        max_queued=row.max_queued,
        max_jobs=row.max_jobs,
        submit_rate=_make_submit_rate(row),
    )


def _make_submit_rate(row: NamedRow) -> Rate | None:
    return None if row.submit_count is None else Rate(row.submit_count, row.submit_per_ms * _MILLISECOND)


def _make_queue(row: NamedRow) -> Queue:
    return Queue(
        name=row.queue,
        order=QueueOrder(row.ordering),
        aging=row.aging_ms * _MILLISECOND,
        aging_share=row.aging_share,
        max_queued=row.max_queued,
        expires_after=_make_duration(row.expires_after_ms),
        preempt_after=_make_duration(row.preempt_after_ms),
    )


def _make_duration(millis: int | None) -> timedelta | None:
    return None if millis is None else millis * _MILLISECOND


def _count_millis(duration: timedelta | None) -> int | None:
    return None if duration is None else duration // _MILLISECOND


def _take_permits(
    db: apsw.Connection, requests: Sequence[PermitRequest], now: datetime
) -> list[datetime | None]:
    names = to_json(sorted({request.tenant for request in requests}))
    buckets: dict[str, Bucket] = {}
    for row in fetch_rows(db, "lock_permits", {"names": names}):
        rate = _make_submit_rate(row)
        assert rate is not None, "tenants without a rate are left out"
        buckets[row.id] = Bucket(rate, rate.usual_burst, row.permits, to_optional_instant(row.permits_at))
    answers: list[datetime | None] = []
    for request in requests:
        again_at = None
        if request.tenant in buckets:
            bucket, again_at = take_permits(buckets[request.tenant], request.count, now)
            buckets[request.tenant] = bucket
        answers.append(again_at)
    values = [
        {"name": name, "permits": bucket.level, "permits_at": to_micros(bucket.level_at or now)}
        for name, bucket in buckets.items()
    ]
    execute_many(db, "write_permits", values)
    return answers


def _write_tenants(db: apsw.Connection, tenants: Sequence[Tenant]) -> list[bool]:
    names = [tenant.name for tenant in tenants]
    known = {name for (name,) in fetch_tuples(db, "find_tenants", {"names": to_json(names)})}
    last = {tenant.name: tenant for tenant in tenants}
    values = [
        [
            tenant.name,
            tenant.weight,
            tenant.max_queued,
            tenant.max_jobs,
            None if tenant.submit_rate is None else tenant.submit_rate.count,
            None if tenant.submit_rate is None else tenant.submit_rate.per // _MILLISECOND,
            tenant.reserved,
        ]
        for tenant in last.values()
    ]
    execute(db, "write_tenants", {"tenants": to_json(values)})
    execute(db, "raise_revision", {})
    return [name not in known for name in names]


def _write_queues(db: apsw.Connection, queues: Sequence[Queue]) -> list[bool]:
    names = [queue.name for queue in queues]
    known = {name for (name,) in fetch_tuples(db, "find_queues", {"names": to_json(names)})}
    last = {queue.name: queue for queue in queues}
    values = [
        [
            queue.name,
            queue.order.value,
            queue.aging // _MILLISECOND,
            queue.aging_share,
            queue.max_queued,
            _count_millis(queue.expires_after),
            _count_millis(queue.preempt_after),
        ]
        for queue in last.values()
    ]
    execute(db, "write_queues", {"queues": to_json(values)})
    execute(db, "raise_revision", {})
    return [name not in known for name in names]
