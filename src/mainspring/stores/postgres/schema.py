"""Brings a database's schema up to date. Several servers may try at once: the first one does it, the others wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import asyncpg
import structlog

from mainspring.errors import SchemaMismatch, StoreUnavailable
from mainspring.stores._sql.migrate import Applied, Migration, find_breaking, pending, read_migrations
from mainspring.stores._sql.queries import Query, load_queries
from mainspring.stores.postgres.connection import Transaction
from mainspring.stores.postgres.still_running import refuse_while_running

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

PACKAGE = "mainspring.stores.postgres"
_OLDEST_SERVER = 15
_IN_THE_WAY = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)
"""Another session uses a table that is to be changed.

The migration is rolled back, so that those who wait behind it can go on, and then tried again.
"""
BROKEN_RESTORE = "a restore into this database was broken off; drop the database, and restore into a new one"
_TRIES = 20
_PAUSE = 1.0
_log = structlog.get_logger(__name__)


async def migrate(
    connection: Connection,
    *,
    migrations: Sequence[Migration] | None = None,
    queries: Mapping[str, Query] | None = None,
    tries: int = _TRIES,
) -> None:
    """Apply the missing migrations in one transaction. It keeps no other session waiting for more than two seconds.

    Args:
        migrations: instead of the package's own.
        queries: instead of the package's own.
        tries: how often to try while others are in the way; each try takes about three seconds.

    Raises:
        SchemaMismatch: the schema is newer and not compatible with this program, was altered, or lacks a migration in
            between; the server is too old; running programs could not work with the new schema; or a restore was
            broken off.
        StoreUnavailable: others were in the way at every try.
    """
    _check_server(connection)
    loaded = load_queries(PACKAGE) if queries is None else queries
    transaction = Transaction(connection, {name: query.positional() for name, query in loaded.items()})
    available = read_migrations(PACKAGE) if migrations is None else migrations
    for left in reversed(range(tries)):
        try:
            async with connection.transaction():
                await _apply(connection, transaction, available)
            return
        except _IN_THE_WAY as error:
            _log.warning("migration_waits", error=str(error), tries_left=left)
            if not left:
                message = f"the schema could not be changed, because others hold its tables ({error})"
                raise StoreUnavailable(f"{message}; end their long transactions, and start again") from error
        await transaction.fetch("let_others_pass", seconds=_PAUSE)


async def _apply(connection: Connection, transaction: Transaction, available: Sequence[Migration]) -> None:
    await transaction.fetch("lock_schema")
    if await transaction.fetch("find_restore_mark"):
        raise SchemaMismatch(BROKEN_RESTORE)
    applied, missing = await _find_missing(transaction, available)
    breaking = find_breaking(applied, missing)
    if breaking is not None:
        await refuse_while_running(transaction, breaking)
    if missing:
        await transaction.execute("limit_lock_waits")
    await _apply_each(connection, transaction, missing)


async def apply_missing(connection: Connection, transaction: Transaction) -> None:
    """Apply the missing migrations to a store that nobody uses, within the transaction of a caller.

    Args:
        transaction: on this connection, which holds the schema's lock.

    Raises:
        SchemaMismatch: as `migrate` says.
    """
    _check_server(connection)
    _, missing = await _find_missing(transaction, read_migrations(PACKAGE))
    await _apply_each(connection, transaction, missing)


async def _find_missing(
    transaction: Transaction, available: Sequence[Migration]
) -> tuple[Mapping[int, Applied], list[Migration]]:
    await transaction.execute("make_migration_table")
    await transaction.execute("make_compatibility_table")
    applied = {
        row["number"]: Applied(row["checksum"], row["compatible_from"])
        for row in await transaction.fetch("read_migrations")
    }
    return applied, pending(applied, available)


async def _apply_each(connection: Connection, transaction: Transaction, missing: Sequence[Migration]) -> None:
    for migration in missing:
        await transaction.execute(
            "add_migration", number=migration.number, name=migration.name, checksum=migration.checksum
        )
        await transaction.execute(
            "add_compatibility", number=migration.number, compatible_from=migration.compatible_from
        )
        await connection.execute(migration.text)


def _check_server(connection: Connection) -> None:
    version = connection.get_server_version()
    if version.major < _OLDEST_SERVER:
        raise SchemaMismatch(f"PostgreSQL {version.major} is too old; {_OLDEST_SERVER} or later is needed")
    encoding = connection.get_settings().server_encoding
    if encoding != "UTF8":
        raise SchemaMismatch(f"the database's encoding is {encoding}; create one with ENCODING 'UTF8'")
