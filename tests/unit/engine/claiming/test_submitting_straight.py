"""A worker waits while a run is submitted in the same process: one store call submits the run and gives it out."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from mainspring.core.ids import JobId, RunId, SessionId
from mainspring.core.model import Priority
from mainspring.core.states import RunState
from mainspring.engine.common.wakeups import Wakeups
from mainspring.engine.usecases.runs import Runs
from mainspring.engine.usecases.submissions import Submission
from mainspring.errors import StoreUnavailable
from mainspring.ports.gateway import ClaimCall, ClaimReply, FunctionLimit
from mainspring.ports.store.claims import ClaimedRun
from mainspring.testing.manual import TENANT
from tests.unit.engine.conftest import Bench

Calls = list[str]


@pytest.fixture
def calls(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Calls:
    """The writing calls of the store that submit or claim, in order. One that is refused is called so."""
    made: Calls = []

    def note(name: str) -> None:
        verb = getattr(bench.runtime.store, name)

        async def noted(*args: Any, **named: Any) -> Any:
            result = await verb(*args, **named)
            if name != "claim_runs" or args[0]:
                made.append("refused" if result is None else name)
            return result

        monkeypatch.setattr(bench.runtime.store, name, noted)

    for name in ("submit_runs", "submit_claimed", "try_claim", "claim_runs"):
        note(name)
    return made


async def known_job(bench: Bench, **body: Any) -> JobId:
    """Add a job whose lane is there, with a run that becomes ready only in an hour."""
    job_id = await bench.add(**{"name": f"job-{body.get('queue', '')}"} | body)
    await submit(bench, job_id, delay=timedelta(hours=1))
    return job_id


async def submit(bench: Bench, job_id: JobId, **facts: Any) -> RunId:
    submitted = await bench.runtime.client.runs.submit(TENANT, Submission(job_id=job_id, **facts))
    assert submitted.is_new
    return submitted.run_id


async def submit_elsewhere(bench: Bench, job_id: JobId) -> RunId:
    """Submit at another server, of which nothing is heard here."""
    runs = Runs(bench.runtime.store, clock=bench.runtime.clock, wakeups=Wakeups())
    return (await runs.submit(TENANT, Submission(job_id=job_id))).run_id


async def wait(
    bench: Bench, session_id: SessionId, number: int = 1, **facts: Any
) -> asyncio.Task[ClaimReply]:
    """Let a session wait for work, until the matcher knows that nothing is ready."""
    values: dict[str, Any] = {"limit": 10, "wait": timedelta(seconds=60), "is_idle": True, **facts}
    call = ClaimCall(session_id=session_id, number=number, **values)
    task = asyncio.create_task(bench.runtime.gateway.claim(call))
    await asyncio.sleep(0)
    await tick(bench, 3)
    return task


async def tick(bench: Bench, count: int = 1) -> None:
    for _ in range(count):
        await bench.runtime.tick("claims")
        await settle()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def leased(task: asyncio.Task[ClaimReply]) -> list[RunId]:
    return [lease.run_id for lease in task.result().leases]


async def a_worker_waits(bench: Bench, **body: Any) -> tuple[JobId, asyncio.Task[ClaimReply]]:
    job_id = await known_job(bench, **body)
    worker = await bench.runtime.worker()
    return job_id, await wait(bench, worker.session_id)


async def test_waiting_worker_gets_the_run_with_the_submission(bench: Bench, calls: Calls) -> None:
    job_id, waiting = await a_worker_waits(bench)
    calls.clear()
    run_id = await submit(bench, job_id)
    await settle()
    [lease] = waiting.result().leases
    assert (lease.run_id, lease.token) == (run_id, 1)
    assert (await bench.run(run_id)).state is RunState.RUNNING
    assert calls == ["submit_claimed"]
    assert bench.runtime.telemetry.figures()["runs_submitted_claimed_total"] == 1


async def test_next_call_waits_without_asking_the_store(bench: Bench, calls: Calls) -> None:
    """The number is used, so the next one is no repeat; and nothing has become ready."""
    job_id = await known_job(bench)
    worker = await bench.runtime.worker()
    calls.clear()
    for number in range(1, 4):
        waiting = await wait(bench, worker.session_id, number)
        run_id = await submit(bench, job_id)
        await settle()
        assert leased(waiting) == [run_id]
    assert calls == ["submit_claimed"] * 3


async def test_longest_waiting_comes_first(bench: Bench) -> None:
    job_id = await known_job(bench)
    tasks = [await wait(bench, (await bench.runtime.worker()).session_id) for _ in range(3)]
    run_ids = []
    for _ in tasks:
        run_ids.append(await submit(bench, job_id))
        await settle()
    assert [leased(task) for task in tasks] == [[run_id] for run_id in run_ids]


async def test_worker_that_cannot_execute_it_is_passed_over(bench: Bench, calls: Calls) -> None:
    job_id = await known_job(bench)
    other = await wait(bench, (await bench.runtime.worker(queues=("other",))).session_id)
    able = await wait(bench, (await bench.runtime.worker()).session_id)
    calls.clear()
    run_id = await submit(bench, job_id)
    await settle()
    assert leased(able) == [run_id]
    assert not other.done()
    assert calls == ["submit_claimed"]
    other.cancel()


@pytest.mark.parametrize(
    "facts",
    [
        {"idempotency_key": "key"},
        {"delay": timedelta(seconds=1)},
        {"priority": Priority.HIGH},
    ],
    ids=["key", "delay", "new lane"],
)
async def test_run_with_more_to_it_goes_the_ordinary_way(
    bench: Bench, calls: Calls, facts: dict[str, Any]
) -> None:
    job_id, waiting = await a_worker_waits(bench)
    calls.clear()
    await submit(bench, job_id, **facts)
    assert "submit_claimed" not in calls
    assert calls[-1] == "submit_runs"
    bench.runtime.clock.advance(1)
    await tick(bench, 3)
    assert len(leased(waiting)) == 1


async def test_lane_of_another_priority_will_do_once_it_is_known(bench: Bench, calls: Calls) -> None:
    job_id, first = await a_worker_waits(bench)
    await submit(bench, job_id, priority=Priority.HIGH, delay=timedelta(hours=1))
    await tick(bench, 3)
    calls.clear()
    run_id = await submit(bench, job_id, priority=Priority.HIGH)
    await settle()
    assert leased(first) == [run_id]
    assert calls == ["submit_claimed"]


async def test_submissions_that_come_together_share_a_transaction(bench: Bench, calls: Calls) -> None:
    job_id, waiting = await a_worker_waits(bench)
    calls.clear()
    await asyncio.gather(*(submit(bench, job_id) for _ in range(5)))
    assert calls == ["submit_runs"]
    await tick(bench, 2)
    assert len(leased(waiting)) == 5


async def test_news_is_looked_into_first(bench: Bench, calls: Calls) -> None:
    job_id, waiting = await a_worker_waits(bench)
    first = await submit_elsewhere(bench, job_id)
    bench.runtime.wakeups.runs_ready()
    calls.clear()
    second = await submit(bench, job_id)
    assert calls == ["submit_runs"]
    await tick(bench)
    assert leased(waiting) == [first, second]


async def test_what_became_ready_unheard_comes_first(bench: Bench, calls: Calls) -> None:
    """The store refuses, because it sees a run that the matcher does not know of yet."""
    job_id, waiting = await a_worker_waits(bench)
    first = await submit_elsewhere(bench, job_id)
    calls.clear()
    second = await submit(bench, job_id)
    assert calls == ["refused", "submit_runs"]
    await tick(bench)
    assert leased(waiting) == [first, second]


async def test_backlog_that_the_worker_cannot_execute_does_not_matter(bench: Bench, calls: Calls) -> None:
    job_id = await known_job(bench)
    await submit_elsewhere(bench, await known_job(bench, queue="nobody"))
    waiting = await wait(bench, (await bench.runtime.worker(queues=("default",))).session_id)
    calls.clear()
    run_id = await submit(bench, job_id)
    await settle()
    assert calls == ["submit_claimed"]
    assert leased(waiting) == [run_id]


async def test_session_that_serves_many_lanes_reads_them(bench: Bench, calls: Calls) -> None:
    jobs = [await known_job(bench, queue=f"queue-{number}") for number in range(9)]
    waiting = await wait(bench, (await bench.runtime.worker()).session_id)
    calls.clear()
    await submit(bench, jobs[0])
    assert calls == ["submit_runs"]
    await tick(bench)
    assert len(leased(waiting)) == 1


@pytest.mark.parametrize(("limit", "goes"), [(0, "submit_runs"), (1, "submit_claimed")])
async def test_limit_of_its_functions_is_kept(bench: Bench, calls: Calls, limit: int, goes: str) -> None:
    job_id = await known_job(bench)
    bound = FunctionLimit(functions=frozenset({"work"}), limit=limit)
    worker = await bench.runtime.worker()
    waiting = await wait(bench, worker.session_id, function_limit=bound)
    calls.clear()
    await submit(bench, job_id)
    await settle()
    assert calls == [goes]
    assert waiting.done() == (goes == "submit_claimed")
    waiting.cancel()


async def test_tick_does_not_use_the_call_meanwhile(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its wait ends, and something becomes ready, while the store is asked: it gets one answer."""
    job_id, waiting = await a_worker_waits(bench)
    hold(bench, monkeypatch, go := asyncio.Event())
    submission = asyncio.create_task(submit(bench, job_id))
    await settle()
    bench.runtime.clock.advance(61)
    bench.runtime.wakeups.runs_ready()
    ticking = asyncio.create_task(bench.runtime.tick("claims"))
    await settle()
    assert not waiting.done()
    assert not ticking.done()
    go.set()
    run_id = await submission
    await ticking
    await settle()
    assert leased(waiting) == [run_id]


async def test_submission_does_not_wait_for_a_tick(
    bench: Bench, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id, waiting = await a_worker_waits(bench)
    read_lanes = bench.runtime.store.read_lanes
    go = asyncio.Event()

    async def held_up(*args: Any, **named: Any) -> Any:
        await go.wait()
        return await read_lanes(*args, **named)

    monkeypatch.setattr(bench.runtime.store, "read_lanes", held_up)
    bench.runtime.clock.advance(1)
    ticking = asyncio.create_task(bench.runtime.tick("claims"))
    await settle()
    calls.clear()
    await submit(bench, job_id)
    assert calls == ["submit_runs"]
    go.set()
    await ticking
    await tick(bench)
    assert len(leased(waiting)) == 1


def hold(bench: Bench, monkeypatch: pytest.MonkeyPatch, go: asyncio.Event, after: bool = False) -> None:
    """Keep the store from carrying out a straight submission, or from answering it, until told to go on."""
    submit_claimed = bench.runtime.store.submit_claimed

    async def held(*args: Any, **named: Any) -> ClaimedRun | None:
        if not after:
            await go.wait()
        result = await submit_claimed(*args, **named)
        await go.wait()
        return result

    monkeypatch.setattr(bench.runtime.store, "submit_claimed", held)


def fail(bench: Bench, monkeypatch: pytest.MonkeyPatch, *, is_committed: bool) -> None:
    submit_claimed = bench.runtime.store.submit_claimed

    async def failing(*args: Any, **named: Any) -> ClaimedRun | None:
        if is_committed:
            await submit_claimed(*args, **named)
        raise StoreUnavailable("the answer got lost")

    monkeypatch.setattr(bench.runtime.store, "submit_claimed", failing)


async def test_lost_answer_reaches_the_submitter_and_the_worker_gets_the_run(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id, waiting = await a_worker_waits(bench)
    with monkeypatch.context() as patched:
        fail(bench, patched, is_committed=True)
        with pytest.raises(StoreUnavailable):
            await submit(bench, job_id)
    assert not waiting.done()
    await tick(bench)
    [lease] = waiting.result().leases
    assert lease.token == 1
    assert (await bench.run(lease.run_id)).state is RunState.RUNNING


async def test_call_is_good_after_a_submission_that_failed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id, waiting = await a_worker_waits(bench)
    with monkeypatch.context() as patched:
        fail(bench, patched, is_committed=False)
        with pytest.raises(StoreUnavailable):
            await submit(bench, job_id)
    run_id = await submit(bench, job_id)
    await tick(bench)
    assert leased(waiting) == [run_id]


async def test_after_a_lost_answer_nothing_goes_straight_under_the_same_number(
    bench: Bench, calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id, waiting = await a_worker_waits(bench)
    with monkeypatch.context() as patched:
        fail(bench, patched, is_committed=True)
        with pytest.raises(StoreUnavailable):
            await submit(bench, job_id)
    calls.clear()
    second = await submit(bench, job_id)
    assert calls == ["submit_runs"]
    await tick(bench)
    [first] = leased(waiting)
    assert first < second


@pytest.mark.parametrize("after", [False, True])
async def test_caller_that_left_gets_it_by_a_repeat(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    job_id, waiting = await a_worker_waits(bench)
    with monkeypatch.context() as patched:
        hold(bench, patched, go := asyncio.Event(), after)
        submission = asyncio.create_task(submit(bench, job_id))
        await settle()
        waiting.cancel()
        await settle()
        go.set()
        run_id = await submission
    [held] = await bench.runtime.store.read_held([run_id])
    assert held is not None
    again = await wait(bench, held.session_id)
    assert leased(again) == [run_id]


async def test_newer_call_of_the_session_gets_what_the_older_one_was_given(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await known_job(bench)
    worker = await bench.runtime.worker()
    waiting = await wait(bench, worker.session_id)
    with monkeypatch.context() as patched:
        hold(bench, patched, go := asyncio.Event(), after=True)
        submission = asyncio.create_task(submit(bench, job_id))
        await settle()
        call = ClaimCall(
            session_id=worker.session_id, number=1, limit=10, wait=timedelta(seconds=60), is_idle=True
        )
        again = asyncio.create_task(bench.runtime.gateway.claim(call))
        await settle()
        go.set()
        run_id = await submission
    await tick(bench)
    assert leased(waiting) == []
    assert leased(again) == [run_id]


async def test_call_of_a_dead_session_is_told_and_the_run_waits(bench: Bench, calls: Calls) -> None:
    job_id = await known_job(bench)
    worker = await bench.runtime.worker()
    waiting = await wait(bench, worker.session_id)
    await bench.runtime.store.close_sessions([worker.session_id], now=bench.runtime.clock.now())
    calls.clear()
    run_id = await submit(bench, job_id)
    assert calls == ["refused", "submit_runs"]
    assert (await bench.run(run_id)).state is RunState.PENDING
    await tick(bench)
    assert not waiting.result().is_session_live


async def test_session_that_was_forgotten_meanwhile(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = await known_job(bench)
    worker = await bench.runtime.worker()
    waiting = await wait(bench, worker.session_id)
    hold(bench, monkeypatch, go := asyncio.Event())
    submission = asyncio.create_task(submit(bench, job_id))
    await settle()
    await bench.runtime.gateway.leave(worker.session_id)
    go.set()
    run_id = await submission
    assert (await bench.run(run_id)).state is RunState.PENDING
    await tick(bench)
    assert not waiting.result().is_session_live


async def test_quarantined_run_goes_before(bench: Bench, calls: Calls) -> None:
    job_id = await known_job(bench)
    crashed = await bench.runtime.worker()
    await submit(bench, job_id)
    assert len(await crashed.claim()) == 1
    await bench.runtime.gateway.leave(crashed.session_id)
    await bench.runtime.tick("reaper")
    busy = await bench.runtime.worker()
    waiting = await wait(bench, busy.session_id, is_idle=False)
    calls.clear()
    await submit(bench, job_id)
    assert calls == ["submit_runs"]
    waiting.cancel()


async def test_share_of_the_tenant_is_charged(bench: Bench) -> None:
    """What went straight counts when two tenants' backlogs are weighed."""
    client = bench.runtime.client
    body = {"name": "job", "function": "work"}
    jobs = {tenant: (await client.jobs.create(tenant, body)).id for tenant in ("a", "b")}
    for tenant, job_id in jobs.items():
        await client.runs.submit(tenant, Submission(job_id=job_id, delay=timedelta(hours=1)))
    worker = await bench.runtime.worker()
    waiting = await wait(bench, worker.session_id)
    await client.runs.submit("a", Submission(job_id=jobs["a"]))
    await settle()
    assert len(leased(waiting)) == 1
    for tenant, job_id in jobs.items():
        await client.runs.submit(tenant, Submission(job_id=job_id))
    waiting = await wait(bench, worker.session_id, 2, limit=1)
    assert [lease.tenant for lease in waiting.result().leases] == ["b"]


async def test_nothing_goes_straight_once_the_engine_stops(bench: Bench, calls: Calls) -> None:
    job_id, waiting = await a_worker_waits(bench)
    bench.runtime.matcher.close()
    await settle()
    assert leased(waiting) == []
    calls.clear()
    await submit(bench, job_id)
    assert calls == ["submit_runs"]


async def test_calls_that_wait_are_answered_when_accounts_or_tokens_change(bench: Bench) -> None:
    """Whoever asks again is looked at anew; a worker that asks again gets what there is."""
    job_id, waiting = await a_worker_waits(bench)
    bench.runtime.matcher.dismiss()
    await settle()
    assert leased(waiting) == []
    [session] = await bench.runtime.store.list_sessions()
    again = await wait(bench, session.id, 2)
    await submit(bench, job_id)
    await settle()
    assert len(leased(again)) == 1


async def test_call_that_is_being_given_a_run_as_the_engine_stops_is_told_to_ask_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty answer would use up its number, so the worker would never hear of the run."""
    job_id, waiting = await a_worker_waits(bench)
    hold(bench, monkeypatch, go := asyncio.Event())
    submitting = asyncio.create_task(submit(bench, job_id))
    await settle()
    bench.runtime.matcher.close()
    go.set()
    run_id = await submitting
    with pytest.raises(StoreUnavailable):
        await waiting
    assert (await bench.run(run_id)).state is RunState.RUNNING


async def test_submission_by_an_old_definition_goes_nowhere(bench: Bench, calls: Calls) -> None:
    job_id, waiting = await a_worker_waits(bench)
    await bench.runtime.client.jobs.edit(TENANT, job_id, {"payload": 2})
    calls.clear()
    run_id = await submit(bench, job_id)
    assert calls == ["refused", "submit_runs", "submit_runs"], "refused for its version, both ways"
    await tick(bench)
    assert leased(waiting) == [run_id]
    assert (await bench.run(run_id)).version == 2


async def test_a_run_does_not_go_straight_to_a_worker_of_another_tenant(bench: Bench, calls: Calls) -> None:
    job_id = await known_job(bench)
    bank = await bench.runtime.worker(tenant="bank")
    waiting = await wait(bench, bank.session_id)
    calls.clear()
    run_id = await submit(bench, job_id)
    await tick(bench, 3)
    assert "submit_claimed" not in calls
    assert not waiting.done()
    own = await bench.runtime.worker(tenant=TENANT)
    served = await wait(bench, own.session_id)
    assert [lease.run_id for lease in (await served).leases] == [run_id]
    served = await wait(bench, own.session_id, number=2)
    calls.clear()
    run_id = await submit(bench, job_id)
    assert calls == ["submit_claimed"]
    assert [lease.run_id for lease in (await served).leases] == [run_id]
    waiting.cancel()
