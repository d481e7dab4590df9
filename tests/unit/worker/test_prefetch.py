"""A worker claims ahead only what it ends soon, starts it in order, and keeps nothing from workers that are idle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.clock import LoopWaiter
from mainspring.core.batching import BatchRule
from mainspring.core.ids import RunId, SessionId
from mainspring.core.model import Delivery, Target
from mainspring.ports.executor import AttemptContext, Executor, OnEnd, Outcome, Success
from mainspring.ports.gateway import (
    MAX_SLOTS,
    BeatReply,
    ClaimCall,
    ClaimReply,
    HandedBack,
    Lease,
    Registration,
    Report,
    Session,
    Stopped,
)
from mainspring.worker import Worker, WorkerSettings, WorkerWaiters
from mainspring.worker.leases import HeldLeases
from mainspring.worker.prefetch import COOLDOWN, LEAST_PATIENCE, MOST, MOST_BYTES, Prefetch
from tests.unit.worker.test_worker import Server, make_lease, until

SLOTS = 4
HORIZON = 0.5


@given(
    st.integers(0, 100_000), st.floats(0.01, 100), st.integers(1, 5000), st.integers(0, 5000), st.floats(0, 1)
)
def test_no_more_than_what_ends_in_time_is_claimed_ahead(
    ended: int, elapsed: float, asked: int, short: int, horizon: float
) -> None:
    prefetch = Prefetch(timedelta(seconds=horizon))
    prefetch.adapt([], asked=1, ended=7, now=100.0)
    leases = [make_lease(0)] * max(asked - short, 0)
    ahead = prefetch.adapt(leases, asked=asked, ended=7 + ended, now=100.0 + elapsed)
    assert 0 <= ahead <= min(ended / elapsed * horizon * 1.001 + 1e-6, MOST)
    if short:
        assert ahead == 0


def test_repeated_claim_tells_nothing_of_the_backlog() -> None:
    prefetch = Prefetch(timedelta(seconds=1))
    prefetch.adapt([], asked=1, ended=0, now=1.0)
    assert prefetch.adapt([make_lease(1)], asked=0, ended=1000, now=2.0) == 0


def test_burst_of_ends_is_no_rate() -> None:
    prefetch = Prefetch(timedelta(seconds=1))
    prefetch.adapt([], asked=1, ended=0, now=1.0)
    assert prefetch.adapt([make_lease(1)], asked=1, ended=100, now=2.0) == 100
    assert prefetch.adapt([make_lease(1)], asked=1, ended=150, now=2.001) == 100
    assert prefetch.adapt([make_lease(1)], asked=1, ended=150, now=3.0) == 50


def test_attempts_that_end_together_are_no_rate() -> None:
    """Twenty attempts of one second, begun together: the worker ends twenty a second, not twenty in 20 ms."""
    prefetch = Prefetch(timedelta(seconds=0.1), slots=20)
    found = []
    for second in range(5):
        for number in range(4):
            now, ended = 10.0 + second + number * 0.02, 20 * second + 5 * (number + 1)
            found.append(prefetch.adapt([make_lease(1)], asked=1, ended=ended, now=now))
    assert max(found) == 2


def test_rate_is_no_higher_than_the_ends_that_are_missing_allow() -> None:
    prefetch = Prefetch(timedelta(seconds=1), slots=20)
    prefetch.adapt([], asked=1, ended=0, now=1.0)
    assert prefetch.adapt([make_lease(1)], asked=1, ended=2000, now=2.0) == 2000
    assert prefetch.adapt([make_lease(1)], asked=1, ended=2019, now=2.5) == 40
    assert prefetch.adapt([make_lease(1)], asked=1, ended=2019, now=4.0) == 10


def test_patience_is_longer_than_what_may_wait_and_a_second_at_least() -> None:
    assert Prefetch(timedelta(milliseconds=50)).patience == LEAST_PATIENCE
    assert Prefetch(timedelta(seconds=1)).patience == 4


def test_nothing_is_claimed_ahead_for_a_while_after_runs_were_handed_back() -> None:
    prefetch = Prefetch(timedelta(seconds=1))
    prefetch.adapt([], asked=1, ended=0, now=1.0)
    prefetch.note_hand_back(1.5)
    assert prefetch.adapt([make_lease(1)], asked=1, ended=100, now=2.0) == 0
    assert prefetch.adapt([make_lease(1)], asked=1, ended=2000, now=1.5 + COOLDOWN) > 0


def test_runs_that_may_start_only_once_are_not_claimed_ahead() -> None:
    prefetch = Prefetch(timedelta(seconds=1))
    prefetch.adapt([], asked=1, ended=0, now=1.0)
    once = replace(make_lease(1), spec=replace(make_lease(1).spec, delivery=Delivery.AT_MOST_ONCE))
    assert prefetch.adapt([make_lease(1), once], asked=2, ended=100, now=2.0) == 0
    assert prefetch.adapt([make_lease(1)] * 2, asked=2, ended=200, now=3.0) == 100


def test_batches_are_not_claimed_ahead() -> None:
    prefetch = Prefetch(timedelta(seconds=1))
    prefetch.adapt([], asked=1, ended=0, now=1.0)
    lease = make_lease(1)
    gathered = replace(lease, batch="1.0", spec=replace(lease.spec, batch=BatchRule(size=9)))
    assert prefetch.adapt([gathered] * 9, asked=2, ended=100, now=2.0) == 0


def test_large_payloads_limit_what_waits() -> None:
    prefetch = Prefetch(timedelta(seconds=1))
    prefetch.adapt([], asked=1, ended=0, now=1.0)
    heavy = [replace(make_lease(number), payload=b"x" * 60_000) for number in range(3)]
    assert prefetch.adapt(heavy, asked=3, ended=10_000, now=2.0) == MOST_BYTES // 60_000
    mixed = [*heavy, *[make_lease(9)] * 297]
    assert prefetch.adapt(mixed, asked=300, ended=20_000, now=3.0) == MOST


def test_room_counts_what_waits_and_stays_within_what_a_heartbeat_may_name() -> None:
    held = HeldLeases(10)
    assert (held.room(), held.free_slots()) == (10, 10)
    held.ahead = MAX_SLOTS
    assert held.room() == MAX_SLOTS
    held.ahead = 20
    for number in range(11):
        held.waiting[RunId(number), 1] = make_lease(number), SessionId(1), 0.0
    assert held.room() == 0  # more than half of what may wait is still there
    held.waiting.popitem()
    assert held.room() == 20
    held.ahead = 0
    assert (held.room(), held.free_slots()) == (0, 0)
    held.waiting.clear()
    for number in range(15):
        held.ended[RunId(number), 1] = SessionId(1), Report(run_id=RunId(number), token=1, ending=Success())
    assert held.room() == 5
    held.ahead = 20
    assert held.room() == 30
    for number in range(100, 150):
        held.ended[RunId(number), 1] = SessionId(1), Report(run_id=RunId(number), token=1, ending=Success())
    assert held.room() == -5


class Gated:
    """An executor that tells which attempts began. From a certain one on, they end only when they are let go."""

    type = "test"

    def __init__(self, *, stop_at: int | None = None) -> None:
        self.stop_at = stop_at
        self.began: list[RunId] = []
        self.under_way = 0
        self.most = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def execute(self, context: AttemptContext) -> Outcome:
        self.began.append(context.run_id)
        if len(self.began) == self.stop_at:
            self.gate.clear()
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(0)
            await self.gate.wait()
        finally:
            self.under_way -= 1
        return Success()


class Bounded:
    """An executor that has few threads for the function `sync`."""

    type = "test"

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.broken = False

    @property
    def bounded_functions(self) -> frozenset[str]:
        return frozenset({"sync"})

    def room(self) -> int:
        return self.threads

    def listen_for_room(self, listener: Callable[[], object]) -> None: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def execute(self, context: AttemptContext) -> Outcome:
        raise NotImplementedError

    async def halt(self, handle: object, message: str | None) -> Outcome:
        raise NotImplementedError

    def begin(self, context: AttemptContext, on_end: OnEnd) -> object:
        needed = int(context.params["function"] == "sync")
        self.broken = self.broken or self.threads < needed
        self.threads -= needed

        def end() -> None:
            self.threads += needed
            on_end(Success())

        # Attempts of the other function take longer, so that slots come free before threads do.
        return asyncio.get_running_loop().call_later(0.004 if needed else 0.001, end)


class Calm(Server):
    """A server with long beat periods, so that a test may move the worker's clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self.lost: tuple[tuple[RunId, int], ...] = ()
        self.cancelled: tuple[tuple[RunId, int], ...] = ()
        self.is_polling = False

    async def register(self, registration: Registration) -> Session:
        session = await super().register(registration)
        return replace(session, beat_period=timedelta(seconds=1000))

    async def claim(self, call: ClaimCall) -> ClaimReply:
        self.now += 0.02
        reply = await super().claim(call)
        if not reply.leases and call.wait:
            self.is_polling = True
            await asyncio.get_running_loop().create_future()
        return reply

    async def beat(
        self, session_id: SessionId, held: tuple[tuple[RunId, int], ...], *, answered: int | None = None
    ) -> BeatReply:
        self.beats += 1
        self.held = held
        return BeatReply(lost=self.lost, cancel=self.cancelled)


class Mixed(Calm):
    """A server that has `sync` and `async` runs, and keeps to the limit of a claim."""

    async def claim(self, call: ClaimCall) -> ClaimReply:
        bound = call.function_limit
        room = MAX_SLOTS if bound is None else bound.limit
        chosen: list[Lease] = []
        for lease in self.leases:
            is_bounded = lease.spec.target.params["function"] == "sync"
            if len(chosen) < call.limit and (not is_bounded or room > 0):
                chosen.append(lease)
                room -= is_bounded
        await asyncio.sleep(0.001)
        self.now += 0.02
        self.leases = [lease for lease in self.leases if lease not in chosen]
        return ClaimReply(leases=tuple(chosen))


@asynccontextmanager
async def working(server: Calm, executor: Executor, *, prefetch: float = HORIZON) -> AsyncIterator[Worker]:
    worker = Worker(
        server,
        {"test": executor},
        settings=WorkerSettings(
            registration=Registration(name="w", host="h", pid=1, slots=SLOTS),
            prefetch=timedelta(seconds=prefetch),
        ),
        waiters=WorkerWaiters(claim=LoopWaiter(), beat=LoopWaiter(), report=LoopWaiter()),
        random=Random(1),
        monotonic=lambda: server.now,
    )
    await worker.start()
    try:
        yield worker
    finally:
        stopping = asyncio.ensure_future(worker.stop(grace=1))
        await asyncio.sleep(0)
        if isinstance(executor, Gated):
            executor.gate.set()
        await asyncio.wait_for(stopping, 15)


@asynccontextmanager
async def claiming_ahead() -> AsyncIterator[tuple[Calm, Gated, Worker]]:
    """Run a worker all of whose slots are taken by attempts that do not end, with leases that wait for them."""
    server, executor = Calm(), Gated(stop_at=10)
    server.leases = leases(60)
    async with working(server, executor) as worker:
        await until(lambda: not server.leases and len(worker.held) == SLOTS + worker.waiting)
        await until(lambda: executor.under_way == SLOTS)
        assert worker.waiting > 10
        yield server, executor, worker


def leases(count: int) -> list[Lease]:
    return [make_lease(number) for number in range(count)]


async def test_backlog_is_claimed_ahead_and_begun_in_order_by_as_many_as_there_are_slots() -> None:
    server, executor = Calm(), Gated()
    server.leases = leases(500)
    async with working(server, executor):
        await until(lambda: len(server.endings) == 500)
        limits = [limit for _, limit in server.claims]
        assert limits[0] == SLOTS
        assert max(limits) > 50
    assert executor.began == [RunId(number) for number in range(500)]
    assert executor.most == SLOTS
    assert all(isinstance(ending, Success) for ending in server.endings.values())


async def test_endings_wait_for_more_while_there_is_a_backlog_and_not_for_long() -> None:
    server, executor = Calm(), Gated(stop_at=SLOTS + 1)
    server.leases = leases(2000)  # so many that a moment in which the machine stands still decides nothing
    async with working(server, executor, prefetch=0.6):
        await until(lambda: len(server.endings) == SLOTS)  # the rest is under way and does not end
        executor.stop_at = None
        executor.gate.set()
        await until(lambda: len(server.endings) == 2000)
    assert max(server.batches) > 2 * SLOTS


async def test_worker_that_may_not_claims_only_for_free_slots() -> None:
    server, executor = Calm(), Gated()
    server.leases = leases(100)
    async with working(server, executor, prefetch=0):
        await until(lambda: len(server.endings) == 100)
    assert max(limit for _, limit in server.claims) == SLOTS


async def test_what_waits_is_held_and_named_in_heartbeats() -> None:
    async with claiming_ahead() as (server, _, worker):
        held = set(worker.held)
        assert len(held) >= SLOTS + worker.waiting
        worker.beat_now()
        await until(lambda: server.beats > 0)
        assert set(server.held) == held


async def test_what_waits_longer_than_patience_is_handed_back_unstarted() -> None:
    async with claiming_ahead() as (server, executor, worker):
        began = set(executor.began)
        waiting = worker.waiting
        server.now += 4 * HORIZON
        await until(lambda: worker.waiting == 0)
        await until(lambda: len(server.endings) == 60 - SLOTS)  # by the claims' waits, nobody signals
        handed = {
            run_id for run_id, ending in server.endings.items() if ending == HandedBack(was_started=False)
        }
        assert len(handed) == waiting
        assert not handed & began
        assert set(executor.began) == began


async def test_worker_that_handed_back_what_waited_too_long_does_not_claim_as_much_again() -> None:
    server, executor = Calm(), Gated(stop_at=300)
    server.leases = leases(20_000)
    async with working(server, executor) as worker:
        await until(lambda: not executor.gate.is_set())
        await asyncio.sleep(0.1)
        left = len(server.leases)
        assert left
        assert worker.waiting
        server.now += 4 * HORIZON
        await until(lambda: any(isinstance(ending, HandedBack) for ending in server.endings.values()))
        await asyncio.sleep(0.1)
        assert worker.waiting == 0
        assert len(server.leases) == left


async def test_worker_never_long_polls_while_leases_wait_for_a_slot() -> None:
    async with claiming_ahead() as (server, _, worker):
        assert worker.waiting
        assert not server.is_polling


async def test_worker_that_stops_hands_back_what_waits_and_sees_the_rest_through() -> None:
    async with claiming_ahead() as (server, executor, worker):
        waiting = worker.waiting
        began = set(executor.began)
    assert sum(ending == HandedBack(was_started=False) for ending in server.endings.values()) == waiting
    assert set(executor.began) == began
    assert sum(isinstance(ending, Success) for ending in server.endings.values()) == 60 - waiting


@pytest.mark.parametrize("fate", ["lost", "cancelled"])
async def test_lease_that_waits_and_is_lost_or_cancelled_never_begins(fate: str) -> None:
    async with claiming_ahead() as (server, executor, worker):
        key = worker.held[SLOTS]  # after those under way come those that wait
        assert key[0] not in executor.began
        setattr(server, fate, (key,))
        worker.beat_now()
        await until(lambda: key not in worker.held)
        executor.gate.set()
        await until(lambda: not worker.held)
        assert key[0] not in executor.began
        if fate == "lost":
            assert key[0] not in server.endings
            assert worker.counters.dropped == 1
        else:
            assert isinstance(server.endings[key[0]], Stopped)


async def test_function_that_needs_a_thread_waits_for_one_although_a_slot_is_free() -> None:
    server, executor = Mixed(), Bounded(threads=2)
    server.leases = [
        replace(lease, spec=replace(lease.spec, target=Target("test", {"function": name})))
        for lease in leases(300)
        for name in ["async" if lease.run_id % 3 else "sync"]
    ]
    async with working(server, executor) as worker:
        await until(lambda: len(server.endings) == 300)
        assert worker.counters.succeeded_or_failed == 300
    assert not executor.broken


class Stuck(Bounded):
    """One whose calls of `sync` do not end until they are let go."""

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        self.ends: list[Callable[[], None]] = []

    def begin(self, context: AttemptContext, on_end: OnEnd) -> object:
        if context.params["function"] != "sync":
            return super().begin(context, on_end)
        self.threads -= 1

        def end() -> None:
            self.threads += 1
            on_end(Success())

        self.ends.append(end)
        return self


async def test_functions_that_wait_for_a_thread_do_not_hold_up_others_claimed_ahead() -> None:
    server, executor = Mixed(), Stuck(threads=1)
    server.leases = [
        replace(lease, spec=replace(lease.spec, target=Target("test", {"function": name})))
        for lease in leases(600)
        for name in ["async" if lease.run_id % 20 else "sync"]
    ]
    async with working(server, executor) as worker:
        await until(lambda: len(server.endings) == 570)
        assert worker.counters.succeeded_or_failed == 570
        assert len(worker.held) == 1  # in the only thread

        def end_all() -> bool:
            if executor.ends:
                executor.ends.pop()()
            return len(server.endings) == 600

        await until(end_all)


async def test_what_waited_behind_a_lost_function_without_a_thread_begins() -> None:
    server, executor = Calm(), Bounded(threads=0)
    server.leases = [
        replace(lease, spec=replace(lease.spec, target=Target("test", {"function": name})))
        for lease, name in zip(leases(2), ["sync", "async"], strict=True)
    ]
    async with working(server, executor) as worker:
        await until(lambda: worker.waiting == 2)
        server.lost = ((RunId(0), 1),)
        worker.beat_now()
        await until(lambda: isinstance(server.endings.get(RunId(1)), Success))
