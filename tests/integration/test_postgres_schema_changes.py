"""The schema is changed under programs that work: nobody waits for long, and nobody notices."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from mainspring.core.ids import DEFAULT_TENANT, RunId
from mainspring.errors import StoreUnavailable
from mainspring.stores._sql.migrate import Migration, make_migration, read_migrations
from mainspring.stores.postgres import ConnectionOptions
from mainspring.stores.postgres.schema import PACKAGE, migrate
from tests.support.postgres_databases import open_store

pytestmark = pytest.mark.postgres
LATER = "ALTER TABLE run ADD COLUMN later text;"


def extended(text: str) -> list[Migration]:
    return [*read_migrations(PACKAGE), make_migration(9999, "test", text)]


@pytest.fixture
async def dsn(postgres_database: str) -> str:
    async with open_store(postgres_database):
        pass
    return postgres_database


@pytest.fixture
async def holder(dsn: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()


async def apply(dsn: str, text: str, *, tries: int) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await migrate(connection, migrations=extended(text), tries=tries)
    finally:
        await connection.close()


async def until_waiting(watch: Any) -> None:
    async with asyncio.timeout(50):
        while not await watch.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):  # noqa: ASYNC110 - the server knows
            await asyncio.sleep(0.02)


async def test_change_waits_for_a_long_transaction_without_holding_others_up(dsn: str, holder: Any) -> None:
    transaction = holder.transaction()
    await transaction.start()
    await holder.execute("SELECT FROM run")  # a report that takes hours
    changing = asyncio.create_task(apply(dsn, LATER, tries=100))
    async with open_store(dsn) as store:
        await until_waiting(holder)
        # Behind the change, which waits: it has to give way before this can be answered.
        assert await store.get_runs([RunId(1)]) == [None]
    assert not changing.done()
    await transaction.rollback()
    await changing
    assert await holder.fetchval("SELECT max(number) FROM migration") == 9999


async def test_change_that_never_gets_its_turn_says_who_is_in_the_way(dsn: str, holder: Any) -> None:
    async with holder.transaction():
        await holder.execute("SELECT FROM run")
        with pytest.raises(StoreUnavailable, match=r"others hold its tables .*; end their long transactions"):
            await apply(dsn, LATER, tries=1)
        assert await holder.fetchval("SELECT max(number) FROM migration") < 9999


async def with_one_column_more(dsn: str, view: str) -> str:
    connection = await asyncpg.connect(dsn)
    try:
        text = await connection.fetchval(f"SELECT pg_get_viewdef('{view}'::regclass)")
    finally:
        await connection.close()
    longer, count = re.subn(r"\n\s+FROM ", ", NULL::text AS later FROM ", text)
    assert count
    return f"CREATE OR REPLACE VIEW {view} AS {longer}"


@pytest.mark.parametrize("is_pooled", [False, True])
async def test_statement_whose_result_was_changed_is_prepared_anew(dsn: str, *, is_pooled: bool) -> None:
    async with open_store(ConnectionOptions(dsn, is_pooled=is_pooled)) as store:
        for _ in range(3):  # so that it is prepared
            assert await store.get_runs([RunId(1)]) == [None]
            assert await store.list_runs(DEFAULT_TENANT, before=None, limit=1) == []
        views = [await with_one_column_more(dsn, view) for view in ("live_run", "ended_run", "any_run")]
        await apply(dsn, "\n".join(views), tries=5)
        assert await store.get_runs([RunId(1)]) == [None]
        assert await store.list_runs(DEFAULT_TENANT, before=None, limit=1) == []
