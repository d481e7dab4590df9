"""Looks at a database and its server, also while servers of Mainspring run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

import asyncpg

from mainspring.core.ciphertexts import KeyUses, heads_of
from mainspring.core.doctor import ClusterLook, ServerLook, StoreLook, TokenLook
from mainspring.errors import MainspringError
from mainspring.stores._sql.disk import DiskLook
from mainspring.stores._sql.doctor import (
    ARCHIVED_SINCE,
    INSTALLED_SINCE,
    LOGINS_SINCE,
    MOST_TOKENS,
    SOON,
    look_at_tokens,
    make_cluster_look,
)
from mainspring.stores._sql.migrate import ENCRYPTED_SINCE
from mainspring.stores._sql.queries import load_queries
from mainspring.stores.postgres.access import ending_of, values_of_ending
from mainspring.stores.postgres.connecting import LOST, ConnectionOptions, Dialer
from mainspring.stores.postgres.connection import Transaction
from mainspring.stores.postgres.refusals import explain_connect
from mainspring.stores.postgres.schema import PACKAGE

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

_SETTINGS = {"timezone": "UTC", "application_name": "mainspring-doctor"}
_PATIENCE = 30.0
_TRIES = 3


class PostgresExaminer:
    """Implements `StoreExaminer`."""

    def __init__(self, options: ConnectionOptions, *, label: str) -> None:
        self._options = options
        self._label = label
        self._statements = {name: query.positional() for name, query in load_queries(PACKAGE).items()}

    async def look(self, *, monotonic: Callable[[], float], now: Callable[[], datetime]) -> StoreLook:
        """See `StoreExaminer`."""
        connection: Connection | None = None
        try:
            connection = await Dialer(self._options).dial(settings=_SETTINGS, command_timeout=_PATIENCE)
            return await self._look_through(connection, monotonic, now)
        except MainspringError as error:
            return StoreLook(label=self._label, error=str(error))
        except (*LOST, asyncpg.PostgresError) as error:
            return StoreLook(label=self._label, error=str(explain_connect(error, self._options)))
        finally:
            if connection is not None:
                connection.terminate()

    async def count_key_uses(self, key_ids: Sequence[str]) -> Mapping[str, KeyUses]:
        """See `StoreExaminer`."""
        connection: Connection | None = None
        found = {}
        try:
            connection = await Dialer(self._options).dial(settings=_SETTINGS, command_timeout=_PATIENCE)
            transaction = Transaction(connection, self._statements)
            for key_id in key_ids:
                heads = heads_of(key_id)
                [row] = await transaction.fetch(
                    "count_key_uses",
                    data=heads.data,
                    text=heads.text,
                    definitions=[one.encode() for one in heads.definitions],
                )
                found[key_id] = KeyUses(row["jobs"], row["runs"], row["dead_runs"])
        except (*LOST, asyncpg.PostgresError):
            return found
        finally:
            if connection is not None:
                connection.terminate()
        return found

    async def _look_through(
        self, connection: Connection, monotonic: Callable[[], float], now: Callable[[], datetime]
    ) -> StoreLook:
        transaction = Transaction(connection, self._statements)
        await transaction.fetch("read_time")  # prepares the statement
        begun, before = monotonic(), now()
        [row] = await transaction.fetch("read_time")
        round_trip = monotonic() - begun
        there: datetime = row["now"]
        middle = before + (now() - before) / 2
        server = await _look_at_server(transaction, monotonic)
        is_store = bool(await transaction.fetch("find_migration_table"))
        schema = await transaction.fetch("read_schema_number") if is_store else []
        number = schema[0]["number"] if schema else None
        return StoreLook(
            label=self._label,
            schema=number,
            clock_ahead=(there - middle).total_seconds(),
            round_trip=round_trip,
            server=server,
            cluster=await _look_at_cluster(transaction, there, schema=number or 0) if is_store else None,
        )


async def _look_at_server(transaction: Transaction, monotonic: Callable[[], float]) -> ServerLook:
    [found] = await transaction.fetch("look_at_server")
    tables = await transaction.fetch("look_at_dead_rows")
    taken = []
    for _ in range(0 if found["is_standby"] else _TRIES):
        begun = monotonic()
        await transaction.fetch("write_a_mark")
        taken.append(monotonic() - begun)
    worst = tables[0] if tables else {"table": "any table", "live_rows": 0, "dead_rows": 0}
    look = ServerLook(**dict(found), **dict(worst), commit=sorted(taken)[len(taken) // 2] if taken else 0.0)
    if look.folder is None:
        return look
    try:
        return replace(look, disk=await DiskLook().look(look.folder))
    except TimeoutError:
        return replace(look, is_disk_slow=True)


async def _look_at_cluster(transaction: Transaction, now: datetime, *, schema: int) -> ClusterLook | None:
    async def rows(name: str) -> list[dict[str, object]]:
        return [dict(row) for row in await transaction.fetch(name, now=now)]

    found = await rows("look_at_cluster")
    if not found:
        return None
    ledger = await transaction.fetch("read_ledger_check")
    unarchived = (
        await transaction.fetch("find_unarchived_day", before=now) if schema >= ARCHIVED_SINCE else []
    )
    home = dict((await transaction.fetch("read_archive"))[0]) if schema >= INSTALLED_SINCE else {}
    keys = await transaction.fetch("list_encryption_keys") if schema >= ENCRYPTED_SINCE else []
    if schema >= LOGINS_SINCE:
        soon = values_of_ending(after=now, before=now + SOON, limit=MOST_TOKENS)
        ending = map(ending_of, await transaction.fetch("list_expiring_tokens", **soon))
        tokens = look_at_tokens(list(ending), now)
    else:
        tokens = [
            TokenLook(**row) for row in await transaction.fetch("look_at_tokens_before_logins", now=now)
        ]
    return make_cluster_look(
        found[0],
        nodes=await rows("look_at_nodes"),
        queues=await rows("look_at_queues"),
        tokens=tokens,
        channels=[dict(row) for row in await transaction.fetch("look_at_channels")],
        ledger=ledger[0]["body"] if ledger else None,
        unarchived=unarchived[0]["day"] if unarchived else None,
        keys=[dict(row) for row in keys],
        home=home,
        now=now,
    )
