"""What a restore changes in PostgreSQL, so that nobody of before is taken for somebody of now."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from mainspring.clock import system_random
from mainspring.core.backups import FORMAT, BackupManifest, FileFacts
from mainspring.errors import Conflict, InvalidInput, SchemaMismatch, StoreUnavailable
from mainspring.ports.backups import Saved
from mainspring.ports.store.sessions import NewSession
from mainspring.stores._sql.migrate import read_migrations
from mainspring.stores.postgres import ConnectionOptions, PostgresStore
from mainspring.stores.postgres.backups import PostgresBackups
from mainspring.stores.postgres.schema import PACKAGE, migrate
from tests.support.postgres import call, execute, temporary_database

pytestmark = pytest.mark.postgres
NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
HELD = """INSERT INTO run
    (id, job_id, version, lane_id, kind, state, due_at, ready_at, created_at, timeout_ms, session_id, claim_number)
VALUES (256, '00000000-0000-0000-0000-000000000000', 1, 1, 'manual', 'RUNNING', now(), now(), now(), 1, $1, 5)"""
HELD_BY_ENGINE = HELD.replace("256", "512").replace("$1, 5", "0, NULL")

OLD_SESSION = """INSERT INTO session
    (worker, host, pid, slots, queues, types, functions, labels, started_at, last_beat_at)
VALUES ('a', 'h', 1, 1, '{}', '{}', '{}', '{}', now(), now()) RETURNING id"""


def manifest_of(saved: Saved, tool: str | None = None) -> BackupManifest:
    return BackupManifest(
        form=FORMAT,
        product="1",
        kind="postgresql",
        tool=tool or saved.tool,
        taken_at=saved.taken_at,
        file=FileFacts(bytes=0, sha256=""),
        store=saved.facts,
    )


def backups(dsn: str) -> PostgresBackups:
    return PostgresBackups(ConnectionOptions(dsn))


async def fill(dsn: str) -> list[int]:
    """Make a store with two live sessions, the first of which holds a run; return their ids."""
    store = PostgresStore(dsn, random=system_random())
    await store.open()
    names = ("a", "b")
    new = [NewSession(worker=name, host="h", pid=1, slots=1, queues=("mail",)) for name in names]
    sessions = await store.add_sessions(new, now=NOW)
    await store.close()
    connection = await asyncpg.connect(dsn)
    await connection.execute(HELD, sessions[0])
    await connection.execute(HELD_BY_ENGINE)
    await connection.execute("UPDATE shard_lease SET epoch = 7, node_id = 'n'")
    await connection.execute("UPDATE revision SET number = 3 WHERE name IN ('calendars', 'policies')")
    await connection.execute("SELECT nextval('run_sequence')")
    await connection.execute(
        "INSERT INTO job_clock (job_id, shard, revision, priority) VALUES (gen_random_uuid(), 0, 4, 1)"
    )
    await connection.execute(
        "INSERT INTO node (id, host, pid, version, tzdata, started_at, last_beat_at)"
        " VALUES ('n', 'h', 1, '1', 'x', now(), now())"
    )
    await connection.close()
    return list(sessions)


async def until_waiting(connection: "asyncpg.Connection[asyncpg.Record]", count: int) -> None:
    """Return when so many others wait for a lock."""
    async with asyncio.timeout(60):
        while await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted") < count:
            await connection.execute("SELECT pg_sleep(0.01)")


async def test_nobody_of_before_is_taken_for_somebody_of_now(
    tmp_path: Path, postgres_server: str, postgres_database: str
) -> None:
    holder, other = await fill(postgres_database)
    copy = tmp_path / "copy"
    saved = await backups(postgres_database).save(copy)
    with temporary_database(postgres_server) as target:
        later = saved.taken_at + timedelta(hours=1)
        restored = await backups(target).restore(copy, manifest_of(saved), now=later)
        assert restored.found == saved.facts
        assert (restored.sessions, restored.runs) == (2, 1)
        step = restored.step
        connection = await asyncpg.connect(target)
        rows = await connection.fetch("SELECT id, state, worker, queues FROM session ORDER BY id")
        kept = [(holder, "dead", "a"), (other, "dead", "b"), (holder + step, "dead", "a")]
        assert [(row["id"], row["state"], row["worker"]) for row in rows] == kept
        assert rows[2]["queues"] == ["mail"]
        held, of_engine = await connection.fetch("SELECT session_id, claim_number FROM run ORDER BY id")
        assert (held["session_id"], held["claim_number"]) == (holder + step, 5), "its worker's index finds it"
        assert of_engine["session_id"] == 0, "what the engine holds it holds on"
        assert (
            await connection.fetchval("SELECT min(epoch) FROM shard_lease WHERE node_id IS NULL") == 7 + step
        )
        numbers = {row["name"]: row["number"] for row in await connection.fetch("SELECT * FROM revision")}
        assert (numbers["calendars"], numbers["policies"]) == (3 + step, 3 + step)
        assert await connection.fetchval("SELECT revision FROM job_clock") == 4 + step
        assert await connection.fetchval("SELECT count(*) FROM node") == 0
        assert numbers["policy_epoch"] == round(later.timestamp() * 1_000_000), "it holds the time"
        assert numbers["access"] == 0, "as there has never been an account, the server stays open"
        sequences = await connection.fetch("SELECT sequencename, last_value FROM pg_sequences")
        assert {row["sequencename"] for row in sequences if (row["last_value"] or 0) < step} == set()
        assert await connection.fetchval("SELECT nextval('run_sequence')") > 1 + step
        with pytest.raises(Conflict, match="a restore needs an empty one"):
            await backups(target).restore(copy, manifest_of(saved), now=later)
        await connection.close()


async def test_tables_of_others_in_the_schema_keep_their_next_ids(
    tmp_path: Path, postgres_server: str, postgres_database: str
) -> None:
    await fill(postgres_database)
    connection = await asyncpg.connect(postgres_database)
    await connection.execute("CREATE TABLE mine (id serial PRIMARY KEY)")
    await connection.execute("INSERT INTO mine DEFAULT VALUES")
    await connection.close()
    copy = tmp_path / "copy"
    saved = await backups(postgres_database).save(copy)
    with temporary_database(postgres_server) as target:
        a_day_later = saved.taken_at + timedelta(days=1)  # a step beyond what a serial column takes
        restored = await backups(target).restore(copy, manifest_of(saved), now=a_day_later)
        assert restored.step > 2**31
        connection = await asyncpg.connect(target)
        assert await connection.fetchval("INSERT INTO mine DEFAULT VALUES RETURNING id") == 2
        await connection.close()


async def test_a_backup_of_an_older_schema_is_brought_up_to_date(
    tmp_path: Path, postgres_server: str, postgres_database: str
) -> None:
    available = read_migrations(PACKAGE)
    connection = await asyncpg.connect(postgres_database)
    await migrate(connection, migrations=available[:33])
    with pytest.raises(InvalidInput, match="its schema is 0033, and backups begin with 0034"):
        await backups(postgres_database).save(tmp_path / "copy")
    await migrate(connection, migrations=available[:34])
    holder = await connection.fetchval(OLD_SESSION)
    await connection.execute(HELD, holder)
    await connection.execute("UPDATE shard_lease SET epoch = 7")
    await connection.close()
    saved = await backups(postgres_database).save(tmp_path / "copy")
    assert saved.facts.schema == 34
    with temporary_database(postgres_server) as target:
        restored = await backups(target).restore(tmp_path / "copy", manifest_of(saved), now=NOW)
        assert (restored.found, restored.sessions, restored.runs) == (saved.facts, 1, 1)
        connection = await asyncpg.connect(target)
        assert await connection.fetchval("SELECT max(number) FROM migration") == available[-1].number
        assert await connection.fetchval("SELECT session_id FROM run") == holder + restored.step
        assert await connection.fetchval("SELECT min(epoch) FROM shard_lease") == 7 + restored.step
        unraised = "SELECT count(*) FROM pg_sequences WHERE coalesce(last_value, 0) < $1"
        assert await connection.fetchval(unraised, restored.step) == 0, "the new tables' too"
        await connection.close()


async def test_a_server_that_starts_meanwhile_waits_until_the_restore_is_done(
    tmp_path: Path, postgres_server: str, postgres_database: str
) -> None:
    await fill(postgres_database)
    copy = tmp_path / "copy"
    saved = await backups(postgres_database).save(copy)
    with temporary_database(postgres_server) as target:
        holding = await asyncpg.connect(target)
        transaction = holding.transaction()
        await transaction.start()
        await holding.execute("SELECT pg_advisory_xact_lock(hashtextextended('mainspring.schema', 0))")
        restoring = asyncio.create_task(backups(target).restore(copy, manifest_of(saved), now=saved.taken_at))
        store = PostgresStore(target, random=system_random())
        await until_waiting(holding, 1)
        opening = asyncio.create_task(store.open())
        await until_waiting(holding, 2)
        await transaction.rollback()
        restored = await restoring
        await opening
        [first, *_] = await store.read_shards()
        assert first.epoch == 7 + restored.step
        await store.close()
        await holding.close()


async def test_what_cannot_be_used_is_named(
    tmp_path: Path, postgres_server: str, postgres_database: str
) -> None:
    with pytest.raises(InvalidInput, match="it is no store of Mainspring"):
        await backups(postgres_database).save(tmp_path / "copy")
    pooled = PostgresBackups(ConnectionOptions(postgres_database, is_pooled=True))
    with pytest.raises(InvalidInput, match="leads to a pooler"):
        await pooled.save(tmp_path / "copy")
    with pytest.raises(StoreUnavailable, match="PostgreSQL"):
        await backups(f"{postgres_server}/there_is_none").save(tmp_path / "copy")
    await fill(postgres_database)
    saved = await backups(postgres_database).save(tmp_path / "copy")
    whole = (tmp_path / "copy").read_bytes()
    (tmp_path / "copy").write_bytes(whole[:-200])
    with temporary_database(postgres_server) as target:
        with pytest.raises(InvalidInput, match=r"pg_restore is of version .*; 99 or later is needed here"):
            await backups(target).restore(tmp_path / "copy", manifest_of(saved, "pg_dump 99"), now=NOW)
        with pytest.raises(StoreUnavailable, match="pg_restore failed"):
            await backups(target).restore(tmp_path / "copy", manifest_of(saved), now=NOW)
        connection = await asyncpg.connect(target)
        assert await connection.fetchval("SELECT count(*) FROM pg_class WHERE relname = 'run'") == 0
        await connection.close()
        with pytest.raises(SchemaMismatch, match="was broken off"):
            await PostgresStore(target, random=system_random()).open()
        (tmp_path / "copy").write_bytes(whole)
        restored = await backups(target).restore(tmp_path / "copy", manifest_of(saved), now=NOW)
        assert restored.found == saved.facts, "nothing of the first try is there, so the second may go on"


async def test_a_store_in_a_schema_of_its_own_is_restored(
    tmp_path: Path, postgres_server: str, postgres_database: str
) -> None:
    def in_a_schema(dsn: str) -> None:
        name = dsn.rpartition("/")[2]
        execute(postgres_server, f'ALTER DATABASE "{name}" SET search_path TO mainspring')

    call(postgres_database, lambda connection: connection.execute("CREATE SCHEMA mainspring"))
    in_a_schema(postgres_database)
    await fill(postgres_database)
    saved = await backups(postgres_database).save(tmp_path / "copy")
    with temporary_database(postgres_server) as target:
        in_a_schema(target)  # which comes from the backup
        restored = await backups(target).restore(tmp_path / "copy", manifest_of(saved), now=NOW)
        assert (restored.found, restored.sessions) == (saved.facts, 2)
        store = PostgresStore(target, random=system_random())
        await store.open()
        await store.close()


async def test_parameters_of_the_address_that_only_the_server_knows_reach_its_programs(
    tmp_path: Path, postgres_server: str, postgres_database: str
) -> None:
    """A site may have the tables in a schema of their own; libpq knows no `search_path`, and our driver does."""

    def inside(dsn: str) -> str:
        return f"{dsn}{'&' if '?' in dsn else '?'}search_path=app&statement_timeout=0"

    connection = await asyncpg.connect(postgres_database)
    await connection.execute("CREATE SCHEMA app")
    await connection.close()
    await fill(inside(postgres_database))
    saved = await backups(inside(postgres_database)).save(tmp_path / "copy")
    with temporary_database(postgres_server) as target:
        restored = await backups(inside(target)).restore(tmp_path / "copy", manifest_of(saved), now=NOW)
        assert restored.found == saved.facts
        connection = await asyncpg.connect(target)
        assert await connection.fetchval("SELECT to_regclass('app.run_history') IS NOT NULL")
        assert await connection.fetchval("SELECT to_regclass('public.run_history') IS NULL")
        await connection.close()
