"""Copies a database into a file while servers run, and fills an empty database from such a file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg

from mainspring.core.backups import (
    BackupManifest,
    KeptClock,
    Restored,
    SealFacts,
    StoreFacts,
    step_over,
    sum_up_ledger,
)
from mainspring.core.ids import JobId
from mainspring.errors import Conflict, InvalidInput
from mainspring.ports.backups import Saved
from mainspring.stores._sql.queries import load_queries
from mainspring.stores.postgres.connecting import LOST, ConnectionOptions, Dialer, split_hosts
from mainspring.stores.postgres.connection import Transaction
from mainspring.stores.postgres.dump_tools import find_tool, run_tool
from mainspring.stores.postgres.refusals import explain_connect, explain_schema
from mainspring.stores.postgres.schema import BROKEN_RESTORE, PACKAGE, apply_missing

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

_SETTINGS = {
    "timezone": "UTC",
    "application_name": "mainspring-backup",
    # The connection only holds the snapshot, or the lock, while the program works.
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    "tcp_keepalives_idle": "60",
    "statement_timeout": "0",
}
_LOCK_WAIT = "--lock-wait-timeout=60000"
_RESTORING = ("--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges")
_OLDEST_SCHEMA = 34
"""The first with an audit, whose seal is in every manifest."""
_SHOWN = 3


class PostgresBackups:
    """Implements `BackupStore` by `pg_dump` and `pg_restore`.

    Args:
        options: how to connect: to PostgreSQL itself, past a pooler that lends connections.
    """

    kind = "postgresql"

    def __init__(self, options: ConnectionOptions) -> None:
        self._options = options
        self._statements = {name: query.positional() for name, query in load_queries(PACKAGE).items()}

    async def save(self, file: Path) -> Saved:
        """See `BackupStore`. `pg_dump` and the counts read in one snapshot."""
        async with self._connected() as (connection, dsn):
            least = connection.get_server_version().major
            tool, version = await find_tool("pg_dump", least=least)
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                transaction = Transaction(connection, self._statements)
                [row] = await transaction.fetch("share_snapshot")
                await _require_store(transaction)
                arguments = ["--format=custom", f"--file={file}", f"--snapshot={row['snapshot']}", _LOCK_WAIT]
                dump = asyncio.create_task(run_tool(tool, arguments, dsn=dsn))
                try:
                    facts = await _read_facts(connection, transaction)
                    await dump
                finally:
                    dump.cancel()
                    await asyncio.gather(dump, return_exceptions=True)
            return Saved(f"pg_dump {version}", row["at"], facts)

    async def restore(self, file: Path, manifest: BackupManifest, *, now: datetime) -> Restored:
        """See `BackupStore`. Servers that start meanwhile wait until it is done.

        `pg_restore` commits by itself, and only then the store is made ours. A mark that is there before and goes with
        the last commit keeps everybody from a store that is in between, should this process or its connection end.
        """
        step = step_over(manifest.taken_at, now)
        made_by = manifest.tool.partition(" ")[2]
        async with self._connected() as (connection, dsn):
            tool, _ = await find_tool("pg_restore", least=int(made_by) if made_by.isdigit() else 0)
            transaction = Transaction(connection, self._statements)
            await transaction.fetch("hold_schema")
            async with connection.transaction():
                await _mark(connection, transaction)
            await run_tool(tool, [*_RESTORING, str(file)], dsn=dsn)
            async with connection.transaction():
                for mark in await transaction.fetch("find_restore_mark"):
                    await connection.execute(mark["removing"])
                await _require_store(transaction)
                found = await _read_facts(connection, transaction)
                await apply_missing(connection, transaction)
                sessions, runs = await _step_over(transaction, step, now)
            return Restored(found=found, step=step, sessions=sessions, runs=runs)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[tuple[Connection, str]]:
        """Connect, and give the DSN of the very server."""
        options = self._options
        if options.is_pooled:
            if options.listen_dsn is None:
                raise InvalidInput(
                    "store", "leads to a pooler, which pg_dump cannot use; name PostgreSQL itself"
                )
            options = replace(options, dsn=options.listen_dsn, is_pooled=False)
        connection, dsn = await _dial(options)
        try:
            yield connection, dsn
        except (asyncpg.PostgresError, asyncpg.InterfaceError, ConnectionError) as error:
            raise explain_schema(error, options) from error
        finally:
            await connection.close()


async def _dial(options: ConnectionOptions) -> tuple[Connection, str]:
    dsns = split_hosts(options.dsn)
    for dsn in dsns:
        dialer = Dialer(replace(options, dsn=dsn), is_one_of_several=len(dsns) > 1)
        try:
            return await dialer.dial(settings=_SETTINGS, command_timeout=None), dsn
        except (*LOST, asyncpg.PostgresError) as error:
            if dsn is dsns[-1]:
                raise explain_connect(error, options) from error
    raise AssertionError("there is no DSN without a host")


async def _mark(connection: Connection, transaction: Transaction) -> None:
    """Mark an empty database as one that is being restored. One whose restore has failed has its mark already."""
    is_marked = bool(await transaction.fetch("find_restore_mark"))
    if tables := [row["name"] for row in await transaction.fetch("list_tables")]:
        if is_marked:
            raise Conflict("store", BROKEN_RESTORE)
        named = ", ".join(tables[:_SHOWN]) + (", …" if len(tables) > _SHOWN else "")
        raise Conflict("store", f"the database has tables ({named}); a restore needs an empty one")
    if not is_marked:
        [row] = await transaction.fetch("name_restore_mark")
        await connection.execute(row["making"])


async def _require_store(transaction: Transaction) -> None:
    if await transaction.fetch("find_restore_mark"):
        raise Conflict("store", BROKEN_RESTORE)
    tables = {row["name"] for row in await transaction.fetch("list_tables")}
    if "migration" not in tables or "run" not in tables:
        raise InvalidInput("store", "it is no store of Mainspring")


async def _step_over(transaction: Transaction, step: int, now: datetime) -> tuple[int, int]:
    """Raise what the store gives out, and end all sessions. Return how many there were, and how many runs they held."""
    ended = await transaction.fetch("end_sessions_of_before", now=now)
    await transaction.execute("copy_holding_sessions", step=step, now=now)
    held = await transaction.fetch("hand_over_held", step=step)
    for name in ("raise_id_sequences", "raise_epochs", "raise_clock_revisions"):
        await transaction.execute(name, step=step)
    await transaction.execute("raise_all_revisions", step=step, now=now)
    await transaction.execute("forget_nodes")
    return len(ended), len(held)


async def _read_facts(connection: Connection, transaction: Transaction) -> StoreFacts:
    rows = {
        row["name"]: int(await connection.fetchval(row["counting"]))
        for row in await transaction.fetch("list_tables")
    }
    [schema] = await transaction.fetch("read_schema_number")
    if schema["number"] < _OLDEST_SCHEMA:
        number = schema["number"]
        raise InvalidInput(
            "store",
            f"its schema is {number:04}, and backups begin with {_OLDEST_SCHEMA:04}; take a copy with pg_dump",
        )
    seals = await transaction.fetch("read_newest_seal")
    return StoreFacts(
        schema=schema["number"],
        rows=rows,
        seal=SealFacts(id=seals[0]["id"], digest=seals[0]["digest"].hex()) if seals else None,
        ledger=sum_up_ledger(
            KeptClock(
                job_id=JobId(row["job_id"]),
                next_fire_at=row["next_fire_at"],
                fired_through=row["fired_through"],
                fires=row["fires"],
                last_fire_at=row["last_fire_at"],
            )
            for row in await transaction.fetch("list_clock_facts")
        ),
    )
