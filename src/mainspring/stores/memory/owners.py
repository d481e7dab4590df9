"""Which jobs come from the code of which owner."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import islice

from mainspring.core.audit import AuditEntry
from mainspring.core.ids import JobId
from mainspring.core.model import Job
from mainspring.core.owners import OwnedJob, OwnerChange, judge_owner
from mainspring.stores.memory.audit import write_audit
from mainspring.stores.memory.tables import Tables


class MemoryOwnerStore:
    """`OwnerStore` in memory."""

    _tables: Tables

    async def own_jobs(
        self,
        tenant: str,
        owner: str,
        names: Sequence[str],
        *,
        now: datetime,
        audit: Sequence[AuditEntry] = (),
    ) -> OwnerChange:
        jobs = self._tables.jobs
        of_tenant = (jobs[JobId(key[0])] for key in self._tables.jobs_of_tenant[tenant])
        wanted = frozenset(names)
        change = judge_owner(
            owner,
            names,
            [
                OwnedJob(job.id, job.spec.name, job.owner, job.undefined_since is None)
                for job in of_tenant
                if job.owner == owner or job.spec.name in wanted
            ],
        )
        for job_id in change.defined:
            jobs[job_id].owner, jobs[job_id].undefined_since = owner, None
            jobs[job_id].revision += 1
        for job_id in change.undefined:
            jobs[job_id].undefined_since = now
        write_audit(self._tables, audit, [change.is_change])
        return change

    async def list_owned(
        self, tenant: str, owner: str, *, after: JobId | None = None, limit: int = 100
    ) -> list[Job]:
        keys = self._tables.jobs_of_tenant[tenant].above(None if after is None else (after,))
        jobs = (self._tables.jobs[JobId(key[0])] for key in keys)
        return [job.view() for job in islice((job for job in jobs if job.owner == owner), limit)]

    async def list_undefined(
        self, tenant: str, *, owner: str | None = None, after: JobId | None = None, limit: int = 100
    ) -> list[Job]:
        keys = self._tables.jobs_of_tenant[tenant].above(None if after is None else (after,))
        jobs = (self._tables.jobs[JobId(key[0])] for key in keys)
        found = (job for job in jobs if job.undefined_since is not None and owner in {None, job.owner})
        return [job.view() for job in islice(found, limit)]

    async def page_jobs(self, *, after: tuple[str, JobId] | None = None, limit: int = 100) -> list[Job]:
        jobs = sorted(self._tables.jobs.values(), key=lambda job: (job.tenant, job.id))
        following = (job for job in jobs if after is None or (job.tenant, job.id) > after)
        return [job.view() for job in islice(following, limit)]
