"""Ending a run within the transaction of its own writes: by each driver, after a lost lease, a repeat, a cancel."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from mainspring import App, Call, Done, StaleLease, current_attempt
from mainspring.core.ids import RunId, format_run_id
from mainspring.core.states import RunState
from mainspring.engine.usecases.submissions import Submission
from mainspring.ports.gateway import ReportResult
from mainspring.testing import ManualRuntime
from mainspring.testing.clock import FakeClock
from mainspring.testing.manual import ManualWorker
from tests.support.callers import CALLERS, FEW, Begin, Caller
from tests.support.postgres import fetch, temporary_database
from tests.support.postgres_databases import open_store

APPLIED, STALE = ReportResult.APPLIED, ReportResult.STALE


class Scene:
    """An app whose one job does what the test says, on an engine that does nothing by itself."""

    def __init__(self, dsn: str, runtime: ManualRuntime, app: App) -> None:
        self.dsn = dsn
        self.runtime = runtime
        self.app = app
        self.work: Callable[[], Awaitable[Any]]

    async def submit(self, **options: Any) -> RunId:
        """Submit a run of the job."""
        body = {"name": "write", "function": "write", **options}
        job, _ = await self.runtime.client.jobs.upsert("default", body)
        done = await self.runtime.client.runs.submit("default", Submission(job_id=job.id))
        return done.run_id

    async def run(self, run_id: RunId) -> Any:
        return await self.runtime.client.runs.get("default", run_id)

    def effects(self, run_id: RunId) -> int:
        found: int = fetch(self.dsn, f"SELECT count(*) FROM effect WHERE run = '{format_run_id(run_id)}'")
        return found

    async def lose(self, worker: ManualWorker) -> None:
        """Declare a worker dead, and hand its runs back."""
        [session] = [one for one in await self.runtime.store.list_sessions() if one.id == worker.session_id]
        now = self.runtime.clock.now()
        assert await self.runtime.store.expire_sessions([(session.id, session.beats)], now=now)
        await self.runtime.tick("reaper")


@pytest.fixture(scope="module")
def dsn(postgres_server: str, postgres_template: str) -> Iterator[str]:
    with temporary_database(postgres_server, template=postgres_template) as dsn:
        fetch(dsn, "CREATE TABLE effect (run text)")
        yield dsn


@pytest.fixture
async def scene(dsn: str) -> AsyncIterator[Scene]:
    app = App("http://127.0.0.1:9")
    clock = FakeClock(datetime.now(UTC))
    fetch(dsn, "TRUNCATE run, session, effect, job, job_version, job_clock, limit_rule, concurrency_key")
    async with open_store(dsn) as store, ManualRuntime(app.registry, store=store, clock=clock) as runtime:
        made = Scene(dsn, runtime, app)

        @app.job()
        async def write() -> Any:
            return await made.work()

        yield made


def writing(scene: Scene, begin: Begin, result: object = None) -> Callable[[], Awaitable[Any]]:
    """Return a job that writes its effect, and ends its run in the same transaction."""

    async def work() -> Any:
        async with begin(scene.dsn) as caller:
            await write_effect(caller)
            await caller.complete(scene.app, result)
        return "not kept"

    return work


async def write_effect(caller: Caller) -> None:
    await caller.sql(f"INSERT INTO effect VALUES ('{format_run_id(current_attempt().run_id)}')")


@pytest.mark.parametrize("name", CALLERS)
async def test_run_ends_with_the_commit(name: str, scene: Scene) -> None:
    scene.work = writing(scene, CALLERS[name], {"driver": name})
    run_id = await scene.submit()
    worker = await scene.runtime.worker()
    [lease] = await worker.claim()
    report = await worker.carry_out(lease)
    run = await scene.run(run_id)
    assert (run.state, run.result) == (RunState.SUCCEEDED, f'{{"driver":"{name}"}}'.encode())
    assert await worker.report(report) == [APPLIED]
    assert await worker.report(report) == [APPLIED]
    assert (await scene.run(run_id)).result == run.result
    assert scene.effects(run_id) == 1


@pytest.mark.parametrize("name", FEW)
async def test_rollback_undoes_both(name: str, scene: Scene) -> None:
    async def work() -> None:
        async with CALLERS[name](scene.dsn) as caller:
            await write_effect(caller)
            await caller.complete(scene.app)
            raise ZeroDivisionError

    scene.work = work
    run_id = await scene.submit(retry={"max_retries": 1})
    worker = await scene.runtime.worker()
    assert await worker.work() == 1
    assert (await scene.run(run_id)).state is RunState.RETRYING
    assert scene.effects(run_id) == 0
    await scene.runtime.advance(10, step=10)
    scene.work = writing(scene, CALLERS[name])
    assert await worker.work() == 1
    run = await scene.run(run_id)
    assert (run.state, run.attempt, scene.effects(run_id)) == (RunState.SUCCEEDED, 2, 1)
    attempts = await scene.runtime.client.runs.attempts("default", run_id)
    assert [attempt.outcome for attempt in attempts] == ["failed", "succeeded"]


@pytest.mark.parametrize(
    ("name", "is_swallowed"), [("asyncpg", False), ("psycopg", False), *((name, True) for name in FEW)]
)
async def test_attempt_that_lost_its_lease_leaves_nothing(
    name: str, scene: Scene, is_swallowed: bool
) -> None:
    run_id = await scene.submit()
    first, second = await scene.runtime.worker(), await scene.runtime.worker()
    seen: list[Exception] = []

    async def work() -> None:
        async with CALLERS[name](scene.dsn) as caller:
            await write_effect(caller)
            await scene.lose(first)
            try:
                await caller.complete(scene.app)
            except StaleLease as error:
                seen.append(error)
                if not is_swallowed:
                    raise

    scene.work = work
    [lease] = await first.claim()
    report = await first.carry_out(lease)
    assert "is over" in str(seen[0])
    assert scene.effects(run_id) == 0
    scene.work = writing(scene, CALLERS[name])
    assert await second.work() == 1
    assert await first.report(report) == [STALE]
    assert (await scene.run(run_id)).state is RunState.SUCCEEDED
    assert scene.effects(run_id) == 1


async def test_second_transaction_of_one_attempt_is_refused(scene: Scene) -> None:
    """Whoever does not know whether a commit has succeeded must not write again in the same attempt."""

    async def work() -> None:
        await writing(scene, CALLERS["asyncpg"], 1)()
        await writing(scene, CALLERS["psycopg"], 2)()

    scene.work = work
    run_id = await scene.submit()
    worker = await scene.runtime.worker()
    [lease] = await worker.claim()
    report = await worker.carry_out(lease)
    assert await worker.report(report) == [STALE]
    run = await scene.run(run_id)
    assert (run.state, run.result, scene.effects(run_id)) == (RunState.SUCCEEDED, b"1", 1)


async def test_completion_wins_over_a_requested_cancel(scene: Scene) -> None:
    async def work() -> None:
        await scene.runtime.client.runs.cancel("default", run_id)
        await writing(scene, CALLERS["asyncpg"])()

    scene.work = work
    run_id = await scene.submit()
    worker = await scene.runtime.worker()
    assert await worker.work() == 1
    assert ((await scene.run(run_id)).state, scene.effects(run_id)) == (RunState.SUCCEEDED, 1)


async def test_worker_that_dies_after_the_commit_doubles_nothing(scene: Scene) -> None:
    scene.work = writing(scene, CALLERS["psycopg-async"])
    run_id = await scene.submit()
    first, second = await scene.runtime.worker(), await scene.runtime.worker()
    [lease] = await first.claim()
    await first.carry_out(lease)
    await scene.lose(first)
    assert await second.work() == 0
    assert ((await scene.run(run_id)).state, scene.effects(run_id)) == (RunState.SUCCEEDED, 1)


async def test_place_under_a_limit_is_free_after_the_commit(scene: Scene) -> None:
    scene.work = writing(scene, CALLERS["asyncpg"])
    run_ids = [await scene.submit(concurrency=1) for _ in range(2)]
    worker = await scene.runtime.worker()
    [lease] = await worker.claim()
    report = await worker.carry_out(lease)
    assert await worker.claim() == []
    assert await worker.report(report) == [APPLIED]  # it also tells who waits for the place
    [other] = await worker.claim()
    assert {lease.run_id, other.run_id} == set(run_ids)


async def test_stricter_isolation(scene: Scene) -> None:
    for level in ("REPEATABLE READ", "SERIALIZABLE"):

        async def work(level: str = level) -> None:
            async with CALLERS["psycopg-async"](scene.dsn) as caller:
                await caller.sql(f"SET TRANSACTION ISOLATION LEVEL {level}")
                await write_effect(caller)
                await caller.complete(scene.app)

        scene.work = work
        run_id = await scene.submit()
        assert await (await scene.runtime.worker()).work() == 1
        assert ((await scene.run(run_id)).state, scene.effects(run_id)) == (RunState.SUCCEEDED, 1)


async def test_each_run_of_a_batch_is_ended_by_its_attempt(scene: Scene) -> None:
    @scene.app.job("many", batch={"size": 3, "wait": "1s"})
    async def many(calls: list[Call]) -> list[Done]:
        async with CALLERS["asyncpg"](scene.dsn) as caller:
            for call in calls:
                await caller.sql(f"INSERT INTO effect VALUES ('{format_run_id(call.attempt.run_id)}')")
                await caller.complete(scene.app, call.payload, attempt=call.attempt)
        return [Done() for _ in calls]

    run_ids = [
        await scene.submit(name="many", function="many", batch={"size": 3, "wait": "1s"}) for _ in range(3)
    ]
    worker = await scene.runtime.worker()
    assert await worker.work() == 3
    for run_id in run_ids:
        assert ((await scene.run(run_id)).state, scene.effects(run_id)) == (RunState.SUCCEEDED, 1)


async def test_outside_an_attempt(scene: Scene) -> None:
    async with CALLERS["asyncpg"](scene.dsn) as caller:
        with pytest.raises(LookupError, match="outside an attempt"):
            await caller.complete(scene.app)


async def test_result_that_cannot_be_kept_is_left_out(scene: Scene) -> None:
    for result, reason in ((object(), b"not JSON"), ("x" * 100_000, b"100002")):
        scene.work = writing(scene, CALLERS["asyncpg"], result)
        run_id = await scene.submit()
        assert await (await scene.runtime.worker()).work() == 1
        run = await scene.run(run_id)
        assert run.state is RunState.SUCCEEDED
        assert reason in run.result, run.result
