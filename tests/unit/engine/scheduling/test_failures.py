"""A job pauses itself after so many failed runs in a row."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from mainspring.core.ids import DEFAULT_TENANT, JobId
from mainspring.core.states import RunState
from mainspring.testing.factories import at
from tests.unit.engine.conftest import Bench


async def work_through(bench: Bench, job_id: JobId, *, fires: int) -> list[RunState]:
    """Let a job that fires each second fire so often, work, and look for failures after each."""
    worker = await bench.runtime.worker()
    for _ in range(fires):
        await bench.runtime.advance(1)
        await worker.work()
        await bench.runtime.tick("failures")
    return await bench.states(job_id)


async def test_it_is_paused_and_says_why(bench: Bench) -> None:
    job_id = await bench.add(every="1s", pause_after_failures=3, retry={"max_retries": 0})
    bench.failures += [ValueError("broken")] * 9
    assert await work_through(bench, job_id, fires=5) == [RunState.FAILED] * 3
    jobs = bench.runtime.client.jobs
    job = await jobs.get(DEFAULT_TENANT, job_id)
    assert (job.is_paused, job.pause_note, job.next_fire_at) == (True, "its last 3 runs failed", None)
    [gap] = await jobs.fire_ranges(DEFAULT_TENANT, job_id)
    assert (gap.reason, gap.from_at, gap.is_open) == ("failures", at(4), True)
    [newest, *_] = reversed(await bench.runs(job_id))
    why = await bench.runtime.client.runs.why(DEFAULT_TENANT, newest.id)
    assert why.sentence.endswith("Its job is paused: its last 3 runs failed.")


async def test_a_resume_counts_anew(bench: Bench) -> None:
    job_id = await bench.add(every="1s", pause_after_failures=2, retry={"max_retries": 0})
    bench.failures += [ValueError("broken")] * 4
    assert len(await work_through(bench, job_id, fires=4)) == 2
    await bench.runtime.client.jobs.resume(DEFAULT_TENANT, job_id)
    assert len(await work_through(bench, job_id, fires=1)) == 3
    assert not (await bench.runtime.client.jobs.get(DEFAULT_TENANT, job_id)).is_paused
    assert len(await work_through(bench, job_id, fires=3)) == 4
    assert (await bench.runtime.client.jobs.get(DEFAULT_TENANT, job_id)).is_paused


async def test_retries_and_successes_do_not_pause_it(bench: Bench) -> None:
    retry = {"max_retries": 1, "backoff": "fixed", "delay": "1s"}
    job_id = await bench.add(every="2s", pause_after_failures=1, retry=retry)
    bench.failures += [ValueError("once")]
    states = await work_through(bench, job_id, fires=8)
    assert RunState.FAILED not in states
    assert not (await bench.runtime.client.jobs.get(DEFAULT_TENANT, job_id)).is_paused


async def test_an_edit_of_a_paused_job_keeps_its_reason(bench: Bench) -> None:
    job_id = await bench.add(every="1s", pause_after_failures=1, retry={"max_retries": 0})
    bench.failures += [ValueError("broken")]
    await work_through(bench, job_id, fires=1)
    job = await bench.runtime.client.jobs.edit(DEFAULT_TENANT, job_id, {"every": "5s"})
    assert (job.is_paused, job.pause_note) == (True, "its last run failed")
    ranges = await bench.runtime.client.jobs.fire_ranges(DEFAULT_TENANT, job_id)
    assert {fire_range.reason for fire_range in ranges} == {"failures"}


async def test_what_a_calendar_has_kept_out_so_far_stays_its_own(bench: Bench) -> None:
    rules = [{"from": "2026-01-05T12:00:03", "to": "2026-01-05T12:00:20"}]
    await bench.runtime.client.calendars.put(DEFAULT_TENANT, "off", {"rules": rules})
    job_id = await bench.add(
        every="1s",
        pause_after_failures=1,
        retry={"max_retries": 1, "backoff": "fixed", "delay": "5s", "jitter": 0},
        calendars={"exclude": ["off"]},
    )
    bench.failures += [ValueError("broken")] * 9
    await work_through(bench, job_id, fires=9)
    job = await bench.runtime.client.jobs.get(DEFAULT_TENANT, job_id)
    assert (job.is_paused, job.pause_note) == (True, "its last run failed")
    ranges = await bench.runtime.client.jobs.fire_ranges(DEFAULT_TENANT, job_id)
    stretch, gap = sorted(ranges, key=lambda fire_range: fire_range.from_at)
    assert (stretch.reason, stretch.from_at, stretch.is_open) == ("calendar:off@1", at(3), False)
    assert stretch.to_at is not None
    assert (gap.reason, gap.from_at) == ("failures", stretch.to_at + timedelta(seconds=1))


@pytest.mark.parametrize(
    ("looks", "pauses"),
    [
        ([0.02, 0.02], [1, 1]),
        ([0.02, 7.0, 0.02], [1, 1, 1]),  # the store stalled once
        ([7.0, 0.02], [1, 1]),
        ([0.2, 0.2, 0.3], [1, 4, 4]),
        ([7.0, 7.0, 0.02], [1, 10, 1]),
    ],
)
async def test_looks_that_take_long_become_rarer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, looks: list[float], pauses: list[float]
) -> None:
    clock, store = bench.runtime.clock, bench.runtime.store
    read = store.read_failing
    durations = iter(looks)

    async def read_failing(shards: Sequence[int], **given: Any) -> list[JobId]:
        clock.advance(next(durations))
        return await read(shards, **given)

    monkeypatch.setattr(store, "read_failing", read_failing)
    watch = bench.runtime.services["failures"]
    found = [await watch.tick(clock.now()) for _ in looks]
    assert found == [pytest.approx(pause) for pause in pauses]
