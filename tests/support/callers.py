"""Transactions of callers, by each driver that is supported, behind one face for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import asyncpg
import psycopg
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from mainspring import App


class Caller:
    """A caller's open transaction.

    Attributes:
        connection: what the caller passes.
        is_sync: it is for code without an event loop.
    """

    def __init__(self, connection: Any, *, is_sync: bool, text: Callable[[str], Any] = str) -> None:
        self.connection = connection
        self.is_sync = is_sync
        self._text = text

    async def sql(self, statement: str) -> None:
        """Execute a statement of the caller's own."""
        done = self.connection.execute(self._text(statement))
        if not self.is_sync:
            await done

    async def enqueue(self, function: Any, **arguments: Any) -> Any:
        return await self.enqueue_with(function, {}, **arguments)

    async def enqueue_with(self, function: Any, options: Mapping[str, Any], **arguments: Any) -> Any:
        """Submit a run within the transaction."""
        submitter = function.options(connection=self.connection, **options)
        if self.is_sync:
            return submitter.enqueue_sync(**arguments)
        return await submitter.enqueue(**arguments)

    async def enqueue_many(self, function: Any, calls: list[dict[str, Any]]) -> Any:
        submitter = function.options(connection=self.connection)
        if self.is_sync:
            return submitter.enqueue_many_sync(calls)
        return await submitter.enqueue_many(calls)

    async def complete(self, app: App, result: object = None, *, attempt: Any = None) -> None:
        """End an attempt within the transaction."""
        if self.is_sync:
            app.complete_sync(self.connection, result, attempt=attempt)
        else:
            await app.complete(self.connection, result, attempt=attempt)


Begin = Callable[[str], AbstractAsyncContextManager[Caller]]
"""Opens a connection and begins a transaction: committed at the end of the block, or rolled back if that raises."""


@asynccontextmanager
async def _asyncpg(dsn: str) -> AsyncIterator[Caller]:
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            yield Caller(connection, is_sync=False)
    finally:
        await connection.close()


@asynccontextmanager
async def _asyncpg_pool(dsn: str) -> AsyncIterator[Caller]:
    async with (
        asyncpg.create_pool(dsn, min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        yield Caller(connection, is_sync=False)


@asynccontextmanager
async def _psycopg(dsn: str) -> AsyncIterator[Caller]:
    with psycopg.connect(dsn) as connection:
        yield Caller(connection, is_sync=True)


@asynccontextmanager
async def _psycopg_autocommit(dsn: str) -> AsyncIterator[Caller]:
    with psycopg.connect(dsn, autocommit=True) as connection, connection.transaction():
        yield Caller(connection, is_sync=True)


@asynccontextmanager
async def _psycopg_async(dsn: str) -> AsyncIterator[Caller]:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        yield Caller(connection, is_sync=False)


def _alchemy(dsn: str, driver: str) -> str:
    return dsn.replace("postgresql://", f"postgresql+{driver}://")


@asynccontextmanager
async def _connection(dsn: str) -> AsyncIterator[Caller]:
    engine = sqlalchemy.create_engine(_alchemy(dsn, "psycopg"))
    try:
        with engine.begin() as connection:
            yield Caller(connection, is_sync=True, text=sqlalchemy.text)
    finally:
        engine.dispose()


@asynccontextmanager
async def _session(dsn: str) -> AsyncIterator[Caller]:
    engine = sqlalchemy.create_engine(_alchemy(dsn, "psycopg"))
    try:
        with Session(engine) as session, session.begin():
            yield Caller(session, is_sync=True, text=sqlalchemy.text)
    finally:
        engine.dispose()


def _async_connection(driver: str) -> Begin:
    @asynccontextmanager
    async def begin(dsn: str) -> AsyncIterator[Caller]:
        engine = create_async_engine(_alchemy(dsn, driver))
        try:
            async with engine.begin() as connection:
                yield Caller(connection, is_sync=False, text=sqlalchemy.text)
        finally:
            await engine.dispose()

    return begin


def _async_session(driver: str) -> Begin:
    @asynccontextmanager
    async def begin(dsn: str) -> AsyncIterator[Caller]:
        engine = create_async_engine(_alchemy(dsn, driver))
        try:
            async with AsyncSession(engine) as session, session.begin():
                yield Caller(session, is_sync=False, text=sqlalchemy.text)
        finally:
            await engine.dispose()

    return begin


CALLERS: Mapping[str, Begin] = {
    "asyncpg": _asyncpg,
    "asyncpg-pool": _asyncpg_pool,
    "psycopg": _psycopg,
    "psycopg-autocommit": _psycopg_autocommit,
    "psycopg-async": _psycopg_async,
    "sqlalchemy-connection": _connection,
    "sqlalchemy-session": _session,
    "sqlalchemy-async-connection-asyncpg": _async_connection("asyncpg"),
    "sqlalchemy-async-connection-psycopg": _async_connection("psycopg"),
    "sqlalchemy-async-session-asyncpg": _async_session("asyncpg"),
    "sqlalchemy-async-session-psycopg": _async_session("psycopg"),
}
FEW = ("asyncpg", "psycopg", "psycopg-async", "sqlalchemy-async-session-asyncpg")
"""One for each way in which a statement is sent, for tests of what does not depend on who wraps it."""
