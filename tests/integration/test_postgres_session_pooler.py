"""PgBouncer in session mode, which needs no parameter: settings, prepared statements and LISTEN stay with a client."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from mainspring.config import StoreLocation
from mainspring.errors import StoreUnavailable
from mainspring.ports.hints import Hint
from mainspring.runtime import make_hints, make_store
from mainspring.stores.postgres import PostgresStore
from mainspring.stores.postgres.connecting import Role, settings_for
from mainspring.testing.factories import add_job, add_session, all_lanes, at, make_claim, submit
from tests.support.postgres import execute

pytestmark = pytest.mark.postgres

PATIENCE = 20


@pytest.fixture
def location(session_pooled_server: str, postgres_database: str) -> StoreLocation:
    """An empty database, by way of the pooler."""
    return StoreLocation.parse(f"{session_pooled_server}/{postgres_database.rpartition('/')[2]}")


@pytest.fixture
async def store(location: StoreLocation) -> AsyncIterator[PostgresStore]:
    made = make_store(location)
    assert isinstance(made, PostgresStore)
    await made.open()  # the schema is made through the pooler, too
    yield made
    await made.close()


async def test_each_role_keeps_its_settings_and_its_prepared_statements(store: PostgresStore) -> None:
    assert await submit(store, await add_job(store), 3)
    for _ in range(2):  # the second time by what was prepared the first time
        session_id = await add_session(store)
        call = make_claim(session_id, limit=1, lanes=await all_lanes(store))
        [result] = await store.claim_runs([call], now=at(1))
        assert len(result.runs) == 1
    for role in (Role.CLAIM, Role.READ):
        connection = await store._connections._roles[role].connect()
        try:
            for name, value in settings_for(role).items():
                shown = await connection.fetchval("SELECT current_setting($1)", name)
                assert shown == {"60s": "1min"}.get(value, value), name
        finally:
            await connection.close()


async def test_next_client_of_a_connection_finds_none_of_the_settings(
    store: PostgresStore, location: StoreLocation
) -> None:
    await store.read_time()
    await store.close()
    connection = await asyncpg.connect(location.target)
    try:
        assert await connection.fetchval("SHOW plan_cache_mode") == "auto"
    finally:
        await connection.close()


async def test_connections_that_the_server_cuts_behind_the_pooler_are_replaced(
    store: PostgresStore, postgres_server: str, location: StoreLocation
) -> None:
    before = await store.read_time()
    name = location.target.rpartition("/")[2]
    execute(
        postgres_server,
        f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{name}'",
    )
    assert await store.read_time() >= before


async def test_hints_are_heard_through_the_pooler_by_all_but_their_sender(
    store: PostgresStore, location: StoreLocation
) -> None:
    first, second = (make_hints(location, store) for _ in range(2))
    assert first is not None
    assert second is not None
    heard: asyncio.Queue[tuple[str, Hint]] = asyncio.Queue()
    await first.connect(lambda hint, ready: heard.put_nowait(("first", hint)), lambda: None)
    await second.connect(lambda hint, ready: heard.put_nowait(("second", hint)), lambda: None)
    await first.send([Hint.CLOCKS])
    await second.send([Hint.CANCELS])
    told = [await asyncio.wait_for(heard.get(), PATIENCE) for _ in range(2)]
    assert sorted(told) == [("first", Hint.CANCELS), ("second", Hint.CLOCKS)]
    await first.close()
    with pytest.raises(StoreUnavailable):
        await first.send([Hint.RUNS])
    await second.close()
    assert heard.empty()
