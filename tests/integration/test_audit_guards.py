"""The audit is only added to, whoever tries: its triggers refuse changes, deletes and second seals."""

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
    "DELETE FROM audit_seal",
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


@pytest.mark.parametrize("statement", REFUSED)
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


class _NoJitter:
    def random(self) -> float:
        return 0.5


@pytest.mark.postgres
@pytest.mark.parametrize(
    "statement", [*REFUSED, "TRUNCATE audit", "TRUNCATE audit_seal", "DELETE FROM audit_202601"]
)
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
