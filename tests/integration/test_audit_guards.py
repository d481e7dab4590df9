"""The audit is only added to, whoever tries: its triggers refuse changes, deletes and second seals."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

from mainspring.core.actors import Actor, ActorKind
from mainspring.core.audit import AuditFilter, Subject, entries
from mainspring.core.queues import Queue
from mainspring.ports.store import Store
from mainspring.stores.postgres import PostgresStore
from mainspring.stores.sqlite import SqliteStore
from mainspring.testing.factories import START, at, own_shards

REFUSED = [
    "UPDATE audit SET actor = 'bob'",
    "UPDATE audit SET at = at",
    "UPDATE audit SET before = '{}', seal = 1",
    "UPDATE audit SET seal = NULL",
    "DELETE FROM audit",
    "UPDATE audit_seal SET entries = 9",
    "UPDATE audit_seal SET at = at",
    "DELETE FROM audit_seal",
    "DELETE FROM audit_horizon",
    "INSERT INTO audit_horizon SELECT 2, kept_from FROM audit_horizon",
]
OF_SQLITE = [
    "INSERT OR REPLACE INTO audit SELECT * FROM audit",
    (
        "REPLACE INTO audit (id, at, tenant, actor, actor_kind, action, subject_kind, subject_id, outcome)"
        " VALUES (2, 0, '*', 'bob', 'local', 'edit_job', 'job', '', 'done')"
    ),
    "UPDATE OR REPLACE audit SET rowid = 2 WHERE rowid = 3",
    "INSERT OR REPLACE INTO audit_seal SELECT * FROM audit_seal",
    "UPDATE audit_horizon SET kept_from = unixepoch() * 1000000",
    "UPDATE audit_horizon SET kept_from = (unixepoch() - 86400 + 60) * 1000000",
    "UPDATE audit_horizon SET kept_from = 0",
    "REPLACE INTO audit_horizon SELECT id, kept_from + 1 FROM audit_horizon",
]
OF_POSTGRES = [
    *("TRUNCATE audit", "TRUNCATE audit_default", "TRUNCATE audit_202601"),
    *("TRUNCATE audit_seal", "TRUNCATE audit_horizon", "DELETE FROM audit_202601"),
    "UPDATE audit_horizon SET kept_from = now() - interval '23 hours'",
    "UPDATE audit_horizon SET kept_from = '2100-01-01'",
    "UPDATE audit_horizon SET kept_from = 'infinity'",
    "UPDATE audit_horizon SET kept_from = '-infinity'",
]
ANN = Actor(name="ann", kind=ActorKind.LOCAL, action="upsert_queue")


async def write(store: Store, seconds: float = 0) -> None:
    subject = Subject(kind="queue", id="mail", tenant="*")
    await store.write_queues([Queue(name="mail")], audit=entries(ANN, subject, at=at(seconds)))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


async def filled(file: Path) -> apsw.Connection:
    store = SqliteStore(file)
    await store.open()
    await write(store)
    await write(store, seconds=60)
    await store.prune_history(before=START, limit=100, audit_before=at(60))
    await write(store)  # as old as what may go
    await store.seal_audit(epochs=await own_shards(store), now=at(61), limit=1)
    assert [one.entry.at for one in await store.list_audit(AuditFilter())] == [START, at(60)]
    await store.close()
    return apsw.Connection(str(file))


@pytest.mark.parametrize("statement", [*REFUSED, *OF_SQLITE])
async def test_sqlite_refuses_changes(file: Path, statement: str) -> None:
    raw = await filled(file)
    before = raw.execute("SELECT * FROM audit").fetchall()
    with pytest.raises(apsw.ConstraintError, match="only added to"):
        raw.execute(statement)
    assert raw.execute("SELECT * FROM audit").fetchall() == before


async def test_sqlite_lets_a_seal_be_set_once_and_old_entries_go(file: Path) -> None:
    raw = await filled(file)
    raw.execute("UPDATE audit SET seal = 1 WHERE seal IS NULL")
    with pytest.raises(apsw.ConstraintError, match="only added to"):
        raw.execute("UPDATE audit SET seal = 2")
    raw.execute("DELETE FROM audit WHERE at < (SELECT kept_from FROM audit_horizon)")
    assert raw.execute("SELECT seal FROM audit").fetchall() == [(1,)]


async def check_horizon(store: Store, *, left: int) -> None:
    """A prune by a clock that is ahead leaves what is younger than a day."""
    now = datetime.now(UTC)
    subject = Subject(kind="queue", id="mail", tenant="*")
    for age in (25, 23):
        entry = entries(ANN, subject, at=now - timedelta(hours=age))
        await store.write_queues([Queue(name="mail")], audit=entry)
    await store.prune_history(before=START, limit=100, audit_before=now + timedelta(days=40))
    ages = [now - one.entry.at for one in await store.list_audit(AuditFilter())]
    assert ages == [timedelta(hours=23), timedelta(hours=25)][:left]
    assert await store.read_audit_horizon() <= datetime.now(UTC) - timedelta(days=1)


async def check_stray(store: Store, written: datetime) -> None:
    """An entry whose seal is to come yet is found, beside one that is sealed."""
    found = await store.find_stray_entry(since=at(1000))
    assert found is not None
    assert (found.seal, found.entry.at) == (999_999, written)


async def test_sqlite_keeps_a_day(file: Path) -> None:
    store = SqliteStore(file)
    await store.open()
    await check_horizon(store, left=1)
    await store.close()


async def test_sqlite_finds_an_entry_whose_seal_is_not_there(file: Path) -> None:
    raw = await filled(file)
    raw.execute("UPDATE audit SET seal = 999999 WHERE seal IS NULL")
    store = SqliteStore(file)
    await store.open()
    await check_stray(store, START)
    await store.close()


@pytest.mark.parametrize(
    ("statement", "horizon"),
    [
        ("UPDATE audit_horizon SET kept_from = 9223372036854775807", datetime(9000, 1, 1, tzinfo=UTC)),
        ("UPDATE audit_horizon SET kept_from = -9223372036854775807", datetime(1970, 1, 1, tzinfo=UTC)),
        ("DELETE FROM audit_horizon", datetime(1970, 1, 1, tzinfo=UTC)),
    ],
)
async def test_sqlite_reads_any_horizon(file: Path, statement: str, horizon: datetime) -> None:
    raw = await filled(file)
    for name in ("rows", "deletes"):
        raw.execute(f"DROP TRIGGER audit_horizon_guard_{name}")
    raw.execute(statement)
    store = SqliteStore(file)
    await store.open()
    assert await store.read_audit_horizon() == horizon
    await store.close()


@pytest.fixture
async def raw(postgres_database: str) -> Any:
    store = PostgresStore(postgres_database, random=_NoJitter())
    await store.open()
    await store.prepare_history(now=START)
    await write(store)
    await write(store, seconds=60)
    await write(store, seconds=-86400 * 365)  # in the default partition
    await store.seal_audit(epochs=await own_shards(store), now=at(61), limit=1)
    await store.close()
    connection = await asyncpg.connect(postgres_database)
    yield connection
    await connection.close()


@asynccontextmanager
async def opened(dsn: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(dsn, random=_NoJitter())
    await store.open()
    try:
        yield store
    finally:
        await store.close()


class _NoJitter:
    def random(self) -> float:
        return 0.5


@pytest.mark.postgres
@pytest.mark.parametrize("statement", [*REFUSED, *OF_POSTGRES])
async def test_postgres_refuses_changes(raw: Any, statement: str) -> None:
    before = await raw.fetch("SELECT * FROM audit ORDER BY id")
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="only added to"):
        await raw.execute(statement)
    assert await raw.fetch("SELECT * FROM audit ORDER BY id") == before


@pytest.mark.postgres
async def test_postgres_lets_a_seal_be_set_once_and_old_entries_go(raw: Any) -> None:
    assert await raw.fetchval("SELECT count(*) FROM audit_202601") == 2
    assert await raw.fetchval("SELECT count(*) FROM audit_default") == 1
    await raw.execute("UPDATE audit SET seal = 1 WHERE seal IS NULL")
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="only added to"):
        await raw.execute("UPDATE audit SET seal = 2")
    await raw.execute("UPDATE audit_horizon SET kept_from = $1", START)
    assert await raw.execute("DELETE FROM audit WHERE at < $1", START) == "DELETE 1"


@pytest.mark.postgres
async def test_postgres_makes_no_month_whose_rows_are_in_the_default_partition(
    postgres_database: str, raw: Any
) -> None:
    store = PostgresStore(postgres_database, random=_NoJitter())
    await store.open()
    await store.prepare_history(now=at(-86400 * 365))
    await store.close()
    assert await raw.fetchval("SELECT to_regclass('audit_202501')") is None
    assert await raw.fetchval("SELECT to_regclass('audit_202502')") is not None
    assert await raw.fetchval("SELECT count(*) FROM audit_default") == 1


@pytest.mark.postgres
async def test_postgres_keeps_a_day(postgres_database: str) -> None:
    async with opened(postgres_database) as store:
        await check_horizon(store, left=2)  # of a month that is not over, nothing goes


@pytest.mark.postgres
async def test_postgres_finds_an_entry_whose_seal_is_not_there(postgres_database: str, raw: Any) -> None:
    await raw.execute("UPDATE audit SET seal = 999999 WHERE seal IS NULL AND at > $1", START)
    async with opened(postgres_database) as store:
        await check_stray(store, at(60))


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("statement", "horizon"),
    [
        ("UPDATE audit_horizon SET kept_from = 'infinity'", datetime(9000, 1, 1, tzinfo=UTC)),
        ("UPDATE audit_horizon SET kept_from = '20000-01-01'", datetime(9000, 1, 1, tzinfo=UTC)),
        ("UPDATE audit_horizon SET kept_from = '-infinity'", datetime(1970, 1, 1, tzinfo=UTC)),
        ("DELETE FROM audit_horizon", datetime(1970, 1, 1, tzinfo=UTC)),
    ],
)
async def test_postgres_reads_any_horizon(
    postgres_database: str, raw: Any, statement: str, horizon: datetime
) -> None:
    await raw.execute("DROP TRIGGER audit_horizon_guard ON audit_horizon")
    await raw.execute(statement)
    async with opened(postgres_database) as store:
        assert await store.read_audit_horizon() == horizon
