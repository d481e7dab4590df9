"""Bringing a database's schema up to date. Every server may do so at once: the first one does, the others wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import asyncpg

from mainspring.errors import SchemaMismatch
from mainspring.stores._sql.migrate import Migration, pending, read_migrations
from mainspring.stores._sql.queries import Query, load_queries
from mainspring.stores.postgres.connection import Session

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

PACKAGE = "mainspring.stores.postgres"
_OLDEST_SERVER = 15


async def migrate(
    connection: Connection,
    *,
    migrations: Sequence[Migration] | None = None,
    queries: Mapping[str, Query] | None = None,
) -> None:
    """Apply what is missing, all of it in one transaction.

    Args:
        migrations: instead of the package's own.
        queries: instead of the package's own.

    Raises:
        SchemaMismatch: the schema is newer than this program, was altered, or has a hole; or the server is too old.
    """
    _check_server(connection)
    loaded = load_queries(PACKAGE) if queries is None else queries
    session = Session(connection, {name: query.positional() for name, query in loaded.items()})
    available = read_migrations(PACKAGE) if migrations is None else migrations
    async with connection.transaction():
        await session.fetch("lock_schema")
        await session.execute("make_migration_table")
        applied = {row["number"]: row["checksum"] for row in await session.fetch("read_migrations")}
        for migration in find_missing(applied, available):
            await session.execute(
                "add_migration", number=migration.number, name=migration.name, checksum=migration.checksum
            )
            await connection.execute(migration.text)


def find_missing(applied: Mapping[int, str], available: Sequence[Migration]) -> list[Migration]:
    """Return what is still to be applied.

    Raises:
        SchemaMismatch: the schema is newer than this program, was altered, or lacks a migration that came earlier
            than one it has.
    """
    missing = pending(applied, available)
    if missing and applied and missing[0].number < max(applied):
        raise SchemaMismatch(
            f"the store's schema has migration {max(applied):04} but not {missing[0].number:04}; restore the"
            " table `migration`, or start with an empty database"
        )
    return missing


def _check_server(connection: Connection) -> None:
    version = connection.get_server_version()
    if version.major < _OLDEST_SERVER:
        raise SchemaMismatch(f"PostgreSQL {version.major} is too old; {_OLDEST_SERVER} or later is needed")
    encoding = connection.get_settings().server_encoding
    if encoding != "UTF8":
        raise SchemaMismatch(f"the database's encoding is {encoding}; create one with ENCODING 'UTF8'")
