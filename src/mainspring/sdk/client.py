"""All routes of the HTTP API as typed coroutine methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mainspring.sdk.transport import Transport
from mainspring.wire.health import HealthView
from mainspring.wire.views import (
    BulkJobView,
    BulkRunView,
    CancelView,
    Deleted,
    FireRangeList,
    FiresView,
    JobPage,
    JobView,
    LedgerView,
    RunDetail,
    RunPage,
    StatusView,
    SubmittedView,
    WorkerList,
)

_API = "/api/v1"


class AsyncClient(Transport):
    """A server's API.

    Use as `async with AsyncClient("http://127.0.0.1:8620") as client`. Every method raises `Unreachable` if no
    answer comes, and `InvalidInput`, `NotFound`, `Conflict` or `StoreUnavailable` if the server answers with it.
    """

    async def create_job(self, body: Mapping[str, Any]) -> JobView:
        """Create a job."""
        return await self.call("POST", f"{_API}/jobs", JobView, body=body)

    async def create_jobs(self, bodies: Sequence[Mapping[str, Any]]) -> list[BulkJobView]:
        """Create up to 1,000 jobs."""
        return await self.call("POST", f"{_API}/jobs/bulk", list[BulkJobView], body=bodies)

    async def put_job(self, body: Mapping[str, Any]) -> JobView:
        """Create a job, or redefine the job of that name."""
        return await self.call("PUT", f"{_API}/jobs", JobView, body=body)

    async def list_jobs(
        self, *, after: str | None = None, limit: int = 100, name: str | None = None
    ) -> JobPage:
        """Return a page of jobs, or the job of a name."""
        query: dict[str, str | int | None] = {"after": after, "limit": limit, "name": name}
        return await self.call("GET", f"{_API}/jobs", JobPage, query=query)

    async def get_job(self, job_id: str) -> JobView:
        """Return a job."""
        return await self.call("GET", f"{_API}/jobs/{job_id}", JobView)

    async def edit_job(self, job_id: str, patch: Mapping[str, Any]) -> JobView:
        """Change a job's fields."""
        return await self.call("PATCH", f"{_API}/jobs/{job_id}", JobView, body=patch)

    async def delete_job(self, job_id: str) -> Deleted:
        """Delete a job."""
        return await self.call("DELETE", f"{_API}/jobs/{job_id}", Deleted)

    async def get_status(self, job_id: str) -> StatusView:
        """Return a job's status."""
        return await self.call("GET", f"{_API}/jobs/{job_id}/status", StatusView)

    async def pause_job(self, job_id: str) -> JobView:
        """Pause a job."""
        return await self.call("POST", f"{_API}/jobs/{job_id}/pause", JobView)

    async def resume_job(self, job_id: str) -> JobView:
        """Resume a job."""
        return await self.call("POST", f"{_API}/jobs/{job_id}/resume", JobView)

    async def list_fire_ranges(self, job_id: str, *, limit: int = 100) -> FireRangeList:
        """Return a job's fire ranges."""
        return await self.call(
            "GET", f"{_API}/jobs/{job_id}/fire-ranges", FireRangeList, query={"limit": limit}
        )

    async def get_ledger(self, job_id: str) -> LedgerView:
        """Compare the fires that a job owed with those on record."""
        return await self.call("GET", f"{_API}/jobs/{job_id}/ledger", LedgerView)

    async def submit_run(
        self, job_id: str, body: Mapping[str, Any] | None = None, *, idempotency_key: str | None = None
    ) -> SubmittedView:
        """Submit a run of a job. `body` may have `payload`, `run_at` or `delay`, and `priority`."""
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key is not None else {}
        path = f"{_API}/jobs/{job_id}/runs"
        return await self.call("POST", path, SubmittedView, body=body or {}, headers=headers)

    async def submit_runs(self, items: Sequence[Mapping[str, Any]]) -> list[BulkRunView]:
        """Submit up to 1,000 runs, each of a job by `job_id` or by name (`job`)."""
        return await self.call("POST", f"{_API}/runs/bulk", list[BulkRunView], body=items)

    async def list_runs(
        self,
        *,
        job_id: str | None = None,
        state: str | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> RunPage:
        """Return a page of runs, the newest first."""
        query: dict[str, str | int | None] = {
            "job_id": job_id,
            "state": state,
            "before": before,
            "limit": limit,
        }
        return await self.call("GET", f"{_API}/runs", RunPage, query=query)

    async def get_run(self, run_id: str) -> RunDetail:
        """Return a run with its attempts."""
        return await self.call("GET", f"{_API}/runs/{run_id}", RunDetail)

    async def cancel_run(self, run_id: str) -> CancelView:
        """Cancel a run."""
        return await self.call("POST", f"{_API}/runs/{run_id}/cancel", CancelView)

    async def count_runs(self) -> dict[str, int]:
        """Return how many runs are in each state."""
        return await self.call("GET", f"{_API}/counts", dict[str, int])

    async def list_workers(self) -> WorkerList:
        """Return the live worker sessions."""
        return await self.call("GET", f"{_API}/workers", WorkerList)

    async def next_fires(
        self, expression: str, *, tz: str = "UTC", dst: str = "vixie", count: int = 5
    ) -> FiresView:
        """Return when a cron expression fires."""
        query: dict[str, str | int | None] = {"expression": expression, "tz": tz, "dst": dst, "count": count}
        return await self.call("GET", f"{_API}/cron/next", FiresView, query=query)

    async def get_health(self) -> HealthView:
        """Return the server's health."""
        return await self.call("GET", "/health", HealthView)
