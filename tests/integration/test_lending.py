"""A lent database is as new, whatever the test before did in it; the conformance suite stands on that."""

import asyncio
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from mainspring.testing.factories import add_job, add_session, running_run
from tests.support.postgres import call, temporary_database
from tests.support.postgres_databases import open_store
from tests.support.postgres_lending import MOST_LOANS, Lender, lending

pytestmark = pytest.mark.postgres


@pytest.fixture
def lender(postgres_server: str, postgres_template: str) -> Iterator[Lender]:
    with lending(postgres_server, postgres_template) as lender:
        yield lender


async def read(connection: "asyncpg.Connection[asyncpg.Record]") -> dict[str, list[Any]]:
    """Return all rows of all tables, and all sequences."""
    names = await connection.fetch(
        "SELECT oid::regclass::text AS name FROM pg_class"
        " WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
    )
    found: dict[str, list[Any]] = {
        row["name"]: sorted(map(repr, await connection.fetch(f"SELECT * FROM {row['name']}")))
        for row in names
    }
    found["sequences"] = [
        tuple(row) for row in await connection.fetch("SELECT * FROM pg_sequences ORDER BY sequencename")
    ]
    return found


async def work(dsn: str) -> None:
    """Make rows in many tables, and change rows that are there from the beginning."""
    async with open_store(dsn) as store:
        job = await add_job(store)
        await running_run(store, job, session_id=await add_session(store))


@pytest.fixture
def pristine(postgres_server: str, postgres_template: str) -> dict[str, list[Any]]:
    with temporary_database(postgres_server, template=postgres_template) as dsn:
        found: dict[str, list[Any]] = call(dsn, read)
        return found


def test_next_one_finds_what_is_in_a_copy(lender: Lender, pristine: dict[str, list[Any]]) -> None:
    names = set()
    for _ in range(3):
        with lender.lend() as dsn:
            names.add(dsn)
            assert call(dsn, read) == pristine
            asyncio.run(work(dsn))
            call(dsn, lambda db: db.execute("UPDATE shard_lease SET epoch = 7 WHERE shard = 3"))
            call(dsn, lambda db: db.execute("DELETE FROM migration WHERE number = 3"))
            left = call(dsn, read)
            changed = {table for table in left if left[table] != pristine[table]}
            assert changed >= {"migration", "shard_lease", "job", "run", "session", "lane", "sequences"}
    assert len(names) == 1


def test_rows_that_nothing_may_delete_are_taken_out(lender: Lender, pristine: dict[str, list[Any]]) -> None:
    columns = "at, tenant, actor, actor_kind, action, subject_kind, subject_id, outcome"
    audit = f"INSERT INTO audit ({columns}) VALUES (now(), 'default', 'ann', 'account', 'edit_job', 'job', 'x', 'done')"
    with lender.lend() as first:
        call(first, lambda db: db.execute(audit))
        with pytest.raises(asyncpg.PostgresError):
            call(first, lambda db: db.execute("DELETE FROM audit"))
    with lender.lend() as second:
        assert (second, call(second, read)) == (first, pristine)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE more (id int)",
        "ALTER TABLE run ADD COLUMN more int",
        "CREATE INDEX more ON run (state, id)",
        "DROP INDEX {index}",
        "ALTER TABLE audit_horizon DISABLE TRIGGER USER",
        "CREATE OR REPLACE FUNCTION more() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE TABLE run_history_more PARTITION OF run_history FOR VALUES FROM ('2020-01-01') TO ('2020-01-02')",
        "ALTER DATABASE {name} SET search_path TO more",
        "REVOKE CONNECT ON DATABASE {name} FROM PUBLIC",
        "ALTER SEQUENCE run_sequence INCREMENT BY 2",
        "DROP TABLE silence CASCADE",
    ],
)
def test_database_whose_schema_or_settings_changed_is_not_lent_again(lender: Lender, statement: str) -> None:
    with lender.lend() as first:
        name = first.rpartition("/")[2]
        index = call(
            first,
            lambda db: db.fetchval(
                "SELECT indexrelid::regclass::text FROM pg_index"
                " WHERE indrelid = 'run'::regclass AND NOT indisunique ORDER BY 1 LIMIT 1"
            ),
        )
        call(first, lambda db: db.execute(statement.format(name=name, index=index)))
    with lender.lend() as second:
        assert second != first


async def test_connections_that_were_left_open_are_ended(lender: Lender) -> None:
    with lender.lend() as dsn:
        left = await asyncpg.connect(dsn)
        await left.execute("BEGIN")
        await left.execute("LOCK TABLE run")
    with lender.lend() as again:
        assert again == dsn
        with pytest.raises(asyncpg.PostgresError):
            await left.fetchval("SELECT 1")
        assert await asyncio.to_thread(call, again, lambda db: db.fetchval("SELECT count(*) FROM run")) == 0


def test_two_at_a_time_are_two(lender: Lender) -> None:
    with lender.lend() as one, lender.lend() as other:
        assert one != other


def test_database_is_not_lent_for_ever(lender: Lender) -> None:
    lent = set()
    for _ in range(MOST_LOANS + 1):
        with lender.lend() as dsn:
            lent.add(dsn)
    assert len(lent) == 2
