"""The connections of callers: asyncpg's, psycopg's, and SQLAlchemy's on top of either.

Nothing here imports psycopg or SQLAlchemy. Whoever passes such an object has imported its library.
"""

from __future__ import annotations

import sys
from collections.abc import Coroutine, Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from mainspring.errors import InvalidInput
from mainspring.stores.postgres.connection import Transaction

T = TypeVar("T")
FIELD = "connection"
_KNOWN = "an asyncpg or psycopg 3 connection, or a connection or session of SQLAlchemy on one of these"
_NO_TRANSACTION = "has no transaction open, so a rollback would undo nothing; begin one first"
_Statements = Mapping[str, tuple[str, tuple[str, ...]]]


class PsycopgTransaction(Transaction):
    """The same on a connection of psycopg, which may be sync: then no call waits on an event loop."""

    __slots__ = ("_is_async", "_psycopg")

    def __init__(self, connection: Any, statements: _Statements, psycopg: Any, *, is_async: bool) -> None:
        super().__init__(connection, statements)
        self._psycopg = psycopg
        self._is_async = is_async

    async def fetch(self, name: str, /, **values: Any) -> list[Any]:
        """Return the rows of a query."""
        cursor = await self._run(name, values)
        found = cursor.fetchall()
        return list(await found if self._is_async else found)

    async def execute(self, name: str, /, **values: Any) -> int:
        """Run a statement, and return how many rows it affected."""
        cursor = await self._run(name, values)
        return max(int(cursor.rowcount), 0)

    async def _run(self, name: str, values: Mapping[str, Any]) -> Any:
        text, names = self._statements[name]
        plain = [_plain(values[parameter]) for parameter in names]
        # A raw cursor takes `$1` as the server does. The caller's own row factory is not used.
        make = self._psycopg.AsyncRawCursor if self._is_async else self._psycopg.RawCursor
        cursor = make(self._connection, row_factory=self._psycopg.rows.dict_row)
        running = cursor.execute(text, plain or None)
        if self._is_async:
            await running
        return cursor


def _plain(value: Any) -> Any:
    """Return a value without our enumerations: psycopg would look for types of these names."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value


class CallersConnection:
    """A caller's connection, down to its driver's.

    Attributes:
        driver: the driver's own object, which lives as long as the connection to the server.
        is_async: its calls are awaited.
    """

    __slots__ = ("_psycopg", "driver", "is_async")

    def __init__(self, driver: Any, *, psycopg: Any = None, is_async: bool = True) -> None:
        self.driver: Any = driver
        self.is_async: bool = is_async
        self._psycopg = psycopg

    def transaction(self, statements: _Statements) -> Transaction:
        """Return the caller's transaction, for these statements."""
        if self._psycopg is None:
            return Transaction(self.driver, statements)
        return PsycopgTransaction(self.driver, statements, self._psycopg, is_async=self.is_async)


async def find_driver(connection: object) -> CallersConnection:
    """Find the driver's connection in what a caller passed.

    Raises:
        InvalidInput: it is none of those that are known, is for code without an event loop, or has no transaction open.
    """
    alchemy = sys.modules.get("sqlalchemy.ext.asyncio")
    if alchemy is not None:
        if isinstance(connection, alchemy.AsyncSession | alchemy.async_scoped_session):
            connection = await connection.connection()
        if isinstance(connection, alchemy.AsyncConnection):
            # On asyncpg, SQLAlchemy begins the transaction only with a statement of its own.
            await connection.exec_driver_sql("SELECT 1")
            raw: Any = await connection.get_raw_connection()
            connection = raw.driver_connection
    found = _found(connection)
    if found is None:
        if _unwrap_sync(connection) is not None:
            raise InvalidInput(FIELD, "is for code without an event loop; use the method that ends in _sync")
        raise _unknown(connection)
    if not found.is_async:
        raise InvalidInput(FIELD, "is for code without an event loop; use the method that ends in _sync")
    return found


def find_driver_sync(connection: object) -> CallersConnection:
    """Like `find_driver`, for code without an event loop."""
    found = _found(_unwrap_sync(connection) or connection)
    alchemy = sys.modules.get("sqlalchemy.ext.asyncio")
    if (found is not None and found.is_async) or (
        alchemy is not None
        and isinstance(
            connection, alchemy.AsyncSession | alchemy.async_scoped_session | alchemy.AsyncConnection
        )
    ):
        raise InvalidInput(FIELD, "is for code with an event loop; await the method without _sync")
    if found is None:
        raise _unknown(connection)
    return found


def _unwrap_sync(connection: Any) -> object | None:
    """Return the driver's connection within SQLAlchemy's; None if it is not of SQLAlchemy."""
    alchemy, orm = sys.modules.get("sqlalchemy"), sys.modules.get("sqlalchemy.orm")
    if orm is not None and isinstance(connection, orm.Session | orm.scoped_session):
        connection = connection.connection()
    if alchemy is None or not isinstance(connection, alchemy.Connection):
        return None
    connection.exec_driver_sql("SELECT 1")  # so that SQLAlchemy knows of the transaction, too
    driver: object = connection.connection.driver_connection
    return driver


def _found(connection: Any) -> CallersConnection | None:
    """Recognize a driver's connection, and check that a transaction is open."""
    if isinstance(connection, PoolConnectionProxy):
        # The proxy changes with each loan, the connection stays.
        connection = getattr(connection, "_con", connection)
    if isinstance(connection, asyncpg.Connection):
        if not connection.is_in_transaction():
            raise InvalidInput(FIELD, _NO_TRANSACTION)
        return CallersConnection(connection)
    psycopg: Any = sys.modules.get("psycopg")
    if psycopg is None or not isinstance(connection, psycopg.Connection | psycopg.AsyncConnection):
        return None
    if not hasattr(psycopg, "RawCursor"):
        raise InvalidInput(FIELD, f"is of psycopg {psycopg.__version__}; 3.2 or later is needed")
    # Without autocommit, psycopg begins a transaction with the first statement.
    idle = psycopg.pq.TransactionStatus.IDLE
    if connection.autocommit and connection.info.transaction_status == idle:
        raise InvalidInput(FIELD, _NO_TRANSACTION)
    is_async = isinstance(connection, psycopg.AsyncConnection)
    return CallersConnection(connection, psycopg=psycopg, is_async=is_async)


def _unknown(connection: object) -> InvalidInput:
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    return InvalidInput(FIELD, f"must be {_KNOWN}, not {kind}")


def drive(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits for nothing, because its connection is sync."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise RuntimeError("a call on a sync connection waited")


__all__: Sequence[str] = ("FIELD", "CallersConnection", "drive", "find_driver", "find_driver_sync")
