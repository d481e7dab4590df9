"""Catch-up after an outage: each fire of the misfire policy once, at the pace of its job."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from mainspring.core.ids import JobId
from mainspring.core.model import FireRange, RunKind
from mainspring.core.states import RunState
from mainspring.engine.common.ledger import read_ledger
from mainspring.engine.scheduling import catch_up
from mainspring.testing.factories import at, own_shards
from mainspring.testing.manual import TENANT
from tests.unit.engine.conftest import Bench

ALL = {"policy": "fire_all", "grace": "5s"}


async def add_late(bench: Bench, seconds: float, *, name: str = "job", **options: Any) -> JobId:
    """Make a job that fires each second, and let the server be away for so long."""
    job_id = await bench.add(name=name, every="1s", misfire=ALL, **options)
    await outage(bench, seconds)
    return job_id


async def outage(bench: Bench, seconds: float) -> None:
    """Let time pass while the server is away. Then it plans what it missed."""
    bench.runtime.clock.advance(seconds)
    await bench.runtime.tick("planner")
    await bench.runtime.plan()


async def caught_up(bench: Bench, job_id: JobId) -> list[datetime]:
    """Return the fire times of the runs that make up for missed fires, as they were made."""
    runs = await bench.runs(job_id)
    return [run.fire_at for run in runs if run.fire_range_id is not None and run.fire_at is not None]


async def made_each_second(bench: Bench, job_id: JobId, seconds: int) -> list[int]:
    """Drain for some seconds. Return how many runs each of them made."""
    counts = []
    for _ in range(seconds):
        before = len(await caught_up(bench, job_id))
        await bench.runtime.tick("catch-up")
        bench.runtime.clock.advance(1)
        counts.append(len(await caught_up(bench, job_id)) - before)
    return counts


async def open_ranges(bench: Bench, job_id: JobId) -> list[FireRange]:
    return [one for one in await bench.runtime.store.list_fire_ranges(job_id) if one.is_open]


async def test_rate_is_kept_and_every_fire_is_made_once(bench: Bench) -> None:
    job_id = await add_late(bench, 60, catch_up={"rate": "7/s"})
    assert await made_each_second(bench, job_id, 10) == [7] * 7 + [5, 0, 0]
    assert await caught_up(bench, job_id) == [at(second) for second in range(1, 55)]
    assert await open_ranges(bench, job_id) == []


async def test_live_runs_are_bounded(bench: Bench) -> None:
    job_id = await add_late(bench, 60, catch_up={"max_live": 20})
    assert await made_each_second(bench, job_id, 3) == [20, 0, 0]
    worker = await bench.runtime.worker()
    leases = list(await worker.claim(8))
    await worker.report(*[await worker.carry_out(lease) for lease in leases])
    done = {lease.run_id for lease in leases}
    ended = [run for run in await bench.runs(job_id) if run.id in done and run.fire_range_id is not None]
    assert await made_each_second(bench, job_id, 2) == [len(ended), 0]


async def test_runs_on_time_do_not_count_among_the_live(bench: Bench) -> None:
    job_id = await add_late(bench, 60, catch_up={"max_live": 20})
    on_time = [run for run in await bench.runs(job_id) if run.fire_range_id is None]
    assert len(on_time) == 6
    assert await made_each_second(bench, job_id, 1) == [20]


async def test_a_job_that_says_nothing_goes_by_the_settings(bench: Bench) -> None:
    job_id = await add_late(bench, 600)
    assert await made_each_second(bench, job_id, 3) == [200, 200, 194]


async def test_the_balance_is_even_all_the_way(bench: Bench) -> None:
    store = bench.runtime.store
    job_id = await add_late(bench, 300, catch_up={"rate": "30/s", "max_live": 100})
    worker = await bench.runtime.worker()
    for _ in range(20):
        await bench.runtime.tick("catch-up")
        [job] = await store.get_jobs([job_id])
        assert job is not None
        ledger = await read_ledger(
            store, job, job.spec.trigger, now=bench.runtime.clock.now(), kept=timedelta(days=30)
        )
        assert ledger.balance.is_even
        await worker.work()
        bench.runtime.clock.advance(1)
    fires = await caught_up(bench, job_id)
    assert len(fires) == len(set(fires)) == 294
    assert await open_ranges(bench, job_id) == []


async def test_the_rate_goes_over_to_the_range_of_the_next_outage(bench: Bench) -> None:
    """Of two ranges, the older one is drained first; together they go no faster than one."""
    job_id = await add_late(bench, 30, catch_up={"rate": "10/s"})
    assert await made_each_second(bench, job_id, 2) == [10, 10]
    await outage(bench, 28)
    assert len(await open_ranges(bench, job_id)) == 2
    assert await made_each_second(bench, job_id, 4) == [4, 10, 10, 4]
    fires = await caught_up(bench, job_id)
    assert fires == sorted(set(fires))


async def test_an_edit_changes_the_pace_of_what_is_being_caught_up(bench: Bench) -> None:
    job_id = await add_late(bench, 60, catch_up={"rate": "5/s"})
    assert await made_each_second(bench, job_id, 1) == [5]
    await bench.runtime.client.jobs.edit(TENANT, job_id, {"catch_up": {"rate": "15/s"}})
    assert await made_each_second(bench, job_id, 3) == [15, 15, 15]


async def test_another_node_goes_on_where_the_first_one_ended(bench: Bench) -> None:
    """What is kept says where it was, and how many permits were left."""
    job_id = await add_late(bench, 60, catch_up={"rate": "9/s"})
    await bench.runtime.tick("catch-up")
    store, now = bench.runtime.store, bench.runtime.clock.now()
    [work] = await store.read_fire_ranges(range(256), limit=9)
    assert (work.level, work.level_at, work.live) == (0.0, now, 9)
    await own_shards(store, "node-2")
    await bench.runtime.tick("catch-up")  # fenced
    assert len(await caught_up(bench, job_id)) == 9
    await own_shards(store, "node-1")
    await bench.runtime.tick("shards", "catch-up")
    assert len(await caught_up(bench, job_id)) == 9


async def test_a_job_that_is_full_takes_nothing_from_the_others(bench: Bench) -> None:
    await add_late(bench, 0, name="full", catch_up={"max_live": 1})
    other = await add_late(bench, 600, name="other", catch_up={"rate": "1000/s"})
    await bench.runtime.tick("catch-up")
    await bench.runtime.tick("catch-up")
    assert len(await caught_up(bench, other)) == catch_up.RUNS_PER_TICK // 2 + 344  # all that are left


async def test_more_ranges_than_a_tick_reads_all_get_their_turn(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catch_up, "FIRE_RANGES_PER_TICK", 2)
    jobs = [await add_late(bench, 0, name=f"job-{n}", catch_up={"max_live": 1}) for n in range(5)]
    await outage(bench, 30)
    for _ in range(3):
        await bench.runtime.tick("catch-up")
    assert [len(await caught_up(bench, job_id)) for job_id in jobs] == [1] * 5


async def test_runs_wait_in_their_jobs_tier(bench: Bench) -> None:
    job_id = await add_late(bench, 30, priority="HIGH")
    await bench.runtime.tick("catch-up")
    runs = await bench.runs(job_id)
    assert {(run.kind, run.lane.priority.name) for run in runs} == {(RunKind.SCHEDULED, "HIGH")}
    assert {run.state for run in runs} == {RunState.PENDING}
