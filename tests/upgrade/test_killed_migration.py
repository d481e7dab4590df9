"""A migration that is killed in the middle leaves the schema as it was, and the next start brings it up to date.

The kill comes at every boundary between two statements. SQLite: to the program (SIGKILL). PostgreSQL, where all
statements of a migration go in one message: to the server's process that carries them out; and to the program while the
server is in the middle of them. A new store is killed in every migration, an older one only in its next, and on SQLite
once more when nothing but the commit is left: all that it lacks is one transaction, which the new store's kills cut at
every place.
"""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import apsw
import asyncpg
import pytest

from mainspring.errors import StoreUnavailable
from mainspring.stores._sql.migrate import Migration, read_migrations
from mainspring.stores.postgres.schema import migrate
from mainspring.stores.postgres.snapshot import describe
from tests.support.postgres_databases import open_store

MIGRATIONS = read_migrations("mainspring.stores.postgres")
SNAPSHOT = Path(__file__).parents[2] / "src/mainspring/stores/postgres/schema.sql"


def _count_statements(text: str) -> int:
    """Count them as SQLite does: the statements within a trigger's body are part of the trigger's."""
    count, statement = 0, ""
    for line in text.splitlines():
        statement += line + "\n"
        if line.endswith(";") and apsw.complete(statement):
            count, statement = count + 1, ""
    return count


STATEMENTS = [_count_statements(each.text) for each in read_migrations("mainspring.stores.sqlite")]
# Kills a child of its own before each of these statements, looks at the file each time, and lets one come to its end.
SQLITE = """
import os, shutil, signal, sys
import apsw
from mainspring.stores._sql.migrate import read_migrations
from mainspring.stores.sqlite.store import migrate

path, already = sys.argv[1], int(sys.argv[2])
available = read_migrations("mainspring.stores.sqlite")

def schema():
    db = apsw.Connection(path)
    found = db.execute("SELECT name, sql FROM sqlite_schema ORDER BY name").fetchall()
    if ("migration",) in [row[:1] for row in found]:
        found.append(db.execute("SELECT number FROM migration ORDER BY number").fetchall())
    db.close()
    return found

def apply(migrations, *, left=-1, file=path):
    passed = 0
    def look(cursor, statement, bindings):
        nonlocal passed
        if passed == left:
            os.kill(os.getpid(), signal.SIGKILL)
        passed += 1
        return True

    db = apsw.Connection(file)
    db.execute("PRAGMA journal_mode = WAL")
    db.exec_trace = look
    db.execute("BEGIN IMMEDIATE")
    migrate(db, migrations=migrations)
    db.execute("COMMIT")
    db.close()
    return passed

def apply_to_a_copy(migrations):
    copy = path + ".copy"
    if already:
        shutil.copy(path, copy)
    passed = apply(migrations, file=copy)
    os.unlink(copy)
    return passed

if already:
    apply(available[:already])
before, whole = schema(), apply_to_a_copy(available)
boundaries = range(whole)
if already:
    boundaries = [*range(apply_to_a_copy(available[: already + 1])), whole - 1]
for left in boundaries:
    child = os.fork()
    if child == 0:
        apply(available, left=left)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, status
    assert schema() == before, f"killed before statement {left}"
assert apply(available) == whole
after = schema()
os.unlink(path)
apply(available)
assert after == schema()
print(len(boundaries), whole)
"""


@pytest.mark.parametrize("already", range(len(MIGRATIONS)))
def test_killed_program_leaves_an_sqlite_file_as_it_was(tmp_path: Path, already: int) -> None:
    path = tmp_path / "mainspring.db"
    done = subprocess.run(
        [sys.executable, "-c", SQLITE, str(path), str(already)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    kills, whole = map(int, done.stdout.split())
    assert whole > sum(STATEMENTS[already:]), "not every statement was met"
    assert kills > (STATEMENTS[already] if already else sum(STATEMENTS)), "not every statement was met"


# An event trigger sees each change of the schema as it ends, within the one message that brings them all.
FUSE = """
CREATE SCHEMA fuse;
CREATE SEQUENCE fuse.passed MINVALUE 0;
CREATE FUNCTION fuse.burn() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN END $$;
CREATE EVENT TRIGGER fuse ON ddl_command_end EXECUTE FUNCTION fuse.burn();
"""
BURN = """
ALTER EVENT TRIGGER fuse DISABLE;
ALTER SEQUENCE fuse.passed RESTART;
CREATE OR REPLACE FUNCTION fuse.burn() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('fuse.passed') = {at} THEN
        {act};
    END IF;
END $$;
ALTER EVENT TRIGGER fuse ENABLE;
"""
DEFUSE = "DROP EVENT TRIGGER fuse; DROP SCHEMA fuse CASCADE;"
END_BACKEND = "PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(60)"
LOCK = 4711
WAIT = f"PERFORM pg_advisory_xact_lock({LOCK})"
OPEN = """
import asyncio, random, sys
from mainspring.stores.postgres import PostgresStore
asyncio.run(PostgresStore(sys.argv[1], random=random.Random(1)).open())
"""


async def apply(dsn: str, migrations: tuple[Migration, ...] = MIGRATIONS) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await migrate(connection, migrations=migrations)
    finally:
        await connection.close()


async def state(dsn: str, watch: "asyncpg.Connection[asyncpg.Record]") -> tuple[str, list[int]]:
    """Return the schema and which migrations are on record."""
    has_record = await watch.fetchval("SELECT to_regclass('migration') IS NOT NULL")
    rows = await watch.fetch("SELECT number FROM migration ORDER BY number") if has_record else []
    return await describe(dsn), [row["number"] for row in rows]


async def until(check: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(50):
        while not await check():  # noqa: ASYNC110 - another process brings it about
            await asyncio.sleep(0.02)


@pytest.mark.postgres
@pytest.mark.timeout(300)  # a new store is killed some 200 times
@pytest.mark.parametrize("already", range(len(MIGRATIONS)))
async def test_killed_server_process_leaves_a_postgres_schema_as_it_was(
    postgres_database: str, already: int
) -> None:
    killed_in = MIGRATIONS[already : already + 1] if already else MIGRATIONS
    changes = sum(each.text.count(f"\n{verb} ") for each in killed_in for verb in ("CREATE", "ALTER"))
    assert changes >= 1
    watch = await asyncpg.connect(postgres_database)
    try:
        if already:
            await apply(postgres_database, MIGRATIONS[:already])
        before = await state(postgres_database, watch)
        await watch.execute(FUSE)
        kills = 0
        while already == 0 or kills < changes:
            await watch.execute(BURN.format(at=kills, act=END_BACKEND))
            try:
                async with open_store(postgres_database):
                    break
            except StoreUnavailable:
                assert await state(postgres_database, watch) == before, f"killed after change {kills}"
                kills += 1
        await watch.execute(DEFUSE)
        async with open_store(postgres_database):
            schema, numbers = await state(postgres_database, watch)
    finally:
        await watch.close()
    assert numbers == [each.number for each in MIGRATIONS]
    assert schema == SNAPSHOT.read_text()
    assert kills >= changes, "not every change was met"


@pytest.mark.postgres
@pytest.mark.parametrize("at", [0, 7, 20])
async def test_killed_program_leaves_a_postgres_schema_as_it_was(postgres_database: str, at: int) -> None:
    watch = await asyncpg.connect(postgres_database)
    try:
        before = await state(postgres_database, watch)
        await watch.execute(FUSE + BURN.format(at=at, act=WAIT))
        await watch.execute(f"SELECT pg_advisory_lock({LOCK})")
        program = await asyncio.create_subprocess_exec(sys.executable, "-c", OPEN, postgres_database)
        await until(
            lambda: watch.fetchval(
                f"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = {LOCK} AND NOT granted"
            )
        )
        program.send_signal(signal.SIGKILL)
        await program.wait()
        await watch.execute(f"SELECT pg_advisory_unlock({LOCK})")
        await until(
            lambda: watch.fetchval(
                "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'mainspring-schema'"
                " AND datname = current_database()"
            )
        )
        assert await state(postgres_database, watch) == before
        await watch.execute(DEFUSE)
        await apply(postgres_database)
        assert await state(postgres_database, watch) == (
            SNAPSHOT.read_text(),
            [each.number for each in MIGRATIONS],
        )
    finally:
        await watch.close()
