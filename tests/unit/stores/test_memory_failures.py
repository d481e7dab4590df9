"""The memory store looks for failing jobs among those that pause after failures, not among all."""

from __future__ import annotations

from typing import Any

from mainspring.core.ids import JobId
from mainspring.stores.memory import MemoryStore
from mainspring.stores.memory.rows import JobRow
from mainspring.testing.conformance.completion import fail
from mainspring.testing.factories import (
    add_job,
    at,
    make_change,
    make_edit,
    make_spec,
    read_job,
    running_run,
)


class NotAll(dict[JobId, JobRow]):
    """Jobs that may be looked up, but not gone through."""

    def values(self) -> Any:
        raise AssertionError("went through all jobs")

    __iter__: Any = values
    items: Any = values


async def test_a_look_goes_through_no_job_that_never_pauses() -> None:
    store = MemoryStore(time=lambda: at(0))
    for number in range(3):
        await add_job(store, make_spec(name=f"plain-{number}"))
    watched = await add_job(store, make_spec(name="watched", pause_after_failures=1))
    run = await running_run(store, watched)
    await store.apply([fail(run, watched.spec, now=1, retry=False)], now=at(1))
    store._tables.jobs = NotAll(store._tables.jobs)
    assert await store.read_failing(range(256), limit=9) == [watched.id]


async def test_edits_and_deletes_change_what_is_looked_at() -> None:
    store = MemoryStore(time=lambda: at(0))
    job = await add_job(store, make_spec(name="job"))
    watch = store._tables.failure_watch
    assert not watch
    await store.edit_jobs([make_edit(job, make_spec(name="job", pause_after_failures=2))], now=at(1))
    assert list(watch) == [job.id]
    await store.edit_jobs([make_edit(await read_job(store, job.id), make_spec(name="job"))], now=at(2))
    assert not watch
    again = make_edit(await read_job(store, job.id), make_spec(name="job", pause_after_failures=2))
    await store.edit_jobs([again], now=at(3))
    await store.delete_jobs([make_change(await read_job(store, job.id))], now=at(4))
    assert not watch
