"""Migrated databases and opened stores, for all tests of the PostgreSQL store."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from mainspring.stores.postgres import ConnectionOptions, PostgresStore
from tests.support.postgres import temporary_database


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


async def wait_until_blocked(watch: Any, role: str) -> int:
    """Wait until a connection of this role waits for a lock, and return its process."""
    for _ in range(500):
        pid = await watch.fetchval(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            " AND application_name = $1",
            f"mainspring-{role}",
        )
        if pid is not None:
            return int(pid)
        await asyncio.sleep(0.01)
    raise AssertionError(f"no connection of role {role} waits for a lock")
