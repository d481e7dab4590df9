"""Requests that come together share their transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from mainspring.core.ids import JobId
from mainspring.core.model import Job, Priority
from mainspring.engine.usecases.submissions import Submission
from mainspring.errors import Conflict, NotFound
from mainspring.ports.store.runs import NewRun, SubmitResult
from mainspring.stores.memory import MemoryStore
from mainspring.testing.factories import START
from mainspring.testing.manual import TENANT, ManualRuntime


class CountingStore(MemoryStore):
    """The memory store; it counts transactions, and takes a moment for each."""

    def __init__(self) -> None:
        super().__init__(time=lambda: START)
        self.sizes: list[int] = []

    async def submit_runs(self, runs: Sequence[NewRun], **given: Any) -> list[SubmitResult]:
        self.sizes.append(len(runs))
        await asyncio.sleep(0)
        return await super().submit_runs(runs, **given)


class ReadingStore(MemoryStore):
    """The memory store; it counts reads of jobs."""

    def __init__(self) -> None:
        super().__init__(time=lambda: START)
        self.reads = 0

    async def get_jobs(self, job_ids: Sequence[JobId]) -> list[Job | None]:
        self.reads += 1
        return await super().get_jobs(job_ids)


async def test_requests_that_come_together_share_a_transaction_and_get_their_own_answers() -> None:
    store = CountingStore()
    async with ManualRuntime(store=store) as runtime:
        jobs, runs = runtime.client.jobs, runtime.client.runs
        job = await jobs.create(TENANT, {"name": "work", "callback_url": "https://example.com/hook"})
        await runs.submit(TENANT, Submission(job_id=job.id, payload=b"0", idempotency_key="used"))
        store.sizes.clear()
        submitted = await asyncio.gather(
            *(runs.submit(TENANT, Submission(job_id=job.id)) for _ in range(20)),
            runs.submit(TENANT, Submission(job_id=job.id, payload=b"0", idempotency_key="used")),
        )
        assert len({one.run_id for one in submitted}) == 21
        assert [one.is_new for one in submitted] == [True] * 20 + [False]
        assert len(store.sizes) < 5
        with pytest.raises(Conflict):
            await runs.submit(TENANT, Submission(job_id=job.id, payload=b"1", idempotency_key="used"))


async def test_a_job_is_read_once_and_again_when_it_has_changed() -> None:
    store = ReadingStore()
    async with ManualRuntime(store=store) as runtime:
        jobs, runs = runtime.client.jobs, runtime.client.runs
        body = {"name": "work", "callback_url": "https://example.com/hook"}
        job = await jobs.create(TENANT, body)
        store.reads = 0
        for _ in range(3):
            await runs.submit(TENANT, Submission(job_id=job.id))
        assert store.reads == 1
        with pytest.raises(NotFound):
            await runs.submit("somebody-else", Submission(job_id=job.id))
        await jobs.upsert(TENANT, {**body, "priority": "HIGH"})
        submitted = await runs.submit(TENANT, Submission(job_id=job.id))
        run = await runs.get(TENANT, submitted.run_id)
        assert (run.version, run.lane.priority) == (2, Priority.HIGH)
        await jobs.delete(TENANT, job.id)
        with pytest.raises(NotFound):
            await runs.submit(TENANT, Submission(job_id=job.id))
