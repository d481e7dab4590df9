"""Explains PostgreSQL's refusals to the operator: what they mean, and what to do about them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import asyncpg

from mainspring.errors import InvalidInput, MainspringError, SchemaMismatch, StoreUnavailable
from mainspring.stores.postgres.connecting import LOST, ConnectionOptions

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

STATEMENT_GONE = (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError)
"""A prepared statement is gone, or one exists that was not prepared: this is another server connection than a moment
ago.
"""

_BAD_PARAMETER = (
    asyncpg.UndefinedObjectError,
    asyncpg.InvalidParameterValueError,
    asyncpg.CantChangeRuntimeParamError,
)
_NOT_LET_IN = (asyncpg.InvalidCatalogNameError, asyncpg.InvalidAuthorizationSpecificationError)
_NOT_OURS = (
    asyncpg.DuplicateTableError,
    asyncpg.DuplicateObjectError,
    asyncpg.DuplicateFunctionError,
    asyncpg.DuplicateColumnError,
    asyncpg.UndefinedColumnError,
    asyncpg.UndefinedTableError,
    asyncpg.DatatypeMismatchError,
    asyncpg.WrongObjectTypeError,
)
_STARTUP = "unsupported startup parameter"
"""PgBouncer's words for a setting that it does not pass on. The error has no SQLSTATE of its own."""
_PATIENCE = 2.0
"""How long to look for a pooler, in seconds. If none shows by then, the start goes on."""


def explain_connect(error: BaseException, options: ConnectionOptions) -> MainspringError:
    """Return the error to raise if a connection could not be opened."""
    if isinstance(error, asyncpg.ClientConfigurationError):
        return InvalidInput("store", f"the driver refuses it: {error}")
    if isinstance(error, _BAD_PARAMETER) or _STARTUP in str(error):
        return InvalidInput("store", f"PostgreSQL refuses a parameter: {error}")
    if isinstance(error, STATEMENT_GONE):
        return InvalidInput("store", describe_pooler(options))
    if isinstance(error, LOST):
        return StoreUnavailable(
            f"{describe_loss(error)}; is PostgreSQL running where the setting store says?"
        )
    if isinstance(error, (*_NOT_LET_IN, asyncpg.InsufficientPrivilegeError)):
        return StoreUnavailable(f"PostgreSQL refused the connection: {error}")
    return StoreUnavailable(f"PostgreSQL refused: {error}")


def explain_schema(error: BaseException, options: ConnectionOptions) -> MainspringError:
    """Return the error to raise if the schema could not be brought up to date."""
    if isinstance(error, (asyncpg.InsufficientPrivilegeError, asyncpg.InvalidSchemaNameError)):
        return StoreUnavailable(
            f"the role may not create or change Mainspring's tables ({error}): make it the owner of the database "
            "(CREATE DATABASE … OWNER …), or GRANT CREATE ON SCHEMA public TO …; "
            "tables that another role created need that role"
        )
    if isinstance(error, _NOT_OURS):
        message = (
            f"the database holds something that is not Mainspring's ({error}); give it a database of its own"
        )
        return SchemaMismatch(message)
    if isinstance(error, (*LOST, *STATEMENT_GONE)):
        return explain_connect(error, options)
    return StoreUnavailable(f"PostgreSQL refused: {error}")


def describe_loss(error: BaseException) -> str:
    """Describe why a connection cannot be used."""
    what = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        what = error.strerror.lower()
    if isinstance(error, asyncpg.ReadOnlySQLTransactionError):
        remedy = "name the primary, or check default_transaction_read_only"
        return f"PostgreSQL is read-only here ({what}): {remedy}"
    return f"PostgreSQL did not answer: {what}"


def describe_pooler(options: ConnectionOptions) -> str:
    """Describe why prepared statements got lost."""
    if options.is_pooled:
        return "the pooler keeps no prepared statements; leave statement_cache out of the store's address"
    return "it looks like a pooler in transaction mode; add pooler=transaction to the store's address"


async def refuse_unnamed_pooler(
    connection: Connection, options: ConnectionOptions, dial: Callable[[], Awaitable[Connection]]
) -> None:
    """Refuse a pooler that lends connections for one transaction at a time, if the DSN does not say so.

    Through it, settings would be left on other programs' connections, and statements would be missing where they were
    not prepared. A pooler gives its clients process numbers of its own. It is in transaction mode if a second client
    gets the first one's server connection. This may go unnoticed if another client takes that connection first.

    Args:
        dial: opens a second connection.

    Raises:
        InvalidInput: there is such a pooler.
    """
    if options.is_pooled:
        return
    pid = await _server_pid(connection)
    if pid == connection.get_server_pid():
        return
    other: Connection | None = None
    is_lent = False
    # In session mode, an exhausted pool does not answer at all.
    with suppress(*LOST):
        async with asyncio.timeout(_PATIENCE):
            other = await dial()
            is_lent = await _server_pid(other) == pid
    if other is not None:
        other.terminate()
    if is_lent:
        raise InvalidInput("store", describe_pooler(options))


async def _server_pid(connection: Connection) -> int:
    """Return the server's process number.

    It asks in a transaction, so that both messages reach one server connection.
    """
    async with connection.transaction():
        pid: int = await connection.fetchval("SELECT pg_backend_pid()")
    return pid
