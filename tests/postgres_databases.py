"""Migrated databases and opened stores, for all tests of the PostgreSQL store."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager

from mainspring.stores.postgres import ConnectionOptions, PostgresStore
from tests.postgres import temporary_database


@contextmanager
def template_database(server: str) -> Iterator[str]:
    """Make a migrated database and yield its name, for others to be copied from."""
    with temporary_database(server) as dsn:
        with ThreadPoolExecutor(1) as pool:  # the caller's thread may have a running loop
            pool.submit(asyncio.run, _migrate(dsn)).result()
        yield dsn.rpartition("/")[2]


async def _migrate(dsn: str) -> None:
    async with open_store(dsn):
        pass


@asynccontextmanager
async def open_store(database: ConnectionOptions | str) -> AsyncIterator[PostgresStore]:
    """Open a store, and close it in the end."""
    store = PostgresStore(database, random=random.Random(1))
    await store.open()
    try:
        yield store
    finally:
        await store.close()
