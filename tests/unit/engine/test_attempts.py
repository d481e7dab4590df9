"""From claim to end: retries, losses, cancels, deadlines, blame (laws 3 and 7)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from mainspring.core.applying import CancelVerdict
from mainspring.core.ids import RunId
from mainspring.core.model import Priority
from mainspring.core.states import RunState
from mainspring.engine.usecases.runs import Submitted
from mainspring.engine.usecases.submissions import Submission
from mainspring.errors import Conflict, InvalidInput, StoreUnavailable
from mainspring.ports.executor import Success
from mainspring.ports.gateway import Report, ReportResult
from mainspring.ports.store.sessions import BeatResult
from mainspring.testing.factories import at, make_session
from mainspring.testing.manual import TENANT, ManualWorker
from tests.unit.engine.conftest import Bench


async def submit(bench: Bench, **fields: object) -> RunId:
    job_id = await bench.add(**fields)
    return (await bench.runtime.client.runs.submit(TENANT, Submission(job_id=job_id))).run_id


async def lose_worker(bench: Bench, *, but: ManualWorker | None = None) -> None:
    """Let three periods pass in which nobody but one worker beats."""
    for _ in range(8):
        bench.runtime.clock.advance(5)
        if but is not None:
            await but.beat()
        await bench.runtime.tick("reaper")


async def test_run_succeeds_at_the_first_go_and_writes_no_attempt(bench: Bench) -> None:
    run_id = await submit(bench)
    worker = await bench.runtime.worker()
    assert await worker.work() == 1
    run = await bench.run(run_id)
    assert (run.state, run.result, run.attempt) == (RunState.SUCCEEDED, b'"done"', 1)
    assert await bench.runtime.client.runs.attempts(TENANT, run_id) == []


async def test_run_fails_twice_and_then_succeeds(bench: Bench) -> None:
    run_id = await submit(bench, retry={"delay": "10s", "jitter": 0})
    bench.failures += [ValueError("one"), ValueError("two")]
    worker = await bench.runtime.worker()
    await worker.work()
    assert (await bench.run(run_id)).state is RunState.RETRYING
    await bench.runtime.advance(9)
    assert await worker.work() == 0, "the backoff is not over"
    await bench.runtime.advance(1)
    await worker.work()
    await bench.runtime.advance(20)
    await worker.work()
    run = await bench.run(run_id)
    assert (run.state, run.attempt) == (RunState.SUCCEEDED, 3)
    outcomes = [item.outcome for item in await bench.runtime.client.runs.attempts(TENANT, run_id)]
    assert outcomes == ["failed", "failed", "succeeded"]


async def test_run_out_of_attempts_is_a_dead_letter(bench: Bench) -> None:
    run_id = await submit(bench, retry={"max_retries": 1, "delay": 0})
    bench.failures += [ValueError("x"), ValueError("y")]
    worker = await bench.runtime.worker()
    assert await worker.work() == 2
    run = await bench.run(run_id)
    assert (run.state, run.reason, run.attempt) == (RunState.FAILED, "retries_exhausted", 2)
    assert run.error is not None
    assert "y" in run.error


async def test_lost_worker_is_found_by_silence_and_its_run_carried_out_again(bench: Bench) -> None:
    run_id = await submit(bench)
    dead = await bench.runtime.worker()
    (lease,) = await dead.claim()
    await lose_worker(bench)
    run = await bench.run(run_id)
    assert (run.state, run.crashes, run.attempt) == (RunState.PENDING, 1, 1)
    other = await bench.runtime.worker()
    assert await other.work() == 1
    late = Report(run_id=lease.run_id, token=lease.token, ending=Success(result=b"1"))
    assert await dead.report(late) == [ReportResult.STALE]
    assert (await bench.run(run_id)).result == b'"done"'
    assert bench.runtime.gateway.stale_reports == 1


async def test_beating_worker_is_never_declared_dead(bench: Bench) -> None:
    run_id = await submit(bench)
    worker = await bench.runtime.worker()
    await worker.claim()
    await lose_worker(bench, but=worker)
    assert (await bench.run(run_id)).state is RunState.RUNNING


async def test_at_most_once_run_of_a_lost_worker_never_runs_again(bench: Bench) -> None:
    run_id = await submit(bench, delivery="at_most_once")
    dead = await bench.runtime.worker()
    await dead.claim()
    await lose_worker(bench)
    run = await bench.run(run_id)
    assert (run.state, run.reason) == (RunState.FAILED, "lost")


async def test_run_that_crashes_its_worker_alone_is_poison(bench: Bench) -> None:
    run_id = await submit(bench, poison_limit=2)
    innocent = await submit(bench, name="innocent")
    crashing = await bench.runtime.worker()
    assert len(await crashing.claim()) == 2
    await lose_worker(bench)
    for _ in range(2):
        worker = await bench.runtime.worker()
        leases = await worker.claim()
        assert [lease.is_quarantined for lease in leases] == [True], "a quarantined run is claimed alone"
        if leases[0].run_id == innocent:
            await worker.report(await worker.carry_out(leases[0]))
            leases = await worker.claim()
        assert leases[0].run_id == run_id
        assert await worker.claim() == [], "and nothing beside it"
        await lose_worker(bench)
    run = await bench.run(run_id)
    assert (run.state, run.reason, run.crashes) == (RunState.FAILED, "poison", 3)
    assert (await bench.run(innocent)).state is RunState.SUCCEEDED


async def test_cancel_of_a_waiting_run_ends_it_at_once(bench: Bench) -> None:
    run_id = await submit(bench)
    assert await bench.runtime.client.runs.cancel(TENANT, run_id) is CancelVerdict.CANCELLED
    worker = await bench.runtime.worker()
    assert await worker.work() == 0
    assert (await bench.run(run_id)).state is RunState.CANCELLED


async def test_completion_wins_over_a_cancel_that_came_first(bench: Bench) -> None:
    run_id = await submit(bench)
    worker = await bench.runtime.worker()
    (lease,) = await worker.claim()
    assert await bench.runtime.client.runs.cancel(TENANT, run_id) is CancelVerdict.REQUESTED
    assert await worker.report(await worker.carry_out(lease)) == [ReportResult.APPLIED]
    assert (await bench.run(run_id)).state is RunState.SUCCEEDED


@pytest.mark.parametrize("way", ["fails", "is lost"])
async def test_cancelled_run_that_ends_otherwise_is_cancelled(bench: Bench, way: str) -> None:
    run_id = await submit(bench)
    worker = await bench.runtime.worker()
    (lease,) = await worker.claim()
    await bench.runtime.client.runs.cancel(TENANT, run_id)
    if way == "fails":
        bench.failures.append(ValueError("x"))
        await worker.report(await worker.carry_out(lease))
    else:
        await lose_worker(bench)
    assert (await bench.run(run_id)).state is RunState.CANCELLED


async def test_deadline_is_enforced_by_the_reaper_when_the_worker_does_not(bench: Bench) -> None:
    run_id = await submit(bench, timeout="10s", retry={"max_retries": 0})
    worker = await bench.runtime.worker()
    await worker.claim()
    for _ in range(10):
        bench.runtime.clock.advance(3)
        await worker.beat()
        await bench.runtime.tick("reaper")
    run = await bench.run(run_id)
    assert (run.state, run.reason) == (RunState.FAILED, "retries_exhausted")
    (attempt,) = await bench.runtime.client.runs.attempts(TENANT, run_id)
    assert attempt.outcome == "timed_out"


async def test_success_that_waited_out_an_outage_is_not_judged_by_the_deadline(bench: Bench) -> None:
    run_id = await submit(bench, timeout="10s", retry={"max_retries": 0})
    worker = await bench.runtime.worker()
    (lease,) = await worker.claim()
    await bench.runtime.tick("reaper")
    report = await worker.carry_out(lease)
    bench.runtime.clock.advance(600)  # nobody reaches the store; then the reaper is back before the worker is
    await bench.runtime.tick("reaper")
    await worker.report(report)
    assert (await bench.run(run_id)).state is RunState.SUCCEEDED


async def fill_disk(
    bench: Bench, worker: ManualWorker, monkeypatch: pytest.MonkeyPatch, *, with_reports: bool = False
) -> None:
    """Let time pass in which the store can be read but takes no heartbeat and no report."""

    async def refuse(*_: object, **__: object) -> list[BeatResult]:
        raise StoreUnavailable("the disk is full")

    reports = [await worker.carry_out(lease) for lease in worker.held] if with_reports else []
    with monkeypatch.context() as patch:
        patch.setattr(bench.runtime.store, "beat_sessions", refuse)
        patch.setattr(bench.runtime.store, "apply", refuse)
        for _ in range(10):
            bench.runtime.clock.advance(5)
            with pytest.raises(StoreUnavailable):
                await worker.beat()
            if reports:
                with pytest.raises(StoreUnavailable):
                    await worker.report(*reports)
            await bench.runtime.tick("reaper")


async def test_jump_of_the_wall_clock_is_nobodys_silence(bench: Bench) -> None:
    run_id = await submit(bench, delivery="at_most_once", timeout="10h")
    worker = await bench.runtime.worker()
    await worker.claim()
    for _ in range(8):
        await bench.runtime.tick("reaper")
        bench.runtime.clock.set(bench.runtime.clock.now() + timedelta(seconds=8))
    await bench.runtime.tick("reaper")
    assert (await bench.run(run_id)).state is RunState.RUNNING


async def test_session_is_judged_by_the_period_that_its_worker_was_told(bench: Bench) -> None:
    """Other servers, or this one before its last start, may have another period than the judge."""
    runtime = bench.runtime
    told = {"quick": timedelta(seconds=1), "slow": timedelta(seconds=40), "older release": None}
    offers = [make_session(worker=name, beat_period=period) for name, period in told.items()]
    await runtime.store.add_sessions(offers, now=runtime.clock.now())
    found_dead: dict[str, int] = {}
    for second in range(125):
        await runtime.tick("reaper")
        live = {session.worker for session in await runtime.store.list_sessions()}
        for name in told.keys() - live:
            found_dead.setdefault(name, second)
        runtime.clock.advance(1)
    assert found_dead == {"quick": 3, "older release": 30, "slow": 120}


async def test_session_has_the_period_that_its_worker_was_told(bench: Bench) -> None:
    await bench.runtime.worker()
    [session] = await bench.runtime.store.list_sessions()
    assert session.beat_period == timedelta(seconds=10)


async def test_heartbeats_that_a_full_disk_refused_are_nobodys_silence(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await submit(bench, delivery="at_most_once")
    worker = await bench.runtime.worker()
    (lease,) = await worker.claim()
    await fill_disk(bench, worker, monkeypatch)
    bench.runtime.clock.advance(9)  # there is room, and the reaper looks before the next heartbeat
    await bench.runtime.tick("reaper")
    assert (await bench.run(run_id)).state is RunState.RUNNING
    await worker.report(await worker.carry_out(lease))
    assert (await bench.run(run_id)).state is RunState.SUCCEEDED
    await lose_worker(bench)  # and who is silent from now on is found as ever
    assert await bench.runtime.store.list_sessions() == []


async def test_success_that_waited_for_room_is_not_judged_by_the_deadline(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await submit(bench, timeout="10s", retry={"max_retries": 0})
    worker = await bench.runtime.worker()
    (lease,) = await worker.claim()
    report = await worker.carry_out(lease)
    await fill_disk(bench, worker, monkeypatch, with_reports=True)
    await bench.runtime.tick("reaper")
    await worker.report(report)
    assert (await bench.run(run_id)).state is RunState.SUCCEEDED


async def test_run_not_started_in_time_expires(bench: Bench) -> None:
    run_id = await submit(bench, expires_after="5s")
    await bench.runtime.advance(6)
    run = await bench.run(run_id)
    assert (run.state, run.reason) == (RunState.SKIPPED, "expired")


async def test_worker_that_another_server_could_not_hear_is_not_judged_by_this_one(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise StoreUnavailable("the disk is full")

    runtime = bench.runtime
    run_id = await submit(bench, delivery="at_most_once")
    worker = await runtime.worker()
    await worker.claim()
    with monkeypatch.context() as patch:
        patch.setattr(runtime.store, "beat_node", refuse)
        for _ in range(12):  # the worker's own heartbeats are refused elsewhere
            runtime.clock.advance(5)
            with pytest.raises(StoreUnavailable):
                await runtime.tick("shards")
            await runtime.tick("reaper")
    for _ in range(5):  # there is room again, and everybody has time to say so
        runtime.clock.advance(5)
        await runtime.tick("shards")
        await runtime.tick("reaper")
    assert (await bench.run(run_id)).state is RunState.RUNNING
    for _ in range(5):  # who still says nothing is gone
        runtime.clock.advance(5)
        await runtime.tick("shards")
        await runtime.tick("reaper")
    assert (await bench.run(run_id)).state is RunState.FAILED
    assert (await bench.run(run_id)).reason == "lost"


async def test_repeated_claim_gets_the_same_leases(bench: Bench) -> None:
    await submit(bench)
    worker = await bench.runtime.worker()
    first = await worker.claim()
    assert await worker.claim(is_repeat=True) == first


async def test_lease_whose_claim_answer_was_lost_is_released_after_two_beats(bench: Bench) -> None:
    run_id = await submit(bench)
    worker = await bench.runtime.worker()
    await worker.claim()
    worker.held.clear()  # the answer never arrived
    await worker.beat()
    assert (await bench.run(run_id)).state is RunState.RUNNING
    await worker.beat()
    run = await bench.run(run_id)
    assert (run.state, run.crashes) == (RunState.PENDING, 0)


async def test_forgotten_lease_of_an_at_most_once_run_counts_as_begun(bench: Bench) -> None:
    run_id = await submit(bench, delivery="at_most_once")
    worker = await bench.runtime.worker()
    await worker.claim()
    worker.held.clear()
    for _ in range(2):
        await worker.beat()
    run = await bench.run(run_id)
    assert (run.state, run.reason) == (RunState.FAILED, "lost")


async def test_repeated_report_is_applied_again(bench: Bench) -> None:
    await submit(bench, retry={"delay": "1h"})
    bench.failures.append(ValueError("x"))
    worker = await bench.runtime.worker()
    (lease,) = await worker.claim()
    report = await worker.carry_out(lease)
    assert await worker.report(report) == [ReportResult.APPLIED]
    assert await worker.report(report) == [ReportResult.APPLIED]
    other = Report(run_id=lease.run_id, token=lease.token, ending=Success())
    assert await worker.report(other) == [ReportResult.STALE]


async def test_priorities_are_claimed_first_and_low_ones_age(bench: Bench) -> None:
    low = await submit(bench, name="low", priority="LOW")
    bench.runtime.clock.advance(1)
    high = await submit(bench, name="high", priority="HIGH")
    worker = await bench.runtime.worker()
    assert [lease.run_id for lease in await worker.claim(limit=1)] == [high]
    bench.runtime.clock.advance(timedelta(minutes=5).total_seconds())
    for number in range(20):
        await submit(bench, name=f"newer-{number}", priority="HIGH")
    claimed = [lease.run_id for _ in range(10) for lease in await worker.claim(limit=1)]
    assert claimed.index(low) <= 9  # a tenth of the seats


async def test_worker_without_the_function_is_given_nothing(bench: Bench) -> None:
    run_id = await submit(bench)
    stranger = await bench.runtime.worker(functions=("other",))
    assert await stranger.claim() == []
    assert (await bench.run(run_id)).state is RunState.PENDING


async def test_idempotency_key_gives_the_same_run_and_refuses_another_request(bench: Bench) -> None:
    job_id = await bench.add()
    runs = bench.runtime.client.runs
    first = await runs.submit(TENANT, Submission(job_id=job_id, idempotency_key="k"))
    again = await runs.submit(TENANT, Submission(job_id=job_id, idempotency_key="k"))
    assert (again.run_id, again.is_new) == (first.run_id, False)
    with pytest.raises(Conflict, match="idempotency_key"):
        await runs.submit(TENANT, Submission(job_id=job_id, idempotency_key="k", priority=Priority.HIGH))


async def test_idempotency_key_with_a_delay_gives_the_same_run_later_on(bench: Bench) -> None:
    job_id = await bench.add()
    runs = bench.runtime.client.runs
    delayed = Submission(job_id=job_id, delay=timedelta(minutes=5), idempotency_key="k")
    first = await runs.submit(TENANT, delayed)
    due_at = (await bench.run(first.run_id)).due_at
    bench.runtime.clock.advance(60)
    assert await runs.submit(TENANT, delayed) == Submitted(first.run_id, is_new=False)
    assert (await bench.run(first.run_id)).due_at == due_at
    for other in (None, timedelta(minutes=6)):
        with pytest.raises(Conflict):
            await runs.submit(TENANT, replace(delayed, delay=other))


async def test_idempotency_key_does_not_mind_the_order_of_keys(bench: Bench) -> None:
    job_id = await bench.add()
    runs = bench.runtime.client.runs

    async def send(payload: bytes) -> Submitted:
        return await runs.submit(TENANT, Submission(job_id=job_id, payload=payload, idempotency_key="k"))

    first = await send(b'{"y":{"b":[1,2],"a":"\xc3\xa9"},"x":1}')
    for same in (b'{"x":1,"y":{"a":"\xc3\xa9","b":[1,2]}}', b'{"x": 1, "y": {"b": [1, 2], "a": "\\u00e9"}}'):
        again = await send(same)
        assert (again.run_id, again.is_new) == (first.run_id, False)
    for other in (b'{"x":1,"y":{"a":"\xc3\xa9","b":[2,1]}}', b'{"x":"1"}', b"null"):
        with pytest.raises(Conflict, match="idempotency_key"):
            await send(other)
    kept = await bench.run(first.run_id)
    assert kept.payload == b'{"y":{"b":[1,2],"a":"\xc3\xa9"},"x":1}', "what was sent"


async def test_delayed_run_waits_for_its_instant(bench: Bench) -> None:
    job_id = await bench.add()
    submission = Submission(job_id=job_id, run_at=at(30))
    await bench.runtime.client.runs.submit(TENANT, submission)
    worker = await bench.runtime.worker()
    assert await worker.work() == 0
    await bench.runtime.advance(30)
    assert await worker.work() == 1


async def test_naive_run_at_is_refused(bench: Bench) -> None:
    job_id = await bench.add()
    with pytest.raises(InvalidInput, match="offset"):
        await bench.runtime.client.runs.submit(
            TENANT, Submission(job_id=job_id, run_at=at(30).replace(tzinfo=None))
        )


async def test_rule_decides_by_the_exceptions_that_the_worker_reports(bench: Bench) -> None:
    rules = [
        {"on": "PermissionError", "then": "fail"},
        {"on": "OSError", "then": "snooze", "delay": "5s"},
        {"on": "any", "max_retries": 1, "delay": "10s"},
    ]
    run_id = await submit(bench, retry={"jitter": 0, "rules": rules})
    worker = await bench.runtime.worker()
    bench.failures.append(ConnectionRefusedError("maintenance"))
    await worker.work()
    run = await bench.run(run_id)
    assert (run.state, run.attempt) == (RunState.RETRYING, 1)
    bench.failures.append(KeyError("odd"))
    await bench.runtime.advance(5)
    await worker.work()
    assert (await bench.run(run_id)).attempt == 2
    bench.failures.append(PermissionError("no"))
    await bench.runtime.advance(10)
    await worker.work()
    run = await bench.run(run_id)
    assert (run.state, run.reason, run.error) == (RunState.FAILED, "not_retryable", "PermissionError: no")


async def test_rule_for_crashes_counts_them_as_attempts(bench: Bench) -> None:
    rule = {"on": "crash", "max_retries": 0}
    run_id = await submit(bench, retry={"rules": [rule]})
    worker = await bench.runtime.worker()
    await worker.claim()
    await lose_worker(bench)
    run = await bench.run(run_id)
    assert (run.state, run.reason, run.crashes) == (RunState.FAILED, "retries_exhausted", 1)
