"""Sync functions and the threads they need: nothing is claimed that would have to wait for one."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mainspring.config.settings import Settings, StoreLocation
from mainspring.core.ids import JobId, RunId
from mainspring.core.states import RunState
from mainspring.engine.assembly import Engine
from mainspring.engine.usecases.submissions import Submission
from mainspring.registry import FunctionRegistry
from mainspring.runtime import make_worker, open_engine
from mainspring.signals import current_attempt
from mainspring.testing.manual import TENANT
from mainspring.worker import Worker
from tests.unit.worker.test_worker import until


class Stage:
    """An engine with one worker, on which sync functions wait until they are released."""

    def __init__(self, engine: Engine, registry: FunctionRegistry, settings: Settings) -> None:
        self.engine = engine
        self.settings = settings
        self.registry = registry
        self.release = threading.Event()
        self.turns = threading.Semaphore(0)
        self.starts: Counter[RunId] = Counter()
        self.under_way = 0
        self.most = 0
        self.answered = 0
        self._lock = threading.Lock()
        registry.add("hold", self._hold)
        registry.add("answer", self._answer)
        registry.add("endless", self._wait)
        registry.add("quick", self._return)
        registry.add("take_turns", self._take_turn)

    def _hold(self) -> None:
        with self._lock:
            self.starts[RunId(current_attempt().run_id)] += 1
            self.under_way += 1
            self.most = max(self.most, self.under_way)
        self.release.wait(60)
        with self._lock:
            self.under_way -= 1

    async def _answer(self) -> None:
        self.answered += 1

    async def _wait(self) -> None:
        await asyncio.get_running_loop().create_future()

    def _return(self) -> None: ...

    def _take_turn(self) -> None:
        self.turns.acquire(timeout=60)

    def make_worker(self) -> Worker:
        return make_worker(self.engine.gateway, self.settings, self.registry, telemetry=self.engine.telemetry)

    async def submit(self, function: str, count: int, **fields: object) -> list[RunId]:
        job = await self.engine.client.jobs.create(
            TENANT, {"name": f"{function}-{count}", "function": function, **fields}
        )
        return await self.add_runs(job.id, count)

    async def add_runs(self, job_id: JobId, count: int) -> list[RunId]:
        done = await self.engine.client.runs.submit_many(TENANT, [Submission(job_id=job_id)] * count)
        return [item.run_id for item in done if item.run_id is not None]

    async def states(self, runs: list[RunId]) -> Counter[RunState]:
        return Counter([(await self.engine.client.runs.get(TENANT, run_id)).state for run_id in runs])

    async def until_they_are(self, runs: list[RunId], **counts: int) -> None:
        """Wait until so many of these runs are in each state."""
        expected = {RunState[state]: count for state, count in counts.items()}
        async with asyncio.timeout(50):
            while await self.states(runs) != expected:  # noqa: ASYNC110 -- nobody tells of a run's end
                await asyncio.sleep(0.02)


@pytest.fixture(params=["memory", "sqlite"])
async def stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stage]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}"
    settings = Settings(store=StoreLocation.parse(url), slots=20, threads=3)
    registry = FunctionRegistry()
    async with open_engine(settings, registry=registry) as engine:
        stage = Stage(engine, registry, settings)
        worker = stage.make_worker()
        await worker.start()
        try:
            yield stage
        finally:
            stage.release.set()
            await worker.stop(grace=5)


async def test_no_more_sync_runs_are_claimed_than_there_are_threads(stage: Stage) -> None:
    runs = await stage.submit("hold", 10)
    await until(lambda: stage.under_way == 3)
    answers = await stage.submit("answer", 30)
    await stage.until_they_are(
        answers, SUCCEEDED=30
    )  # with all threads busy, and of more than there are slots
    await stage.until_they_are(runs, RUNNING=3, PENDING=7)
    stage.release.set()
    await stage.until_they_are(runs, SUCCEEDED=10)
    assert stage.most == 3
    assert set(stage.starts.values()) == {1}


async def test_run_that_waits_for_a_thread_is_not_timed_out(stage: Stage) -> None:
    """Its limit passes many times over while others hold the threads; it begins after them, once, and succeeds."""
    holding = await stage.submit("hold", 3)
    await until(lambda: stage.under_way == 3)
    waiting = await stage.submit("quick", 17, timeout="100ms")
    endless = await stage.submit("endless", 1, timeout="300ms", retry={"max_retries": 0})
    await stage.until_they_are(endless, FAILED=1)  # three of their limits have passed
    await stage.until_they_are(waiting, PENDING=17)
    stage.release.set()
    await stage.until_they_are(holding, SUCCEEDED=3)
    await stage.until_they_are(waiting, SUCCEEDED=17)
    for run_id in waiting:
        run = await stage.engine.client.runs.get(TENANT, run_id)
        assert (run.attempt, await stage.engine.client.runs.attempts(TENANT, run_id)) == (1, [])


async def test_sync_runs_are_claimed_as_soon_as_a_thread_is_free(stage: Stage) -> None:
    """A claim that waits for other work, for 20 s, must not hold them up."""
    runs = await stage.submit("take_turns", 8)
    async with asyncio.timeout(10):
        for done in range(1, 6):
            await stage.until_they_are(runs, **_counts(SUCCEEDED=done - 1, RUNNING=3, PENDING=6 - done))
            stage.turns.release()
        stage.turns.release(3)
        await stage.until_they_are(runs, SUCCEEDED=8)


async def test_threads_left_behind_are_replaced_up_to_a_bound(stage: Stage) -> None:
    """Functions that hang: 32 are left behind, then each takes one of the three threads away."""
    runs = await stage.submit("hold", 40, timeout="50ms", retry={"max_retries": 0})
    await stage.until_they_are(runs, FAILED=35, PENDING=5)
    answers = await stage.submit("answer", 30)
    await stage.until_they_are(answers, SUCCEEDED=30)
    await stage.until_they_are(runs, FAILED=35, PENDING=5)
    assert stage.under_way == 35
    stage.release.set()
    await stage.until_they_are(runs, FAILED=35, SUCCEEDED=5)


def _counts(**counts: int) -> dict[str, int]:
    return {state: count for state, count in counts.items() if count}
