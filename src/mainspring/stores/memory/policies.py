"""The settings that every process follows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from typing import TypeVar

from mainspring.core.audit import AuditEntry
from mainspring.core.intake import WaitingCount, take_permits
from mainspring.core.queues import Queue
from mainspring.core.rates import Bucket
from mainspring.core.states import READY_STATES
from mainspring.core.tenants import Tenant
from mainspring.ports.store.policies import PermitRequest, Policies
from mainspring.stores.memory.audit import write_audit
from mainspring.stores.memory.tables import Tables

T = TypeVar("T", Tenant, Queue)


class MemoryPolicyStore:
    """`PolicyStore` in memory."""

    _tables: Tables

    async def read_policies(self, *, known: int | None = None) -> Policies | None:
        tables = self._tables
        if known == tables.policies.revision:
            return None
        return Policies(
            revision=tables.policies.revision,
            tenants=dict(tables.policies.tenants),
            queues=dict(tables.policies.queues),
        )

    async def write_tenants(
        self, tenants: Sequence[Tenant], *, audit: Sequence[AuditEntry] = ()
    ) -> list[bool]:
        return self._write(self._tables.policies.tenants, tenants, audit)

    async def write_queues(self, queues: Sequence[Queue], *, audit: Sequence[AuditEntry] = ()) -> list[bool]:
        return self._write(self._tables.policies.queues, queues, audit)

    def _write(self, settings: dict[str, T], changed: Sequence[T], audit: Sequence[AuditEntry]) -> list[bool]:
        if not changed:
            return []
        are_new = [one.name not in settings for one in changed]
        settings.update((one.name, one) for one in changed)
        self._tables.policies.revision += 1
        write_audit(self._tables, audit, [True] * len(changed))
        return are_new

    async def count_jobs(self, tenant: str, *, most: int) -> int:
        return len(list(islice(self._tables.jobs_of_tenant[tenant].above(None), most)))

    async def count_waiting(self, counts: Sequence[WaitingCount]) -> list[int]:
        found = dict.fromkeys((count.scope for count in counts), 0)
        for run in self._tables.runs.values():
            if run.state in READY_STATES:
                for scope in (("queue", run.lane.key.queue), ("tenant", run.tenant)):
                    if scope in found:
                        found[scope] += 1
        return [min(found[count.scope], count.most) for count in counts]

    async def count_running(self, tenants: Sequence[str]) -> dict[str, int]:
        found = dict.fromkeys(tenants, 0)
        for run in self._tables.runs.values():
            if run.takes_slot and run.tenant in found:
                found[run.tenant] += 1
        return found

    async def take_permits(
        self, requests: Sequence[PermitRequest], *, now: datetime
    ) -> list[datetime | None]:
        policies, answers = self._tables.policies, list[datetime | None]()
        for request in requests:
            tenant = request.tenant
            found = policies.tenants.get(tenant)
            if found is None or found.submit_rate is None:
                answers.append(None)
                continue
            level, level_at = policies.permits.get(tenant, (None, None))
            rate = found.submit_rate
            bucket, again_at = take_permits(
                Bucket(rate, rate.usual_burst, level, level_at), request.count, now
            )
            policies.permits[tenant] = (bucket.level, bucket.level_at)
            answers.append(again_at)
        return answers
