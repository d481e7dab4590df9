"""From the location of a store to what opens it, and to what reads, backs up and examines it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from mainspring.clock import (
    host_time,
    system_random,
)
from mainspring.config.settings import DATABASE_NAME, Settings, StoreLocation
from mainspring.errors import InvalidInput
from mainspring.plugins import load_plugins
from mainspring.ports.backups import BackupStore
from mainspring.ports.doctor import StoreExaminer
from mainspring.ports.hints import HintChannel
from mainspring.ports.store import Store

if TYPE_CHECKING:
    from mainspring.stores.postgres import ConnectionOptions

_log = structlog.get_logger(__name__)
_SAMPLE_PERIOD = 5.0


def make_store(location: StoreLocation, *, settings: Settings | None = None) -> Store:
    """Make the store that a location names, without opening it.

    Args:
        settings: how long its statements may take, and how it reads for lists and counts; None uses the store's
            defaults.
    """
    if location.scheme == "postgresql":
        from mainspring.stores.postgres import PostgresStore

        if location.ignored:
            _log.warning("store_parameters_ignored", names=" ".join(location.ignored))
        options = _connection_options(location)
        if settings is not None:
            options = replace(
                options,
                command_timeout=settings.statement_timeout.total_seconds(),
                browse_timeout=settings.browse_timeout.total_seconds(),
                browse_connections=settings.browse_connections,
            )
        return PostgresStore(options, random=system_random())
    if location.scheme == "sqlite":
        from mainspring.stores.sqlite import SqliteStore

        path = Path(location.target) / DATABASE_NAME
        if settings is None:
            return SqliteStore(path)
        return SqliteStore(path, browse_timeout=settings.browse_timeout.total_seconds())
    if location.scheme == "memory":
        from mainspring.stores.memory import MemoryStore

        return MemoryStore(time=host_time)
    return load_plugins().make_store(location.scheme, location.target)


def make_backups(location: StoreLocation) -> BackupStore:
    """Make what copies the store that a location names, and fills it.

    Raises:
        InvalidInput: such a store cannot be copied.
    """
    if location.scheme == "postgresql":
        from mainspring.stores.postgres.backups import PostgresBackups

        return PostgresBackups(_connection_options(location))
    if location.scheme == "sqlite":
        from mainspring.stores.sqlite.backups import SqliteBackups

        return SqliteBackups(Path(location.target) / DATABASE_NAME)
    raise InvalidInput("store", f"{location.label} cannot be backed up: only SQLite and PostgreSQL can")


def make_examiner(location: StoreLocation) -> StoreExaminer:
    """Make what looks at the store that a location names.

    Raises:
        InvalidInput: such a store cannot be looked at.
    """
    if location.scheme == "postgresql":
        from mainspring.stores.postgres.doctor import PostgresExaminer

        return PostgresExaminer(_connection_options(location), label=location.label)
    if location.scheme == "sqlite":
        from mainspring.stores.sqlite.doctor import SqliteExaminer

        return SqliteExaminer(Path(location.target) / DATABASE_NAME)
    raise InvalidInput("store", f"{location.label} cannot be looked at: only SQLite and PostgreSQL can")


def last_migration(location: StoreLocation) -> int:
    """Return the number of the last migration that this program knows for such a store."""
    from mainspring.stores._sql.migrate import read_migrations

    kind = "postgres" if location.scheme == "postgresql" else "sqlite"
    return read_migrations(f"mainspring.stores.{kind}")[-1].number


def make_hints(location: StoreLocation, store: Store) -> HintChannel | None:
    """Make the channel for hints between the processes on this store. None if the store has no such channel."""
    if location.scheme == "postgresql" and store.capabilities.carries_hints:
        from mainspring.stores.postgres import PostgresHints

        return PostgresHints(_connection_options(location))
    return None


def _connection_options(location: StoreLocation) -> ConnectionOptions:
    from mainspring.stores.postgres import ConnectionOptions

    options = ConnectionOptions(location.target, is_pooled=location.is_pooled, listen_dsn=location.listen)
    # Poolers that lend connections support prepared statements only in recent versions (PgBouncer since 1.21), and
    # only if they are set up for it.
    size = location.statement_cache
    if size is None:
        size = 0 if location.is_pooled else options.statement_cache
    patience = location.connect_timeout
    return replace(
        options,
        statement_cache=size,
        connect_timeout=patience if patience is not None else options.connect_timeout,
    )
