"""An engine whose clock is the product's own `StoreClock`, on a store whose clock a test moves as it likes."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from mainspring.clock import StoreClock
from mainspring.core.ids import JobId
from mainspring.core.model import Run
from mainspring.core.states import RunState
from mainspring.engine.usecases.submissions import Submission
from mainspring.ports.store import Store
from mainspring.registry import FunctionRegistry
from mainspring.testing.clock import FakeClock
from mainspring.testing.factories import START
from mainspring.testing.manual import TENANT, ManualRuntime, ManualWorker

SAMPLE_PERIOD = 5.0
BEAT_PERIOD = 10.0
STEPPED = timedelta(seconds=0.05)
"""Corrections as small as this are made at once."""
_BOOTED = 1000.0


class SampledClock(FakeClock):
    """The clock of a process, for a `ManualRuntime`: carried on from samples of the store's clock.

    `advance` lets time pass for everybody; `jump` moves the store's clock alone, as a failover to another server
    does. The clocks of all servers so far go on being known.
    """

    def __init__(self) -> None:
        super().__init__()
        self._uptime = _BOOTED
        self._offsets = [0.0]  # of each server's clock, the newest last
        self._clock = StoreClock(self.read_time, monotonic=self.monotonic)

    @property
    def store_time(self) -> datetime:
        """What the present server's clock says."""
        return self._time_by(self._offsets[-1])

    @property
    def ahead(self) -> datetime:
        """What the clock says that is ahead of all others, of the present server and those before it."""
        return self._time_by(max(self._offsets))

    @property
    def behind(self) -> datetime:
        """What the clock says that is behind all others."""
        return self._time_by(min(self._offsets))

    def _time_by(self, offset: float) -> datetime:
        return START + timedelta(seconds=self._uptime - _BOOTED + offset)

    async def read_time(self) -> datetime:
        """Answer for the store."""
        return self.store_time

    def read_from(self, read_time: Callable[[], Awaitable[datetime]]) -> None:
        """Ask a real store from now on."""
        self._clock = StoreClock(read_time, monotonic=self.monotonic)

    def now(self) -> datetime:
        """Return the process's idea of the store's time."""
        return self._clock.now()

    def monotonic(self) -> float:
        """Return the process's monotonic clock."""
        return self._uptime

    def advance(self, seconds: float) -> datetime:
        """Let time pass everywhere."""
        self._uptime += seconds
        return self.now()

    def jump(self, seconds: float) -> None:
        """Fail over to a store whose clock is ahead by so many seconds, or behind."""
        self._offsets.append(self._offsets[-1] + seconds)

    async def sample(self) -> float:
        """Ask the store; return by how much this clock was behind."""
        return await self._clock.sample()


class Trial:
    """An engine and its worker, with a job that fires every second and submissions for every second to come.

    What must hold at every step is asserted by `live`, what must hold in the end by `check`.
    """

    def __init__(self, clock: SampledClock, runtime: ManualRuntime, worker: ManualWorker) -> None:
        self.clock = clock
        self.runtime = runtime
        self._worker = worker
        self._latest = clock.now()
        self._until_sample = SAMPLE_PERIOD
        self._until_beat = BEAT_PERIOD
        self._submitted: set[int] = set()
        self._began = clock.now()

    async def add(self, seconds: int) -> JobId:
        """Create the jobs, and submit one run for each of the next seconds."""
        jobs, runs = self.runtime.client.jobs, self.runtime.client.runs
        tick = await jobs.create(TENANT, {"name": "tick", "function": "work", "every": "1s"})
        once = await jobs.create(TENANT, {"name": "once", "function": "work"})
        results = await runs.submit_many(
            TENANT,
            [
                Submission(job_id=once.id, run_at=self._began + timedelta(seconds=number + 0.5))
                for number in range(seconds)
            ],
        )
        self._submitted = {result.run_id for result in results if result.run_id is not None}
        return tick.id

    async def live(self, seconds: float, *, step: float = 0.25) -> None:
        """Let time pass; sample and beat as often as the product does, and carry out what can be had."""
        while seconds > 0:
            seconds -= step
            self._until_sample -= step
            self._until_beat -= step
            await self.runtime.advance(step, step=step)
            if self._until_sample <= 0:
                await self.clock.sample()
                self._until_sample = SAMPLE_PERIOD
            if self._until_beat <= 0:
                await self._worker.beat()
                self._until_beat = BEAT_PERIOD
            now = self.clock.now()
            assert now >= self._latest
            assert self.clock.behind - STEPPED <= now <= self.clock.ahead + STEPPED
            self._latest = now
            for lease in await self._worker.claim():
                assert lease.due_at <= self.clock.ahead + STEPPED  # not early
                assert lease.due_at > self.clock.behind - timedelta(seconds=2 * step) - STEPPED  # not late
                await self._worker.report(await self._worker.carry_out(lease))

    async def check(self, tick: JobId) -> None:
        """Every second has fired, none twice; what was submitted has run; nobody was declared lost."""
        runs = await self.runtime.store.list_runs(TENANT, limit=10_000)
        fired = Counter(run.fire_at for run in runs if run.job_id == tick)
        instants = sorted(instant for instant in fired if instant is not None)
        assert set(fired.values()) == {1}
        assert instants == [instants[0] + timedelta(seconds=number) for number in range(len(instants))]
        assert self.clock.now() - instants[-1] <= timedelta(seconds=2)
        assert {run.id for run in runs if run.job_id != tick} == self._submitted
        assert all(self._is_right(run) for run in runs)
        ledger = await self.runtime.client.ledgers.read(TENANT, tick)
        assert ledger.balance.is_even
        assert [session.id for session in await self.runtime.store.list_sessions()] == [
            self._worker.session_id
        ]

    def _is_right(self, run: Run) -> bool:
        if run.due_at > self.clock.now():
            return run.state is RunState.PENDING
        assert run.started_at is not None
        return (run.state, run.attempt, run.crashes) == (RunState.SUCCEEDED, 1, 0)


@asynccontextmanager
async def open_trial(clock: SampledClock, store: Store) -> AsyncIterator[Trial]:
    """Start an engine and a worker on a store; the clock has its first sample from the store itself."""

    async def work() -> None:
        """Do nothing."""

    registry = FunctionRegistry()
    registry.add("work", work)
    await clock.sample()
    async with ManualRuntime(registry, store=store, clock=clock, beat_period=BEAT_PERIOD) as runtime:
        yield Trial(clock, runtime, await runtime.worker())
