"""Databases that are lent to one test after another: what a test left in one is taken out of it again.

To copy and to drop a database takes longer than most tests. A lent database gets its rows and sequences back as they
were. Where more than these has changed, the schema for instance, it is dropped, and the next test gets a new copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psycopg
from psycopg import sql

from tests.support.postgres import temporary_database

MOST_LOANS = 100
"""After these a database is dropped: each leaves dead rows behind."""
_CATALOGS = (
    *("pg_class", "pg_attribute", "pg_attrdef", "pg_constraint", "pg_index", "pg_inherits", "pg_sequence"),
    *("pg_trigger", "pg_event_trigger", "pg_proc", "pg_type", "pg_namespace", "pg_rewrite", "pg_policy"),
    *("pg_extension", "pg_default_acl"),
)
_SCHEMA = (
    " UNION ALL ".join(
        f"SELECT '{name}', count(*), max(xmin::text::bigint) FROM pg_catalog.{name}" for name in _CATALOGS
    )
    + " UNION ALL SELECT 'settings', count(*), max(setting.xmin::text::bigint) FROM pg_db_role_setting AS setting"
    " JOIN pg_database AS own ON own.oid = setting.setdatabase WHERE own.datname = current_database()"
    " UNION ALL SELECT 'database', 1, xmin::text::bigint FROM pg_database WHERE datname = current_database()"
)
"""What changes as soon as a statement changes the schema or a setting: rows of the catalogs, and who wrote the last."""
_TABLES = (
    "SELECT namespace.nspname, class.relname FROM pg_class AS class"
    " JOIN pg_namespace AS namespace ON namespace.oid = class.relnamespace"
    " WHERE class.relkind = 'r' AND namespace.nspname NOT IN ('pg_catalog', 'information_schema')"
    " ORDER BY 1, 2"
)
_SEQUENCES = (
    "SELECT format('%I.%I', schemaname, sequencename)::regclass::oid, coalesce(last_value, start_value),"
    " last_value IS NOT NULL FROM pg_sequences ORDER BY 1"
)
_END_OTHERS = (
    "SELECT bool_and(pg_terminate_backend(pid, 20000)) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


class Lent:
    """One database, with a connection that puts it back."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.loans = 0
        self._connection = psycopg.connect(dsn, autocommit=True, application_name="lending")
        # Neither triggers nor foreign keys are to see how rows are put back.
        self._fetch("SELECT set_config('session_replication_role', 'replica', false)")
        self._schema = self._fetch(_SCHEMA)
        self._tables = [sql.Identifier(*map(str, row)) for row in self._fetch(_TABLES)]
        values = ", ".join(str(row) for row in self._fetch(_SEQUENCES)) or "(0, 1, false)"
        self._set_sequences = (
            f"SELECT setval(oid::regclass, value, called) FROM (VALUES {values}) AS kept (oid, value, called)"
            " WHERE oid <> 0"
        )
        self._rows = {number: self._copy_out(number) for number in self._numbers_of_filled()}
        self._looks = self._make_looks()
        self._seen = self._look()

    def close(self) -> None:
        self._connection.close()

    def put_back(self) -> bool:
        """Make it as it was; return False where that cannot be done."""
        self.loans += 1
        if self.loans >= MOST_LOANS:
            return False
        self._fetch(_END_OTHERS)
        if self._fetch(_SCHEMA) != self._schema:
            return False
        changed = [number for number, seen in self._look().items() if self._seen.get(number) != seen]
        if changed:
            with self._connection.transaction():
                for number in changed:
                    self._connection.execute(sql.SQL("DELETE FROM {}").format(self._tables[number]))
                    if number in self._rows:
                        self._copy_in(number)
            self._seen = self._look()
        self._fetch(self._set_sequences)
        return True

    def _make_looks(self) -> sql.Composed:
        """Return a query for what tells that a table has changed: rows where there were none, or newer ones."""
        parts = []
        for number, table in enumerate(self._tables):
            text = "SELECT {number}, 0::bigint, '' WHERE EXISTS (SELECT FROM {table})"
            if number in self._rows:
                text = "SELECT {number}, count(*), max(xmin::text::bigint) || max(ctid)::text FROM {table}"
            parts.append(sql.SQL(text).format(number=sql.Literal(number), table=table))
        return sql.SQL(" UNION ALL ").join(parts)

    def _look(self) -> dict[int, tuple[object, ...]]:
        return {row[0]: row[1:] for row in self._connection.execute(self._looks, prepare=True)}

    def _numbers_of_filled(self) -> list[int]:
        query = sql.SQL("SELECT EXISTS (SELECT FROM {})")
        return [
            number
            for number, table in enumerate(self._tables)
            if self._connection.execute(query.format(table)).fetchone() == (True,)
        ]

    def _copy_out(self, number: int) -> bytes:
        query = sql.SQL("COPY {} TO STDOUT").format(self._tables[number])
        with self._connection.cursor() as cursor, cursor.copy(query) as copy:
            return b"".join(bytes(part) for part in copy)

    def _copy_in(self, number: int) -> None:
        query = sql.SQL("COPY {} FROM STDIN").format(self._tables[number])
        with self._connection.cursor() as cursor, cursor.copy(query) as copy:
            copy.write(self._rows[number])

    def _fetch(self, query: str) -> list[tuple[object, ...]]:
        return self._connection.execute(query.encode(), prepare=True).fetchall()


class Lender:
    """Lends copies of one database.

    Args:
        server: what `server_dsn` returned.
        template: the database to copy; nobody may be connected to it.
    """

    def __init__(self, server: str, template: str) -> None:
        self._server = server
        self._template = template
        self._idle: list[tuple[Lent, ExitStack]] = []

    @contextmanager
    def lend(self) -> Iterator[str]:
        """Yield the DSN of a database that is as the template is. It is put back after that."""
        lent, stack = self._idle.pop() if self._idle else self._copy()
        with ExitStack() as failing:
            failing.push(stack)
            yield lent.dsn
            if lent.put_back():
                failing.pop_all()
                self._idle.append((lent, stack))

    def _copy(self) -> tuple[Lent, ExitStack]:
        with ExitStack() as stack:
            dsn = stack.enter_context(temporary_database(self._server, template=self._template))
            lent = Lent(dsn)
            stack.callback(lent.close)
            return lent, stack.pop_all()

    def close(self) -> None:
        """Drop all databases."""
        while self._idle:
            self._idle.pop()[1].close()


@contextmanager
def lending(server: str, template: str) -> Iterator[Lender]:
    """Lend copies of a database, and drop them in the end."""
    lender = Lender(server, template)
    try:
        yield lender
    finally:
        lender.close()
