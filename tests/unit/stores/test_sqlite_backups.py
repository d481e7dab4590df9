"""What a restore changes in SQLite's file, so that nobody of before is taken for somebody of now."""

import asyncio
import re
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from mainspring.core.backups import FORMAT, BackupManifest, FileFacts, Restored
from mainspring.errors import Conflict, InvalidInput, StoreLocked, StoreUnavailable
from mainspring.ports.backups import Saved
from mainspring.ports.store.sessions import NewSession
from mainspring.stores._sql.migrate import read_migrations
from mainspring.stores._sql.queries import load_queries
from mainspring.stores.sqlite import SqliteStore
from mainspring.stores.sqlite.backups import SqliteBackups
from mainspring.stores.sqlite.rows import to_micros
from mainspring.stores.sqlite.store import migrate

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
HOLDING = (
    "INSERT INTO run (id, job_id, version, lane_id, kind, state, due_at, ready_at, created_at, timeout_ms, session_id)"
    " VALUES (256, x'00', 1, 1, 'submitted', 'RUNNING', 0, 0, 0, 1, ?)"
)
HELD_BY_ENGINE = HOLDING.replace("256", "512").replace("?", "0")

OLD_SESSION = """INSERT INTO session
    (worker, host, pid, slots, queues, types, functions, labels, started_at, last_beat_at)
VALUES ('a', 'h', 1, 1, '[]', '[]', '[]', '[]', 0, 0) RETURNING id"""


def manifest_of(saved: Saved) -> BackupManifest:
    return BackupManifest(
        form=FORMAT,
        product="1",
        kind="sqlite",
        tool=saved.tool,
        taken_at=saved.taken_at,
        file=FileFacts(bytes=0, sha256=""),
        store=saved.facts,
    )


def new_session(name: str) -> NewSession:
    return NewSession(
        worker=name,
        host="h",
        pid=1,
        slots=1,
        queues=("default",),
        types=(),
        functions=(),
        labels=(),
        account=None,
    )


def rows_of(db: apsw.Connection, query: str) -> list[Any]:
    return db.execute(query).fetchall()


async def fill(path: Path) -> list[int]:
    """Make a store with two live sessions, the first of which holds a run; return their ids."""
    store = SqliteStore(path)
    await store.open()
    sessions = await store.add_sessions([new_session("a"), new_session("b")], now=NOW)
    await store.close()
    with apsw.Connection(str(path)) as db:
        db.execute(HOLDING, (sessions[0],))
        db.execute(HELD_BY_ENGINE)
        db.execute("UPDATE shard_lease SET epoch = 7, node_id = 'n'")
        db.execute("UPDATE revision SET number = 3 WHERE name IN ('calendars', 'policies')")
        db.execute("UPDATE run_sequence SET value = 1")
        db.execute("INSERT INTO job_clock (job_id, shard, revision) VALUES (zeroblob(16), 0, 4)")
        db.execute(
            "INSERT INTO node (id, host, pid, version, tzdata, started_at, last_beat_at)"
            " VALUES ('n', 'h', 1, '1', 'x', 0, 0)"
        )
    return list(sessions)


async def copy_of(folder: Path) -> tuple[Restored, list[int], datetime]:
    (folder / "new").mkdir()
    sessions = await fill(folder / "old" / "mainspring.db")
    copy = folder / "copy"
    copy.touch()
    saved = await SqliteBackups(folder / "old" / "mainspring.db").save(copy)
    backups = SqliteBackups(folder / "new" / "mainspring.db")
    later = saved.taken_at + timedelta(hours=1)
    restored = await backups.restore(copy, manifest_of(saved), now=later)
    assert restored.found == saved.facts
    return restored, sessions, later


def test_nobody_of_before_is_taken_for_somebody_of_now(tmp_path: Path) -> None:
    restored, (holder, other), later = asyncio.run(copy_of(tmp_path))
    assert (restored.sessions, restored.runs) == (2, 1)
    step = restored.step
    with apsw.Connection(str(tmp_path / "new" / "mainspring.db")) as db:
        rows = db.execute("SELECT id, state, worker FROM session ORDER BY id").fetchall()
        assert rows == [(holder, "dead", "a"), (other, "dead", "b"), (holder + step, "dead", "a")]
        held = db.execute("SELECT id, session_id FROM run ORDER BY id").fetchall()
        assert held == [(256, holder + step), (512, 0)], "what the engine holds it holds on"
        assert db.execute("SELECT DISTINCT epoch, node_id FROM shard_lease").fetchall() == [(7 + step, None)]
        assert db.execute("SELECT value FROM run_sequence").fetchall() == [(1 + step,)]
        numbers: dict[Any, Any] = dict(rows_of(db, "SELECT name, number FROM revision"))
        assert (numbers["calendars"], numbers["policies"]) == (3 + step, 3 + step)
        assert rows_of(db, "SELECT revision FROM job_clock") == [(4 + step,)]
        assert rows_of(db, "SELECT * FROM node") == []
        assert numbers["policy_epoch"] == to_micros(later), "it holds the time"
        assert numbers["access"] == 0, "as there has never been an account, the server stays open"
        sequences: dict[Any, Any] = dict(rows_of(db, "SELECT name, seq FROM sqlite_sequence"))
        assert min(sequences.values()) >= step
        declared = db.execute("SELECT name FROM sqlite_schema WHERE sql LIKE '%AUTOINCREMENT%'").fetchall()
        assert sequences.keys() == {name for (name,) in declared}
    db.close()


async def test_a_backup_of_an_older_schema_is_brought_up_to_date(tmp_path: Path) -> None:
    available = read_migrations("mainspring.stores.sqlite")
    old, new = tmp_path / "old.db", tmp_path / "new" / "mainspring.db"
    with apsw.Connection(str(old)) as db:
        migrate(db, migrations=available[:34])
        [(holder,)] = rows_of(db, OLD_SESSION)
        db.execute(HOLDING, (holder,))
        db.execute("UPDATE shard_lease SET epoch = 7")
    db.close()
    copy = tmp_path / "copy"
    copy.touch()
    saved = await SqliteBackups(old).save(copy)
    assert saved.facts.schema == 34
    new.parent.mkdir()
    restored = await SqliteBackups(new).restore(copy, manifest_of(saved), now=NOW)
    assert (restored.found, restored.sessions, restored.runs) == (saved.facts, 1, 1)
    with apsw.Connection(str(new)) as db:
        assert rows_of(db, "SELECT max(number) FROM migration") == [(available[-1].number,)]
        assert rows_of(db, "SELECT session_id FROM run") == [(holder + restored.step,)]
        assert rows_of(db, "SELECT min(epoch) FROM shard_lease") == [(7 + restored.step,)]
        sequences: dict[Any, Any] = dict(rows_of(db, "SELECT name, seq FROM sqlite_sequence"))
        assert "monitor" in sequences, "the new tables' too"
        assert min(sequences.values()) >= restored.step
    db.close()


def test_copied_sessions_keep_all_that_is_known_of_them() -> None:
    schema = Path(__file__).parents[3] / "src/mainspring/stores/sqlite/schema.sql"
    db = apsw.Connection(":memory:")
    db.execute(schema.read_text())
    columns = {name for (name,) in db.execute("SELECT name FROM pragma_table_info('session')")}
    db.close()
    for dialect in ("sqlite", "postgres"):
        text = load_queries(f"mainspring.stores.{dialect}")["copy_holding_sessions"].text
        named = re.search(r"INTO session \(([^)]*)\)", text)
        assert named is not None
        assert set(re.findall(r"\w+", named[1])) == columns


def test_a_restore_raises_every_sequence_of_the_schema_by_its_name() -> None:
    schema = Path(__file__).parents[3] / "src/mainspring/stores/postgres/schema.sql"
    declared = set(re.findall(r"^-- SEQUENCE (\w+)$", schema.read_text(), re.MULTILINE))
    assert "run_sequence" in declared
    text = load_queries("mainspring.stores.postgres")["raise_id_sequences"].text
    assert set(re.findall(r"'(\w+)'", text)) == declared


async def test_a_store_that_is_there_or_in_use_stays_as_it_is(tmp_path: Path) -> None:
    old = tmp_path / "old" / "mainspring.db"
    await fill(old)
    copy = tmp_path / "copy"
    copy.touch()
    saved = await SqliteBackups(old).save(copy)
    content = old.read_bytes()
    with pytest.raises(Conflict, match="needs a folder without a store"):
        await SqliteBackups(old).restore(copy, manifest_of(saved), now=NOW)
    store = SqliteStore(old)
    await store.open()
    with pytest.raises(StoreLocked):
        await SqliteBackups(old).restore(copy, manifest_of(saved), now=NOW)
    await store.close()
    assert old.read_bytes() == content


async def test_what_is_no_store_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no"):
        await SqliteBackups(tmp_path / "mainspring.db").save(tmp_path / "copy")
    other = tmp_path / "other.db"
    with apsw.Connection(str(other)) as db:
        db.execute("CREATE TABLE mine (x)")
    db.close()
    with pytest.raises(InvalidInput, match="no store of Mainspring"):
        await SqliteBackups(other).save(tmp_path / "copy")
    old = tmp_path / "old" / "mainspring.db"
    await fill(old)
    saved = await SqliteBackups(old).save(tmp_path / "whole")
    (tmp_path / "damaged").write_bytes((tmp_path / "whole").read_bytes()[:-8192])
    (tmp_path / "new").mkdir()
    with pytest.raises((InvalidInput, StoreUnavailable), match="damaged"):
        await SqliteBackups(tmp_path / "new" / "mainspring.db").restore(
            tmp_path / "damaged", manifest_of(saved), now=NOW
        )
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["mainspring.db.lock"]


async def test_a_copy_that_is_given_up_ends_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "old" / "mainspring.db"
    await fill(path)
    copying = SqliteBackups(path)
    is_copying, ended = threading.Event(), []

    def copy_for_long(db: apsw.Connection, name: str, values: object) -> None:
        def tell(*_: Any) -> int:
            is_copying.set()
            return 0

        db.create_scalar_function("tell", tell)
        try:
            db.execute(
                "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 10000000)"
                " SELECT max(i + tell()) FROM n"
            )
        except apsw.InterruptError:
            ended.append(name)
            raise

    monkeypatch.setattr("mainspring.stores.sqlite.backups.execute", copy_for_long)
    task = asyncio.create_task(copying.save(tmp_path / "copy"))
    await asyncio.to_thread(is_copying.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.get_running_loop().shutdown_default_executor()
    assert ended == ["copy_into"]
