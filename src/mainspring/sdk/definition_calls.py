"""The calls that change what jobs are, and look back at what they were."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from mainspring.sdk.transport import Transport
from mainspring.wire import operations
from mainspring.wire.applying import AppliedView, DefinitionsView
from mainspring.wire.versions import VersionPage
from mainspring.wire.written import JobWritten


class DefinitionCalls(Transport):
    """A part of `AsyncClient`."""

    async def apply_jobs(self, bodies: Sequence[Mapping[str, Any]]) -> list[AppliedView]:
        """Create up to 1,000 jobs, or give those of these names that differ these definitions; all of them or none."""
        return await self.call(operations.APPLY_JOBS, body=bodies, may_repeat=True)

    async def apply_definitions(
        self,
        bodies: Sequence[Mapping[str, Any]],
        *,
        owners: Mapping[str, Sequence[str]] | None = None,
        prune: bool = False,
        paused: Collection[str] = (),
    ) -> DefinitionsView:
        """Apply up to 1,000 jobs, and say whose they are: all of it in one transaction, or nothing.

        Args:
            owners: the names of all jobs of each of these owners.
            prune: delete other jobs of theirs.
            paused: names of jobs to pause, if they are new.

        Raises:
            InvalidInput: a definition is wrong, and nothing was changed. The field starts with `jobs[index].`.
            Conflict: someone else has changed a job meanwhile, or the tenant may not have so many jobs; nothing was
                changed.
        """
        body = {
            "jobs": list(bodies),
            "owners": [{"owner": owner, "jobs": list(names)} for owner, names in (owners or {}).items()],
            "prune": bool(prune),
            "paused": sorted(paused),
        }
        return await self.call(operations.APPLY_DEFINITIONS, body=body, may_repeat=True)

    async def diff_jobs(self, bodies: Sequence[Mapping[str, Any]]) -> list[AppliedView]:
        """Say what `apply_jobs` would do."""
        return await self.call(operations.DIFF_JOBS, body=bodies, may_repeat=True)

    async def edit_job(
        self, job_id: str, patch: Mapping[str, Any], *, version: int | None = None
    ) -> JobWritten:
        """Change a job's fields. With `version`, only while the job has that version; otherwise raise `Conflict`."""
        return await self.call(operations.EDIT_JOB, job_id, body=patch, query={"version": version})

    async def replace_job(
        self, job_id: str, body: Mapping[str, Any], *, version: int | None = None
    ) -> JobWritten:
        """Give a job this whole definition; `version` as for `edit_job`."""
        return await self.call(operations.REPLACE_JOB, job_id, body=body, query={"version": version})

    async def list_versions(self, job_id: str, *, before: int | None = None, limit: int = 100) -> VersionPage:
        """Return a page of the definitions that a job had, the newest first, each with what it changed."""
        query = {"before": before, "limit": limit}
        return await self.call(operations.LIST_JOB_VERSIONS, job_id, query=query)
