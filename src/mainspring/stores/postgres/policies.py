"""The settings that every process follows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from asyncpg import Record

from mainspring.core.audit import AuditEntry
from mainspring.core.intake import WaitingCount, take_permits
from mainspring.core.queues import Queue, QueueOrder
from mainspring.core.rates import Bucket, Rate
from mainspring.core.tenants import Tenant
from mainspring.ports.store.policies import PermitRequest, Policies
from mainspring.stores.postgres.audit import write_audit
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections, Transaction

_MILLISECOND = timedelta(milliseconds=1)


class PostgresPolicyStore:
    """`PolicyStore` on PostgreSQL."""

    _connections: Connections

    async def read_policies(self, *, known: int | None = None) -> Policies | None:
        rows = await self._connections.fetch(Role.WATCH, "read_policies", is_repeatable=True, known=known)
        if not rows:
            return None
        tenants = [_make_tenant(row) for row in rows if row["tenant"] is not None]
        queues = [_make_queue(row) for row in rows if row["queue"] is not None]
        return Policies(
            revision=rows[0]["number"],
            tenants={tenant.name: tenant for tenant in tenants},
            queues={queue.name: queue for queue in queues},
        )

    async def write_tenants(
        self, tenants: Sequence[Tenant], *, audit: Sequence[AuditEntry] = ()
    ) -> list[bool]:
        if not tenants:
            return []
        last = {tenant.name: tenant for tenant in tenants}

        async def work(transaction: Transaction) -> list[bool]:
            await transaction.execute("raise_revision")
            rows = await transaction.fetch("find_tenants", names=list(last))
            known = {row["id"] for row in rows}
            rates = [tenant.submit_rate for tenant in last.values()]
            await transaction.execute(
                "write_tenants",
                names=list(last),
                weights=[tenant.weight for tenant in last.values()],
                tenant_caps=[tenant.max_queued for tenant in last.values()],
                job_caps=[tenant.max_jobs for tenant in last.values()],
                submit_counts=[None if rate is None else rate.count for rate in rates],
                submit_periods_ms=[None if rate is None else rate.per // _MILLISECOND for rate in rates],
                reserves=[tenant.reserved for tenant in last.values()],
            )
            await write_audit(transaction, audit, [True] * len(tenants))
            return [tenant.name not in known for tenant in tenants]

        return await self._connections.transact(Role.EDIT, work)

    async def write_queues(self, queues: Sequence[Queue], *, audit: Sequence[AuditEntry] = ()) -> list[bool]:
        if not queues:
            return []
        last = {queue.name: queue for queue in queues}

        async def work(transaction: Transaction) -> list[bool]:
            await transaction.execute("raise_revision")
            rows = await transaction.fetch("find_queues", names=list(last))
            known = {row["name"] for row in rows}
            await transaction.execute(
                "write_queues",
                names=list(last),
                orders=[queue.order for queue in last.values()],
                agings=[queue.aging // _MILLISECOND for queue in last.values()],
                shares=[queue.aging_share for queue in last.values()],
                queue_caps=[queue.max_queued for queue in last.values()],
                expiries_ms=[_count_millis(queue.expires_after) for queue in last.values()],
                preempts_ms=[_count_millis(queue.preempt_after) for queue in last.values()],
            )
            await write_audit(transaction, audit, [True] * len(queues))
            return [queue.name not in known for queue in queues]

        return await self._connections.transact(Role.EDIT, work)

    async def count_jobs(self, tenant: str, *, most: int) -> int:
        [row] = await self._connections.fetch(
            Role.READ, "count_jobs", is_repeatable=True, tenant=tenant, most=most
        )
        found: int = row["jobs"]
        return found

    async def count_waiting(self, counts: Sequence[WaitingCount]) -> list[int]:
        if not counts:
            return []
        scopes = [scope for scope, _ in counts]
        rows = await self._connections.fetch(
            Role.BROWSE,
            "count_waiting",
            is_repeatable=True,
            queues=[scope.name if scope.owner == "queue" else None for scope in scopes],
            tenants=[scope.name if scope.owner == "tenant" else None for scope in scopes],
            mosts=[count.most for count in counts],
        )
        return [row["runs"] for row in rows]

    async def count_running(self, tenants: Sequence[str]) -> dict[str, int]:
        if not tenants:
            return {}
        rows = await self._connections.fetch(
            Role.WATCH, "count_running", is_repeatable=True, tenants=list(tenants)
        )
        return dict.fromkeys(tenants, 0) | {row["tenant"]: row["runs"] for row in rows}

    async def take_permits(
        self, requests: Sequence[PermitRequest], *, now: datetime
    ) -> list[datetime | None]:
        if not requests:
            return []
        names = sorted({request.tenant for request in requests})

        async def work(transaction: Transaction) -> list[datetime | None]:
            rows = await transaction.fetch("lock_permits", names=names)
            buckets = {row["id"]: _make_bucket(row) for row in rows}
            answers: list[datetime | None] = []
            for request in requests:
                again_at = None
                if request.tenant in buckets:
                    bucket, again_at = take_permits(buckets[request.tenant], request.count, now)
                    buckets[request.tenant] = bucket
                answers.append(again_at)
            if buckets:
                await transaction.execute(
                    "write_permits",
                    names=list(buckets),
                    permits=[bucket.level for bucket in buckets.values()],
                    permits_at=[bucket.level_at for bucket in buckets.values()],
                )
            return answers

        return await self._connections.transact(Role.EDIT, work)


def _make_tenant(row: Record) -> Tenant:
    return Tenant(
        name=row["tenant"],
        weight=row["weight"],
        reserved=row["reserved"],
        max_queued=row["max_queued"],
        max_jobs=row["max_jobs"],
        submit_rate=_make_submit_rate(row),
    )


def _make_submit_rate(row: Record) -> Rate | None:
    count = row["submit_count"]
    return None if count is None else Rate(count, row["submit_per_ms"] * _MILLISECOND)


def _make_bucket(row: Record) -> Bucket:
    rate = _make_submit_rate(row)
    assert rate is not None, "tenants without a rate are left out"
    return Bucket(rate, rate.usual_burst, row["permits"], row["permits_at"])


def _make_queue(row: Record) -> Queue:
    return Queue(
        name=row["queue"],
        order=QueueOrder(row["ordering"]),
        aging=row["aging_ms"] * _MILLISECOND,
        aging_share=row["aging_share"],
        max_queued=row["max_queued"],
        expires_after=_make_duration(row["expires_after_ms"]),
        preempt_after=_make_duration(row["preempt_after_ms"]),
    )


def _make_duration(millis: int | None) -> timedelta | None:
    return None if millis is None else millis * _MILLISECOND


def _count_millis(duration: timedelta | None) -> int | None:
    return None if duration is None else duration // _MILLISECOND
