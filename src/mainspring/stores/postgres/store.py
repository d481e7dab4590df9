"""`PostgresStore`: many servers and thousands of workers on one database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import asyncpg

from mainspring.ports.clock import RandomSource
from mainspring.ports.store import FailoverFacts, StoreCapabilities
from mainspring.stores._sql.disk import DiskLook
from mainspring.stores._sql.queries import load_queries
from mainspring.stores.postgres.access import PostgresAccessStore
from mainspring.stores.postgres.alerts import PostgresAlertStore
from mainspring.stores.postgres.applying import PostgresApplyStore
from mainspring.stores.postgres.archive import PostgresArchiveStore
from mainspring.stores.postgres.artifacts import PostgresArtifactStore
from mainspring.stores.postgres.audit import PostgresAuditStore
from mainspring.stores.postgres.backfills import PostgresBackfillStore
from mainspring.stores.postgres.browse import PostgresBrowseStore
from mainspring.stores.postgres.calendars import PostgresCalendarStore
from mainspring.stores.postgres.caps import PostgresCapStore
from mainspring.stores.postgres.census import PostgresCensusStore
from mainspring.stores.postgres.checkpoints import PostgresCheckpointStore
from mainspring.stores.postgres.claims import PostgresClaimStore
from mainspring.stores.postgres.closed_days import ClosedDays
from mainspring.stores.postgres.connecting import LOST, ConnectionOptions, Role
from mainspring.stores.postgres.connection import Connections
from mainspring.stores.postgres.dead import PostgresDeadStore
from mainspring.stores.postgres.encryption import PostgresEncryptionStore
from mainspring.stores.postgres.ends import PostgresEndStore
from mainspring.stores.postgres.failures import PostgresFailureStore
from mainspring.stores.postgres.flows import PostgresFlowStore
from mainspring.stores.postgres.inserts import LaneIds
from mainspring.stores.postgres.jobs import PostgresJobStore
from mainspring.stores.postgres.leases import LaneTenants
from mainspring.stores.postgres.ledger_check import PostgresLedgerCheckStore
from mainspring.stores.postgres.limits import PostgresLimitStore
from mainspring.stores.postgres.logins import PostgresLoginStore
from mainspring.stores.postgres.monitors import PostgresMonitorStore
from mainspring.stores.postgres.nodes import PostgresNodeStore
from mainspring.stores.postgres.notify import PostgresNotifyStore
from mainspring.stores.postgres.objectives import PostgresObjectiveStore
from mainspring.stores.postgres.owners import PostgresOwnerStore
from mainspring.stores.postgres.policies import PostgresPolicyStore
from mainspring.stores.postgres.preemption import PostgresPreemptionStore
from mainspring.stores.postgres.priorities import PostgresPriorityStore
from mainspring.stores.postgres.redrives import PostgresRedriveStore
from mainspring.stores.postgres.refusals import explain_connect, explain_schema, refuse_unnamed_pooler
from mainspring.stores.postgres.restrictions import PostgresRestrictionStore
from mainspring.stores.postgres.run_logs import PostgresRunLogStore
from mainspring.stores.postgres.runs import PostgresRunStore
from mainspring.stores.postgres.schedule import PostgresScheduleStore
from mainspring.stores.postgres.schema import PACKAGE, migrate
from mainspring.stores.postgres.servers import Losses
from mainspring.stores.postgres.sessions import PostgresSessionStore
from mainspring.stores.postgres.storage import PostgresStorageStore
from mainspring.stores.postgres.upkeep import PostgresUpkeepStore
from mainspring.stores.postgres.usage import PostgresUsageStore

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

_SETTINGS = {"application_name": "mainspring-schema"}

_READS_PER_LOOK = 3
"""A sample of the clock makes three reads and takes the shortest, so that the read with the check is left out."""


class PostgresStore(
    PostgresJobStore,
    PostgresFailureStore,
    PostgresDeadStore,
    PostgresRedriveStore,
    PostgresEndStore,
    PostgresScheduleStore,
    PostgresRunStore,
    PostgresClaimStore,
    PostgresSessionStore,
    PostgresNodeStore,
    PostgresUpkeepStore,
    PostgresBrowseStore,
    PostgresCensusStore,
    PostgresLedgerCheckStore,
    PostgresPolicyStore,
    PostgresPriorityStore,
    PostgresPreemptionStore,
    PostgresRestrictionStore,
    PostgresLimitStore,
    PostgresCapStore,
    PostgresCalendarStore,
    PostgresBackfillStore,
    PostgresOwnerStore,
    PostgresAccessStore,
    PostgresLoginStore,
    PostgresApplyStore,
    PostgresAuditStore,
    PostgresAlertStore,
    PostgresMonitorStore,
    PostgresNotifyStore,
    PostgresUsageStore,
    PostgresArchiveStore,
    PostgresEncryptionStore,
    PostgresStorageStore,
    PostgresObjectiveStore,
    PostgresFlowStore,
    PostgresArtifactStore,
    PostgresCheckpointStore,
    PostgresRunLogStore,
):
    """Implements `Store` on PostgreSQL 15 or later.

    A pooler in between may work in session mode, which needs no option, or lend a connection for each transaction
    (`ConnectionOptions.is_pooled`).

    Args:
        options: how to connect, or just a DSN.
        random: spreads out the retries of several servers.
    """

    def __init__(self, options: ConnectionOptions | str, *, random: RandomSource) -> None:
        self._options = ConnectionOptions(options) if isinstance(options, str) else options
        self._queries = load_queries(PACKAGE)
        self._connections = Connections(self._options, self._queries, random)
        self._closed_days = ClosedDays(self._connections)
        self._lane_ids = LaneIds()
        self._disk_look = DiskLook()
        self._tenants = LaneTenants()
        self._connections.servers.on_failover += [
            self._lane_ids.clear,
            self._tenants.clear,
            self._closed_days.forget,
        ]
        self._reads = 0

    @property
    def capabilities(self) -> StoreCapabilities:
        """What this store can do."""
        return StoreCapabilities(
            concurrent_writers=True,
            is_durable=True,
            time_precision=timedelta(microseconds=1),
            carries_hints=self._options.carries_hints,
        )

    async def open(self) -> None:
        """Bring the schema up to date, and accept calls.

        Raises:
            InvalidInput: the address cannot be used.
            StoreUnavailable, SchemaMismatch: the database does not answer, or cannot be used.
        """
        # No command time-out: another server's migration is worth waiting for.
        dial = partial(self._connections.servers.connect, settings=_SETTINGS, command_timeout=None)
        try:
            connection = await dial()
        except (*LOST, asyncpg.PostgresError) as error:
            raise explain_connect(error, self._options) from error
        try:
            await refuse_unnamed_pooler(connection, self._options, dial)
            await migrate(connection, queries=self._queries)
        except (*LOST, asyncpg.PostgresError) as error:
            raise explain_schema(error, self._options) from error
        finally:
            await self._part_with(connection)
        self._connections.open()

    async def _part_with(self, connection: Connection) -> None:
        try:
            await connection.close(timeout=self._options.connect_timeout)
        except (*LOST, asyncpg.PostgresError):
            connection.terminate()

    async def close(self) -> None:
        """Finish what is under way and disconnect."""
        await self._connections.close()

    @property
    def losses(self) -> Losses:
        """What this process knows to have been lost in failovers of the database."""
        return self._connections.servers.losses

    @property
    def failovers(self) -> Sequence[FailoverFacts]:
        """The latest failovers that this process has noticed, the newest last."""
        return tuple(self.losses.latest)

    async def read_time(self) -> datetime:
        """Return the server's clock. Every third call also checks that it is the right server."""
        [row] = await self._connections.fetch(Role.WATCH, "read_time", is_repeatable=True)
        self._reads += 1
        if self._reads % _READS_PER_LOOK == 0:
            await self._connections.look()
        now: datetime = row["now"]
        return now
