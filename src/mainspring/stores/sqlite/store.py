"""`SqliteStore`: the embedded default, one process, fully durable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import apsw

from mainspring.ports.store import FailoverFacts, StoreCapabilities
from mainspring.ports.telemetry import SIZES, Distribution, Measure
from mainspring.stores._sql.disk import DiskLook
from mainspring.stores._sql.migrate import Applied, Migration, pending, read_migrations
from mainspring.stores.sqlite.access import SqliteAccessStore
from mainspring.stores.sqlite.alerts import SqliteAlertStore
from mainspring.stores.sqlite.applying import SqliteApplyStore
from mainspring.stores.sqlite.archive import SqliteArchiveStore
from mainspring.stores.sqlite.artifacts import SqliteArtifactStore
from mainspring.stores.sqlite.audit import SqliteAuditStore
from mainspring.stores.sqlite.backfills import SqliteBackfillStore
from mainspring.stores.sqlite.browse import SqliteBrowseStore
from mainspring.stores.sqlite.calendars import SqliteCalendarStore
from mainspring.stores.sqlite.caps import SqliteCapStore
from mainspring.stores.sqlite.census import SqliteCensusStore
from mainspring.stores.sqlite.checkpoints import SqliteCheckpointStore
from mainspring.stores.sqlite.claims import SqliteClaimStore
from mainspring.stores.sqlite.connection import (
    Database,
    DatabaseThread,
    LockFile,
    Transactions,
    attach_logs,
    logs_path,
    make_private_file,
    translate,
)
from mainspring.stores.sqlite.dead import SqliteDeadStore
from mainspring.stores.sqlite.encryption import SqliteEncryptionStore
from mainspring.stores.sqlite.ends import SqliteEndStore
from mainspring.stores.sqlite.failures import SqliteFailureStore
from mainspring.stores.sqlite.flows import SqliteFlowStore
from mainspring.stores.sqlite.inserts import InternedLanes
from mainspring.stores.sqlite.jobs import SqliteJobStore
from mainspring.stores.sqlite.ledger_check import SqliteLedgerCheckStore
from mainspring.stores.sqlite.limits import SqliteLimitStore
from mainspring.stores.sqlite.log_file import set_aside_if_damaged
from mainspring.stores.sqlite.logins import SqliteLoginStore
from mainspring.stores.sqlite.monitors import SqliteMonitorStore
from mainspring.stores.sqlite.nodes import SqliteNodeStore
from mainspring.stores.sqlite.notify import SqliteNotifyStore
from mainspring.stores.sqlite.objectives import SqliteObjectiveStore
from mainspring.stores.sqlite.owners import SqliteOwnerStore
from mainspring.stores.sqlite.policies import SqlitePolicyStore
from mainspring.stores.sqlite.preemption import SqlitePreemptionStore
from mainspring.stores.sqlite.priorities import SqlitePriorityStore
from mainspring.stores.sqlite.redrives import SqliteRedriveStore
from mainspring.stores.sqlite.restrictions import SqliteRestrictionStore
from mainspring.stores.sqlite.rows import to_instant
from mainspring.stores.sqlite.run_logs import SqliteRunLogStore
from mainspring.stores.sqlite.runs import SqliteRunStore
from mainspring.stores.sqlite.schedule import SqliteScheduleStore
from mainspring.stores.sqlite.sessions import SqliteSessionStore
from mainspring.stores.sqlite.statements import execute, fetch_rows, fetch_value
from mainspring.stores.sqlite.storage import SqliteStorageStore
from mainspring.stores.sqlite.upkeep import SqliteUpkeepStore
from mainspring.stores.sqlite.usage import SqliteUsageStore

_PACKAGE = "mainspring.stores.sqlite"
_RUN_LOGS = "run_logs"
_CAPABILITIES = StoreCapabilities(
    concurrent_writers=False, is_durable=True, time_precision=timedelta(microseconds=1)
)


class SqliteStore(
    SqliteJobStore,
    SqliteFailureStore,
    SqliteDeadStore,
    SqliteRedriveStore,
    SqliteEndStore,
    SqliteScheduleStore,
    SqliteRunStore,
    SqliteClaimStore,
    SqliteSessionStore,
    SqliteNodeStore,
    SqliteUpkeepStore,
    SqliteBrowseStore,
    SqliteCensusStore,
    SqliteLedgerCheckStore,
    SqlitePolicyStore,
    SqlitePriorityStore,
    SqlitePreemptionStore,
    SqliteRestrictionStore,
    SqliteLimitStore,
    SqliteCapStore,
    SqliteCalendarStore,
    SqliteBackfillStore,
    SqliteOwnerStore,
    SqliteAccessStore,
    SqliteLoginStore,
    SqliteApplyStore,
    SqliteAuditStore,
    SqliteAlertStore,
    SqliteMonitorStore,
    SqliteNotifyStore,
    SqliteUsageStore,
    SqliteArchiveStore,
    SqliteEncryptionStore,
    SqliteStorageStore,
    SqliteObjectiveStore,
    SqliteFlowStore,
    SqliteArtifactStore,
    SqliteCheckpointStore,
    SqliteRunLogStore,
):
    """Implements `Store` on one SQLite file in WAL mode with synchronous=FULL.

    What attempts write while they run is in a second file beside it, which is not waited for.

    Args:
        path: the database file. Its folder is created if it is missing, and locked for one process at a time. Only this
            user may read what is created.
        browse_timeout: how long a list or count may take, in seconds.
    """

    def __init__(self, path: Path, *, browse_timeout: float = 1.0) -> None:
        self._path = path
        self._browse_timeout = browse_timeout
        self._lane_ids = InternedLanes()
        self._disk_look = DiskLook()
        self._lock = LockFile(path.with_name(f"{path.name}.lock"))
        self._commits = Distribution(SIZES)

    @property
    def capabilities(self) -> StoreCapabilities:
        """What this store can do."""
        return _CAPABILITIES

    @property
    def failovers(self) -> Sequence[FailoverFacts]:
        """Always empty: there is nothing to fail over to."""
        return ()

    def measures(self) -> Iterator[Measure]:
        """Yield how many calls were committed together."""
        yield Measure("group_commit_items", self._commits.read(), ("sqlite",))

    async def open(self) -> None:
        """Lock the folder, bring the schema up to date, and start the threads."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock.acquire()
        self._writer = self._make_database("sqlite-writer", is_writer=True)
        self._reader = self._make_database("sqlite-reader", is_writer=False)
        self._browser = self._make_database("sqlite-browser", is_writer=False, patience=self._browse_timeout)
        try:
            make_private_file(self._path)
            set_aside_if_damaged(logs_path(self._path))
            make_private_file(logs_path(self._path))
            self._writer.start()
            await self._writer.call(migrate)
            self._reader.start()
            self._browser.start()
        except BaseException:
            await self._writer.stop()
            self._lock.release()
            raise

    def _make_database(self, name: str, *, is_writer: bool, patience: float | None = None) -> Database:
        forget = self._lane_ids.clear if is_writer else _nothing
        transactions = Transactions(
            self._path, is_writer=is_writer, on_rollback=forget, is_limited=patience is not None
        )
        if is_writer:
            self._commits = transactions.sizes
        return DatabaseThread(transactions, name=name, patience=patience)

    async def close(self) -> None:
        """Finish what is under way, and unlock the folder."""
        await self._writer.stop()
        await self._reader.stop()
        await self._browser.stop()
        self._lock.release()

    async def read_time(self) -> datetime:
        """Return SQLite's clock (the host's), to the millisecond below."""
        millis: int = await self._reader.call(lambda db: fetch_value(db, "read_time"))
        return to_instant(millis * 1000)


def migrate(db: apsw.Connection, *, migrations: Sequence[Migration] | None = None) -> None:
    """Apply the missing migrations in the caller's transaction.

    Args:
        migrations: instead of the package's own.

    Raises:
        SchemaMismatch: the schema is newer and not compatible with this program, was altered, or lacks a migration in
            between.
    """
    attach_logs(db)
    execute(db, "make_migration_table")
    execute(db, "make_compatibility_table")
    applied = {
        row.number: Applied(row.checksum, row.compatible_from) for row in fetch_rows(db, "read_migrations")
    }
    available = read_migrations(_PACKAGE) if migrations is None else migrations
    for migration in pending(applied, available):
        values = {"number": migration.number, "name": migration.name, "checksum": migration.checksum}
        execute(db, "add_migration", values)
        values = {"number": migration.number, "compatible_from": migration.compatible_from}
        execute(db, "add_compatibility", values)
        _carry_out(db, migration)
    for migration in available:
        if migration.name == _RUN_LOGS and fetch_value(db, "has_run_logs") == 0:
            _carry_out(db, migration)  # their file was lost, or a power cut took it back


def _carry_out(db: apsw.Connection, migration: Migration) -> None:
    try:
        db.execute(migration.text)
    except apsw.Error as error:
        raise translate(error) from error


def _nothing() -> None:
    """Do nothing: a reader has no cache to clear."""
