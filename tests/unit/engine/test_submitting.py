"""Requests that come together share their transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from mainspring.engine.runs import Submission
from mainspring.errors import Conflict
from mainspring.ports.store_types import NewRun, SubmitResult
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
