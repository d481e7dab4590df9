"""Redrives, from the request to the last run: which dead letters run again, and how fast."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from mainspring.core.dead_letters import DeadFilter
from mainspring.core.ids import JobId, RedriveId, RunId
from mainspring.core.model import RunKind
from mainspring.core.redrives import Redrive, RedriveChange, RedriveState
from mainspring.core.states import RunState
from mainspring.engine.usecases.submissions import Submission
from mainspring.errors import Conflict, InvalidInput, NotFound, TookTooLong
from mainspring.testing.factories import IdSequence
from mainspring.testing.manual import TENANT
from tests.unit.engine.conftest import Bench

ONCE = {"retry": {"max_retries": 0}}


async def bury(bench: Bench, count: int = 5, **fields: Any) -> tuple[JobId, list[RunId]]:
    """Let runs of a new job fail for good."""
    job_id = await bench.add(**ONCE, **fields)
    return job_id, await fail(bench, job_id, count)


async def fail(bench: Bench, job_id: JobId, count: int) -> list[RunId]:
    bench.failures += [ValueError("no")] * count
    client = bench.runtime.client.runs
    made = [(await client.submit(TENANT, Submission(job_id=job_id))).run_id for _ in range(count)]
    worker = await bench.runtime.worker()
    while await worker.work():
        pass
    assert bench.failures == []
    return made


async def make(bench: Bench, job_id: JobId | None = None, **options: Any) -> Redrive:
    wanted = DeadFilter(job_id=job_id, error="no")
    planned = await bench.runtime.client.redrives.create(TENANT, wanted, **options)
    assert planned.redrive is not None
    return planned.redrive


async def read(bench: Bench, redrive: Redrive) -> Redrive:
    return await bench.runtime.client.redrives.get(TENANT, redrive.id)


async def repeated(bench: Bench, job_id: JobId) -> list[RunId]:
    """Which runs are repeated, in the order of the runs that repeat them."""
    return [
        run.redrive_of
        for run in await bench.runs(job_id)
        if run.kind is RunKind.REDRIVE and run.redrive_of is not None
    ]


async def test_each_dead_letter_runs_again_once_and_the_oldest_first(bench: Bench) -> None:
    job_id, dead = await bury(bench)
    redrive = await make(bench, job_id, rate=2)
    assert (redrive.state, redrive.total, redrive.done) == (RedriveState.RUNNING, 5, 0)
    done = []
    for _ in range(4):
        await bench.runtime.advance(1)
        done.append((await read(bench, redrive)).done)
    assert done == [2, 4, 5, 5]
    ended = await read(bench, redrive)
    assert (ended.state, ended.closed_at is not None) == (RedriveState.DONE, True)
    assert await repeated(bench, job_id) == dead
    worker = await bench.runtime.worker()
    await worker.work()
    states = await bench.states(job_id)
    assert states == [RunState.FAILED] * 5 + [RunState.SUCCEEDED] * 5
    assert await bench.runtime.client.dead_letters.list_page(TENANT, DeadFilter()) == []


async def test_what_fails_once_more_is_not_run_once_more(bench: Bench) -> None:
    job_id, dead = await bury(bench, 3)
    redrive = await make(bench, job_id, rate=1)
    bench.failures += [ValueError("no")] * 3
    worker = await bench.runtime.worker()
    for _ in range(8):
        await bench.runtime.advance(1)
        await worker.work()
    assert (await read(bench, redrive)).state is RedriveState.DONE
    assert await repeated(bench, job_id) == dead
    assert len(await bench.runtime.client.dead_letters.list_page(TENANT, DeadFilter())) == 3


async def test_a_dry_run_says_what_would_be_run_again(bench: Bench) -> None:
    job_id, dead = await bury(bench, 2)
    await bench.runtime.client.jobs.edit(TENANT, job_id, {"timeout": "7s"})
    dead += await fail(bench, job_id, 3)
    planned = await bench.runtime.client.redrives.create(TENANT, DeadFilter(job_id=job_id), is_dry_run=True)
    assert planned.redrive is None
    assert (planned.count, planned.first) == (5, tuple(reversed(dead)))
    assert [(one.job_id, one.version, one.count) for one in planned.versions] == [
        (job_id, 2, 3),
        (job_id, 1, 2),
    ]
    await bench.runtime.advance(2)
    assert await repeated(bench, job_id) == []
    assert await bench.runtime.client.redrives.list_page(TENANT) == []


@pytest.mark.parametrize(("is_newest", "version"), [(True, 2), (False, 1)])
async def test_runs_go_by_the_newest_definition_or_by_their_own(
    bench: Bench, *, is_newest: bool, version: int
) -> None:
    job_id, _ = await bury(bench, 2)
    await bench.runtime.client.jobs.edit(TENANT, job_id, {"timeout": "7s"})
    await make(bench, job_id, is_newest=is_newest)
    await bench.runtime.advance(2)
    versions = {run.version for run in await bench.runs(job_id) if run.kind is RunKind.REDRIVE}
    assert versions == {version}


async def test_pause_resume_and_cancel(bench: Bench) -> None:
    client = bench.runtime.client.redrives
    job_id, _ = await bury(bench)
    redrive = await make(bench, job_id, rate=1)
    await bench.runtime.advance(1)
    assert (await client.change(TENANT, redrive.id, RedriveChange.PAUSE)).state is RedriveState.PAUSED
    await bench.runtime.advance(5)
    assert len(await repeated(bench, job_id)) == 1
    await client.change(TENANT, redrive.id, RedriveChange.RESUME)
    await bench.runtime.advance(2)
    assert len(await repeated(bench, job_id)) == 2
    cancelled = await client.change(TENANT, redrive.id, RedriveChange.CANCEL)
    assert cancelled.state is RedriveState.CANCELLED
    await bench.runtime.advance(5)
    assert len(await repeated(bench, job_id)) == 2
    with pytest.raises(Conflict, match="is cancelled already"):
        await client.change(TENANT, redrive.id, RedriveChange.RESUME)
    assert len(await bench.runtime.client.dead_letters.list_page(TENANT, DeadFilter())) == 3


async def test_what_was_settled_meanwhile_is_passed(bench: Bench) -> None:
    job_id, dead = await bury(bench)
    redrive = await make(bench, job_id, rate=10)
    await bench.runtime.client.redriving.redrive(TENANT, dead[1])
    letters = bench.runtime.client.dead_letters
    await letters.discard(TENANT, DeadFilter(run_ids=(dead[2],)), reason="gone")
    await bench.runtime.advance(2)
    ended = await read(bench, redrive)
    assert (ended.state, ended.total, ended.done) == (RedriveState.DONE, 5, 4)
    assert sorted(await repeated(bench, job_id)) == [dead[0], dead[1], dead[3], dead[4]]


async def test_those_of_deleted_jobs_stay_open(bench: Bench) -> None:
    one, dead = await bury(bench, 2, name="one")
    two, others = await bury(bench, 2, name="two")
    redrive = await make(bench)
    await bench.runtime.client.jobs.delete(TENANT, one)
    await bench.runtime.advance(2)
    ended = await read(bench, redrive)
    assert (ended.state, ended.total, ended.done) == (RedriveState.DONE, 4, 2)
    assert await repeated(bench, two) == others
    left = await bench.runtime.client.dead_letters.list_page(TENANT, DeadFilter())
    assert [letter.run.id for letter in left] == dead[::-1]


async def test_a_redrive_finds_what_is_meant_among_many(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.engine.scheduling.redriver.LOOK", 2)
    await bury(bench, 7, name="other")
    job_id, dead = await bury(bench, 3, name="wanted")
    await fail(bench, await bench.add(name="third", **ONCE), 5)
    redrive = await make(bench, job_id)
    await bench.runtime.advance(10)
    assert (await read(bench, redrive)).state is RedriveState.DONE
    assert await repeated(bench, job_id) == dead


async def test_named_runs_are_looked_for_where_they_are(bench: Bench) -> None:
    job_id, dead = await bury(bench, 9)
    asked = []
    look = bench.runtime.store.find_dead_to_redrive

    async def note(tenant: str, wanted: DeadFilter, *, after: RunId, limit: int) -> Any:
        asked.append(after)
        return await look(tenant, wanted, after=after, limit=limit)

    bench.runtime.store.find_dead_to_redrive = note  # type: ignore[method-assign]
    wanted = DeadFilter(run_ids=(dead[6], dead[4]))
    planned = await bench.runtime.client.redrives.create(TENANT, wanted)
    await bench.runtime.advance(2)
    assert planned.redrive is not None
    assert (await read(bench, planned.redrive)).state is RedriveState.DONE
    assert await repeated(bench, job_id) == [dead[4], dead[6]]
    assert asked == [dead[4] - 1]


async def test_full_queue_holds_a_redrive_up_and_loses_nothing(bench: Bench) -> None:
    job_id, dead = await bury(bench, 6, queue="tight")
    await bench.runtime.client.queues.put("tight", {"max_queued": 2})
    await bench.runtime.advance(1)
    redrive = await make(bench, job_id, rate=100)
    worker = await bench.runtime.worker(queues=("tight",))
    for _ in range(30):
        await bench.runtime.advance(1)
        assert len(bench.failures) == 0
        waiting = [state for state in await bench.states(job_id) if state is RunState.PENDING]
        assert len(waiting) <= 2
        await worker.work()
    ended = await read(bench, redrive)
    assert (ended.state, ended.done) == (RedriveState.DONE, 6)
    assert await repeated(bench, job_id) == dead


async def test_redrive_that_is_held_up_rests_and_says_so_once(bench: Bench) -> None:
    job_id, _ = await bury(bench, 2, queue="tight")
    await bench.runtime.client.queues.put("tight", {"max_queued": 1})
    await bench.runtime.client.runs.submit(TENANT, Submission(job_id=job_id))
    await bench.runtime.advance(1)
    redrive = await make(bench, job_id, rate=100)
    tried = []
    find = bench.runtime.store.find_dead_to_redrive

    async def note(*args: Any, **given: Any) -> Any:
        tried.append(bench.runtime.clock.now())
        return await find(*args, **given)

    bench.runtime.store.find_dead_to_redrive = note  # type: ignore[method-assign]
    with capture_logs() as logs:
        await bench.runtime.advance(5, step=0.2)
    assert [line["event"] for line in logs].count("redrive_waits") == 1
    assert 4 <= len(tried) <= 6
    assert (await read(bench, redrive)).done == 0


async def test_slow_look_holds_up_no_other_redrive(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, _ = await bury(bench, 2, name="slow")
    other, dead = await bury(bench, 2, name="other")
    redrives = [await make(bench, job_id) for job_id in (slow, other)]
    look = bench.runtime.store.find_dead_to_redrive

    async def stop(tenant: str, wanted: DeadFilter, **asked: Any) -> Any:
        if wanted.job_id == slow:
            raise TookTooLong("too long")
        return await look(tenant, wanted, **asked)

    monkeypatch.setattr(bench.runtime.store, "find_dead_to_redrive", stop)
    await bench.runtime.advance(2)
    assert await repeated(bench, other) == dead
    monkeypatch.undo()
    await bench.runtime.advance(2)
    assert {(await read(bench, one)).state for one in redrives} == {RedriveState.DONE}


async def test_a_step_that_is_taken_again_counts_what_the_first_has_made(bench: Bench) -> None:
    job_id, dead = await bury(bench, 3)
    redrive = await make(bench, job_id)
    # The runs are made, and the node is gone before it moves the cursor.
    await bench.runtime.client.redriving.redrive_many(TENANT, dead, is_newest=True)
    await bench.runtime.advance(2)
    ended = await read(bench, redrive)
    assert (ended.state, ended.done) == (RedriveState.DONE, 3)
    assert await repeated(bench, job_id) == dead


async def test_two_redrives_of_the_same_letters_make_each_run_once(bench: Bench) -> None:
    job_id, dead = await bury(bench)
    redrives = [await make(bench, job_id, rate=3) for _ in range(2)]
    await bench.runtime.advance(4)
    assert {(await read(bench, one)).state for one in redrives} == {RedriveState.DONE}
    assert sorted(await repeated(bench, job_id)) == dead


async def test_redrives_of_the_same_letters_at_the_same_time_make_each_run_once(bench: Bench) -> None:
    job_id, dead = await bury(bench)
    client = bench.runtime.client.redriving
    await asyncio.gather(*(client.redrive_many(TENANT, dead, is_newest=True) for _ in range(3)))
    assert sorted(await repeated(bench, job_id)) == dead


async def test_only_the_owner_of_the_first_shard_works_on_redrives(bench: Bench) -> None:
    job_id, _ = await bury(bench)
    redrive = await make(bench, job_id)
    ownership = bench.runtime.services["redrives"]._ownership  # type: ignore[attr-defined]
    epochs = dict(ownership.epochs)
    ownership.epochs = {shard: epoch for shard, epoch in epochs.items() if shard}
    await bench.runtime.tick("redrives")
    assert await repeated(bench, job_id) == []
    bench.runtime.clock.advance(1)
    ownership.epochs = {**epochs, 0: epochs[0] - 1}
    await bench.runtime.tick("redrives")
    assert (await read(bench, redrive)).cursor == 0
    assert 0 not in ownership.epochs


@pytest.mark.parametrize(
    ("wanted", "rate", "field"),
    [
        (DeadFilter(), 1, "filter"),
        (DeadFilter(queue="none"), 1, "filter"),
        (DeadFilter(error="no"), 0, "rate"),
        (DeadFilter(error="no"), 1001, "rate"),
    ],
)
async def test_wrong_redrive_is_refused_and_nothing_is_stored(
    bench: Bench, wanted: DeadFilter, rate: int, field: str
) -> None:
    await bury(bench, 1)
    client = bench.runtime.client.redrives
    with pytest.raises(InvalidInput) as caught:
        await client.create(TENANT, wanted, rate=rate)
    assert caught.value.field == field
    assert await client.list_page(TENANT) == []


async def test_other_tenants_see_nothing(bench: Bench) -> None:
    client = bench.runtime.client.redrives
    job_id, _ = await bury(bench, 1)
    redrive = await make(bench, job_id)
    for tenant, redrive_id in (
        ("other", redrive.id),
        (TENANT, RedriveId(IdSequence(10_000_000).new_uuid())),
    ):
        with pytest.raises(NotFound):
            await client.get(tenant, redrive_id)
        with pytest.raises(NotFound):
            await client.change(tenant, redrive_id, RedriveChange.CANCEL)
    with pytest.raises(InvalidInput):
        await client.create("other", DeadFilter(job_id=job_id))
    assert await client.list_page("other") == []
