"""A whole engine in hand, with functions that note what they were called with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from mainspring.core.ids import JobId, RunId
from mainspring.core.model import Run
from mainspring.core.states import RunState
from mainspring.registry import FunctionRegistry
from mainspring.signals import current_attempt
from mainspring.testing.manual import TENANT, ManualRuntime


class Bench:
    """A runtime with the function `work`, which fails as often as it is told to."""

    def __init__(
        self, runtime: ManualRuntime, calls: list[tuple[int, int]], failures: list[Exception]
    ) -> None:
        self.runtime = runtime
        self.calls = calls
        self.failures = failures

    async def add(self, **fields: Any) -> JobId:
        body = {"name": "job", "function": "work", **fields}
        return (await self.runtime.client.jobs.create(TENANT, body)).id

    async def runs(self, job_id: JobId) -> list[Run]:
        """All runs of a job, the oldest first."""
        return (await self.runtime.store.list_runs(TENANT, job_id=job_id, limit=1000))[::-1]

    async def run(self, run_id: RunId) -> Run:
        return await self.runtime.client.runs.get(TENANT, run_id)

    async def states(self, job_id: JobId) -> list[RunState]:
        return [run.state for run in await self.runs(job_id)]


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    calls: list[tuple[int, int]] = []
    failures: list[Exception] = []

    async def work() -> str:
        attempt = current_attempt()
        calls.append((attempt.run_id, attempt.attempt))
        if failures:
            raise failures.pop(0)
        return "done"

    registry = FunctionRegistry()
    registry.add("work", work)
    async with ManualRuntime(registry) as runtime:
        yield Bench(runtime, calls, failures)
