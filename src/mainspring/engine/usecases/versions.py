"""Shows the versions of a job: each definition that it had, and since when."""

from __future__ import annotations

from datetime import datetime

from mainspring.core.ids import JobId
from mainspring.core.model import JobSpec
from mainspring.core.values import value
from mainspring.engine.usecases.jobs import Jobs
from mainspring.ports.store import Store


@value(kw_only=True)
class JobVersion:
    """A definition that a job has or had.

    Attributes:
        created_at: when it was stored.
        previous: the definition before; None for the first.
    """

    version: int
    created_at: datetime
    spec: JobSpec
    previous: JobSpec | None


class Versions:
    """The use case of looking back."""

    def __init__(self, store: Store, jobs: Jobs) -> None:
        self._store = store
        self._jobs = jobs

    async def page(self, tenant: str, job_id: JobId, *, before: int | None, limit: int) -> list[JobVersion]:
        """Return a page of the versions of a job, the newest first.

        Args:
            before: only versions before this one.

        Raises:
            NotFound: there is no such job.
        """
        await self._jobs.get(tenant, job_id)
        times = await self._store.list_version_times(job_id)
        older = [one for one in reversed(times) if before is None or one.version < before]
        # One more than asked for: the last of a page has changed, too.
        wanted = older[: limit + 1]
        specs = await self._store.read_versions([(job_id, one.version) for one in wanted])
        before_each = [*specs[1:], None][: len(specs)]
        return [
            JobVersion(version=one.version, created_at=one.created_at, spec=spec, previous=previous)
            for one, spec, previous in zip(wanted, specs, before_each, strict=True)
            if spec is not None
        ][:limit]
