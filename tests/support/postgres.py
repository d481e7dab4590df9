"""Databases of their own for tests that need PostgreSQL."""

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import asyncpg

DSN = "MAINSPRING_TEST_POSTGRES"
REASON = "MAINSPRING_TEST_POSTGRES_REASON"
POOLED_DSNS = {
    "transaction": "MAINSPRING_TEST_PGBOUNCER",
    "session": "MAINSPRING_TEST_PGBOUNCER_SESSION",
}
POOLED_REASON = "MAINSPRING_TEST_PGBOUNCER_REASON"
NO_POSTGRES = "no PostgreSQL"
NO_PGBOUNCER = "no PgBouncer"
"""What every skip for want of a server begins with; the last line of a test run counts them by it."""

_numbers = itertools.count(1)


def server_dsn() -> str | None:
    """Return the address of the server for tests, without a database; None where there is none."""
    return os.environ.get(DSN) or None


def pooled_dsn(mode: str) -> str | None:
    """Return the way to the same server through PgBouncer in this mode; None where there is none."""
    return os.environ.get(POOLED_DSNS[mode]) or None


def missing_pooler_reason() -> str:
    """Say why there is no PgBouncer, as the reason of a skip."""
    why = os.environ.get(POOLED_REASON) or "none was started (scripts/services run -- …)"
    return f"{NO_PGBOUNCER}: {why}"


def missing_reason() -> str:
    """Say why there is no server, as the reason of a skip."""
    why = os.environ.get(REASON) or "none was started (scripts/services run -- …)"
    return f"{NO_POSTGRES}: {why}"


@contextmanager
def temporary_database(
    server: str, *, template: str = "template1", tablespace: str = "pg_default"
) -> Iterator[str]:
    """Create a database, yield its DSN, drop it with whatever is still connected.

    Args:
        server: what `server_dsn` returned.
        template: the database to copy; nobody may be connected to it.
        tablespace: where the server keeps it.
    """
    name = f"test_{os.getpid()}_{next(_numbers)}"
    # The default writes all pages to the log as well, and takes longer.
    options = f'TEMPLATE "{template}" TABLESPACE "{tablespace}" STRATEGY file_copy'
    execute(server, f'CREATE DATABASE "{name}" {options}')
    try:
        yield f"{server}/{name}"
    finally:
        execute(server, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def execute(server: str, statement: str) -> None:
    """Execute one statement on the server's own database, wherever the caller stands with its event loop."""
    call(f"{server}/postgres", lambda connection: connection.execute(statement))


def fetch(dsn: str, query: str) -> Any:
    """Return a query's first value, wherever the caller stands with its event loop."""
    return call(dsn, lambda connection: connection.fetchval(query))


def call(dsn: str, act: Callable[["asyncpg.Connection[asyncpg.Record]"], Awaitable[Any]]) -> Any:
    """Return what comes of acting on a connection, wherever the caller stands with its event loop."""

    async def connect_and_act() -> Any:
        connection = await asyncpg.connect(dsn)
        try:
            return await act(connection)
        finally:
            await connection.close()

    with ThreadPoolExecutor(1) as pool:  # the caller's thread may have a running loop
        return pool.submit(asyncio.run, connect_and_act()).result()
