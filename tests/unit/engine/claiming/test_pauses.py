"""Nothing of a paused queue or tenant is given out, and a resume is heard at once."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from mainspring.core.ids import JobId, RunId
from mainspring.core.outcomes import Failure
from mainspring.core.pauses import PauseScope
from mainspring.engine.common.wakeups import Wakeups
from mainspring.engine.usecases.pauses import PauseSwitch
from mainspring.engine.usecases.submissions import Submission
from mainspring.ports.executor import Success
from mainspring.ports.gateway import ClaimCall, ClaimReply, Lease, Report
from mainspring.testing.factories import at
from mainspring.testing.manual import TENANT, ManualWorker
from tests.unit.engine.conftest import Bench

QUEUE, EVERYTHING = PauseScope.QUEUE, PauseScope.ALL


async def add(bench: Bench, queue: str, tenant: str = TENANT, **more: Any) -> JobId:
    body = {"name": f"job {queue} {more}", "function": "work", "queue": queue, **more}
    return (await bench.runtime.client.jobs.create(tenant, body)).id


async def submit(bench: Bench, job_id: JobId, tenant: str = TENANT, **facts: Any) -> RunId:
    return (await bench.runtime.client.runs.submit(tenant, Submission(job_id=job_id, **facts))).run_id


async def pause(bench: Bench, scope: PauseScope = QUEUE, name: str = "mail", **body: Any) -> None:
    await bench.runtime.client.pauses.pause(scope, name, body, made_by="ann")
    await bench.runtime.tick("restrictions")


async def resume(bench: Bench, scope: PauseScope = QUEUE, name: str = "mail") -> None:
    await bench.runtime.client.pauses.resume(scope, name)
    await bench.runtime.tick("restrictions")


def jobs_of(leases: list[Lease]) -> list[JobId]:
    return [lease.job_id for lease in leases]


async def wait(bench: Bench, worker: ManualWorker, number: int = 1) -> asyncio.Task[ClaimReply]:
    """Let a worker wait for work."""
    call = ClaimCall(
        session_id=worker.session_id, number=number, limit=10, wait=timedelta(seconds=60), is_idle=True
    )
    task = asyncio.create_task(bench.runtime.gateway.claim(call))
    await asyncio.sleep(0)
    for _ in range(3):
        await bench.runtime.tick("claims")
    return task


@pytest.mark.parametrize(("scope", "name"), [(QUEUE, "mail"), (PauseScope.TENANT, "acme"), (EVERYTHING, "")])
async def test_what_is_paused_is_not_given_out_and_goes_on_afterwards(
    bench: Bench, scope: PauseScope, name: str
) -> None:
    paused, other = await add(bench, "mail", "acme"), await add(bench, "bulk")
    await submit(bench, paused, "acme")
    await submit(bench, other)
    worker = await bench.runtime.worker()
    await pause(bench, scope, name)
    leases = await worker.claim()
    assert jobs_of(leases) == ([] if scope is EVERYTHING else [other])
    await resume(bench, scope, name)
    expected = {paused, other} if scope is EVERYTHING else {paused}
    assert set(jobs_of(await worker.claim())) == expected


async def test_runs_of_all_kinds_are_held(bench: Bench) -> None:
    plain, limited = await add(bench, "mail"), await add(bench, "mail", concurrency=1)
    fragile = await add(bench, "mail", priority="HIGH")
    lost = await bench.runtime.worker()
    await submit(bench, fragile)
    await lost.claim()
    await bench.runtime.gateway.leave(lost.session_id)
    await bench.runtime.store.close_sessions([lost.session_id], now=bench.runtime.clock.now())
    await bench.runtime.tick("reaper")
    await submit(bench, plain)
    await submit(bench, limited)
    worker = await bench.runtime.worker()
    await pause(bench)
    assert await worker.claim() == []
    await resume(bench)
    given: list[JobId] = []
    for _ in range(4):
        leases = await worker.claim()
        given += jobs_of(leases)
        await worker.report(*[Report(run_id=one.run_id, token=one.token, ending=Success()) for one in leases])
    assert set(given) == {plain, limited, fragile}


async def test_a_server_that_has_not_heard_of_a_pause_gives_nothing(bench: Bench) -> None:
    job_id = await add(bench, "mail")
    await submit(bench, job_id)
    worker = await bench.runtime.worker()
    await bench.runtime.tick("restrictions", "claims")
    elsewhere = PauseSwitch(bench.runtime.store, clock=bench.runtime.clock, wakeups=Wakeups())
    await elsewhere.pause(QUEUE, "mail", {}, made_by="ann")
    assert await worker.claim() == []
    await elsewhere.resume(QUEUE, "mail")
    await bench.runtime.tick("restrictions")
    assert jobs_of(await worker.claim()) == [job_id]


async def test_a_resume_wakes_the_calls_that_wait(bench: Bench) -> None:
    job_id = await add(bench, "mail")
    await submit(bench, job_id)
    await pause(bench)
    worker = await bench.runtime.worker()
    task = await wait(bench, worker)
    assert not task.done()
    await bench.runtime.client.pauses.resume(QUEUE, "mail")
    await asyncio.wait_for(bench.runtime.services["restrictions"].waiter.wait(60), 1)  # it was told
    await bench.runtime.tick("restrictions")
    await asyncio.wait_for(bench.runtime.matcher.waiter.wait(60), 1)
    await bench.runtime.tick("claims")
    assert [lease.job_id for lease in (await task).leases] == [job_id]


async def test_a_pause_ends_by_itself(bench: Bench) -> None:
    job_id = await add(bench, "mail")
    await submit(bench, job_id)
    await pause(bench, until=at(20).isoformat())
    worker = await bench.runtime.worker()
    task = await wait(bench, worker)
    bench.runtime.clock.advance(19.9)
    delay = await bench.runtime.services["claims"].tick(bench.runtime.clock.now())
    assert (task.done(), delay <= 0.1) == (False, True)
    bench.runtime.clock.advance(0.1)
    await bench.runtime.tick("claims")
    assert [lease.job_id for lease in (await task).leases] == [job_id]


async def test_nothing_goes_straight_to_a_worker_past_a_pause(bench: Bench) -> None:
    mail, bulk = await add(bench, "mail"), await add(bench, "bulk")
    for job_id in (mail, bulk):
        await submit(bench, job_id, delay=timedelta(hours=1))
    await pause(bench)
    worker = await bench.runtime.worker()
    task = await wait(bench, worker)
    await submit(bench, mail)
    for _ in range(3):
        await bench.runtime.tick("claims")
    assert not task.done()
    # What is held does not stand in the way of another queue.
    run_id = await submit(bench, bulk)
    await bench.runtime.tick("claims")
    assert [lease.run_id for lease in (await task).leases] == [run_id]
    measures = {one.name: one.value for one in bench.runtime.matcher.measures()}
    assert measures["runs_submitted_claimed_total"] == 1


async def test_attempts_under_way_go_on_and_their_retries_wait(bench: Bench) -> None:
    job_id = await add(bench, "mail", retry={"max_retries": 1})
    run_id = await submit(bench, job_id)
    worker = await bench.runtime.worker()
    [lease] = await worker.claim()
    await pause(bench)
    await worker.report(Report(run_id=lease.run_id, token=lease.token, ending=Failure(error="no")))
    await bench.runtime.advance(60)
    worker = await bench.runtime.worker()
    assert await worker.claim() == []
    why = await bench.runtime.client.runs.why(TENANT, run_id)
    assert why.sentence == "Queue 'mail' is paused by ann, since 2026-01-05T12:00:00.000Z."
    await resume(bench)
    assert [lease.run_id for lease in await worker.claim()] == [run_id]


async def test_fires_of_a_paused_queue_wait_or_are_skipped(bench: Bench) -> None:
    held = await add(bench, "mail", every="10s")
    skipped = await add(bench, "bulk", every="10s")
    once = await add(bench, "bulk", run_at=at(25).isoformat())
    await bench.runtime.advance(10)
    await pause(bench)
    await pause(bench, name="bulk", mode="skip", until=at(39.5).isoformat())
    await bench.runtime.advance(31)
    by_reason = {
        job_id: [(run.fire_at, run.reason) for run in await bench.runs(job_id)]
        for job_id in (held, skipped, once)
    }
    assert by_reason == {
        held: [(at(second), None) for second in (10, 20, 30, 40)],
        skipped: [(at(10), None), (at(20), "paused"), (at(30), "paused"), (at(40), None)],
        once: [(at(25), "paused")],
    }
    worker = await bench.runtime.worker()
    assert set(jobs_of(await worker.claim())) == {skipped}


async def test_missed_fires_that_fell_into_a_pause_are_skipped_too(bench: Bench) -> None:
    job_id = await add(bench, "mail", every="10s", misfire={"policy": "fire_all", "grace": "1s"})
    await bench.runtime.advance(11)
    await pause(bench, mode="skip", until=at(35).isoformat())
    bench.runtime.clock.advance(60)
    await bench.runtime.tick()
    await bench.runtime.plan()
    await bench.runtime.advance(3)
    reasons = {run.fire_at: run.reason for run in await bench.runs(job_id)}
    assert reasons == {
        at(10): None,
        at(20): "paused",
        at(30): "paused",
        **{at(second): None for second in (40, 50, 60, 70)},
    }
