"""What the store executes on a caller's connection, within the caller's transaction.

Its statements are the store's own. But the connection is not: its search path may lead elsewhere, and its transaction
may last for long. So tables are named with their schema, and nothing here locks what others wait for, except keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from weakref import WeakKeyDictionary

from mainspring.core.admission import SubmissionVerdict
from mainspring.core.expiry import QueueExpiries
from mainspring.core.model import Job
from mainspring.core.outcomes import Transition
from mainspring.core.priorities import PriorityClass
from mainspring.core.values import value
from mainspring.errors import InvalidInput, SchemaMismatch
from mainspring.ports.store.claims import ApplyResult
from mainspring.ports.store.runs import NewRun, SubmitResult
from mainspring.stores._sql.migrate import Applied, pending, read_migrations
from mainspring.stores._sql.queries import load_queries
from mainspring.stores.postgres.completion import apply_any
from mainspring.stores.postgres.connection import Transaction
from mainspring.stores.postgres.drivers import FIELD, CallersConnection
from mainspring.stores.postgres.inserts import LaneIds, insert_decided
from mainspring.stores.postgres.priorities import class_of
from mainspring.stores.postgres.rows import job_of
from mainspring.stores.postgres.schema import BROKEN_RESTORE, PACKAGE
from mainspring.stores.postgres.submissions import submit_carefully

_MILLISECOND = timedelta(milliseconds=1)
_Statements = Mapping[str, tuple[str, tuple[str, ...]]]
_CREATED = re.compile(r"CREATE (?:UNLOGGED )?(?:TABLE|VIEW)(?: IF NOT EXISTS)? (\w+)")
_NAMED = re.compile(r"\b(FROM|JOIN|INTO|UPDATE)(\s+)(\w+)\b")
_SEQUENCE = "'run_sequence'"

_found: WeakKeyDictionary[object, str] = WeakKeyDictionary()
"""The schema of the store, for each connection on which it was looked for. It holds as long as the connection."""


@value()
class SubmittedJob:
    """What a submission goes by.

    Attributes:
        now: the store's clock.
        expiries: those of queues.
    """

    job: Job
    now: datetime
    expiries: QueueExpiries


class CallersStore:
    """The verbs of the store within a caller's transaction. `open_store` makes it."""

    def __init__(self, transaction: Transaction, schema: str) -> None:
        self._transaction = transaction
        self._schema = schema

    async def read_job(self, tenant: str, name: str) -> SubmittedJob | None:
        """Return the newest definition of a job, with what else its runs depend on; None if there is no such job.

        Raises:
            InvalidInput: the store is encrypted.
        """
        rows = await self._transaction.fetch(
            "read_submitted_job", tenant=tenant, name=name, schema=self._schema
        )
        if not rows:
            return None
        [row] = rows
        _refuse_encrypted(is_encrypted=row["is_encrypted"])
        pairs = zip(row["queues"], row["expiries_ms"], strict=True)
        expiries = {queue: millis * _MILLISECOND for queue, millis in pairs}
        return SubmittedJob(job_of(row), row["now"].astimezone(UTC), expiries)

    async def list_priority_classes(self) -> list[PriorityClass]:
        """See `PriorityStore`."""
        return [class_of(row) for row in await self._transaction.fetch("list_priority_classes")]

    async def submit(self, runs: Sequence[NewRun], *, now: datetime) -> list[SubmitResult]:
        """Insert runs as `RunStore.submit_runs` does; they become visible with the caller's commit.

        The ids of lanes are not remembered: the caller may roll back, and has perhaps several databases.
        """
        if all(run.is_plain for run in runs):
            ids = await insert_decided(self._transaction, LaneIds(), [(run, None) for run in runs], now=now)
            return [SubmitResult(SubmissionVerdict.SUBMITTED, run_id) for run_id in ids]
        return await submit_carefully(self._transaction, LaneIds(), runs, now, locks_holders=False)

    async def complete(self, end: Transition) -> bool:
        """Apply the end of an attempt; it takes effect with the caller's commit.

        Returns:
            False if the run is not RUNNING under this lease. Then the caller's transaction must not be committed. An
            attempt that has lost its lease must not leave its writes behind, and one that has ended its run before
            would write them twice.

        Raises:
            InvalidInput: the store is encrypted.
        """
        [row] = await self._transaction.fetch("look_at_store", schema=self._schema)
        _refuse_encrypted(is_encrypted=row["is_encrypted"])
        _, answers = await apply_any(self._transaction, [end], row["now"].astimezone(UTC))
        return answers.get(0) is ApplyResult.APPLIED

    async def forbid_commit(self) -> None:
        """Make the caller's transaction fail. It raises the driver's error."""
        await self._transaction.execute("forbid_commit")


async def open_store(found: CallersConnection) -> CallersStore:
    """Find the store's tables through a caller's connection.

    Raises:
        InvalidInput: the database has none, or several schemas have them.
        SchemaMismatch: this program does not fit them.
    """
    schema = _found.get(found.driver)
    if schema is None:
        schema = await _find_schema(found.transaction(_statements("")))
        await _check_schema(found.transaction(_statements(schema)), schema)
        _found[found.driver] = schema
    return CallersStore(found.transaction(_statements(schema)), schema)


async def _find_schema(transaction: Transaction) -> str:
    rows = await transaction.fetch("find_schemas")
    if not rows:
        message = "leads to a database without Mainspring's tables; it must be the one that the servers use"
        raise InvalidInput(FIELD, message)
    if rows[0]["place"] is None and len(rows) > 1:
        names = ", ".join(row["name"] for row in rows)
        message = (
            f"several schemas hold Mainspring's tables ({names}); put the right one into its search_path"
        )
        raise InvalidInput(FIELD, message)
    name: str = rows[0]["name"]
    return name


async def _check_schema(transaction: Transaction, schema: str) -> None:
    rows = await transaction.fetch("read_migrations")
    applied = {row["number"]: Applied(row["checksum"], row["compatible_from"]) for row in rows}
    missing = pending(applied, read_migrations(PACKAGE))
    if await transaction.fetch("find_restore_mark"):
        raise SchemaMismatch(BROKEN_RESTORE)
    if missing:
        raise SchemaMismatch(
            f"the store's tables lack migration {missing[0].number:04}, which this program needs;"
            " start a server of this release first"
        )
    [row] = await transaction.fetch("look_at_store", schema=schema)
    _refuse_encrypted(is_encrypted=row["is_encrypted"])


def _refuse_encrypted(*, is_encrypted: bool) -> None:
    """Refuse a store that is encrypted. That is asked each time: it may begin while a connection is open."""
    if is_encrypted:
        message = (
            "leads to a store that is encrypted, for which a caller's transaction has no keys;"
            " submit through the server instead, and let runs end by themselves"
        )
        raise InvalidInput(FIELD, message)


@lru_cache(maxsize=16)
def _statements(schema: str) -> _Statements:
    """Return the store's statements with the names of its tables in this schema."""
    tables = {name for one in read_migrations(PACKAGE) for name in _CREATED.findall(one.text)}
    tables |= {"migration", "migration_compatibility", "fire_range"}
    return {
        name: (qualify(text, schema, tables) if schema else text, parameters)
        for name, (text, parameters) in (
            (name, query.positional()) for name, query in load_queries(PACKAGE).items()
        )
    }


def qualify(text: str, schema: str, tables: set[str]) -> str:
    """Put a schema in front of the tables of a statement.

    It does not depend on the search path then, and a temporary table of the caller does not get in its way.
    """
    quoted = '"' + schema.replace('"', '""') + '"'

    def name(match: re.Match[str]) -> str:
        word, space, table = match.groups()
        return f"{word}{space}{quoted}.{table}" if table in tables else match.group(0)

    sequence = (quoted + ".run_sequence").replace("'", "''")
    return _NAMED.sub(name, text).replace(_SEQUENCE, f"'{sequence}'")
