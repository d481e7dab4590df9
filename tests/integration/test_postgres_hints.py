"""Wake-ups between processes on PostgreSQL: what one commits, the other learns at once, or by polling."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from mainspring.clock import LoopWaiter, StoreClock, UuidSource, host_time
from mainspring.core.ids import DEFAULT_TENANT, JobId, KeyId, SessionId
from mainspring.core.lane_marks import MOST_MARKS
from mainspring.egress import check_url
from mainspring.engine.assembly import Engine
from mainspring.engine.common.hints import HintExchange
from mainspring.engine.scheduling.shards import ShardSettings
from mainspring.engine.settings import EngineSettings, Tools
from mainspring.engine.settling.janitor import Retention
from mainspring.engine.usecases.definitions import Accepted
from mainspring.engine.usecases.submissions import Submission
from mainspring.errors import StoreUnavailable
from mainspring.ports.gateway import ClaimCall, ClaimReply, Registration
from mainspring.ports.hints import ANY, Hear, Hint, Ready
from mainspring.ports.store.nodes import NodeFacts
from mainspring.stores.postgres import PostgresHints
from mainspring.testing import factories
from mainspring.testing.conformance.jobs import UNKNOWN
from tests.support.postgres_databases import open_store

pytestmark = pytest.mark.postgres

NODE = NodeFacts(id="node-1", host="here", pid=1, version="0", tzdata="test")
PATIENCE = 20
"""Seconds after which a test gives up; far less than a poll period in it, far more than a hint takes."""
NEVER = 600.0


@pytest.fixture
def _no_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is found but by a hint."""
    monkeypatch.setattr("mainspring.engine.claiming.matcher.POLL_PERIOD", NEVER)
    monkeypatch.setattr("mainspring.engine.scheduling.reading.READ_PERIOD", NEVER)


@asynccontextmanager
async def open_engine(
    dsn: str, *, node: NodeFacts | None = None, hints: bool = True, shards: ShardSettings | None = None
) -> AsyncIterator[Engine]:
    async with open_store(dsn) as store:
        clock = StoreClock(store.read_time)
        await clock.sample()
        engine = Engine(
            store,
            Tools(
                clock=clock, random=random.Random(1), ids=UuidSource(), waiter=LoopWaiter, host_time=host_time
            ),
            EngineSettings(
                node=node,
                beat_period=timedelta(seconds=10),
                shards=shards or ShardSettings(),
                retention=Retention(),
                accepted=Accepted(functions=lambda: frozenset({"work"}), check_url=check_url),
            ),
            hints=PostgresHints(dsn) if hints else None,
        )
        await engine.start()
        try:
            yield engine
        finally:
            await engine.stop()


@pytest.fixture
async def engines(dsn: str) -> AsyncIterator[tuple[Engine, Engine]]:
    """One that is submitted to, and one that has workers and the planner."""
    async with AsyncExitStack() as stack:
        front = await stack.enter_async_context(open_engine(dsn))
        back = await stack.enter_async_context(open_engine(dsn, node=NODE))
        yield front, back


async def add_job(engine: Engine, **fields: Any) -> JobId:
    body = {"name": "job", "function": "work", **fields}
    return (await engine.client.jobs.create(DEFAULT_TENANT, body)).id


async def register(engine: Engine) -> SessionId:
    offer = Registration(name="worker", host="here", pid=1, slots=10, functions=("work",))
    return (await engine.gateway.register(offer)).id


def call(engine: Engine, session_id: SessionId, number: int = 1) -> asyncio.Task[ClaimReply]:
    wait = timedelta(seconds=2 * PATIENCE)
    request = ClaimCall(session_id=session_id, number=number, limit=10, wait=wait, is_idle=True)
    return asyncio.create_task(engine.gateway.claim(request))


async def submit(engine: Engine, job_id: JobId) -> None:
    await engine.client.runs.submit(DEFAULT_TENANT, Submission(job_id=job_id))


@pytest.mark.usefixtures("_no_polling")
async def test_long_poll_is_answered_by_what_another_process_submits(
    engines: tuple[Engine, Engine],
) -> None:
    front, back = engines
    job_id = await add_job(front)
    session_id = await register(back)
    for number in range(1, 21):
        waiting = call(back, session_id, number)
        if number % 2:  # one that waits by then, and one that perhaps comes too late to hear of the run
            await asyncio.sleep(0)
        await submit(front, job_id)
        reply = await asyncio.wait_for(waiting, PATIENCE)
        assert len(reply.leases) == 1


@pytest.mark.usefixtures("_no_polling")
async def test_job_added_in_another_process_fires_at_once(engines: tuple[Engine, Engine]) -> None:
    front, back = engines
    waiting = call(back, await register(back))
    await add_job(front, every="1s")
    reply = await asyncio.wait_for(waiting, PATIENCE)
    assert reply.leases[0].fire_at is not None


@pytest.mark.usefixtures("_no_polling")
async def test_cancel_in_another_process_makes_workers_beat(engines: tuple[Engine, Engine]) -> None:
    front, back = engines
    job_id = await add_job(front)
    waiting = call(back, await register(back))
    await submit(front, job_id)
    [lease] = (await asyncio.wait_for(waiting, PATIENCE)).leases
    is_told = asyncio.Event()
    back.wakeups.subscribe_cancels(is_told.set)
    await front.client.runs.cancel(DEFAULT_TENANT, lease.run_id)
    await asyncio.wait_for(is_told.wait(), PATIENCE)


@pytest.mark.usefixtures("_no_polling")
async def test_hints_come_again_after_their_connections_broke(
    engines: tuple[Engine, Engine], dsn: str
) -> None:
    front, back = engines
    job_id = await add_job(front)
    session_id = await register(back)
    watch = await asyncpg.connect(dsn)
    try:
        for number in range(1, 4):
            waiting = call(back, session_id, number)
            await watch.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'mainspring-hints' AND datname = current_database()"
            )
            await submit(front, job_id)
            assert len((await asyncio.wait_for(waiting, PATIENCE)).leases) == 1
    finally:
        await watch.close()


async def test_polling_finds_what_no_hint_told(dsn: str) -> None:
    async with open_engine(dsn, hints=False) as front, open_engine(dsn) as back:
        job_id = await add_job(front)
        waiting = call(back, await register(back))
        await asyncio.sleep(0)
        await submit(front, job_id)
        assert len((await asyncio.wait_for(waiting, PATIENCE)).leases) == 1


async def test_channel_does_not_hear_itself_nor_strange_words(dsn: str) -> None:
    first, second = PostgresHints(dsn), PostgresHints(dsn)
    heard: dict[str, list[Hint]] = {"first": [], "second": []}
    is_told = asyncio.Event()

    def hear(hint: Hint, ready: Ready) -> None:
        heard["first"].append(hint)
        is_told.set()

    await first.connect(hear, lambda: None)
    await second.connect(lambda hint, ready: heard["second"].append(hint), lambda: None)
    await first.send([Hint.RUNS])
    watch = await asyncpg.connect(dsn)
    await watch.execute("NOTIFY mainspring, 'later,words'")
    await watch.close()
    await second.send([Hint.CLOCKS, Hint.WANTED])
    await asyncio.wait_for(is_told.wait(), PATIENCE)
    assert heard == {"first": [Hint.CLOCKS, Hint.WANTED], "second": [Hint.RUNS]}
    await first.close()
    await second.close()
    with pytest.raises(StoreUnavailable):
        await first.send([Hint.RUNS])


@pytest.mark.parametrize("is_known", [False, True], ids=["a lane that is new", "a lane that is known"])
@pytest.mark.parametrize("count", [1, 2])
async def test_commit_carries_a_notice_to_the_others(dsn: str, count: int, is_known: bool) -> None:
    sender, other = PostgresHints(dsn), PostgresHints(dsn)
    heard: dict[PostgresHints, list[Hint]] = {sender: [], other: []}
    async with open_store(dsn) as store:
        job = await factories.add_job(store)
        if is_known:
            await store.submit_runs([factories.make_new_run(job)], now=factories.START)
        for channel in (sender, other):
            await channel.connect(_noting(heard[channel]), lambda: None)
        runs = [factories.make_new_run(job)] * count
        gone = [replace(run, job_id=UNKNOWN) for run in runs]
        for some in (gone, runs):
            await store.submit_runs(some, now=factories.START, notice=sender.notice([Hint.RUNS]))
        await other.send([Hint.CLOCKS])
        await sender.send([Hint.CANCELS])
        await until(lambda: Hint.CLOCKS in heard[sender] and Hint.CANCELS in heard[other])
        assert heard == {sender: [Hint.CLOCKS], other: [Hint.RUNS, Hint.CANCELS]}
        for channel in (sender, other):
            await channel.close()


async def test_channel_without_a_server_is_unavailable_and_says_when_it_is_lost(dsn: str) -> None:
    nowhere = PostgresHints("postgresql://postgres@127.0.0.1:1/nowhere")
    with pytest.raises(StoreUnavailable):
        await nowhere.connect(lambda hint, ready: None, lambda: None)
    channel = PostgresHints(dsn)
    is_lost = asyncio.Event()
    await channel.connect(lambda hint, ready: None, is_lost.set)
    watch = await asyncpg.connect(dsn)
    await watch.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'mainspring-hints' AND datname = current_database()"
    )
    await watch.close()
    await asyncio.wait_for(is_lost.wait(), PATIENCE)
    assert not channel.is_connected
    await channel.close()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - services tell nobody
            await asyncio.sleep(0.01)


def is_connected(engine: Engine) -> bool:
    exchange = engine.services["hints"]
    assert isinstance(exchange, HintExchange)
    return exchange._channel.is_connected


async def test_shards_of_a_node_that_stops_are_taken_at_once(dsn: str) -> None:
    rarely = ShardSettings(period=timedelta(seconds=NEVER))
    async with (
        open_engine(dsn, node=NODE, shards=rarely) as leaving,
        open_engine(dsn, node=replace(NODE, id="node-2"), shards=rarely) as staying,
    ):
        await until(lambda: is_connected(leaving) and is_connected(staying))
        assert len(leaving.ownership.epochs) == 256
        assert len(staying.ownership.epochs) == 0
        await leaving.stop()
        await until(lambda: len(staying.ownership.epochs) == 256)


def _noting(heard: list[Hint]) -> Hear:
    def hear(hint: Hint, ready: Ready) -> None:
        del ready
        heard.append(hint)

    return hear


async def test_hint_of_runs_names_lanes_and_limits(dsn: str) -> None:
    sender, other = PostgresHints(dsn), PostgresHints(dsn)
    heard: list[tuple[Hint, Ready]] = []
    marks = [f"{number:012x}" for number in range(MOST_MARKS)]
    try:
        await sender.connect(lambda hint, ready: None, lambda: None)
        await other.connect(lambda hint, ready: heard.append((hint, ready)), lambda: None)
        keys = [KeyId(10**15 + number) for number in range(MOST_MARKS)]
        told = [
            Ready(marks, keys),
            Ready([], [KeyId(7)]),
            Ready(None, [KeyId(7)]),
            Ready(None, None),
            Ready(marks),
        ]
        await sender.send([Hint.RUNS, Hint.CLOCKS], told[0])
        for ready in told[1:]:
            await sender.send([Hint.RUNS], ready)
        await sender.send([Hint.RUNS])
        await until(lambda: len(heard) == 7)
        assert heard[:2] == [(Hint.RUNS, told[0]), (Hint.CLOCKS, ANY)]
        assert [ready for _, ready in heard[2:]] == [*told[1:4], Ready(marks, []), Ready(None, [])]
        notice = sender.notice([Hint.RUNS], Ready(marks[:2]))
        assert notice.startswith(f"runs,lane.{marks[0]},lane.{marks[1]},by.")
    finally:
        await sender.close()
        await other.close()
