"""What is particular to PgBouncer in transaction mode; the rest is in the conformance suite."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from mainspring.config import StoreLocation
from mainspring.errors import StoreUnavailable
from mainspring.ports.hints import Hint
from mainspring.runtime import make_hints, make_store
from mainspring.stores._sql.queries import load_queries, parse_queries
from mainspring.stores.postgres import ConnectionOptions, PostgresStore
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.connection import Connections
from mainspring.stores.postgres.schema import PACKAGE
from mainspring.testing.factories import add_job, submit

pytestmark = pytest.mark.postgres


@pytest.fixture
def pooled(pooled_server: str, postgres_database: str) -> str:
    """The way to an empty database through the pooler, with the parameter that says so."""
    return f"{pooled_server}/{postgres_database.rpartition('/')[2]}?pooler=transaction"


@pytest.fixture
async def connections(pooled: str) -> AsyncIterator[Connections]:
    options = ConnectionOptions(pooled.partition("?")[0], is_pooled=True, statement_cache=0)
    queries = parse_queries(
        "-- name: show\nSELECT current_setting('enable_sort') AS sort, current_setting('timezone') AS zone,"
        " current_setting('plan_cache_mode') AS mode, pg_backend_pid() AS pid FROM pg_sleep(0.05);"
    )
    opened = Connections(
        options, {**load_queries(PACKAGE), **{query.name: query for query in queries}}, random.Random(1)
    )
    opened.open()
    yield opened
    await opened.close()


async def test_each_role_has_its_settings_on_whatever_connection_it_gets(connections: Connections) -> None:
    pids = set()
    for _ in range(10):
        claim, read = await asyncio.gather(
            connections.fetch(Role.CLAIM, "show", is_repeatable=True),
            connections.fetch(Role.READ, "show", is_repeatable=True),
        )
        assert tuple(claim[0])[:3] == ("off", "UTC", "force_generic_plan")
        assert tuple(read[0])[:3] == ("on", "UTC", "auto")
        pids |= {claim[0]["pid"], read[0]["pid"]}
    assert len(pids) >= 2


async def test_pooler_that_nobody_named_is_recognised_by_the_statements_it_loses(pooled: str) -> None:
    queries = parse_queries("-- name: wait\nSELECT 1 FROM pg_sleep(0.05);")
    opened = Connections(
        ConnectionOptions(pooled.partition("?")[0]),
        {**load_queries(PACKAGE), **{query.name: query for query in queries}},
        random.Random(1),
    )
    opened.open()
    try:
        for role in (Role.CLAIM, Role.READ):  # one by one: both prepare on the same connection of the server
            await opened.fetch(role, "wait", is_repeatable=True)
        outcomes = await asyncio.gather(
            *(opened.fetch(role, "wait", is_repeatable=True) for role in (Role.CLAIM, Role.READ)),
            return_exceptions=True,
        )
    finally:
        await opened.close()
    failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert [type(failure) for failure in failures] == [StoreUnavailable]
    assert "add pooler=transaction" in str(failures[0])


async def test_schema_is_made_through_the_pooler_and_runs_are_submitted(pooled: str) -> None:
    store = make_store(StoreLocation.parse(pooled))
    await store.open()
    try:
        assert len(await submit(store, await add_job(store), 3)) == 3
    finally:
        await store.close()


async def test_hints_go_past_the_pooler_or_not_at_all(pooled: str, postgres_database: str) -> None:
    polling = StoreLocation.parse(pooled)
    assert make_hints(polling, make_store(polling)) is None
    location = StoreLocation.parse(pooled, listen=postgres_database)
    first, second = (make_hints(location, make_store(location)) for _ in range(2))
    assert first is not None
    assert second is not None
    heard: asyncio.Queue[Hint] = asyncio.Queue()
    await first.connect(lambda hint, ready: heard.put_nowait(hint), lambda: None)
    await second.connect(lambda hint, ready: None, lambda: None)
    await second.send([Hint.CLOCKS])
    assert await asyncio.wait_for(heard.get(), 20) is Hint.CLOCKS
    await first.close()
    await second.close()


async def test_statements_are_not_kept_unless_told(pooled: str) -> None:
    for suffix, size in (("", 0), ("&statement_cache=50", 50)):
        store = make_store(StoreLocation.parse(pooled + suffix))
        assert isinstance(store, PostgresStore)
        assert store._options.statement_cache == size
