"""Reports and sessions that no well-behaved worker sends: each concerns nobody but its sender."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

import pytest

from mainspring.clock import LoopWaiter
from mainspring.core.ids import SessionId
from mainspring.core.outcomes import MAX_SNOOZE, Failure, Transition
from mainspring.core.states import RunState
from mainspring.engine.claiming.matcher import Matcher
from mainspring.engine.common.wakeups import Wakeups
from mainspring.engine.usecases.submissions import Submission
from mainspring.errors import InvalidInput, StoreUnavailable
from mainspring.ports.executor import Snooze, Success
from mainspring.ports.gateway import (
    ClaimCall,
    Ending,
    HandedBack,
    Registration,
    Report,
    ReportResult,
    Stopped,
)
from mainspring.ports.store.claims import ApplyResult, ClaimRequest, ClaimResult
from mainspring.testing.manual import TENANT, ManualWorker
from tests.unit.engine.conftest import Bench


async def lease(bench: Bench) -> tuple[ManualWorker, Report]:
    """Claim one run; return its worker and a report of its success."""
    jobs = await bench.runtime.client.jobs.find_all(TENANT, ["job"])
    job_id = jobs[0].id if jobs else await bench.add()
    await bench.runtime.client.runs.submit(TENANT, Submission(job_id=job_id))
    worker = await bench.runtime.worker()
    (claimed,) = await worker.claim()
    return worker, Report(run_id=claimed.run_id, token=claimed.token, ending=Success())


@pytest.mark.parametrize("days", [366, 365 * 9000, 999_999_999])
async def test_snooze_is_at_most_a_year(bench: Bench, days: int) -> None:
    worker, report = await lease(bench)
    now = bench.runtime.clock.now()
    ending = Snooze(timedelta(days=days))
    assert await worker.report(replace(report, ending=ending)) == [ReportResult.APPLIED]
    run = await bench.run(report.run_id)
    assert run.state is RunState.RETRYING
    assert run.ready_at == now + MAX_SNOOZE


async def test_snooze_into_the_past_is_at_once(bench: Bench) -> None:
    worker, report = await lease(bench)
    now = bench.runtime.clock.now()
    await worker.report(replace(report, ending=Snooze(timedelta(days=-999_999_999))))
    assert (await bench.run(report.run_id)).ready_at == now


@pytest.mark.parametrize(
    "ending",
    [
        Success(output="a\0b\ud800c"),
        Failure(error="a\0b\ud800c", output="a\0b\ud800c", is_retryable=False),
        Stopped(error="a\0b\ud800c", output="a\0b\ud800c"),
    ],
)
async def test_text_is_made_fit_for_every_store(bench: Bench, ending: Ending) -> None:
    worker, report = await lease(bench)
    assert await worker.report(replace(report, ending=ending)) == [ReportResult.APPLIED]
    run = await bench.run(report.run_id)
    assert run.output == "a\ufffdb?c"
    assert run.error in {None, "a\ufffdb?c"}


@pytest.mark.parametrize(
    "ending",
    [
        Success(result=b"1"),
        Failure(error="broke"),
        Failure(error="broke", is_retryable=False),
        Snooze(timedelta(seconds=1)),
        HandedBack(was_started=True),
        Stopped(error="stopped"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_report_of_another_session_ends_nothing_and_is_counted(bench: Bench, ending: Ending) -> None:
    holder, report = await lease(bench)
    stranger = await bench.runtime.worker()
    before = await bench.run(report.run_id)
    assert await stranger.report(replace(report, ending=ending)) == [ReportResult.STALE]
    assert await bench.run(report.run_id) == before
    assert bench.runtime.gateway.stale_reports == 1
    assert await holder.report(report) == [ReportResult.APPLIED]


async def test_reports_of_two_sessions_that_go_together_are_told_apart(bench: Bench) -> None:
    holder, report = await lease(bench)
    stranger, own = await lease(bench)
    false = replace(report, ending=Success(result=b"false"))
    theirs, holders = await asyncio.gather(stranger.report(false, own), holder.report(report))
    assert theirs == [ReportResult.STALE, ReportResult.APPLIED]
    assert holders == [ReportResult.APPLIED]
    assert (await bench.run(report.run_id)).result is None


async def test_leaving_and_beating_concern_the_own_session_only(bench: Bench) -> None:
    holder, report = await lease(bench)
    stranger = await bench.runtime.worker()
    gateway = bench.runtime.gateway
    key = (report.run_id, report.token)
    reply = await gateway.beat(stranger.session_id, (key,), answered=0)
    assert (reply.lost, reply.cancel) == ((key,), ())
    await gateway.leave(stranger.session_id)
    await bench.runtime.tick("reaper")
    assert (await bench.run(report.run_id)).state is RunState.RUNNING
    assert await holder.report(report) == [ReportResult.APPLIED]


async def test_report_that_the_store_chokes_on_fails_nobody_else(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad_worker, bad = await lease(bench)
    good_worker, good = await lease(bench)
    other_worker, other = await lease(bench)
    apply = bench.runtime.store.apply

    async def choke(transitions: Sequence[Transition], *, now: datetime) -> list[ApplyResult]:
        await asyncio.sleep(0)
        if any(transition.run_id == bad.run_id for transition in transitions):
            raise RuntimeError("bad data")
        return await apply(transitions, now=now)

    monkeypatch.setattr(bench.runtime.store, "apply", choke)
    results = await asyncio.gather(
        other_worker.report(other),  # is carried first; the others go together after it
        bad_worker.report(bad),
        good_worker.report(good),
        return_exceptions=True,
    )
    assert isinstance(results[1], RuntimeError)
    assert results[0] == results[2] == [ReportResult.APPLIED]
    assert (await bench.run(good.run_id)).state is RunState.SUCCEEDED


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
async def test_registration_that_cannot_be_stored_is_refused(bench: Bench, text: str) -> None:
    gateway = bench.runtime.gateway
    with pytest.raises(InvalidInput, match="functions"):
        await gateway.register(Registration(name="w", host="h", pid=1, slots=1, functions=("ok", text)))
    assert await bench.runtime.store.list_sessions() == []


async def test_claim_of_an_unknown_session_is_told_so(bench: Bench) -> None:
    call = ClaimCall(
        session_id=SessionId(10**17), number=1, limit=1, wait=timedelta(seconds=20), is_idle=True
    )
    reply = await asyncio.wait_for(bench.runtime.ask(call), 5)
    assert not reply.is_session_live


async def test_claim_of_a_dead_session_with_nothing_ready_is_told_so(bench: Bench) -> None:
    await bench.add()
    worker = await bench.runtime.worker()
    assert await worker.claim() == []
    await bench.runtime.store.close_sessions([worker.session_id], now=bench.runtime.clock.now())
    bench.runtime.clock.advance(30)
    call = ClaimCall(session_id=worker.session_id, number=2, limit=1, wait=timedelta(0), is_idle=True)
    assert not (await bench.runtime.ask(call)).is_session_live


async def test_closed_desk_answers_those_who_wait_and_sends_others_away(bench: Bench) -> None:
    worker = await bench.runtime.worker()
    await worker.claim()
    matcher = bench.runtime.matcher
    call = ClaimCall(
        session_id=worker.session_id, number=2, limit=1, wait=timedelta(seconds=20), is_idle=True
    )
    waiting = asyncio.create_task(matcher.claim(call))
    await asyncio.sleep(0)
    matcher.close()
    answer = await asyncio.wait_for(waiting, 1)
    assert (answer.runs, answer.is_session_live) == ((), True)
    with pytest.raises(StoreUnavailable):
        await matcher.claim(call)


async def test_repeat_that_waits_as_the_engine_stops_is_told_to_ask_again(bench: Bench) -> None:
    """Another server may be about to give runs to its number. An empty answer would be the last word on it."""
    worker = await bench.runtime.worker()
    call = ClaimCall(session_id=worker.session_id, number=1, limit=0, wait=timedelta(0), is_idle=False)
    waiting = asyncio.create_task(bench.runtime.matcher.claim(call))
    await asyncio.sleep(0)
    bench.runtime.matcher.close()
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(waiting, 1)


async def test_each_long_poll_waits_although_the_one_before_came_back_empty(bench: Bench) -> None:
    worker = await bench.runtime.worker()
    for number in (1, 2, 3, 4):
        call = ClaimCall(
            session_id=worker.session_id, number=number, limit=1, wait=timedelta(seconds=20), is_idle=True
        )
        asking = asyncio.create_task(bench.runtime.gateway.claim(call))
        await asyncio.sleep(0)
        await bench.runtime.tick("claims")
        await asyncio.sleep(0)
        assert not asking.done()
        bench.runtime.clock.advance(20)
        await bench.runtime.tick("claims")
        assert (await asyncio.wait_for(asking, 1)).leases == ()


@pytest.mark.parametrize("is_moved", [False, True])
async def test_leases_of_a_claim_that_failed_after_its_commit_are_told_at_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, is_moved: bool
) -> None:
    job_id = await bench.add()
    run = await bench.runtime.client.runs.submit(TENANT, Submission(job_id=job_id))
    worker = await bench.runtime.worker()
    matcher = bench.runtime.matcher
    claim_runs = bench.runtime.store.claim_runs

    async def lose_the_answer(requests: Sequence[ClaimRequest], *, now: datetime) -> list[ClaimResult]:
        await claim_runs(requests, now=now)
        monkeypatch.undo()
        raise StoreUnavailable("the answer was lost")

    monkeypatch.setattr(bench.runtime.store, "claim_runs", lose_the_answer)
    call = ClaimCall(
        session_id=worker.session_id, number=1, limit=1, wait=timedelta(seconds=20), is_idle=True
    )
    waiting = asyncio.create_task(matcher.claim(call))
    await asyncio.sleep(0)
    with pytest.raises(StoreUnavailable):
        await matcher.tick(bench.runtime.clock.now())
    if is_moved:  # the worker gave up, and asks another server
        runtime = bench.runtime
        matcher = Matcher(
            runtime.store, clock=runtime.clock, random=Random(1), wakeups=Wakeups(), waiter=LoopWaiter()
        )
        waiting = asyncio.create_task(matcher.claim(call))
        await asyncio.sleep(0)
    await matcher.tick(bench.runtime.clock.now())
    answer = await asyncio.wait_for(waiting, 1)
    assert [claimed.run_id for claimed in answer.runs] == [run.run_id]


@pytest.mark.parametrize("is_stopping", [False, True])
async def test_worker_that_comes_back_gets_the_leases_of_a_claim_that_another_process_served(
    bench: Bench, is_stopping: bool
) -> None:
    """It was cut off here while it waited, went elsewhere, and was cut off there with leases on their way.

    A worker that stops asks for what it got only, and that may be elsewhere although this process saw no trouble.
    """
    runtime, matcher = bench.runtime, bench.runtime.matcher
    worker = await runtime.worker()
    await worker.claim()
    call = ClaimCall(
        session_id=worker.session_id, number=2, limit=1, wait=timedelta(seconds=20), is_idle=True
    )
    if not is_stopping:
        cut_off = asyncio.create_task(matcher.claim(call))
        await asyncio.sleep(0)
        await matcher.tick(runtime.clock.now())
        cut_off.cancel()
        await asyncio.wait([cut_off])
    run = await runtime.client.runs.submit(TENANT, Submission(job_id=await bench.add()))
    elsewhere = Matcher(
        runtime.store, clock=runtime.clock, random=Random(1), wakeups=Wakeups(), waiter=LoopWaiter()
    )
    lost = asyncio.create_task(elsewhere.claim(call))
    await asyncio.sleep(0)
    await elsewhere.tick(runtime.clock.now())
    assert len((await asyncio.wait_for(lost, 1)).runs) == 1
    runtime.clock.advance(1)
    repeated = replace(call, limit=0, wait=timedelta(0), is_idle=False) if is_stopping else call
    waiting = asyncio.create_task(matcher.claim(repeated))
    await asyncio.sleep(0)
    await matcher.tick(runtime.clock.now())
    await asyncio.sleep(0)
    assert waiting.done()
    assert [claimed.run_id for claimed in waiting.result().runs] == [run.run_id]


async def test_release_that_hangs_holds_up_no_other_heartbeat(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a connection that broke without a word would use up the leases of everybody who beats here."""
    forgetful, report = await lease(bench)
    other = await bench.runtime.worker()
    gateway = bench.runtime.gateway
    await gateway.beat(forgetful.session_id, (), answered=1)
    begun, go_on = asyncio.Event(), asyncio.Event()
    apply = bench.runtime.store.apply

    async def hang(transitions: Sequence[Transition], *, now: datetime) -> list[ApplyResult]:
        begun.set()
        await go_on.wait()
        return await apply(transitions, now=now)

    monkeypatch.setattr(bench.runtime.store, "apply", hang)
    releasing = asyncio.create_task(gateway.beat(forgetful.session_id, (), answered=1))
    await asyncio.wait_for(begun.wait(), 1)
    assert (await asyncio.wait_for(gateway.beat(other.session_id, (), answered=0), 1)).is_session_live
    go_on.set()
    assert (await asyncio.wait_for(releasing, 1)).is_session_live
    assert (await bench.run(report.run_id)).state is RunState.PENDING
