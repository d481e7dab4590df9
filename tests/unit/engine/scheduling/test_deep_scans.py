"""Where the matcher begins to scan each lane, and that it finds what was committed late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from mainspring.core.ids import LaneId
from mainspring.core.model import Lane
from mainspring.engine.usecases.submissions import Submission
from mainspring.errors import StoreUnavailable
from mainspring.ports.store.claims import ClaimRequest, ClaimResult
from mainspring.testing.factories import at, make_new_run, read_job
from mainspring.testing.manual import TENANT
from tests.unit.engine.conftest import Bench


class Spy:
    """Notes the lower bounds of the scans of lanes and of the claims."""

    def __init__(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        self.scans: list[Mapping[LaneId, datetime]] = []
        self.claims: list[Mapping[LaneId, datetime]] = []
        store = bench.runtime.store
        read_lanes, claim_runs = store.read_lanes, store.claim_runs

        async def scan(
            queues: Sequence[str], *, lows: Mapping[LaneId, datetime] | None = None, **bounds: Any
        ) -> list[Lane]:
            self.scans.append(lows or {})
            return await read_lanes(queues, lows=lows, **bounds)

        async def claim(requests: Sequence[ClaimRequest], **named: Any) -> list[ClaimResult]:
            self.claims += [request.lows for request in requests if request.lanes]
            return await claim_runs(requests, **named)

        monkeypatch.setattr(store, "read_lanes", scan)
        monkeypatch.setattr(store, "claim_runs", claim)


async def test_lane_that_nobody_serves_holds_back_no_other(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = await bench.add(name="away", queue="away")
    busy = await bench.add(name="busy")
    client = bench.runtime.client.runs
    await client.submit(TENANT, Submission(job_id=away))
    worker = await bench.runtime.worker(queues=("default",))
    await worker.claim()
    bench.runtime.clock.advance(3600)
    await worker.claim()
    await client.submit(TENANT, Submission(job_id=busy))
    spy = Spy(bench, monkeypatch)
    bench.runtime.clock.advance(1)
    assert len(await worker.claim()) == 1
    lanes = {lane.key.queue: lane.id for lane in await bench.runtime.store.read_lanes([])}
    [scan] = spy.scans[:1]
    [claim] = spy.claims
    assert scan[lanes["away"]] == at(0)
    assert claim[lanes["default"]] == at(3600)


async def test_old_backlog_is_walked_from_its_oldest_run_on(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await bench.add()
    client = bench.runtime.client.runs
    for _ in range(3):
        await client.submit(TENANT, Submission(job_id=job_id))
        bench.runtime.clock.advance(60)
    worker = await bench.runtime.worker()
    await worker.claim(1)
    await worker.claim(1)
    spy = Spy(bench, monkeypatch)
    await worker.claim(1)
    [lane] = await bench.runtime.store.read_lanes([])
    assert [claim[lane.id] for claim in spy.claims] == [at(120)]


@pytest.mark.parametrize(("late", "within"), [(1.0, 1.0), (20.0, 6.0), (100.0, 31.0)])
async def test_run_that_was_committed_late_is_found_within_the_period_of_its_depth(
    bench: Bench, late: float, within: float
) -> None:
    """Its `ready_at` is the instant at which somebody began to write it."""
    store, clock = bench.runtime.store, bench.runtime.clock
    job = await read_job(store, await bench.add())
    worker = await bench.runtime.worker()
    await bench.runtime.client.runs.submit(TENANT, Submission(job_id=job.id))
    await worker.claim()
    for _ in range(200):
        clock.advance(1)
        assert await worker.claim() == []
    begun = clock.now() - timedelta(seconds=late)
    await store.submit_runs([make_new_run(job, due_at=begun)], now=begun)
    waited = 0.0
    while not await worker.claim():
        clock.advance(1)
        waited += 1
    assert waited <= within


async def test_look_at_everything_that_always_fails_is_not_all_that_is_tried(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that is open for long elsewhere makes it so dear that it passes its time-out."""
    runtime = bench.runtime
    job_id = await bench.add()
    worker = await runtime.worker()
    await runtime.client.runs.submit(TENANT, Submission(job_id=job_id))
    assert await worker.work() == 1
    read_lanes = runtime.store.read_lanes

    async def pass_time_out(
        queues: Sequence[str], *, lows: Mapping[LaneId, datetime], **bounds: Any
    ) -> list[Lane]:
        if not lows:
            runtime.clock.advance(30)
            raise StoreUnavailable("it took too long")
        return await read_lanes(queues, lows=lows, **bounds)

    monkeypatch.setattr(runtime.store, "read_lanes", pass_time_out)
    runtime.clock.advance(31)
    await runtime.client.runs.submit(TENANT, Submission(job_id=job_id))
    with pytest.raises(StoreUnavailable):
        await worker.claim()
    assert len(await worker.claim(is_repeat=True)) == 1
