"""An apply beside other changes of the same jobs: it is done as a whole, or names the job that others have changed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from mainspring.core.owners import OwnerChange
from mainspring.engine.usecases.applying import Outcome
from mainspring.errors import Conflict, StoreUnavailable
from mainspring.ports.store.applying import JobsChange, OwnedNames
from mainspring.registry import FunctionRegistry
from mainspring.testing.manual import TENANT, ManualRuntime

HOOK = "https://example.com/hook"
Between = Callable[[], Awaitable[object]]


def body(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "callback_url": HOOK, "every": "1h", **fields}


@pytest.fixture
async def runtime() -> AsyncIterator[ManualRuntime]:
    async with ManualRuntime(FunctionRegistry()) as runtime:
        yield runtime


async def named(runtime: ManualRuntime) -> dict[str, tuple[int, str]]:
    jobs = await runtime.client.jobs.list_page(TENANT, after=None, limit=100)
    return {job.spec.name: (job.version, job.spec.queue) for job in jobs}


@pytest.fixture
def between(runtime: ManualRuntime, monkeypatch: pytest.MonkeyPatch) -> list[Between]:
    """What happens after an apply has read the jobs, and before it writes them: one step for each try."""
    steps: list[Between] = []
    apply = runtime.store.apply_jobs

    async def meanwhile(change: JobsChange, *, now: datetime, **_: Any) -> list[OwnerChange] | None:
        if steps:
            await steps.pop(0)()
        return await apply(change, now=now)

    monkeypatch.setattr(runtime.store, "apply_jobs", meanwhile)
    return steps


async def test_an_edit_of_someone_else_refuses_all_and_names_the_job(
    runtime: ManualRuntime, between: list[Between]
) -> None:
    client = runtime.client
    await client.applying.apply(TENANT, [body("a"), body("b")])
    (b,) = await client.jobs.find_all(TENANT, ["b"])
    wanted = [body("new"), body("a", queue="mine"), body("b", queue="mine")]
    between.append(lambda: client.jobs.edit(TENANT, b.id, {"queue": "theirs"}))
    with pytest.raises(Conflict) as refused:
        await client.applying.apply(TENANT, wanted)
    assert refused.value.field == "[2].version"
    assert refused.value.message == "someone else has just changed job 'b'; nothing was changed, apply again"
    assert await named(runtime) == {"a": (1, "default"), "b": (2, "theirs")}
    applied = await client.applying.apply(TENANT, wanted)
    assert [one.outcome for one in applied.jobs] == [Outcome.CREATED, Outcome.CHANGED, Outcome.CHANGED]
    assert await named(runtime) == {"a": (2, "mine"), "b": (3, "mine"), "new": (1, "default")}


async def test_a_name_that_someone_else_takes_refuses_all(
    runtime: ManualRuntime, between: list[Between]
) -> None:
    client = runtime.client
    between.append(lambda: client.jobs.create(TENANT, body("b", queue="theirs")))
    with pytest.raises(Conflict, match="job 'b'"):
        await client.applying.apply(TENANT, [body("a"), body("b")])
    assert await named(runtime) == {"b": (1, "theirs")}


async def test_a_job_that_someone_else_deletes_refuses_all(
    runtime: ManualRuntime, between: list[Between]
) -> None:
    client = runtime.client
    made = await client.applying.apply(TENANT, [body("b")])
    job_id = made.jobs[0].job_id
    assert job_id is not None
    between.append(lambda: client.jobs.delete(TENANT, job_id))
    with pytest.raises(Conflict, match="job 'b'"):
        await client.applying.apply(TENANT, [body("a"), body("b", queue="mine")])
    assert await named(runtime) == {}


async def test_two_that_apply_the_same_at_once_are_both_done(
    runtime: ManualRuntime, between: list[Between]
) -> None:
    """As two servers do that start with one app."""
    client = runtime.client
    wanted, owners = [body("a"), body("b")], [OwnedNames("shop", ("a", "b"))]
    between.append(lambda: client.applying.apply(TENANT, wanted, owners=owners))
    applied = await client.applying.apply(TENANT, wanted, owners=owners)
    assert [one.outcome for one in applied.jobs] == [Outcome.UNCHANGED] * 2
    assert await named(runtime) == {"a": (1, "default"), "b": (1, "default")}


async def test_fires_and_pauses_meanwhile_delay_it_only(
    runtime: ManualRuntime, between: list[Between]
) -> None:
    client = runtime.client
    made = await client.applying.apply(TENANT, [body("a"), body("b", every="10s")])
    job_id = made.jobs[0].job_id
    assert job_id is not None
    between += [lambda: client.jobs.pause(TENANT, job_id), lambda: runtime.advance(11)]
    wanted = [body("a", queue="mine"), body("b", every="10s", queue="mine")]
    applied = await client.applying.apply(TENANT, wanted)
    assert [one.outcome for one in applied.jobs] == [Outcome.CHANGED] * 2
    assert between == []
    assert await named(runtime) == {"a": (2, "mine"), "b": (2, "mine")}


async def test_a_job_that_is_defined_again_meanwhile_is_not_pruned(
    runtime: ManualRuntime, between: list[Between]
) -> None:
    client = runtime.client
    await client.applying.apply(TENANT, [body("a"), body("b")], owners=[OwnedNames("shop", ("a", "b"))])
    between.append(lambda: client.owners.define(TENANT, "mail", ["b"], prune=False))
    applied = await client.applying.apply(
        TENANT, [body("a")], owners=[OwnedNames("shop", ("a",))], prune=True
    )
    assert applied.owners[0].deleted == ()
    assert (await named(runtime)).keys() == {"a", "b"}


async def test_an_owners_job_that_goes_meanwhile_is_told(
    runtime: ManualRuntime, between: list[Between]
) -> None:
    client = runtime.client
    made = await client.applying.apply(TENANT, [body("a")])
    job_id = made.jobs[0].job_id
    assert job_id is not None
    between.append(lambda: client.jobs.delete(TENANT, job_id))
    with pytest.raises(Conflict, match="owners: name jobs that do not exist: 'a'"):
        await client.applying.apply(TENANT, [body("b")], owners=[OwnedNames("shop", ("a", "b"))])
    assert await named(runtime) == {}


async def test_what_keeps_moving_is_given_up(runtime: ManualRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(change: JobsChange, *, now: datetime, **_: Any) -> None:
        del change, now

    monkeypatch.setattr(runtime.store, "apply_jobs", refuse)
    with pytest.raises(StoreUnavailable, match="kept changing"):
        await runtime.client.applying.apply(TENANT, [body("a")])


async def test_an_instant_that_passes_while_an_apply_is_repeated_fires(
    runtime: ManualRuntime, between: list[Between]
) -> None:
    client = runtime.client
    at = (runtime.clock.now() + timedelta(seconds=5)).isoformat()
    once = {"name": "once", "callback_url": HOOK, "run_at": at}

    async def meanwhile() -> None:
        await client.jobs.create(TENANT, body("a"))  # so that the apply, which adds it too, reads again
        runtime.clock.advance(10)

    between.append(meanwhile)
    await client.applying.apply(TENANT, [body("a"), once])
    (job,) = await client.jobs.find_all(TENANT, ["once"])
    assert job is not None
    assert job.next_fire_at is not None


async def test_an_instant_that_has_passed_does_not_fire(runtime: ManualRuntime) -> None:
    once = {"name": "once", "callback_url": HOOK, "run_at": "2025-12-24T09:00:00Z"}
    for outcome in (Outcome.CREATED, Outcome.UNCHANGED):
        (told,) = (await runtime.client.applying.apply(TENANT, [once])).jobs
        assert told.outcome is outcome
    await runtime.advance(3600, step=600)
    (job,) = await runtime.client.jobs.find_all(TENANT, ["once"])
    assert job is not None
    assert (job.next_fire_at, (await runtime.client.jobs.status(TENANT, job.id)).last_run) == (None, None)
    cron = {"name": "once", "callback_url": HOOK, "cron": "0 9 * * *"}
    await runtime.client.applying.apply(TENANT, [cron])
    (told,) = (await runtime.client.applying.apply(TENANT, [once])).jobs
    assert told.outcome is Outcome.CHANGED
    (job,) = await runtime.client.jobs.find_all(TENANT, ["once"])
    assert job is not None
    assert job.next_fire_at is None
