"""The store on PostgreSQL: many servers, thousands of workers (design 8)."""

from mainspring.stores.postgres.connecting import ConnectionOptions
from mainspring.stores.postgres.hints import PostgresHints
from mainspring.stores.postgres.store import PostgresStore

__all__ = ["ConnectionOptions", "PostgresHints", "PostgresStore"]
