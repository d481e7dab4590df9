"""Jobs whose fires wait for earlier runs, or cancel them."""

from __future__ import annotations

from mainspring.core.ids import JobId, format_run_id
from mainspring.core.outcomes import Failure
from mainspring.core.states import RunState
from mainspring.engine.usecases.submissions import Submission
from mainspring.ports.executor import Success
from mainspring.ports.gateway import Lease, Report
from mainspring.testing.factories import at
from mainspring.testing.manual import ManualWorker
from tests.unit.engine.conftest import Bench


async def succeed(worker: ManualWorker, lease: Lease) -> None:
    await worker.report(Report(run_id=lease.run_id, token=lease.token, ending=Success()))


async def states(bench: Bench, job_id: JobId) -> list[tuple[float, RunState]]:
    """Return at which second the runs of a job fired, and their states."""
    return [
        ((run.fire_at - at(0)).total_seconds() if run.fire_at else -1, run.state)
        for run in await bench.runs(job_id)
    ]


async def test_queue_all_makes_up_for_what_took_long(bench: Bench) -> None:
    job_id = await bench.add(every="2s", overlap="queue_all")
    worker = await bench.runtime.worker()
    await bench.runtime.advance(2)
    [lease] = await worker.claim(9)
    await bench.runtime.advance(5)
    assert await worker.claim(9) == []
    for _ in range(2):
        await succeed(worker, lease)
        [lease] = await worker.claim(9)
    assert await states(bench, job_id) == [
        (2, RunState.SUCCEEDED),
        (4, RunState.SUCCEEDED),
        (6, RunState.RUNNING),
    ]


async def test_queue_one_lets_one_wait(bench: Bench) -> None:
    job_id = await bench.add(every="2s", overlap="queue_one")
    worker = await bench.runtime.worker()
    await bench.runtime.advance(2)
    [lease] = await worker.claim(9)
    await bench.runtime.advance(7)
    await succeed(worker, lease)
    assert [lease.fire_at for lease in await worker.claim(9)] == [at(4)]
    assert await states(bench, job_id) == [
        (2, RunState.SUCCEEDED),
        (4, RunState.RUNNING),
        (6, RunState.SKIPPED),
        (8, RunState.SKIPPED),
    ]


async def test_queue_one_lets_one_of_those_wait_that_are_made_up_for(bench: Bench) -> None:
    job_id = await bench.add(every="10s", overlap="queue_one", misfire={"policy": "fire_all", "grace": "1s"})
    bench.runtime.clock.advance(59)
    await bench.runtime.plan()
    await bench.runtime.tick("catch-up")
    found = await states(bench, job_id)
    assert sorted(found) == [
        (10, RunState.PENDING),
        *((second, RunState.SKIPPED) for second in (20, 30, 40, 50)),
    ]


async def test_cancel_running_starts_when_the_other_has_ended(bench: Bench) -> None:
    job_id = await bench.add(every="10s", overlap="cancel_running")
    worker = await bench.runtime.worker()
    await bench.runtime.advance(10)
    [lease] = await worker.claim(9)
    await bench.runtime.client.runs.submit("default", Submission(job_id=job_id))
    await bench.runtime.advance(10)
    assert await worker.claim(9) == []
    await worker.report(Report(run_id=lease.run_id, token=lease.token, ending=Failure(error="asked to stop")))
    [second] = await worker.claim(9)
    assert second.fire_at == at(20)
    assert sorted(await states(bench, job_id)) == [
        (-1, RunState.CANCELLED),
        (10, RunState.CANCELLED),
        (20, RunState.RUNNING),
    ]


async def test_a_cancelled_retry_makes_way_soon(bench: Bench) -> None:
    """The line of a run that waits for its retry is not closed until then: the run may be cancelled."""
    job_id = await bench.add(every="10s", overlap="cancel_running", retry={"max_retries": 2, "delay": "1h"})
    await bench.runtime.advance(10)
    worker = await bench.runtime.worker()
    [lease] = await worker.claim(9)
    await worker.report(Report(run_id=lease.run_id, token=lease.token, ending=Failure(error="no")))
    await bench.runtime.client.runs.submit("default", Submission(job_id=job_id))
    assert await worker.claim(9) == []
    await bench.runtime.advance(10)
    assert [lease.fire_at for lease in await worker.claim(9)] == [at(20)]


async def test_why_names_the_run_in_the_way(bench: Bench) -> None:
    job_id = await bench.add(every="10s", overlap="queue_one")
    worker = await bench.runtime.worker()
    await bench.runtime.advance(10)
    [lease] = await worker.claim(9)
    await bench.runtime.advance(20)
    by_state = {run.state: run for run in await bench.runs(job_id)}
    runs = bench.runtime.client.runs
    waits = await runs.why("default", by_state[RunState.PENDING].id)
    holder = format_run_id(lease.run_id)
    assert (
        waits.sentence
        == f"The job's runs follow one another, and {holder} has not ended; it is the next one."
    )
    skipped = await runs.why("default", by_state[RunState.SKIPPED].id)
    assert "other runs of the job were in its way when it fired" in skipped.sentence
