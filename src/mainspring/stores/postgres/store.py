"""`PostgresStore`: many servers and thousands of workers on one database."""

from __future__ import annotations

from datetime import datetime, timedelta

import asyncpg

from mainspring.errors import StoreUnavailable
from mainspring.ports.clock import RandomSource
from mainspring.ports.store_types import StoreCapabilities
from mainspring.stores._sql.queries import load_queries
from mainspring.stores.postgres.claims import ClaimVerbs
from mainspring.stores.postgres.clocks import ClockVerbs
from mainspring.stores.postgres.connection import Connections
from mainspring.stores.postgres.dialing import ConnectionOptions, Role
from mainspring.stores.postgres.ends import EndVerbs
from mainspring.stores.postgres.inserts import LaneIds
from mainspring.stores.postgres.jobs import JobVerbs
from mainspring.stores.postgres.nodes import NodeVerbs
from mainspring.stores.postgres.runs import RunVerbs
from mainspring.stores.postgres.schema import PACKAGE, migrate
from mainspring.stores.postgres.sessions import SessionVerbs
from mainspring.stores.postgres.upkeep import UpkeepVerbs

_CAPABILITIES = StoreCapabilities(
    concurrent_writers=True, is_durable=True, time_precision=timedelta(microseconds=1), carries_hints=True
)


class PostgresStore(
    JobVerbs, ClockVerbs, RunVerbs, ClaimVerbs, EndVerbs, SessionVerbs, NodeVerbs, UpkeepVerbs
):
    """Implements `Store` on PostgreSQL 15 or later.

    A pooler in between must keep a session for each client (PgBouncer: session mode, with the settings of
    `dialing.settings_for` let through).

    Args:
        options: where the database is; a DSN alone will do.
        random: spreads the retries of several servers.
    """

    def __init__(self, options: ConnectionOptions | str, *, random: RandomSource) -> None:
        self._options = ConnectionOptions(options) if isinstance(options, str) else options
        self._queries = load_queries(PACKAGE)
        self._connections = Connections(self._options, self._queries, random)
        self._lane_ids = LaneIds()

    @property
    def capabilities(self) -> StoreCapabilities:
        """What this store can do."""
        return _CAPABILITIES

    async def open(self) -> None:
        """Bring the schema up to date, and accept calls."""
        try:
            # No command time-out: another server's migration is worth waiting for.
            connection = await asyncpg.connect(self._options.dsn, timeout=self._options.connect_timeout)
            try:
                await migrate(connection, queries=self._queries)
            finally:
                await connection.close()
        except (OSError, asyncpg.PostgresConnectionError, asyncpg.OperatorInterventionError) as error:
            raise StoreUnavailable(
                f"PostgreSQL did not answer: {str(error) or type(error).__name__}"
            ) from error
        except (asyncpg.InvalidCatalogNameError, asyncpg.InvalidAuthorizationSpecificationError) as error:
            raise StoreUnavailable(f"PostgreSQL refused the connection: {error}") from error
        self._connections.open()

    async def close(self) -> None:
        """Finish what is under way and disconnect."""
        await self._connections.close()

    async def read_time(self) -> datetime:
        """Return the server's clock."""
        [row] = await self._connections.fetch(Role.READ, "read_time", is_repeatable=True)
        now: datetime = row["now"]
        return now
