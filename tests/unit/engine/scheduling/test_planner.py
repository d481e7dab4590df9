"""The planner on the memory store: every fire once, on time, and every gap on record (laws 2 to 4)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from mainspring.core.expiry import QueueExpiries
from mainspring.core.ids import SHARDS, JobId, job_shard
from mainspring.core.model import FireRangeKind, JobSpec, Overlap
from mainspring.core.pauses import LanePauses
from mainspring.core.planning import jittered
from mainspring.core.states import RunState
from mainspring.core.triggers import Once
from mainspring.engine.scheduling import planner, reading
from mainspring.errors import StoreUnavailable
from mainspring.ports.store.schedule import DueClock, Fire, FireResult, FireStatus
from mainspring.testing.factories import add_job, at, make_spec, own_shards
from mainspring.testing.manual import TENANT
from tests.unit.engine.conftest import Bench


async def test_interval_fires_at_every_multiple_of_its_anchor(bench: Bench) -> None:
    job_id = await bench.add(every="10s")
    await bench.runtime.advance(35)
    assert [run.fire_at for run in await bench.runs(job_id)] == [at(10), at(20), at(30)]


async def test_once_fires_once_and_has_no_next_fire(bench: Bench) -> None:
    job_id = await bench.add(run_at=at(5).isoformat())
    await bench.runtime.advance(20)
    assert [run.fire_at for run in await bench.runs(job_id)] == [at(5)]
    job = await bench.runtime.client.jobs.get(TENANT, job_id)
    assert job.next_fire_at is None


async def test_cron_fires_in_its_zone(bench: Bench) -> None:
    job_id = await bench.add(
        cron="1 13 * * *", tz="Europe/Berlin"
    )  # the clock starts at 12:00 UTC, 13:00 in Berlin
    await bench.runtime.advance(90, step=10)
    assert [run.fire_at for run in await bench.runs(job_id)] == [at(60)]


async def test_fires_within_the_grace_are_all_made_after_an_outage(bench: Bench) -> None:
    job_id = await bench.add(every="10s", misfire={"grace": "60s"})
    bench.runtime.clock.advance(45)
    await bench.runtime.tick()
    await bench.runtime.plan()
    assert [run.fire_at for run in await bench.runs(job_id)] == [at(10), at(20), at(30), at(40)]
    assert await bench.runtime.store.list_fire_ranges(job_id) == []


async def test_fire_latest_makes_one_run_and_a_gap_for_the_rest(bench: Bench) -> None:
    job_id = await bench.add(every="10s", misfire={"policy": "fire_latest", "grace": "5s"})
    bench.runtime.clock.advance(100)
    await bench.runtime.tick()
    await bench.runtime.plan()
    assert [run.fire_at for run in await bench.runs(job_id)] == [at(100)]
    (gap,) = await bench.runtime.store.list_fire_ranges(job_id)
    assert (gap.kind, gap.from_at, gap.to_at, gap.reason) == (FireRangeKind.GAP, at(10), at(90), "misfire")


async def test_missed_fires_are_a_line_in_the_log_and_fires_on_time_are_none(bench: Bench) -> None:
    await bench.add(name="late", every="10s", misfire={"policy": "fire_latest", "grace": "5s"})
    with capture_logs() as lines:
        await bench.runtime.advance(10)
        assert [line for line in lines if line["event"] == "fires_missed"] == []
        bench.runtime.clock.advance(100)
        await bench.runtime.tick()
        await bench.runtime.plan()
    (line,) = (line for line in lines if line["event"] == "fires_missed")
    assert (line["job"], line["since"], line["through"]) == (
        "late",
        "2026-01-05T12:00:20.000Z",
        "2026-01-05T12:01:50.000Z",
    )
    assert line["next"] == "one run is made for the newest of them"


async def test_skip_makes_no_late_run(bench: Bench) -> None:
    job_id = await bench.add(every="10s", misfire={"policy": "skip", "grace": "5s"})
    bench.runtime.clock.advance(98)
    await bench.runtime.tick()
    await bench.runtime.plan()
    assert await bench.runs(job_id) == []
    (gap,) = await bench.runtime.store.list_fire_ranges(job_id)
    assert (gap.from_at, gap.to_at) == (at(10), at(90))
    await bench.runtime.advance(3)
    assert [run.fire_at for run in await bench.runs(job_id)] == [at(100)]


async def test_one_skipped_fire_is_a_skipped_run(bench: Bench) -> None:
    job_id = await bench.add(every="10s", misfire={"policy": "skip", "grace": "5s"})
    bench.runtime.clock.advance(18)
    await bench.runtime.tick()
    (run,) = await bench.runs(job_id)
    assert (run.state, run.reason, run.fire_at) == (RunState.SKIPPED, "misfire", at(10))


async def test_fire_all_is_caught_up_by_the_fire_range_drain_within_its_bounds(bench: Bench) -> None:
    job_id = await bench.add(every="10s", misfire={"policy": "fire_all", "grace": "5s", "max_count": 4})
    bench.runtime.clock.advance(98)
    await bench.runtime.tick()
    await bench.runtime.plan()
    await bench.runtime.tick("catch-up")
    runs = await bench.runs(job_id)
    assert [run.fire_at for run in runs] == [at(60), at(70), at(80), at(90)]
    assert all(run.due_at == at(98) for run in runs)
    gap, catch_up = sorted(
        await bench.runtime.store.list_fire_ranges(job_id), key=lambda fire_range: fire_range.from_at
    )
    assert (gap.from_at, gap.to_at, gap.reason) == (at(10), at(50), "misfire_limit")
    assert (catch_up.kind, catch_up.is_open) == (FireRangeKind.CATCH_UP, False)


async def test_overlap_skip_records_what_it_leaves_out(bench: Bench) -> None:
    job_id = await bench.add(every="10s", overlap="skip")
    await bench.runtime.advance(25)
    assert await bench.states(job_id) == [RunState.PENDING, RunState.SKIPPED]
    worker = await bench.runtime.worker()
    await worker.work()
    await bench.runtime.advance(10)
    assert await bench.states(job_id) == [RunState.SUCCEEDED, RunState.SKIPPED, RunState.PENDING]


async def test_jitter_moves_the_fire_and_not_its_nominal_time(bench: Bench) -> None:
    """It is committed at its jittered instant, so that jitter relieves the scheduler, too."""
    job_id = await bench.add(every="10s", jitter="9s")
    start = jittered(job_id, at(10), timedelta(seconds=9))
    assert at(10) < start < at(19)
    bench.runtime.clock.advance((start - at(0)).total_seconds() - 0.001)
    await bench.runtime.plan()
    assert await bench.runs(job_id) == []
    bench.runtime.clock.advance(0.001)
    await bench.runtime.plan()
    (run,) = await bench.runs(job_id)
    assert (run.fire_at, run.due_at, run.created_at) == (at(10), start, start)
    worker = await bench.runtime.worker()
    assert await worker.work() == 1


async def test_run_whose_jitter_is_longer_than_the_period_starts_at_its_jittered_instant(
    bench: Bench,
) -> None:
    job_id = await bench.add(every="1s", jitter="1h")
    await bench.runtime.advance(60, step=0.1)
    runs = await bench.runs(job_id)
    assert [run.fire_at for run in runs] == [at(second) for second in range(1, 60)]
    starts = [jittered(job_id, at(second), timedelta(hours=1)) for second in range(1, 60)]
    assert [run.due_at for run in runs] == starts


async def test_edit_between_the_nominal_time_and_the_jittered_instant_loses_no_fire(bench: Bench) -> None:
    job_id = await bench.add(every="1h", jitter="30m")
    start = jittered(job_id, at(3600), timedelta(minutes=30))
    await bench.runtime.advance(3601, step=3601)
    assert start > bench.runtime.clock.now()
    await bench.runtime.client.jobs.edit(TENANT, job_id, {"every": "2h"})
    await bench.runtime.tick("catch-up")
    (run,) = await bench.runs(job_id)
    assert (run.fire_at, run.due_at) == (at(3600), start)


async def test_jitter_that_is_taken_away_lets_the_fire_go_at_once(bench: Bench) -> None:
    """And the fire is not late then, although its nominal time is long past."""
    job_id = await bench.add(every="1h", jitter="30m", misfire={"policy": "skip", "grace": "1s"})
    await bench.runtime.advance(3610, step=3610)
    await bench.runtime.client.jobs.edit(TENANT, job_id, {"jitter": "0s"})
    await bench.runtime.plan()
    (run,) = await bench.runs(job_id)
    assert (run.state, run.fire_at, run.due_at) == (RunState.PENDING, at(3600), at(3600))


async def test_herd_delays_no_bystander(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """More is due than a scan returns. What is more urgent, and what comes later on time, pass it."""
    runtime = bench.runtime
    monkeypatch.setattr(reading, "READ_LIMIT", 10)
    monkeypatch.setattr(reading, "PARTIAL_LEFT", 2)
    monkeypatch.setattr(planner, "BATCH", 2)
    monkeypatch.setattr(planner, "PER_TICK", 1)
    herd = [await bench.add(name=f"herd-{number}", run_at=at(5).isoformat()) for number in range(200)]
    urgent = [await bench.add(name="urgent", priority="HIGH", run_at=at(5).isoformat())]
    later = [
        await bench.add(name=f"later-{number}", run_at=at(6.5 + number / 10).isoformat())
        for number in range(5)
    ]

    async def fired(job_ids: list[JobId]) -> int:
        return sum([len(await bench.runs(job_id)) for job_id in job_ids])

    runtime.clock.advance(4)
    await runtime.tick("planner")
    runtime.clock.advance(1)
    await runtime.tick("planner")
    assert await fired(urgent) == 1
    for number in range(20):
        runtime.clock.advance(0.1)
        await runtime.tick("planner")
        waiting = sum(at(6.5 + late / 10) <= runtime.clock.now() for late in range(5))
        assert await fired(later) >= waiting, number
    assert 0 < await fired(herd) < len(herd)
    await runtime.plan()
    assert await fired(herd) == len(herd)


async def test_plan_made_before_an_edit_loses(bench: Bench) -> None:
    """Law 2: the heap still holds the old fire when the job is edited behind the planner's back."""
    job_id = await bench.add(every="3s")
    await bench.runtime.advance(1)  # the fire at 3 s lies in the window and is in the heap
    await bench.runtime.client.jobs.edit(TENANT, job_id, {"every": "60s"})
    await bench.runtime.advance(20)
    assert await bench.runs(job_id) == []


async def test_pause_leaves_a_gap_and_resume_closes_it(bench: Bench) -> None:
    job_id = await bench.add(every="10s")
    await bench.runtime.advance(15)
    await bench.runtime.client.jobs.pause(TENANT, job_id)
    await bench.runtime.advance(30)
    await bench.runtime.client.jobs.resume(TENANT, job_id)
    await bench.runtime.advance(10)
    assert [run.fire_at for run in await bench.runs(job_id)] == [at(10), at(50)]
    (gap,) = await bench.runtime.store.list_fire_ranges(job_id)
    assert (gap.from_at, gap.to_at, gap.reason, gap.is_open) == (at(20), at(45), "paused", False)


async def test_edit_of_an_overdue_job_keeps_what_is_owed(bench: Bench) -> None:
    job_id = await bench.add(every="10s")
    bench.runtime.clock.advance(25)  # fires at 10 and 20 are due, no planner has run
    await bench.runtime.client.jobs.edit(TENANT, job_id, {"every": "100s"})
    await bench.runtime.tick("catch-up")
    assert [run.fire_at for run in await bench.runs(job_id)] == [at(10), at(20)]


async def test_deleted_job_fires_no_more_and_its_waiting_runs_are_cancelled(bench: Bench) -> None:
    job_id = await bench.add(every="10s")
    await bench.runtime.advance(12)
    await bench.runtime.client.jobs.delete(TENANT, job_id)
    await bench.runtime.advance(30)
    (run,) = await bench.runs(job_id)
    assert (run.state, run.reason) == (RunState.CANCELLED, "job_deleted")


async def test_planner_fences_itself_when_another_node_took_the_shards(bench: Bench) -> None:
    """Law 3: writes carry the epoch; after a take-over the old owner fires nothing."""
    job_id = await bench.add(every="3s")
    await bench.runtime.advance(1)
    store, clock = bench.runtime.store, bench.runtime.clock
    epochs = {shard.shard: shard.epoch for shard in await store.read_shards()}
    await store.take_shards("other", epochs, now=clock.now())
    clock.advance(3)
    await bench.runtime.tick("planner")
    assert await bench.runs(job_id) == []
    assert set(range(SHARDS)) - bench.runtime.ownership.epochs.keys() == {job_shard(job_id)}
    await bench.runtime.tick("shards")
    assert bench.runtime.ownership.epochs == {shard: epoch + 2 for shard, epoch in epochs.items()}


@pytest.mark.parametrize("count", [1, 450])
async def test_many_jobs_due_at_one_instant_all_fire(bench: Bench, count: int) -> None:
    bodies = [
        {"name": f"job-{index}", "function": "work", "run_at": at(5).isoformat()} for index in range(count)
    ]
    await bench.runtime.client.jobs.create_many(TENANT, bodies)
    await bench.runtime.advance(6)
    counts = await bench.runtime.client.runs.counts(TENANT)
    assert counts.by_state == {RunState.PENDING: count}


async def test_fires_that_failed_with_the_store_are_made_when_it_is_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await bench.add(every="60s")
    await bench.runtime.advance(58)

    async def refuse(*_arguments: object, **_named: object) -> list[FireResult]:
        raise StoreUnavailable("gone")

    with monkeypatch.context() as patched:
        patched.setattr(bench.runtime.store, "record_fires", refuse)
        bench.runtime.clock.advance(2)
        with pytest.raises(StoreUnavailable):
            await bench.runtime.tick("planner")
    bench.runtime.clock.advance(20)  # longer than a look goes back
    await bench.runtime.plan()
    assert [run.fire_at for run in await bench.runs(job_id)] == [at(60)]


async def test_clock_whose_fire_was_carried_out_after_its_answer_was_lost_is_found_at_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its next fire lies before the instant at which a shallow read starts, and a deep one is too expensive for now."""
    store, clock = bench.runtime.store, bench.runtime.clock
    read_due, record_fires = store.read_due, store.record_fires
    lost: list[Sequence[Fire]] = []

    async def linger(shards: Sequence[int], *, since: datetime | None = None, **named: Any) -> list[DueClock]:
        if since is None:
            clock.advance(5)
        return await read_due(shards, since=since, **named)

    async def lose(fires: Sequence[Fire], **_named: Any) -> list[FireResult]:
        lost.append(fires)
        raise StoreUnavailable("gone")

    job_id = await bench.add(every="10s")
    with monkeypatch.context() as patched:
        patched.setattr(store, "read_due", linger)
        await bench.runtime.tick("planner")  # reads everything, which takes 5 s: not again for 100 s
    with monkeypatch.context() as patched:
        patched.setattr(store, "record_fires", lose)
        for _ in range(9):
            clock.advance(5)
            with contextlib.suppress(StoreUnavailable):
                await bench.runtime.tick("planner")
    epochs = bench.runtime.ownership.epochs
    assert [result.status for result in await record_fires(lost[0], epochs=epochs, now=clock.now())] == [
        "fired"
    ]
    await bench.runtime.advance(3)
    assert [run.fire_at for run in await bench.runs(job_id)] == [at(10), at(20), at(30), at(40), at(50)]


async def test_window_begins_with_what_is_known_and_not_with_what_is_long_over(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries of clocks that have moved on are passed over, but for the rare look at everything."""
    await bench.add(every="10s")
    await bench.runtime.advance(10)
    bounds: list[datetime | None] = []
    read_due = bench.runtime.store.read_due

    async def note(shards: Sequence[int], *, since: datetime | None = None, **named: Any) -> list[DueClock]:
        bounds.append(since)
        return await read_due(shards, since=since, **named)

    monkeypatch.setattr(bench.runtime.store, "read_due", note)
    await bench.runtime.advance(60)
    assert bounds.count(None) == 2
    near = [(number, since) for number, since in enumerate(bounds, start=11) if since is not None]
    assert all(since >= at(number - 7) for number, since in near)


async def test_clock_that_was_due_before_it_was_committed_is_found(bench: Bench) -> None:
    """Nobody says so (the hint was lost), and its instant lies before the window."""
    await bench.runtime.advance(31)
    job = await add_job(bench.runtime.store, make_spec(trigger=Once(at(5))), next_fire_at=at(5))
    await bench.runtime.advance(31)
    assert [run.fire_at for run in await bench.runs(job.id)] == [at(5)]


async def test_more_due_jobs_than_one_look_reads_all_fire(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "READ_LIMIT", 10)
    monkeypatch.setattr(planner, "BATCH", 2)
    reads: list[int] = []
    read_due = bench.runtime.store.read_due

    async def note(shards: Sequence[int], **named: Any) -> list[DueClock]:
        clocks = await read_due(shards, **named)
        reads.append(len(clocks))
        return clocks

    monkeypatch.setattr(bench.runtime.store, "read_due", note)
    bodies = [
        {"name": f"job-{index}", "function": "work", "run_at": at(5 + index).isoformat()}
        for index in range(35)
    ]
    await bench.runtime.client.jobs.create_many(TENANT, bodies)
    bench.runtime.clock.advance(40)
    await bench.runtime.plan()
    counts = await bench.runtime.client.runs.counts(TENANT)
    assert counts.by_state == {RunState.PENDING: 35}
    scans = [count for count in reads if count]  # those beyond what waits find nothing here
    assert len(scans) <= 35 // (10 - 2) + 2, "what waits is read once, not for each batch"


async def test_of_fires_at_one_instant_those_that_start_first_are_made_first(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner, "BATCH", 4)
    starts: list[datetime] = []
    fire_outlined = bench.runtime.store.fire_outlined

    async def note(clocks: Sequence[DueClock], **named: Any) -> list[FireResult]:
        starts.extend(clock.due_at for clock in clocks)
        return await fire_outlined(clocks, **named)

    monkeypatch.setattr(bench.runtime.store, "fire_outlined", note)
    bodies = [
        {"name": f"job-{index}", "function": "work", "run_at": at(5).isoformat(), "jitter": "1s"}
        for index in range(40)
    ]
    await bench.runtime.client.jobs.create_many(TENANT, bodies)
    await bench.runtime.advance(6)
    assert len(starts) == 40
    assert starts == sorted(starts)


async def test_what_is_due_is_made_before_the_window_is_read_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read is old by then, but would hold the fires up."""
    await bench.add(every="3s")
    await bench.runtime.advance(2)
    calls: list[str] = []
    for name in ("read_due", "record_fires"):
        verb = getattr(bench.runtime.store, name)

        def note(*arguments: Any, _name: str = name, _verb: Any = verb, **named: Any) -> Any:
            calls.append(_name)
            return _verb(*arguments, **named)

        monkeypatch.setattr(bench.runtime.store, name, note)
    bench.runtime.clock.advance(1)
    await bench.runtime.plan()
    assert calls[0] == "record_fires"
    assert "read_due" in calls


async def test_overdue_clock_of_a_shard_that_comes_during_a_look_fires_with_the_next_one(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after the death of another node, whose clocks have been due for its whole lease."""
    runtime = bench.runtime
    await runtime.advance(1)
    job = await add_job(runtime.store, make_spec(trigger=Once(at(5))), next_fire_at=at(5))
    epochs = dict(runtime.ownership.epochs)
    runtime.ownership.update({shard: epochs[shard] for shard in epochs if shard != job_shard(job.id)})
    await runtime.plan()
    runtime.clock.advance(34)  # a look at everything is due, as is the clock
    read_due = runtime.store.read_due

    async def gain_after(shards: Sequence[int], **named: Any) -> list[DueClock]:
        clocks = await read_due(shards, **named)
        runtime.ownership.update(epochs)
        return clocks

    with monkeypatch.context() as patched:
        patched.setattr(runtime.store, "read_due", gain_after)
        await runtime.tick("planner")
    runtime.clock.advance(1)
    await runtime.plan()
    assert [run.fire_at for run in await bench.runs(job.id)] == [at(5)]


async def test_look_that_failed_half_way_is_no_look(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clocks were read, their definitions were not; only the rare look at everything finds this one."""
    runtime = bench.runtime
    await runtime.advance(31)
    spec = make_spec(trigger=Once(at(5)), overlap=Overlap.SKIP)  # so that its fire needs the definition
    job = await add_job(runtime.store, spec, next_fire_at=at(5))

    async def refuse(_keys: object) -> None:
        raise StoreUnavailable("gone")

    runtime.clock.advance(31)
    with monkeypatch.context() as patched:
        patched.setattr(runtime.store, "read_versions", refuse)
        with pytest.raises(StoreUnavailable):
            await runtime.tick("planner")
    runtime.clock.advance(1)
    await runtime.plan()
    assert [run.fire_at for run in await bench.runs(job.id)] == [at(5)]


async def test_fires_go_on_while_the_window_is_read(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at everything may take a second. It shows a clock that has moved on since, and that is left aside."""
    runtime = bench.runtime
    job_id = await bench.add(every="3s")
    await runtime.advance(2)
    read_due, record_fires = runtime.store.read_due, runtime.store.record_fires
    has_read, has_fired = asyncio.Event(), asyncio.Event()

    async def linger(shards: Sequence[int], **named: Any) -> list[DueClock]:
        clocks = await read_due(shards, **named)
        has_read.set()
        await has_fired.wait()
        return clocks

    async def record(fires: Sequence[Fire], **named: Any) -> list[FireResult]:
        await has_read.wait()
        results = await record_fires(fires, **named)
        has_fired.set()
        return results

    runtime.wakeups.clocks_changed()
    with monkeypatch.context() as patched:
        patched.setattr(runtime.store, "read_due", linger)
        patched.setattr(runtime.store, "record_fires", record)
        patched.setattr(reading, "LATEST_READ", 0.0)
        runtime.clock.advance(1)
        await asyncio.wait_for(runtime.tick("planner"), 5)
    assert [run.fire_at for run in await bench.runs(job_id)] == [at(3)]
    lost: list[FireResult] = []

    async def note(fires: Sequence[Fire], **named: Any) -> list[FireResult]:
        results = await record_fires(fires, **named)
        lost.extend(result for result in results if result.status is FireStatus.LOST)
        return results

    monkeypatch.setattr(runtime.store, "record_fires", note)
    await runtime.advance(6)
    assert [run.fire_at for run in await bench.runs(job_id)] == [at(3), at(6), at(9)]
    assert lost == []


async def test_fire_that_fails_while_the_window_is_read_is_made_later(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look is carried to its end: what it brings may be the cure."""
    runtime = bench.runtime
    job_id = await bench.add(every="3s")
    await runtime.advance(2)
    read_due = runtime.store.read_due
    has_begun, has_failed, has_ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def linger(shards: Sequence[int], **named: Any) -> list[DueClock]:
        has_begun.set()
        await has_failed.wait()
        clocks = await read_due(shards, **named)
        has_ended.set()
        return clocks

    async def refuse(*_fires: object, **_named: object) -> None:
        await has_begun.wait()
        has_failed.set()
        raise StoreUnavailable("gone")

    runtime.wakeups.clocks_changed()
    with monkeypatch.context() as patched:
        patched.setattr(runtime.store, "read_due", linger)
        patched.setattr(runtime.store, "record_fires", refuse)
        patched.setattr(reading, "LATEST_READ", 0.0)
        runtime.clock.advance(1)
        with pytest.raises(StoreUnavailable):
            await asyncio.wait_for(runtime.tick("planner"), 5)
    assert has_ended.is_set()
    await runtime.plan()
    assert [run.fire_at for run in await bench.runs(job_id)] == [at(3)]


async def test_followers_do_not_keep_the_rest_of_what_is_due_waiting(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More is due than a look reads, and jobs that fire each second fill the window again all the time."""
    runtime = bench.runtime
    monkeypatch.setattr(reading, "READ_LIMIT", 10)
    monkeypatch.setattr(reading, "PARTIAL_LEFT", 2)
    for number in range(5):
        await bench.add(name=f"often-{number}", every="1s", misfire={"grace": "1h"})
    jobs = [await bench.add(name=f"once-{number}", run_at=at(5).isoformat()) for number in range(30)]
    await runtime.advance(60)
    assert [len(await bench.runs(job_id)) for job_id in jobs] == [1] * len(jobs)


async def test_job_that_cannot_be_planned_holds_up_no_other(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its zone is not known to this host, say; it fires as soon as it is."""
    runtime = bench.runtime
    jobs = [
        await bench.add(name=f"job-{number}", run_at=at(5).isoformat(), overlap="skip") for number in range(3)
    ]
    make_fire = planner.make_fire

    def refuse(
        clock: DueClock, spec: JobSpec, now: datetime, expiries: QueueExpiries, pauses: LanePauses
    ) -> Fire | None:
        if clock.job_id == jobs[1]:
            raise ValueError("no such zone")
        return make_fire(clock, spec, now, expiries, pauses)

    with monkeypatch.context() as patched:
        patched.setattr(planner, "make_fire", refuse)
        await runtime.advance(20)
        assert [len(await bench.runs(job_id)) for job_id in jobs] == [1, 0, 1]
    await runtime.advance(60)
    assert [len(await bench.runs(job_id)) for job_id in jobs] == [1, 1, 1]


async def test_look_at_everything_that_always_fails_is_not_all_that_is_tried(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that is open for long elsewhere makes it so dear that it passes its time-out."""
    runtime = bench.runtime
    job_id = await bench.add(every="10s")
    await runtime.advance(11)
    read_due = runtime.store.read_due

    async def pass_time_out(shards: Sequence[int], *, since: datetime | None, **named: Any) -> list[DueClock]:
        if since is None:
            runtime.clock.advance(30)
            raise StoreUnavailable("it took too long")
        return await read_due(shards, since=since, **named)

    monkeypatch.setattr(runtime.store, "read_due", pass_time_out)
    runtime.clock.advance(31)
    with pytest.raises(StoreUnavailable):
        await runtime.tick("planner")
    await runtime.advance(10)
    assert len(await bench.runs(job_id)) == 8


@pytest.mark.parametrize("overlap", ["allow", "skip"])
@pytest.mark.parametrize(("number", "largest"), [(100, 100), (300, 200), (2000, 400), (4000, 500)])
async def test_commits_grow_with_the_herd(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, number: int, largest: int, overlap: str
) -> None:
    sizes: list[int] = []
    verb = "fire_outlined" if overlap == "allow" else "record_fires"
    fire = getattr(bench.runtime.store, verb)

    async def note(fires: Sequence[Any], **named: Any) -> list[FireResult]:
        sizes.append(len(fires))
        results: list[FireResult] = await fire(fires, **named)
        return results

    monkeypatch.setattr(bench.runtime.store, verb, note)
    bodies = [
        {"name": f"job-{index}", "function": "work", "run_at": at(5).isoformat(), "overlap": overlap}
        for index in range(number)
    ]
    for first in range(0, number, 1000):
        await bench.runtime.client.jobs.create_many(TENANT, bodies[first : first + 1000])
    await bench.runtime.advance(6)
    assert sum(sizes) == number
    assert max(sizes) == largest


# -- fires in sets ---------------------------------------------------------------------------------------------------


async def test_fires_in_a_set_read_no_definition(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(_keys: object) -> None:
        raise AssertionError("a definition was read")

    job_id = await bench.add(run_at=at(5).isoformat(), jitter="1s", expires_after="60s")
    monkeypatch.setattr(bench.runtime.store, "read_versions", refuse)
    await bench.runtime.advance(7)
    assert [run.fire_at for run in await bench.runs(job_id)] == [at(5)]


@pytest.mark.parametrize(("policy", "state"), [("skip", RunState.SKIPPED), ("fire_latest", RunState.PENDING)])
async def test_late_fire_is_for_the_misfire_policy(bench: Bench, policy: str, state: RunState) -> None:
    job_id = await bench.add(run_at=at(5).isoformat(), misfire={"policy": policy, "grace": "3s"})
    bench.runtime.clock.advance(9)
    await bench.runtime.plan()
    assert [run.state for run in await bench.runs(job_id)] == [state]


async def test_fires_in_a_set_and_others_do_not_wait_for_each_other(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = bench.runtime.store
    under_way: set[str] = set()
    both = asyncio.Event()

    def wait_for_the_other(name: str, verb: Any) -> Any:
        async def wait(fires: Sequence[Any], **named: Any) -> Any:
            under_way.add(name)
            if len(under_way) == 2:
                both.set()
            await asyncio.wait_for(both.wait(), 10)
            return await verb(fires, **named)

        return wait

    for name in ("record_fires", "fire_outlined"):
        monkeypatch.setattr(store, name, wait_for_the_other(name, getattr(store, name)))
    jobs = [await bench.add(name="once", run_at=at(5).isoformat()), await bench.add(name="often", every="5s")]
    await bench.runtime.advance(5)
    assert [len(await bench.runs(job_id)) for job_id in jobs] == [1, 1]


@pytest.mark.parametrize("broken", ["record_fires", "fire_outlined"])
async def test_fires_of_the_other_kind_are_made_though_some_fail(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    async def refuse(*_arguments: object, **_named: object) -> list[FireResult]:
        raise StoreUnavailable("gone")

    once = await bench.add(name="once", run_at=at(5).isoformat())
    often = await bench.add(name="often", every="5s")
    await bench.runtime.advance(4)
    with monkeypatch.context() as patched:
        patched.setattr(bench.runtime.store, broken, refuse)
        bench.runtime.clock.advance(1)
        with pytest.raises(StoreUnavailable):
            await bench.runtime.tick("planner")
        assert len(await bench.runs(once)) == (broken == "record_fires")
        assert len(await bench.runs(often)) == (broken == "fire_outlined")
    await bench.runtime.plan()
    assert [len(await bench.runs(job_id)) for job_id in (once, often)] == [1, 1]


async def test_set_that_was_fenced_gives_up_the_shard(bench: Bench) -> None:
    runtime = bench.runtime
    job_id = await bench.add(run_at=at(5).isoformat())
    await runtime.advance(4)
    await own_shards(runtime.store, "another", now=runtime.clock.now())
    runtime.clock.advance(1)
    await runtime.tick("planner")
    assert await bench.runs(job_id) == []
    assert job_shard(job_id) not in runtime.ownership.epochs
