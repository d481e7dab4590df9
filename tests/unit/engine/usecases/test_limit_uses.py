"""A limit that is deleted while a job is on its way to use it: the job is refused by name, and nothing is stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mainspring.core.limits import LimitRule
from mainspring.errors import InvalidInput
from mainspring.testing.manual import TENANT
from tests.unit.engine.conftest import Bench

USER = {"name": "sync", "function": "work", "concurrency": [{"use": "crm"}]}
PLAIN = {"name": "sync", "function": "work"}


def delete_first(bench: Bench, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    """Delete the limit between a job's check and its write."""
    store = bench.runtime.store
    write: Callable[..., Awaitable[Any]] = getattr(store, verb)

    async def delete_and_write(*given: Any, **options: Any) -> Any:
        await store.delete_limit(TENANT, "crm")
        return await write(*given, **options)

    monkeypatch.setattr(store, verb, delete_and_write)


@pytest.fixture
async def limited(bench: Bench) -> Bench:
    await bench.runtime.store.write_limits(TENANT, [LimitRule(name="crm", max_running=3)])
    return bench


async def test_a_new_job_is_refused(limited: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    delete_first(limited, monkeypatch, "add_jobs")
    jobs = limited.runtime.client.jobs
    with pytest.raises(InvalidInput, match="there is no limit 'crm'") as caught:
        await jobs.create(TENANT, USER)
    assert caught.value.field == "concurrency[0].use"
    assert await limited.runtime.store.list_jobs(TENANT) == []


async def test_of_many_all_are_refused(limited: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    delete_first(limited, monkeypatch, "add_jobs")
    with pytest.raises(InvalidInput, match="there is no limit 'crm'") as caught:
        await limited.runtime.client.jobs.create_many(TENANT, [USER, {**USER, "name": "other"}])
    assert caught.value.field == "[0].concurrency[0].use"
    assert await limited.runtime.store.list_jobs(TENANT) == []


@pytest.mark.parametrize("is_new", [True, False])
async def test_an_upsert_is_refused(limited: Bench, monkeypatch: pytest.MonkeyPatch, *, is_new: bool) -> None:
    jobs = limited.runtime.client.jobs
    if not is_new:
        await jobs.create(TENANT, PLAIN)
    delete_first(limited, monkeypatch, "add_jobs" if is_new else "edit_jobs")
    with pytest.raises(InvalidInput, match="there is no limit 'crm'"):
        await jobs.upsert(TENANT, USER)
    assert [job.spec.concurrency for job in await limited.runtime.store.list_jobs(TENANT)] == [()] * (
        not is_new
    )


async def test_an_edit_is_refused(limited: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = limited.runtime.client.jobs
    job = await jobs.create(TENANT, PLAIN)
    delete_first(limited, monkeypatch, "edit_jobs")
    with pytest.raises(InvalidInput, match="there is no limit 'crm'"):
        await jobs.edit(TENANT, job.id, {"concurrency": [{"use": "crm"}]})
    assert (await jobs.get(TENANT, job.id)).version == 1
