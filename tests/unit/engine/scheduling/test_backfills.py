"""Backfills, from the request to the last run: which fires become runs, and how fast."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from mainspring.core.backfill import Backfill, BackfillChange, BackfillPlan, BackfillState
from mainspring.core.backfill_settings import BackfillLimits
from mainspring.core.ids import BackfillId, JobId, make_backfill_id
from mainspring.core.model import Priority, RunKind
from mainspring.core.states import RunState
from mainspring.engine.usecases.backfills import Backfills
from mainspring.engine.usecases.submissions import Submission
from mainspring.errors import Conflict, InvalidInput, NotFound, TookTooLong
from mainspring.testing.factories import IdSequence
from mainspring.testing.manual import TENANT
from tests.unit.engine.conftest import Bench

DAY = timedelta(days=1)
DAILY = {"cron": "0 3 * * *"}


def of_days(bench: Bench, days: int = 10, **options: Any) -> Mapping[str, Any]:
    """Return the body of a backfill of so many days before now."""
    now = bench.runtime.clock.now()
    return {"from": (now - days * DAY).isoformat(), "to": now.isoformat(), **options}


async def dry_run(bench: Bench, job_id: JobId, days: int = 10, **options: Any) -> BackfillPlan:
    body = of_days(bench, days, dry_run=True, **options)
    planned = await bench.runtime.client.backfills.create(TENANT, job_id, body)
    assert planned.backfill is None
    return planned.plan


async def make(bench: Bench, job_id: JobId, days: int = 10, **options: Any) -> Backfill:
    planned = await bench.runtime.client.backfills.create(TENANT, job_id, of_days(bench, days, **options))
    assert planned.backfill is not None
    return planned.backfill


async def read(bench: Bench, backfill: Backfill) -> Backfill:
    return await bench.runtime.client.backfills.get(TENANT, backfill.id)


async def finish(bench: Bench, backfill: Backfill, *, seconds: int = 30) -> Backfill:
    """Let workers carry everything out until the backfill is over."""
    worker = await bench.runtime.worker()
    found = backfill
    for _ in range(seconds):
        await bench.runtime.advance(1)
        await worker.work()
        found = await read(bench, backfill)
        if found.state is BackfillState.DONE and not found.live:
            return found
    raise AssertionError(f"it is not over: {found}")


async def fires(bench: Bench, job_id: JobId) -> list[datetime]:
    return [
        run.fire_at
        for run in await bench.runs(job_id)
        if run.kind is RunKind.BACKFILL and run.fire_at is not None
    ]


async def test_backfill_makes_the_fires_of_its_dry_run_each_once(bench: Bench) -> None:
    job_id = await bench.add(**DAILY)
    plan = await dry_run(bench, job_id)
    assert (plan.fires, plan.done, plan.excluded, plan.versions) == (10, 0, 0, {1: 10})
    assert await bench.runs(job_id) == []
    backfill = await make(bench, job_id, rate="3/s")
    ended = await finish(bench, backfill)
    assert (ended.made, ended.skipped, ended.left) == (10, 0, 0)
    assert await fires(bench, job_id) == plan.first
    runs = await bench.runs(job_id)
    assert {(run.state, run.lane.priority) for run in runs} == {(RunState.SUCCEEDED, Priority.LOW)}


async def test_fires_that_succeeded_are_left_out(bench: Bench) -> None:
    job_id = await bench.add(**DAILY)
    await finish(bench, await make(bench, job_id, days=5))
    plan = await dry_run(bench, job_id)
    assert (plan.fires, plan.done) == (10, 5)
    ended = await finish(bench, await make(bench, job_id))
    assert (ended.made, ended.skipped) == (5, 5)
    made = await fires(bench, job_id)
    assert len(made) == len(set(made)) == 10


@pytest.mark.parametrize(("skip_done", "done"), [("succeeded", 0), ("any", 4), ("none", 0)])
async def test_failed_fires_are_done_only_for_any(bench: Bench, skip_done: str, done: int) -> None:
    job_id = await bench.add(**DAILY, retry={"max_retries": 0})
    bench.failures += [ValueError("no")] * 4
    await finish(bench, await make(bench, job_id, days=4))
    plan = await dry_run(bench, job_id, days=4, skip_done=skip_done)
    assert (plan.fires, plan.done) == (4, done)


async def test_fires_whose_runs_are_not_over_are_left_out(bench: Bench) -> None:
    job_id = await bench.add(**DAILY)
    await make(bench, job_id, days=3)
    await bench.runtime.tick("backfills")
    assert (await dry_run(bench, job_id)).done == 3


async def test_each_fire_is_made_by_the_version_of_its_time(bench: Bench) -> None:
    job_id = await bench.add(**DAILY)
    await bench.runtime.advance(3 * 86400, step=86400)
    await bench.runtime.client.jobs.edit(TENANT, job_id, {"cron": "0 3,4 * * *", "payload": None})
    await bench.runtime.advance(3 * 86400, step=86400)
    plan = await dry_run(bench, job_id, days=8, skip_done="none")
    assert plan.versions == {1: 5, 2: 6}
    assert (await dry_run(bench, job_id, days=8, skip_done="none", definition="now")).versions == {2: 16}
    backfill = await make(bench, job_id, days=8, skip_done="none")
    await finish(bench, backfill)
    versions = [run.version for run in await bench.runs(job_id) if run.kind is RunKind.BACKFILL]
    assert versions == [1] * 5 + [2] * 6


async def test_calendars_keep_fires_out(bench: Bench) -> None:
    rules = {"rules": [{"weekly": ["SAT", "SUN"]}]}
    await bench.runtime.client.calendars.put(TENANT, "weekend", rules)
    job_id = await bench.add(**DAILY, calendars={"exclude": ["weekend"]})
    plan = await dry_run(bench, job_id, days=14)
    assert (plan.fires, plan.excluded) == (10, 4)
    assert (await finish(bench, await make(bench, job_id, days=14))).made == 10
    assert all(fire.weekday() < 5 for fire in await fires(bench, job_id))


async def test_interval_is_counted_back_beyond_the_jobs_beginning(bench: Bench) -> None:
    job_id = await bench.add(every="6h")
    assert (await dry_run(bench, job_id, days=2)).fires == 8


async def test_rate_and_live_runs_are_kept_to(bench: Bench) -> None:
    job_id = await bench.add(every="1m")
    backfill = await make(bench, job_id, days=1, rate="4/s", max_live=10)
    made = []
    for _ in range(6):
        await bench.runtime.advance(1)
        made.append((await read(bench, backfill)).made)
    assert made == [4, 8, 10, 10, 10, 10]
    worker = await bench.runtime.worker()
    await worker.work()
    await bench.runtime.advance(1)
    assert (await read(bench, backfill)).made == 14


async def test_slow_rate_makes_a_run_in_its_time(bench: Bench) -> None:
    job_id = await bench.add(every="1m")
    backfill = await make(bench, job_id, days=1, rate="6/m")
    await bench.runtime.advance(61)
    assert (await read(bench, backfill)).made == 7


async def test_jobs_whose_runs_must_not_overlap_get_one_at_a_time(bench: Bench) -> None:
    job_id = await bench.add(**DAILY, overlap="skip")
    backfill = await make(bench, job_id, days=4)
    await bench.runtime.advance(3)
    assert (await read(bench, backfill)).made == 1
    ended = await finish(bench, backfill)
    assert ended.made == 4
    assert set(await bench.states(job_id)) == {RunState.SUCCEEDED}


async def test_limits_of_the_job_hold(bench: Bench) -> None:
    job_id = await bench.add(**DAILY, concurrency=[{"limit": 2}])
    backfill = await make(bench, job_id, days=5)
    await bench.runtime.advance(1)
    worker = await bench.runtime.worker()
    assert len(await worker.claim(100)) == 2
    assert (await read(bench, backfill)).live == 5


async def test_expiry_counts_from_when_a_run_is_made(bench: Bench) -> None:
    job_id = await bench.add(**DAILY, expires_after="10s")
    await make(bench, job_id, days=2)
    await bench.runtime.advance(5)
    assert set(await bench.states(job_id)) == {RunState.PENDING}
    await bench.runtime.advance(10)
    assert set(await bench.states(job_id)) == {RunState.SKIPPED}


async def test_paused_job_holds_its_backfills(bench: Bench) -> None:
    job_id = await bench.add(**DAILY)
    backfill = await make(bench, job_id, days=2)
    await bench.runtime.client.jobs.pause(TENANT, job_id)
    await bench.runtime.advance(3)
    held = await read(bench, backfill)
    assert (held.made, held.state, held.is_job_paused) == (0, BackfillState.OPEN, True)
    await bench.runtime.client.jobs.resume(TENANT, job_id)
    await bench.runtime.advance(3)
    going = await read(bench, backfill)
    assert (going.made, going.is_job_paused) == (2, False)


async def test_live_backfill_does_not_skip_todays_fire(bench: Bench) -> None:
    job_id = await bench.add(every="10m", overlap="skip")
    await make(bench, job_id, days=1)
    await bench.runtime.advance(600, step=60)
    kinds = [(run.kind, run.state) for run in await bench.runs(job_id)]
    assert kinds == [(RunKind.BACKFILL, RunState.PENDING), (RunKind.SCHEDULED, RunState.PENDING)]


async def test_pause_resume_and_cancel(bench: Bench) -> None:
    client = bench.runtime.client.backfills
    job_id = await bench.add(**DAILY)
    backfill = await make(bench, job_id, rate="2/s")
    await bench.runtime.advance(1)
    assert (await client.change(TENANT, backfill.id, BackfillChange.PAUSE)).state is BackfillState.PAUSED
    await bench.runtime.advance(5)
    assert (await read(bench, backfill)).made == 2
    await client.change(TENANT, backfill.id, BackfillChange.RESUME)
    await bench.runtime.advance(1)
    assert (await read(bench, backfill)).made == 4
    cancelled = await client.change(TENANT, backfill.id, BackfillChange.CANCEL)
    assert (cancelled.state, cancelled.live, cancelled.left) == (BackfillState.CANCELLED, 0, 0)
    runs = await bench.runs(job_id)
    assert {(run.state, run.reason) for run in runs} == {(RunState.CANCELLED, "backfill_cancelled")}
    await bench.runtime.advance(5)
    assert len(await bench.runs(job_id)) == 4
    assert await client.change(TENANT, backfill.id, BackfillChange.CANCEL) == cancelled
    with pytest.raises(Conflict, match="is cancelled already"):
        await client.change(TENANT, backfill.id, BackfillChange.RESUME)


async def test_cancel_leaves_what_is_under_way(bench: Bench) -> None:
    job_id = await bench.add(**DAILY)
    backfill = await make(bench, job_id, days=3)
    worker = await bench.runtime.worker()
    await bench.runtime.advance(1)
    [lease] = await worker.claim(1)
    await bench.runtime.client.backfills.change(TENANT, backfill.id, BackfillChange.CANCEL)
    states = await bench.states(job_id)
    assert sorted(states) == [RunState.CANCELLED, RunState.CANCELLED, RunState.RUNNING]
    await worker.report(await worker.carry_out(lease))
    assert (await read(bench, backfill)).live == 0


async def test_one_whose_runs_are_over_cannot_be_cancelled(bench: Bench) -> None:
    job_id = await bench.add(**DAILY)
    backfill = await finish(bench, await make(bench, job_id))
    for change in BackfillChange:
        with pytest.raises(Conflict, match="is done already"):
            await bench.runtime.client.backfills.change(TENANT, backfill.id, change)


async def test_more_backfills_than_a_tick_takes_all_come_to_their_end(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.engine.scheduling.backfills.BACKFILLS_PER_TICK", 2)
    job_ids = [await bench.add(name=f"job-{number}", **DAILY) for number in range(5)]
    backfills = [await make(bench, job_id, days=3, max_live=1) for job_id in job_ids]
    for _ in range(3):
        await bench.runtime.advance(1)
    assert [(await read(bench, backfill)).made for backfill in backfills] == [1] * 5
    for backfill in backfills:
        await finish(bench, backfill, seconds=40)


async def test_what_was_read_for_backfills_that_stopped_is_forgotten_beside_many_others(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.engine.scheduling.backfills.BACKFILLS_PER_TICK", 2)
    job_ids = [await bench.add(name=f"job-{number}", **DAILY) for number in range(6)]
    backfills = [await make(bench, job_id, days=5, max_live=1) for job_id in job_ids]
    await bench.runtime.advance(5)
    for backfill in backfills[:3]:
        await bench.runtime.client.backfills.change(TENANT, backfill.id, BackfillChange.CANCEL)
    await bench.runtime.advance(15)
    kept = bench.runtime.services["backfills"]._windows  # type: ignore[attr-defined]
    assert kept.keys() <= {backfill.id for backfill in backfills[3:]}


async def test_window_that_ends_within_a_section_is_followed_by_the_next(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.engine.scheduling.backfills.LOOK", 3)
    job_id = await bench.add(**DAILY)
    assert (await finish(bench, await make(bench, job_id))).made == 10


async def test_slow_read_for_one_backfill_holds_up_no_other(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, other = await bench.add(name="slow", **DAILY), await bench.add(name="other", **DAILY)
    backfills = [await make(bench, job_id, days=3) for job_id in (slow, other)]
    look = bench.runtime.store.read_fires_of_runs

    async def stop(job_id: JobId, **asked: Any) -> Any:
        if job_id == slow:
            raise TookTooLong("too long")
        return await look(job_id, **asked)

    await bench.runtime.client.runs.submit(TENANT, Submission(job_id=other))
    monkeypatch.setattr(bench.runtime.store, "read_fires_of_runs", stop)
    await bench.runtime.advance(1)
    assert [(await read(bench, backfill)).made for backfill in backfills] == [0, 3]


@pytest.mark.parametrize(
    ("fields", "body", "field"),
    [
        ({}, {}, "from"),
        (DAILY, {"from": "2030-01-01T00:00Z", "to": "2030-02-01T00:00Z"}, "to"),
        (DAILY, {"rate": "fast"}, "rate"),
    ],
)
async def test_wrong_backfill_is_refused_and_nothing_is_stored(
    bench: Bench, fields: dict[str, str], body: dict[str, str], field: str
) -> None:
    job_id = await bench.add(**fields)
    client = bench.runtime.client.backfills
    with pytest.raises(InvalidInput) as caught:
        await client.create(TENANT, job_id, {**of_days(bench), **body})
    assert caught.value.field == field
    assert await client.list_page(TENANT) == []


@pytest.mark.parametrize("is_dry_run", [False, True])
async def test_job_without_a_trigger_has_no_backfill_not_even_a_dry_run(
    bench: Bench, is_dry_run: bool
) -> None:
    job_id = await bench.add()
    with pytest.raises(InvalidInput, match="the job has no trigger between") as caught:
        await bench.runtime.client.backfills.create(TENANT, job_id, of_days(bench, dry_run=is_dry_run))
    assert caught.value.field == "from"


async def test_too_many_fires_are_refused(bench: Bench) -> None:
    job_id = await bench.add(every="1s")
    runtime = bench.runtime
    client = Backfills(
        runtime.store,
        clock=runtime.clock,
        ids=IdSequence(),
        calendars=runtime.services["backfills"]._fires._calendars,  # type: ignore[attr-defined]
        limits=BackfillLimits(most_fires=5000),
    )
    with pytest.raises(InvalidInput, match="more than 5,000 fires"):
        await client.create(TENANT, job_id, of_days(bench, days=1))


async def test_second_backfill_of_a_range_is_refused_and_names_the_first(bench: Bench) -> None:
    job_id = await bench.add(**DAILY)
    await make(bench, job_id)
    with pytest.raises(Conflict, match="is under way in a part of this range"):
        await make(bench, job_id, days=1)


async def test_other_tenants_see_nothing(bench: Bench) -> None:
    client = bench.runtime.client.backfills
    job_id = await bench.add(**DAILY)
    backfill = await make(bench, job_id)
    unknown = make_backfill_id(IdSequence().new_uuid(), job_id)
    for tenant, backfill_id in (("other", backfill.id), (TENANT, BackfillId(unknown))):
        with pytest.raises(NotFound):
            await client.get(tenant, backfill_id)
        with pytest.raises(NotFound):
            await client.change(tenant, backfill_id, BackfillChange.CANCEL)
    with pytest.raises(NotFound):
        await client.create("other", job_id, of_days(bench))
    assert await client.list_page("other") == []


async def test_deleted_jobs_backfill_is_over(bench: Bench) -> None:
    job_id = await bench.add(**DAILY)
    backfill = await make(bench, job_id, max_live=2)
    await bench.runtime.advance(1)
    await bench.runtime.client.jobs.delete(TENANT, job_id)
    found = await read(bench, backfill)
    assert (found.state, found.live, found.left) == (BackfillState.CANCELLED, 0, 0)
    with pytest.raises(NotFound):
        await make(bench, job_id)
