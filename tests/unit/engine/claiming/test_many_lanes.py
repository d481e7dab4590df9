"""While there are many lanes, a look is at those of which something was heard, and slices find the others."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from mainspring.core.ids import JobId, LaneId
from mainspring.core.lane_marks import mark_of
from mainspring.core.model import Lane, LaneKey, Priority
from mainspring.engine.claiming import lane_cache, lane_rounds
from mainspring.engine.common.wakeups import RunsNews
from mainspring.engine.usecases.submissions import Submission
from mainspring.ports.hints import Hint
from mainspring.testing.factories import make_new_run, read_job
from mainspring.testing.manual import TENANT, ManualWorker
from tests.unit.engine.conftest import Bench

LANES = 12


class Looks:
    """Notes the looks at lanes: those that are named, and the slices."""

    def __init__(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        self.named: list[LaneId] = []
        self.slices: list[LaneId | None] = []
        store = bench.runtime.store
        read_some_lanes, read_lanes = store.read_some_lanes, store.read_lanes

        async def read_some(lanes: Sequence[LaneId], **others: Any) -> list[Lane]:
            self.named += lanes
            return await read_some_lanes(lanes, **others)

        async def read(queues: Sequence[str], **others: Any) -> list[Lane]:
            if others:
                self.slices.append(others["after"])
            return await read_lanes(queues, **others)

        monkeypatch.setattr(store, "read_some_lanes", read_some)
        monkeypatch.setattr(store, "read_lanes", read)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_rounds, "FEW", 3)
    monkeypatch.setattr(lane_cache, "SLICE", 5)


async def fill(bench: Bench) -> dict[LaneId, JobId]:
    """Make lanes that each have a run in an hour, and return their jobs."""
    jobs: dict[LaneId, JobId] = {}
    for number in range(LANES):
        job_id = await bench.add(name=f"job-{number}", queue=f"q{number:02}")
        later = Submission(job_id=job_id, delay=timedelta(hours=1))
        await bench.runtime.client.runs.submit(TENANT, later)
        [lane] = await bench.runtime.store.read_lanes([f"q{number:02}"])
        jobs[lane.id] = job_id
    return jobs


async def know(bench: Bench, worker: ManualWorker) -> None:
    """Go round once."""
    for _ in range(2 * LANES):
        assert await worker.claim() == []


async def test_all_lanes_are_known_after_a_round(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = await fill(bench)
    worker = await bench.runtime.worker()
    looks = Looks(bench, monkeypatch)
    await know(bench, worker)
    ordered = sorted(jobs)
    assert looks.slices[:3] == [None, ordered[4], ordered[9]]


async def test_a_submission_names_its_lane(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = await fill(bench)
    worker = await bench.runtime.worker()
    await know(bench, worker)
    looks = Looks(bench, monkeypatch)
    lane_id, job_id = list(jobs.items())[7]
    await bench.runtime.client.runs.submit(TENANT, Submission(job_id=job_id))
    assert len(await worker.claim()) == 1
    assert looks.slices == []
    assert await worker.claim() == []  # the claim took from it, so it is looked at again
    assert set(looks.named) == {lane_id}


async def test_a_new_lane_is_found_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = await fill(bench)
    worker = await bench.runtime.worker()
    await know(bench, worker)
    looks = Looks(bench, monkeypatch)
    job_id = await bench.add(name="new", queue="new")
    await bench.runtime.client.runs.submit(TENANT, Submission(job_id=job_id))
    assert len(await worker.claim()) == 1
    assert looks.slices == [max(jobs)]


async def test_a_hint_of_another_process_names_lanes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = await fill(bench)
    worker = await bench.runtime.worker()
    await know(bench, worker)
    runtime, lane_id = bench.runtime, list(jobs)[3]
    job = await read_job(runtime.store, jobs[lane_id])
    await runtime.store.submit_runs([make_new_run(job)], now=runtime.clock.now())
    looks = Looks(bench, monkeypatch)
    mark = mark_of(LaneKey(job.spec.queue, job.spec.route, TENANT, job.spec.priority))
    runtime.wakeups.hear(Hint.RUNS, RunsNews(marks=[mark, "0" * 12]))
    assert len(await worker.claim()) == 1
    assert looks.named[:1] == [lane_id]


@pytest.mark.parametrize("place", range(LANES))
async def test_a_lane_that_nobody_told_of_is_found(bench: Bench, place: int) -> None:
    """Its run is committed late and by another process, and while other lanes are busy."""
    jobs = await fill(bench)
    worker = await bench.runtime.worker()
    await know(bench, worker)
    runtime = bench.runtime
    silent, busy = list(jobs.values())[place], list(jobs.values())[(place + 1) % LANES]
    job = await read_job(runtime.store, silent)
    await runtime.store.submit_runs([make_new_run(job)], now=runtime.clock.now())
    waited = 0.0
    while True:
        await runtime.client.runs.submit(TENANT, Submission(job_id=busy))
        if any(lease.job_id == silent for lease in await worker.claim()):
            break
        runtime.clock.advance(0.1)
        waited += 0.1
        assert waited < 5, "it starves"


async def test_what_becomes_ready_by_time_is_given_out_without_a_look(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(bench)
    worker = await bench.runtime.worker()
    await know(bench, worker)
    bench.runtime.clock.advance(3600)
    looks = Looks(bench, monkeypatch)
    assert len(await worker.claim()) == LANES
    assert looks.named == []


async def test_lanes_that_are_gone_are_forgotten(bench: Bench) -> None:
    jobs = await fill(bench)
    worker = await bench.runtime.worker()
    await know(bench, worker)
    runtime = bench.runtime
    for lane_id in list(jobs)[2:]:
        [run] = await bench.runs(jobs[lane_id])
        await runtime.client.runs.cancel(TENANT, run.id)
    runtime.clock.advance(86_400)
    await runtime.tick("janitor")
    left = await runtime.store.read_lanes([])
    for _ in range(60):
        runtime.clock.advance(1)
        await worker.claim()
    assert len(left) < LANES
    known = runtime.matcher._lanes._lanes
    assert {lane.id for lane in left} == set(known.between(None, None))


def test_a_mark_tells_lanes_apart() -> None:
    keys = [LaneKey(queue, "shell", tenant, tier) for queue in "ab" for tenant in "ab" for tier in Priority]
    assert len({mark_of(key) for key in keys}) == len(keys)
    assert mark_of(keys[0]) == mark_of(LaneKey("a", "shell", "a", keys[0].priority))
