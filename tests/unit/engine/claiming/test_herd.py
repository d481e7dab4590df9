"""Many sessions wait for little work: the store is asked for few of them, and the others go on waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from mainspring.core.ids import RunId, SessionId
from mainspring.engine.usecases.submissions import Submission
from mainspring.errors import StoreUnavailable
from mainspring.ports.gateway import ClaimCall, ClaimReply
from mainspring.ports.store.claims import ClaimRequest, ClaimResult
from mainspring.ports.store.sessions import SessionPulse
from mainspring.testing.manual import TENANT, ManualWorker
from tests.unit.engine.conftest import Bench

SESSIONS = 40


class Herd:
    """Sessions that wait at the matcher, with the number of requests in each call of the store."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.waiting: list[asyncio.Task[ClaimReply]] = []
        self.asked: list[int] = []

    @property
    def answered(self) -> list[ClaimReply]:
        return [task.result() for task in self.waiting if task.done()]

    @property
    def runs(self) -> list[RunId]:
        return [lease.run_id for reply in self.answered for lease in reply.leases]

    async def wait(self, worker: ManualWorker, limit: int) -> None:
        call = ClaimCall(
            session_id=worker.session_id, number=1, limit=limit, wait=timedelta(seconds=20), is_idle=True
        )
        self.waiting.append(asyncio.create_task(self.bench.runtime.gateway.claim(call)))
        await asyncio.sleep(0)

    async def tick(self, count: int = 1) -> None:
        for _ in range(count):
            await self.bench.runtime.tick("claims")
            for _ in range(3):
                await asyncio.sleep(0)


async def gather(bench: Bench, monkeypatch: pytest.MonkeyPatch, *, limit: int, **offer: Any) -> Herd:
    herd = Herd(bench)
    for _ in range(SESSIONS):
        await herd.wait(await bench.runtime.worker(**offer), limit)
    await herd.tick()
    claim_runs = bench.runtime.store.claim_runs

    async def note(requests: Sequence[ClaimRequest], **named: Any) -> list[ClaimResult]:
        if requests:
            herd.asked.append(len(requests))
        return await claim_runs(requests, **named)

    monkeypatch.setattr(bench.runtime.store, "claim_runs", note)
    return herd


async def submit(bench: Bench, count: int) -> None:
    job_id = await bench.add(name=f"job-{count}")
    await bench.runtime.client.runs.submit_many(TENANT, [Submission(job_id=job_id)] * count)


async def test_one_run_is_asked_for_once_and_nobody_else_is_answered(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    herd = await gather(bench, monkeypatch, limit=10)
    await submit(bench, 1)
    await herd.tick(3)
    assert (len(herd.runs), len(herd.answered), herd.asked) == (1, 1, [1])


async def test_more_work_than_one_takes_reaches_the_others_in_growing_steps(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    herd = await gather(bench, monkeypatch, limit=1)
    await submit(bench, 31)
    await herd.tick(6)
    assert len(set(herd.runs)) == 31
    assert herd.asked[:5] == [1, 2, 4, 8, 16]
    assert sum(herd.asked) <= SESSIONS


async def test_those_who_wait_longest_come_first(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    herd = await gather(bench, monkeypatch, limit=1)
    await submit(bench, 3)
    await herd.tick(5)
    assert [bool(task.done() and task.result().leases) for task in herd.waiting[:4]] == [True] * 3 + [False]


async def test_sessions_with_other_abilities_are_asked_for_at_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    herd = await gather(bench, monkeypatch, limit=10, queues=("elsewhere",))
    await herd.wait(await bench.runtime.worker(), 10)
    await submit(bench, 2)
    await herd.tick()
    assert len(herd.runs) == 2
    assert herd.asked == [1]


async def test_wait_of_those_who_were_passed_over_ends_in_time(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    herd = await gather(bench, monkeypatch, limit=10)
    await submit(bench, 1)
    await herd.tick()
    bench.runtime.clock.advance(20)
    await herd.tick(2)
    assert len(herd.answered) == SESSIONS
    assert all(reply.is_session_live for reply in herd.answered)


async def test_sessions_are_seen_alive_by_their_counters_alone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse() -> None:
        raise AssertionError("all sessions were read in full")

    herd = await gather(bench, monkeypatch, limit=10)
    await herd.tick()
    monkeypatch.setattr(bench.runtime.store, "list_sessions", refuse)
    bench.runtime.clock.advance(20)
    await herd.tick(2)
    assert len(herd.answered) == SESSIONS
    assert all(reply.is_session_live for reply in herd.answered)


async def test_session_that_is_opened_while_the_others_are_read_is_not_forgotten(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was told that it had ended, and whatever it held was lost with it."""
    herd = await gather(bench, monkeypatch, limit=10)
    await herd.tick()
    read_pulses = bench.runtime.store.read_pulses

    async def open_one_meanwhile() -> dict[SessionId, SessionPulse]:
        pulses = await read_pulses()
        await herd.wait(await bench.runtime.worker(), 1)
        return pulses

    monkeypatch.setattr(bench.runtime.store, "read_pulses", open_one_meanwhile)
    bench.runtime.clock.advance(20)
    await herd.tick(2)
    assert all(reply.is_session_live for reply in herd.answered)


async def test_new_session_is_known_without_reading_all_of_them(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse() -> None:
        raise AssertionError("all sessions were read")

    await submit(bench, 1)
    monkeypatch.setattr(bench.runtime.store, "list_sessions", refuse)
    herd = Herd(bench)
    await herd.wait(await bench.runtime.worker(), 1)
    await herd.tick()
    assert len(herd.runs) == 1


async def test_lease_of_a_claim_that_failed_after_its_commit_does_not_wait_for_the_end_of_the_poll(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session has the only run by then, so nothing looks ready any more."""
    herd = Herd(bench)
    await herd.wait(await bench.runtime.worker(), 1)
    await herd.tick()
    claim_runs = bench.runtime.store.claim_runs

    async def commit_and_fail(requests: Sequence[ClaimRequest], **named: Any) -> list[ClaimResult]:
        await claim_runs(requests, **named)
        raise StoreUnavailable("the answer is lost")

    await submit(bench, 1)
    with monkeypatch.context() as patched:
        patched.setattr(bench.runtime.store, "claim_runs", commit_and_fail)
        with pytest.raises(StoreUnavailable):
            await herd.tick()
    bench.runtime.clock.advance(1)
    await herd.tick()
    assert len(herd.runs) == 1


async def test_wait_of_those_for_whom_nothing_is_ready_ends_in_time_while_others_are_busy(
    bench: Bench,
) -> None:
    herd = Herd(bench)
    await herd.wait(await bench.runtime.worker(queues=("elsewhere",)), 1)
    await herd.tick()
    bench.runtime.clock.advance(20)
    await submit(bench, 5)
    await herd.wait(await bench.runtime.worker(), 1)
    await herd.tick()
    assert len(herd.runs) == 1, "and there is more to be taken"
    assert len(herd.answered) == 2
