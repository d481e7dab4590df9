"""A hint comes while nothing is known to be ready: the matcher claims first, and reads the lanes only after that."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from mainspring.core.ids import JobId, SessionId
from mainspring.core.model import Lane
from mainspring.engine.usecases.runs import Runs
from mainspring.engine.usecases.submissions import Submission
from mainspring.errors import StoreUnavailable
from mainspring.ports.gateway import ClaimCall, ClaimReply
from mainspring.ports.store.claims import ClaimRequest, ClaimResult
from mainspring.testing.factories import all_lanes, make_claim
from mainspring.testing.manual import TENANT
from tests.unit.engine.conftest import Bench


class Calls:
    """The calls of the store that the matcher makes, in order, with what each speculative claim got."""

    def __init__(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[str] = []
        store = bench.runtime.store
        read_lanes, claim_runs, try_claim = store.read_lanes, store.claim_runs, store.try_claim

        async def note_read(queues: Sequence[str], **named: Any) -> list[Lane]:
            self.made.append("read")
            return await read_lanes(queues, **named)

        async def note_claim(requests: Sequence[ClaimRequest], **named: Any) -> list[ClaimResult]:
            self.made += ["claim"] * len(requests)
            return await claim_runs(requests, **named)

        async def note_speculative(request: ClaimRequest, **named: Any) -> ClaimResult | None:
            result = await try_claim(request, **named)
            self.made.append("nothing" if result is None else "speculative")
            return result

        monkeypatch.setattr(store, "read_lanes", note_read)
        monkeypatch.setattr(store, "claim_runs", note_claim)
        monkeypatch.setattr(store, "try_claim", note_speculative)


async def wait(bench: Bench, session_id: SessionId, number: int, **facts: Any) -> asyncio.Task[ClaimReply]:
    """Let a session wait for work, until the matcher knows that nothing is ready."""
    values: dict[str, Any] = {"limit": 10, "wait": timedelta(seconds=60), "is_idle": True, **facts}
    call = ClaimCall(session_id=session_id, number=number, **values)
    task = asyncio.create_task(bench.runtime.gateway.claim(call))
    await asyncio.sleep(0)
    await tick(bench, 2)
    return task


async def tick(bench: Bench, count: int = 1) -> None:
    for _ in range(count):
        await bench.runtime.tick("claims")
        for _ in range(3):
            await asyncio.sleep(0)


async def submit(bench: Bench, job_id: JobId, **facts: Any) -> None:
    """Submit at another server, whose hint is heard here."""
    runtime = bench.runtime
    runs = Runs(runtime.store, clock=runtime.clock, wakeups=runtime.wakeups)
    await runs.submit(TENANT, Submission(job_id=job_id, **facts))


async def make_known(bench: Bench, queue: str = "default") -> JobId:
    """Add a job whose lane is there, with a run that becomes ready only in an hour."""
    job_id = await bench.add(name=f"job-{queue}", queue=queue)
    await submit(bench, job_id, delay=timedelta(hours=1))
    return job_id


async def test_run_is_claimed_before_the_lanes_are_read(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await bench.add()
    await submit(bench, job_id)
    worker = await bench.runtime.worker()
    assert len((await wait(bench, worker.session_id, 1)).result().leases) == 1
    waiting = await wait(bench, worker.session_id, 2)
    calls = Calls(bench, monkeypatch)
    await submit(bench, job_id)
    await tick(bench)
    assert len(waiting.result().leases) == 1
    assert calls.made == ["speculative"]
    more = await wait(bench, worker.session_id, 3)
    assert "read" in calls.made, "there may be more than that"
    more.cancel()


async def test_claim_that_finds_nothing_leads_to_a_read_and_the_request_is_still_good(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is one for later, as the read tells; the same request then gets it."""
    job_id = await bench.add()
    await submit(bench, job_id)
    worker = await bench.runtime.worker()
    assert (await wait(bench, worker.session_id, 1)).result().leases
    waiting = await wait(bench, worker.session_id, 2)
    calls = Calls(bench, monkeypatch)
    await submit(bench, job_id, delay=timedelta(seconds=5))
    await tick(bench)
    assert calls.made == ["nothing", "read"]
    assert not waiting.done()
    bench.runtime.clock.advance(5)
    await tick(bench)
    assert len(waiting.result().leases) == 1
    assert calls.made[-1] == "claim"


async def test_what_was_ready_before_comes_first(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something is ready that this session cannot run; the lanes are read first."""
    job_id = await bench.add(name="mine")
    await submit(bench, job_id)
    other = await bench.add(name="other", queue="other")
    await submit(bench, other)
    worker = await bench.runtime.worker(queues=("default",))
    assert (await wait(bench, worker.session_id, 1)).result().leases
    waiting = await wait(bench, worker.session_id, 2)
    calls = Calls(bench, monkeypatch)
    await submit(bench, job_id)
    await tick(bench)
    assert len(waiting.result().leases) == 1
    assert calls.made == ["read", "claim"]


async def test_runs_that_wait_for_their_time_do_not_matter(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await make_known(bench)
    worker = await bench.runtime.worker()
    waiting = await wait(bench, worker.session_id, 1)
    calls = Calls(bench, monkeypatch)
    await submit(bench, job_id)
    await tick(bench)
    assert len(waiting.result().leases) == 1
    assert calls.made == ["speculative"]


async def test_session_that_serves_many_lanes_reads_them(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [await make_known(bench, f"queue-{number}") for number in range(9)]
    worker = await bench.runtime.worker()
    waiting = await wait(bench, worker.session_id, 1)
    calls = Calls(bench, monkeypatch)
    await submit(bench, jobs[0])
    await tick(bench)
    assert len(waiting.result().leases) == 1
    assert calls.made[0] == "read"


async def test_claim_whose_answer_was_lost_is_repeated(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = await bench.add()
    await submit(bench, job_id)
    worker = await bench.runtime.worker()
    assert (await wait(bench, worker.session_id, 1)).result().leases
    waiting = await wait(bench, worker.session_id, 2)
    try_claim = bench.runtime.store.try_claim

    async def commit_and_fail(request: ClaimRequest, **named: Any) -> ClaimResult | None:
        await try_claim(request, **named)
        raise StoreUnavailable("the answer got lost")

    await submit(bench, job_id)
    with monkeypatch.context() as patched:
        patched.setattr(bench.runtime.store, "try_claim", commit_and_fail)
        with pytest.raises(StoreUnavailable):
            await tick(bench)
    await tick(bench)
    [lease] = waiting.result().leases
    assert lease.token == 1


async def test_number_stays_unknown_if_the_caller_left_during_the_claim(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process serves it meanwhile, under that number. Asked again here, the matcher asks the store for that."""
    job_id = await make_known(bench)
    store = bench.runtime.store
    worker = await bench.runtime.worker()
    waiting = await wait(bench, worker.session_id, 1)
    served: list[ClaimResult] = []

    async def find_nothing_while_the_caller_goes_elsewhere(_: ClaimRequest, *, now: datetime) -> None:
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        elsewhere = make_claim(worker.session_id, await all_lanes(store), number=1, limit=10)
        served.extend(await store.claim_runs([elsewhere], now=now))

    await submit(bench, job_id)
    with monkeypatch.context() as patched:
        patched.setattr(store, "try_claim", find_nothing_while_the_caller_goes_elsewhere)
        await tick(bench)
    [[lost]] = [result.runs for result in served]
    again = await wait(bench, worker.session_id, 1)
    assert again.done(), "nothing is ready, but the store has given something to this number"
    assert [lease.run_id for lease in again.result().leases] == [lost.run_id]
