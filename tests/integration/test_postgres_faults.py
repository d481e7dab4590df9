"""The PostgreSQL store over a network that breaks: never applied twice, nothing hangs, all well afterwards."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from mainspring.core import outcomes
from mainspring.core.ids import DEFAULT_TENANT
from mainspring.core.model import Job
from mainspring.errors import StoreUnavailable
from mainspring.ports.hints import Hint
from mainspring.ports.store.applying import JobsChange, OwnedNames
from mainspring.ports.store.sessions import Beat
from mainspring.stores.postgres import ConnectionOptions, PostgresHints, PostgresStore, connecting
from mainspring.stores.postgres.connecting import Role, settings_for
from mainspring.stores.postgres.connection import Transaction
from mainspring.testing.factories import (
    START,
    add_job,
    add_session,
    all_lanes,
    at,
    facts_of,
    make_change,
    make_claim,
    make_edit,
    make_fire,
    make_new_job,
    make_spec,
    own_shards,
    read_job,
    running_run,
    submit,
)
from tests.support.postgres_databases import open_store, wait_until_blocked
from tests.support.proxy import Cut, Flow, Proxy, open_proxy

pytestmark = pytest.mark.postgres

PATIENCE = 50


@pytest.fixture
async def proxy(dsn: str) -> AsyncIterator[Proxy]:
    async with open_proxy(dsn) as opened:
        yield opened


@pytest.fixture
async def store(proxy: Proxy) -> AsyncIterator[PostgresStore]:
    """A store that gives up soon."""
    options = ConnectionOptions(proxy.dsn, command_timeout=5.0, connect_timeout=3.0)
    async with open_store(options) as opened:
        yield opened


@pytest.fixture
async def impatient(proxy: Proxy) -> AsyncIterator[PostgresStore]:
    """A store whose tests wait until it gives up, several times over."""
    options = ConnectionOptions(proxy.dsn, command_timeout=2.0, connect_timeout=1.5)
    async with open_store(options) as opened:
        yield opened


@dataclass(frozen=True)
class Verb:
    """One verb at work: prepared once, called, and counted in the database.

    Attributes:
        prepare: what is there before, and the call on it.
        count: a query for how often it was applied.
    """

    role: str
    is_repeatable: bool
    prepare: Callable[[PostgresStore], Awaitable[Callable[[], Awaitable[Any]]]]
    count: str


async def submitting(store: PostgresStore) -> Callable[[], Awaitable[Any]]:
    job = await add_job(store)
    return lambda: submit(store, job)


async def claiming(store: PostgresStore) -> Callable[[], Awaitable[Any]]:
    await submit(store, await add_job(store), 5)
    request = make_claim(await add_session(store), await all_lanes(store), limit=3)
    return lambda: store.claim_runs([request], now=at(1))


async def succeeding(store: PostgresStore) -> Callable[[], Awaitable[Any]]:
    held = await running_run(store)
    return lambda: store.apply([outcomes.succeeded(held.run_id, held.token, held.session_id)], now=at(1))


async def failing(store: PostgresStore) -> Callable[[], Awaitable[Any]]:
    job = await add_job(store)
    held = await running_run(store, job)
    failure = outcomes.Failure(error="boom", is_retryable=False)
    failed = outcomes.failed(facts_of(held), job.spec, failure, now=at(1), random=lambda: 0.5)
    return lambda: store.apply([failed], now=at(1))


async def firing(store: PostgresStore) -> Callable[[], Awaitable[Any]]:
    job = await add_job(store, next_fire_at=at(60))
    epochs = await own_shards(store)
    return lambda: store.record_fires([make_fire(job)], epochs=epochs, now=at(60))


async def beating(store: PostgresStore) -> Callable[[], Awaitable[Any]]:
    session_id = await add_session(store)
    return lambda: store.beat_sessions([Beat(session_id=session_id, held=())], now=at(1))


async def taking(store: PostgresStore) -> Callable[[], Awaitable[Any]]:
    epochs = {lease.shard: lease.epoch for lease in await store.read_shards() if lease.shard == 0}
    return lambda: store.take_shards("node-1", epochs, now=at(1))


async def adding(store: PostgresStore) -> Callable[[], Awaitable[Any]]:
    return lambda: store.add_jobs([make_new_job()], now=START)


async def editing(store: PostgresStore) -> Callable[[], Awaitable[Any]]:
    job: Job = await add_job(store)
    return lambda: store.edit_jobs([make_edit(job)], now=at(1))


async def applying(store: PostgresStore) -> Callable[[], Awaitable[Any]]:
    old, gone = await add_job(store), await add_job(store)
    new = make_new_job(make_spec(name="new"))
    owners = [OwnedNames("shop", ("new", old.spec.name))]
    change = JobsChange(
        tenant=DEFAULT_TENANT,
        adds=[new],
        edits=[make_edit(old)],
        deletes=[make_change(gone)],
        owners=owners,
    )
    return lambda: store.apply_jobs(change, now=at(1))


async def cancelling(store: PostgresStore) -> Callable[[], Awaitable[Any]]:
    run_ids = await submit(store, await add_job(store))
    return lambda: store.cancel_runs(run_ids, reason="operator", now=at(1))


_WHOLE_APPLY = """
SELECT CASE parts WHEN 5 THEN 1 WHEN 0 THEN 0 ELSE -1 END FROM (
    SELECT count(*) FILTER (WHERE name = 'new') + count(*) FILTER (WHERE version = 2) + count(deleted_at)
        + count(*) FILTER (WHERE owner = 'shop') AS parts
    FROM job
) AS apply
"""
"""1 if all parts of an apply were carried out, 0 if none was."""
VERBS = {
    "submit": Verb("submit", False, submitting, "SELECT count(*) FROM run"),
    "claim": Verb("claim", True, claiming, "SELECT count(*) / 3 FROM run WHERE state = 'RUNNING'"),
    "succeed": Verb("apply", True, succeeding, "SELECT count(*) FROM run_history"),
    "fail": Verb("apply", True, failing, "SELECT count(*) FROM dead_run"),
    "fire": Verb("fire", False, firing, "SELECT count(*) FROM run"),
    "beat": Verb("beat", False, beating, "SELECT beats FROM session"),
    "take": Verb("beat", False, taking, "SELECT epoch FROM shard_lease WHERE shard = 0"),
    "add": Verb("edit", False, adding, "SELECT count(*) FROM job"),
    "edit": Verb("edit", False, editing, "SELECT max(version) - 1 FROM job_version"),
    "apply": Verb("edit", False, applying, _WHOLE_APPLY),
    "cancel": Verb("watch", False, cancelling, "SELECT count(*) FROM run_history"),
}


@pytest.mark.parametrize("cut", Cut)
@pytest.mark.parametrize("name", VERBS)
async def test_verb_is_applied_once_at_most(
    store: PostgresStore, proxy: Proxy, watch: Any, name: str, cut: Cut
) -> None:
    """The cut meets the request that commits: COMMIT, or else the one statement that is sent by itself."""
    verb = VERBS[name]
    await (await verb.prepare(store))()  # the connection is there, the statements are prepared
    for request in (b"COMMIT", b""):
        await watch.execute("TRUNCATE run, run_history, dead_run, session, job, job_version CASCADE")
        await watch.execute("UPDATE shard_lease SET epoch = 0, node_id = NULL")
        call = await verb.prepare(store)
        before = proxy.cuts
        proxy.arm(cut, name=f"mainspring-{verb.role}", request=request)
        doubt = await carry_out(call)
        is_cut = proxy.cuts > before
        assert is_cut or request, "some request of the verb must have been cut"
        assert not doubt or (is_cut and not verb.is_repeatable)
        count = await watch.fetchval(verb.count)
        if doubt:
            assert "not known" in doubt
            assert count == (1 if cut is Cut.ANSWER else 0)
        else:
            assert count == 1


async def carry_out(call: Callable[[], Awaitable[Any]]) -> str:
    """Return what a call was refused with, empty when it was answered."""
    try:
        await asyncio.wait_for(call(), PATIENCE)
    except StoreUnavailable as error:
        return str(error)
    return ""


async def test_reset_between_calls_is_not_noticed(store: PostgresStore, proxy: Proxy) -> None:
    job = await add_job(store)
    for number in range(3):
        assert len(await store.list_runs("default")) == number
        proxy.reset()
        await until(lambda: proxy.connections == 0)
        await asyncio.sleep(0)
        assert len(await submit(store, job)) == 1


async def test_blackhole_hangs_nobody_and_is_recovered_from(impatient: PostgresStore, proxy: Proxy) -> None:
    job = await add_job(impatient)
    session_id = await add_session(impatient)
    await submit(impatient, job)
    proxy.flow = Flow.DROP
    calls = [
        submit(impatient, job),
        impatient.read_lanes([]),
        impatient.beat_sessions([Beat(session_id=session_id, held=())], now=at(1)),
        impatient.read_time(),
    ]
    answers = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), PATIENCE)
    assert [type(answer) for answer in answers] == [StoreUnavailable] * 4
    proxy.flow = Flow.PASS
    [beat] = await impatient.beat_sessions([Beat(session_id=session_id, held=())], now=at(2))
    assert beat.is_session_live
    assert len(await submit(impatient, job)) == 1
    assert await read_job(impatient, job.id) == job


async def test_beat_into_a_blackhole_is_given_up_after_its_own_time(
    store: PostgresStore, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.stores.postgres.pool.BEAT_TIMEOUT", 2.0)
    session_id = await add_session(store)
    beat = Beat(session_id=session_id, held=())
    proxy.reset()
    await until(lambda: proxy.connections == 0)
    await store.beat_sessions([beat], now=at(1))
    before = len(proxy.hellos)
    proxy.flow = Flow.DROP
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(store.beat_sessions([beat], now=at(2)), PATIENCE)
    assert len(proxy.hellos) == before, "no time was left for another connection"
    proxy.flow = Flow.PASS
    [result] = await store.beat_sessions([beat], now=at(3))
    assert result.is_session_live


async def test_half_open_connection_is_given_up_and_opened_anew(
    impatient: PostgresStore, proxy: Proxy
) -> None:
    job = await add_job(impatient)
    proxy.half_open()
    assert await asyncio.wait_for(read_job(impatient, job.id), PATIENCE) == job


async def test_call_that_is_given_up_gives_up_all_connections_that_went_silent_with_it(
    dsn: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A heartbeat finds out in its own time; fires and claims must not wait for theirs, which is longer."""
    monkeypatch.setattr("mainspring.stores.postgres.pool.BEAT_TIMEOUT", 0.5)
    options = ConnectionOptions(proxy.dsn, command_timeout=PATIENCE)
    async with open_store(options) as store:
        job = await add_job(store)
        session_id = await add_session(store)
        await submit(store, job)
        proxy.half_open()
        asked = asyncio.create_task(
            submit(store, job)
        )  # after the heartbeat's connection went silent, and before
        beats = [Beat(session_id=session_id, held=())]
        with contextlib.suppress(StoreUnavailable):
            await store.beat_sessions(beats, now=at(1))
        with pytest.raises(StoreUnavailable, match="not known"):
            await asyncio.wait_for(asked, PATIENCE / 2)
        assert len(await asyncio.wait_for(submit(store, job), PATIENCE / 2)) == 1
        assert await asyncio.wait_for(read_job(store, job.id), PATIENCE / 2) == job


async def test_connection_that_answered_while_the_call_was_under_way_and_then_went_silent_is_given_up_too(
    dsn: str, proxy: Proxy, watch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.stores.postgres.pool.BEAT_TIMEOUT", 0.5)
    async with open_store(ConnectionOptions(proxy.dsn, command_timeout=PATIENCE)) as store:
        job = await add_job(store)
        session_id = await add_session(store)
        await submit(store, job)
        async with watch.transaction():
            await watch.execute("LOCK TABLE session")
            beat = asyncio.create_task(store.beat_sessions([Beat(session_id=session_id, held=())], now=at(1)))
            await wait_until_blocked(watch, "beat")
            await submit(store, job)  # the line was whole for so long
            proxy.half_open()
        asked = asyncio.create_task(submit(store, job))
        with contextlib.suppress(StoreUnavailable):
            await beat
        with pytest.raises(StoreUnavailable, match="not known"):
            await asyncio.wait_for(asked, PATIENCE / 2)


async def test_call_that_waits_for_a_lock_gives_up_nothing_but_itself(
    dsn: str, proxy: Proxy, watch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.stores.postgres.pool.BEAT_TIMEOUT", 0.5)
    async with open_store(ConnectionOptions(proxy.dsn, command_timeout=PATIENCE)) as store:
        job = await add_job(store)
        session_id = await add_session(store)
        await submit(store, job)
        await store.read_time()  # by a connection that is there before anything waits
        before = len(proxy.hellos)
        async with watch.transaction():
            await watch.execute("LOCK TABLE session, run")
            asked = asyncio.create_task(submit(store, job))
            beat = asyncio.create_task(store.beat_sessions([Beat(session_id=session_id, held=())], now=at(1)))
            while not beat.done():
                await store.read_time()
            with pytest.raises(StoreUnavailable):
                await beat
            assert not asked.done()
        assert len(await asked) == 1
        assert not [hello for hello in proxy.hellos[before:] if b"mainspring-submit" in hello]


async def test_client_is_told_to_try_again_where_others_have_taken_all_the_time(
    store: PostgresStore, watch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waited for long is carried out for nobody: whoever asked has asked again."""
    monkeypatch.setattr("mainspring.stores.postgres.pool.LONGEST_WAIT", 0.2)
    async with open_store(ConnectionOptions(store._options.dsn, command_timeout=PATIENCE)) as busy:
        job = await add_job(busy)
        async with watch.transaction():
            await watch.execute("LOCK TABLE run")
            first = asyncio.create_task(submit(busy, job))
            await asyncio.sleep(0)  # it goes first
            with pytest.raises(StoreUnavailable, match="busy: nothing was done"):
                await asyncio.wait_for(submit(busy, job), PATIENCE)
        assert len(await first) == 1
        assert len(await busy.list_runs(DEFAULT_TENANT)) == 1
        assert len(await submit(busy, job)) == 1


async def test_clients_that_queue_up_hold_up_neither_the_clock_nor_definitions(
    store: PostgresStore, watch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheduler, workers' claims and `/health` need them, however many clients wait for their turn."""
    monkeypatch.setattr("mainspring.stores.postgres.pool.LONGEST_WAIT", 0.2)
    async with open_store(ConnectionOptions(store._options.dsn, command_timeout=PATIENCE)) as busy:
        job = await add_job(busy)
        async with watch.transaction():
            await watch.execute("LOCK TABLE run")
            listing = asyncio.create_task(busy.list_runs(DEFAULT_TENANT))
            await asyncio.sleep(0)  # it has the clients' connection, and waits for the table
            for _ in range(3):  # one of them looks after the server, too
                await asyncio.wait_for(busy.read_time(), PATIENCE)
            assert await busy.read_versions([(job.id, job.version)]) == [job.spec]
            assert not listing.done()
        await listing


async def test_shards_of_a_process_that_froze_in_the_middle_of_a_fire_can_be_taken(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has them locked, for the fire to be fenced; a lock is nothing that a silent process may keep."""
    assert settings_for(Role.FIRE)["idle_in_transaction_session_timeout"] == "4s"
    monkeypatch.setitem(connecting._COMMON_SETTINGS, "idle_in_transaction_session_timeout", "300ms")
    async with open_store(dsn) as frozen, open_store(dsn) as other:
        epochs = await own_shards(frozen)
        is_locked, is_over = asyncio.Event(), asyncio.Event()

        async def fire(transaction: Transaction) -> None:
            await transaction.fetch("hold_shards", shards=[7])
            is_locked.set()
            await is_over.wait()

        firing = asyncio.create_task(frozen._connections.transact(Role.FIRE, fire))
        await is_locked.wait()
        expected = {7: epochs[7], 8: epochs[8]}
        taken = await other.take_shards("other", expected, now=at(1))
        assert taken == {8: epochs[8] + 1}, "nobody waits for the lock"
        async with asyncio.timeout(PATIENCE):
            while 7 not in taken:
                taken |= await other.take_shards("other", {7: epochs[7]}, now=at(2))
        is_over.set()
        with pytest.raises(StoreUnavailable):
            await firing


async def test_slow_network_only_takes_longer(store: PostgresStore, proxy: Proxy) -> None:
    job = await add_job(store)
    proxy.delay = 0.05
    assert len(await submit(store, job, 3)) == 3


async def test_server_that_refuses_is_unavailable_until_it_does_not(
    store: PostgresStore, proxy: Proxy
) -> None:
    job = await add_job(store)
    proxy.flow = Flow.REFUSE
    proxy.reset()
    with pytest.raises(StoreUnavailable):
        await submit(store, job)
    proxy.flow = Flow.PASS
    assert len(await submit(store, job)) == 1


async def test_store_does_not_open_into_a_blackhole(proxy: Proxy) -> None:
    proxy.flow = Flow.DROP
    options = ConnectionOptions(proxy.dsn, connect_timeout=0.5)
    store = PostgresStore(options, random=random.Random(1))
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(store.open(), PATIENCE)


async def test_channel_for_hints_notices_a_blackhole_when_it_is_tried(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainspring.stores.postgres.hints._PATIENCE", 0.5)
    channel = PostgresHints(proxy.dsn)
    lost: list[bool] = []
    heard: list[Hint] = []
    await channel.connect(lambda hint, ready: heard.append(hint), lambda: lost.append(True))
    proxy.flow = Flow.DROP
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(channel.send([]), PATIENCE)
    assert (channel.is_connected, lost) == (False, [])
    proxy.flow = Flow.PASS
    await channel.connect(lambda hint, ready: heard.append(hint), lambda: lost.append(True))
    proxy.reset()
    await until(lambda: not channel.is_connected)
    assert lost == [True]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what a connection notices by itself."""
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come about")
