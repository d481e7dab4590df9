"""The embedded store: SQLite through APSW, one process."""

from mainspring.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
