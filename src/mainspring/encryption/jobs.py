"""The verbs that write and read definitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from mainspring.core.audit import AuditEntry
from mainspring.core.clocks import ChangeVerdict
from mainspring.core.ids import JobId
from mainspring.core.model import Job, JobSpec
from mainspring.core.owners import OwnerChange
from mainspring.encryption.fields import Fields, Place
from mainspring.ports.store import Store
from mainspring.ports.store.applying import JobsChange
from mainspring.ports.store.jobs import AddResult, JobEdit, NewJob

_MOST_TENANTS = 100_000


class JobTenants:
    """Whose jobs are which. A job never changes its tenant, so it is asked for once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[JobId, str] = {}

    async def find(self, job_ids: Iterable[JobId]) -> Mapping[JobId, str]:
        """Return the tenants of jobs; unknown jobs are left out."""
        wanted = {job_id: self._known.get(job_id) for job_id in job_ids}
        missing = [job_id for job_id, tenant in wanted.items() if tenant is None]
        if missing:
            read = await self._store.read_job_tenants(missing)
            if len(self._known) + len(read) > _MOST_TENANTS:
                self._known.clear()
            self._known |= read
            wanted |= read
        return {job_id: tenant for job_id, tenant in wanted.items() if tenant is not None}


class EncryptedJobs:
    """Definitions: encrypted as they are written, decrypted as they are read.

    A definition that cannot be decrypted holds up nothing but its job: it says why, in the place of what is encrypted.
    What the store schedules by is plain, so the job's clock goes on, and the job can be paused, replaced and deleted.
    """

    _store: Store
    _fields: Fields
    _tenants: JobTenants

    async def add_jobs(
        self, jobs: Sequence[NewJob], *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[AddResult]:
        """See `JobStore`."""
        return await self._store.add_jobs([self._encrypt_job(job) for job in jobs], now=now, audit=audit)

    async def edit_jobs(
        self, edits: Sequence[JobEdit], *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[ChangeVerdict]:
        """See `JobStore`."""
        encrypted = await self._encrypt_edits(edits)
        return await self._store.edit_jobs(encrypted, now=now, audit=audit)

    async def apply_jobs(
        self, change: JobsChange, *, now: datetime, audit: Sequence[AuditEntry] = ()
    ) -> list[OwnerChange] | None:
        """See `ApplyStore`."""
        encrypted = replace(
            change,
            adds=[self._encrypt_job(job) for job in change.adds],
            edits=await self._encrypt_edits(change.edits),
        )
        return await self._store.apply_jobs(encrypted, now=now, audit=audit)

    async def get_jobs(self, job_ids: Sequence[JobId]) -> list[Job | None]:
        """See `JobStore`."""
        return [None if job is None else self._show_job(job) for job in await self._store.get_jobs(job_ids)]

    async def find_jobs(self, tenant: str, names: Sequence[str]) -> list[Job | None]:
        """See `JobStore`."""
        found = await self._store.find_jobs(tenant, names)
        return [None if job is None else self._show_job(job) for job in found]

    async def list_jobs(self, tenant: str, **page: Any) -> list[Job]:
        """See `JobStore`."""
        return [self._show_job(job) for job in await self._store.list_jobs(tenant, **page)]

    async def list_owned(self, tenant: str, owner: str, **page: Any) -> list[Job]:
        """See `OwnerStore`."""
        return [self._show_job(job) for job in await self._store.list_owned(tenant, owner, **page)]

    async def list_undefined(self, tenant: str, **page: Any) -> list[Job]:
        """See `OwnerStore`."""
        return [self._show_job(job) for job in await self._store.list_undefined(tenant, **page)]

    async def page_jobs(self, **page: Any) -> list[Job]:
        """See `OwnerStore`."""
        return [self._show_job(job) for job in await self._store.page_jobs(**page)]

    async def read_versions(self, keys: Sequence[tuple[JobId, int]]) -> list[JobSpec | None]:
        """See `JobStore`."""
        specs = await self._store.read_versions(keys)
        tenants = await self._tenants.find({job_id for job_id, _ in keys})
        return [
            None if spec is None else self._fields.show_spec(spec, Place(tenants.get(job_id, ""), job_id))
            for (job_id, _), spec in zip(keys, specs, strict=True)
        ]

    def _encrypt_job(self, job: NewJob) -> NewJob:
        spec = self._fields.encrypt_spec(job.spec, Place(job.tenant, job.id))
        return job if spec is job.spec else replace(job, spec=spec)

    async def _encrypt_edits(self, edits: Sequence[JobEdit]) -> list[JobEdit]:
        if not edits:
            return []
        tenants = await self._tenants.find({edit.job_id for edit in edits})
        return [  # of a job that is not there, the edit changes nothing
            replace(
                edit,
                spec=self._fields.encrypt_spec(edit.spec, Place(tenants.get(edit.job_id, ""), edit.job_id)),
            )
            for edit in edits
        ]

    def _show_job(self, job: Job) -> Job:
        spec = self._fields.show_spec(job.spec, Place(job.tenant, job.id))
        return job if spec is job.spec else replace(job, spec=spec)
