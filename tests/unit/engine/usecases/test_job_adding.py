"""Jobs of concurrent callers go into the store together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest

from mainspring.core.model import Job
from mainspring.errors import Conflict, InvalidInput
from mainspring.ports.store.jobs import AddResult, NewJob
from mainspring.registry import FunctionRegistry
from mainspring.testing.manual import ManualRuntime

HOOK = "https://example.com/hook"


async def test_concurrent_jobs_take_few_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ManualRuntime(FunctionRegistry()) as runtime:
        add, sizes = runtime.store.add_jobs, []

        async def counting(jobs: Sequence[NewJob], *, now: datetime, **given: Any) -> list[AddResult]:
            sizes.append(len(jobs))
            await asyncio.sleep(0)
            return await add(jobs, now=now)

        monkeypatch.setattr(runtime.store, "add_jobs", counting)
        jobs = runtime.client.jobs
        made = await asyncio.gather(
            *(jobs.create("default", {"name": f"job-{number}", "callback_url": HOOK}) for number in range(50))
        )
        assert sum(sizes) == 50
        assert len(sizes) <= 3
        assert [job.spec.name for job in made] == [f"job-{number}" for number in range(50)]


async def test_of_two_with_one_name_the_second_is_refused_alone() -> None:
    async with ManualRuntime(FunctionRegistry()) as runtime:
        bodies = [{"name": name, "callback_url": HOOK} for name in ("one", "one", "two")]
        results = await asyncio.gather(
            *(runtime.client.jobs.create("default", body) for body in bodies), return_exceptions=True
        )
        assert [isinstance(result, Conflict) for result in results] == [False, True, False]


async def test_clock_starts_at_the_instant_of_creation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that waited for another's transaction was given a fire of before the instant at which it was created."""
    async with ManualRuntime(FunctionRegistry()) as runtime:
        add = runtime.store.add_jobs
        seconds: list[asyncio.Task[Job]] = []
        body = {"callback_url": HOOK, "cron": "* * * * * *"}

        async def slow(jobs: Sequence[NewJob], *, now: datetime, **given: Any) -> list[AddResult]:
            if not seconds:
                create = runtime.client.jobs.create("default", {**body, "name": "second"})
                seconds.append(asyncio.create_task(create))
                for _ in range(5):  # until it waits for this one
                    await asyncio.sleep(0)
                runtime.clock.advance(1.5)
            return await add(jobs, now=now)

        monkeypatch.setattr(runtime.store, "add_jobs", slow)
        first = await runtime.client.jobs.create("default", {**body, "name": "first"})
        second = await seconds[0]
        assert second.created_at > first.created_at
        assert second.next_fire_at is not None
        assert second.next_fire_at > second.created_at


async def test_answer_is_the_job_as_the_store_holds_it() -> None:
    async with ManualRuntime(FunctionRegistry()) as runtime:
        jobs = runtime.client.jobs
        body = {"name": "each", "callback_url": HOOK, "every": "90s", "payload": {"n": 1}}
        made = await jobs.create("default", body)
        assert made == await jobs.get("default", made.id)
        (many,) = await jobs.create_many("default", [{**body, "name": "other"}])
        assert many is not None
        assert many == await jobs.get("default", many.id)


@pytest.mark.parametrize(
    "timing",
    [
        {"run_at": "2025-12-24T09:00:00Z"},
        {"cron": "0 9 * * *", "ends_at": "2025-12-24T09:00:00Z"},
        {"after_end": "1h", "ends_at": "2025-12-24T09:00:00Z"},
    ],
)
async def test_job_of_code_that_is_over_is_kept_and_does_not_fire(timing: dict[str, str]) -> None:
    """An app did not start any more on a new store once one of its jobs was over."""
    async with ManualRuntime(FunctionRegistry()) as runtime:
        jobs = runtime.client.jobs
        body = {"name": "xmas", "callback_url": HOOK, **timing}
        with pytest.raises(InvalidInput):
            await jobs.create("default", body)
        job, is_new = await jobs.upsert("default", body)
        assert (is_new, job.next_fire_at) == (True, None)
        await runtime.advance(2 * 86_400, step=3600)
        again, is_new = await jobs.upsert("default", body)
        assert (is_new, again.version, again.next_fire_at) == (False, job.version, None)
        assert (await jobs.status("default", job.id)).last_run is None


async def test_end_that_code_moves_into_the_past_ends_the_job() -> None:
    async with ManualRuntime(FunctionRegistry()) as runtime:
        jobs = runtime.client.jobs
        body = {"name": "xmas", "callback_url": HOOK, "every": "1h"}
        await jobs.upsert("default", body)
        job, _ = await jobs.upsert("default", {**body, "ends_at": "2025-12-24T09:00:00Z"})
        assert job.next_fire_at is None
        await jobs.upsert("default", body)
        once = {"name": "xmas", "callback_url": HOOK, "run_at": "2025-12-24T09:00:00Z"}
        job, _ = await jobs.upsert("default", once)
        assert job.next_fire_at is None
        await runtime.advance(2 * 3600, step=600)
        assert (await jobs.status("default", job.id)).last_run is None
