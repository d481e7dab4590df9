"""What is not in the archive stays in the store: on a full disk, beside another installation, after a restore, and when
the clock is set back.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest
from structlog.testing import capture_logs

from mainspring.archive.tasks import Task, TaskDone
from mainspring.archive.writing import ChildArchive
from mainspring.clock import system_random
from mainspring.core.archive import ArchiveState
from mainspring.core.ids import RunId
from mainspring.engine.scheduling.archiver import RETRY
from mainspring.engine.usecases.archiving import write_day
from mainspring.objects import open_place, read_place
from mainspring.ports.store import Store
from mainspring.stores._sql.queries import load_queries
from mainspring.stores.memory import MemoryStore
from mainspring.stores.postgres import PostgresStore
from mainspring.stores.postgres.connecting import Role
from mainspring.stores.postgres.schema import PACKAGE
from mainspring.stores.sqlite import SqliteStore
from mainspring.testing.conformance.archive import TODAY, end_runs
from mainspring.testing.factories import START, add_job, at, submit
from tests.support.archives import (
    LATER,
    archive_in,
    files_in,
    make_archiver,
    make_janitor,
    new_folder,
    opened,
    own,
    read,
    settle,
)
from tests.support.buckets import bucket_server
from tests.support.postgres_plans import explain

pytestmark = pytest.mark.timeout(300)  # on a host that may be busy
STORES = ["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
RUNS_WITHOUT_A_TABLE = """
INSERT INTO run_history (id, job_id, version, queue, route, tenant, priority, kind, state, due_at, created_at,
    finished_at, attempt, token, crashes)
SELECT n * 256, md5((n % 50)::text)::uuid, 1, 'q1', 'http', 'default', 1, 'manual', 'SUCCEEDED', ended, ended,
    ended, 1, 1, 0
FROM (SELECT n, timestamptz '2001-01-01' + n * interval '50 milliseconds' AS ended FROM generate_series(1, 200000) AS n)
    AS finished;
"""
SMALLEST = 160_000_000
"""The least that `archive.memory` may be."""


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    made: Store
    if request.param == "memory":
        made = MemoryStore(time=lambda: LATER)
    elif request.param == "sqlite":
        made = SqliteStore(tmp_path / "mainspring.db")
    else:
        made = PostgresStore(request.getfixturevalue("postgres_database"), random=system_random())
    async with opened(made):
        yield made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return new_folder(tmp_path / "archive")


class Measured(ChildArchive):
    """Keeps how much memory its processes have used."""

    peak = 0

    async def _run(self, task: Task) -> TaskDone:
        done = await super()._run(task)
        self.peak = max(self.peak, done.peak)
        return done


@pytest.mark.timeout(580)  # a dozen processes, on a host that may be busy
@pytest.mark.parametrize("made_of", ["letters that are packed", "what cannot be packed"])
async def test_wide_rows_become_parts_that_fit_into_the_least_memory(
    store: Store, folder: Path, tmp_path: Path, made_of: str
) -> None:
    """All of them end at one instant, and PostgreSQL keeps most of their payloads beside their pages."""
    await store.prepare_history(now=START)
    job, random = await add_job(store), system_random()
    ids: list[RunId] = []
    for _ in range(16):
        wide = "x" * 20_000 if made_of == "letters that are packed" else random.randbytes(10_000).hex()
        ids += await submit(store, job, 100, payload=json.dumps(wide).encode())
        await store.cancel_runs(ids[-100:], reason="operator", now=at(1))
    archive = Measured(str(folder), read_place(str(folder), "archive.url"), memory=SMALLEST)
    await settle(make_archiver(store, archive, await own(store)), make_janitor(store))
    [day] = await store.list_archive_days(limit=9)
    assert (day.state, day.runs) == (ArchiveState.DROPPED, 1600)
    assert day.parts >= 9
    assert archive.peak < SMALLEST
    said = read(folder, "SELECT count(*), count(DISTINCT id), min(length(payload)) FROM runs", tmp_path / "r")
    assert said == [(1600, 1600, 20_002)]


async def test_few_narrow_rows_are_one_part(store: Store) -> None:
    await end_runs(store, 20, retried=True)
    assert [of.number for of in await store.outline_archive_day(TODAY)] == [0, 0]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of 96 MB."""
    place = new_folder(tmp_path / "disk")
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", place], check=False, capture_output=True
    )
    if made.returncode:
        pytest.skip("only root may mount")
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def fill(disk: Path, *, leave: int) -> Path:
    """Write a file that leaves so many bytes of a disk."""
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(shutil.disk_usage(disk).free - leave))
    return ballast


@pytest.mark.parametrize("place", ["of the archive", "of copies"])
async def test_a_full_disk_keeps_the_day_and_is_told(
    store: Store, folder: Path, tmp_path: Path, small_disk: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await end_runs(store, 3)
    target = small_disk if place == "of the archive" else folder
    if target is folder:
        monkeypatch.setattr(tempfile, "tempdir", str(small_disk))
    archiver, janitor = make_archiver(store, archive_in(target), await own(store)), make_janitor(store)
    ballast = fill(small_disk, leave=2_000_000)  # which would do for so few rows, and no more
    for _ in range(2):
        with capture_logs() as logs:
            assert await archiver.tick(LATER) == RETRY
        await janitor.tick(LATER)
        [said] = [entry for entry in logs if entry["event"] == "archive_full"]
        assert said["log_level"] == "error"
        assert "MB free, and " in said["error"]
        assert str(small_disk) in said["error"]
    assert all(await store.get_runs(ids))
    assert files_in(target / "history", "*part*") == []
    failures = {
        measure.labels: measure.value
        for measure in archiver.measures()
        if measure.name == "archive_failures_total"
    }
    assert failures == {("unreachable",): 0, ("no_room",): 2, ("mismatch",): 0}
    ballast.unlink()
    await settle(archiver, janitor)
    assert await store.get_runs(ids) == [None] * 3
    assert read(target, "SELECT count(*) FROM runs", tmp_path / "r") == [(3,)]


async def test_an_archive_is_of_one_installation(folder: Path, tmp_path: Path) -> None:
    """Days that only one of them has would be mixed, too."""
    first = SqliteStore(new_folder(tmp_path / "first") / "mainspring.db")
    second = SqliteStore(new_folder(tmp_path / "second") / "mainspring.db")
    async with opened(first), opened(second):
        await end_runs(first, 2)
        await settle(make_archiver(first, archive_in(folder), await own(first)), make_janitor(first))
        note = json.loads((folder / "history" / "installation.json").read_text())
        mine, other = await first.read_archive(), await second.read_archive()
        assert note == {"installation": mine.installation}
        assert (mine.url, other.url, mine.installation == other.installation) == (str(folder), None, False)
        shutil.rmtree(folder / "history" / "v1")
        ids = await end_runs(second, 3)
        archiver, janitor = make_archiver(second, archive_in(folder), await own(second)), make_janitor(second)
        with capture_logs() as logs:
            assert await archiver.tick(LATER) == RETRY
        await janitor.tick(LATER)
        assert all(await second.get_runs(ids))
        assert files_in(folder / "history", "*.parquet") == []
        [said] = [entry["error"] for entry in logs if entry["event"] == "archive_unavailable"]
        assert f"the archive is of the installation {mine.installation}, and this is" in said
        assert "remove that file" in said


async def test_an_archive_is_taken_over_by_word(store: Store, folder: Path, tmp_path: Path) -> None:
    """A database was lost, and a new one goes on: the same ids stand for other runs, and both are kept."""
    async with opened(SqliteStore(new_folder(tmp_path / "lost") / "mainspring.db")) as lost:
        await end_runs(lost, 3, retried=True)
        await settle(make_archiver(lost, archive_in(folder), await own(lost)), make_janitor(lost))
    await end_runs(store, 2, retried=True)
    archiver, janitor = make_archiver(store, archive_in(folder), await own(store)), make_janitor(store)
    assert await archiver.tick(LATER) == RETRY
    (folder / "history" / "installation.json").unlink()
    await settle(archiver, janitor)
    for kind in ("runs", "attempts"):
        assert read(folder, f"SELECT count(*) FROM {kind}", tmp_path / "r") == [(5,)]
    [day] = await store.list_archive_days(limit=9)
    assert (day.state, day.runs, day.attempts) == (ArchiveState.DROPPED, 2, 2)


def test_of_two_that_come_first_one_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = [tmp_path / name for name in ("a", "b")]
    for note in notes:
        note.write_text(note.name)
    with bucket_server("first-come", log=tmp_path / "bucket.log") as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        for url in (str(new_folder(tmp_path / "place")), "s3://first-come/x"):
            objects = open_place(read_place(url, "archive.url"), feature="archive.url", extra="archive")
            assert [objects.put_new("history/note", note) for note in notes] == [True, False]
            assert objects.read("history/note") == b"a"
            assert objects.list("history") == ["history/note"]


@contextmanager
def open_file(file: Path) -> Iterator[apsw.Connection]:
    """Open the file of a store that is open by the store's own SQLite: another one would end its locks (POSIX)."""
    with closing(apsw.Connection(str(file))) as db:
        db.set_busy_timeout(5000)
        yield db


async def take_copy(store: Store, dsn: str | None, file: Path) -> None:
    """Keep what a backup of now would have of the history."""
    if dsn is None:
        with open_file(file.with_name("mainspring.db")) as db:
            db.execute(f"VACUUM INTO '{file}'")
        return
    connection = await asyncpg.connect(dsn)
    # In another order: so do rows lie after a restore.
    await connection.execute("CREATE TABLE kept_runs AS SELECT * FROM run_history ORDER BY id DESC")
    await connection.execute("CREATE TABLE kept_attempts AS SELECT * FROM attempt ORDER BY run_id DESC")
    await connection.close()


async def put_back(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute("INSERT INTO run_history SELECT * FROM kept_runs")
    await connection.execute("INSERT INTO attempt SELECT * FROM kept_attempts")
    await connection.execute("DELETE FROM archive_part")
    await connection.close()


@pytest.mark.parametrize(("before", "after", "anew"), [(4, 0, 0), (2, 3, 0), (4, 0, 3), (2, 3, 3)])
@pytest.mark.parametrize("dialect", STORES[1:])
async def test_a_restored_store_and_the_archive_end_in_equal_counts(
    request: pytest.FixtureRequest,
    dialect: str,
    tmp_path: Path,
    folder: Path,
    *,
    before: int,
    after: int,
    anew: int,
) -> None:
    """The archive has a day that the restored store has again: all of it, or some, or some and more that came since."""
    dsn = request.getfixturevalue("postgres_database") if dialect == "postgres" else None
    copy = tmp_path / "copy.db"
    made: Any = SqliteStore(tmp_path / "mainspring.db") if dsn is None else None
    async with opened(made or PostgresStore(dsn, random=system_random())) as store:  # type: ignore[arg-type]
        await end_runs(store, before, retried=True)
        await take_copy(store, dsn, copy)
        if after:
            await end_runs(store, after, retried=True)
        await settle(make_archiver(store, archive_in(folder), await own(store)), make_janitor(store))
        assert read(folder, "SELECT count(*) FROM runs", tmp_path / "r") == [(before + after,)]
    if dsn is not None:
        await put_back(dsn)
    restored = new_folder(tmp_path / "restored") / "mainspring.db"
    if dsn is None:
        copy.rename(restored)
        restored.chmod(0o600)
    store_again: Store = SqliteStore(restored) if dsn is None else PostgresStore(dsn, random=system_random())
    async with opened(store_again) as store:
        if anew:
            await raise_ids(dsn, restored)
            await end_runs(store, anew, retried=True)
        await settle(make_archiver(store, archive_in(folder), await own(store)), make_janitor(store))
        [day] = await store.list_archive_days(limit=9)
    assert (day.state, day.runs, day.attempts) == (ArchiveState.DROPPED, before + anew, before + anew)
    for kind, number in (("runs", "id"), ("attempts", "run")):
        found = read(folder, f"SELECT count(*), count(DISTINCT {number}) FROM {kind}", tmp_path / "r")
        assert found == [(before + after + anew,) * 2]


async def raise_ids(dsn: str | None, file: Path) -> None:
    """Have ids go on far above, as a restore does."""
    if dsn is not None:
        return  # the sequences have gone on
    with open_file(file) as db:
        db.execute("UPDATE sqlite_sequence SET seq = seq + 1000000")


async def test_a_day_that_is_written_by_hand_and_grows_is_not_doubled(
    store: Store, folder: Path, tmp_path: Path
) -> None:
    await end_runs(store, 2)
    await write_day(store, archive_in(folder), TODAY, now=LATER)
    await end_runs(store, 1)
    await write_day(store, archive_in(folder), TODAY, now=LATER)
    assert read(folder, "SELECT count(*) FROM runs", tmp_path / "r") == [(3,)]
    await end_runs(store, 1)
    await settle(make_archiver(store, archive_in(folder), await own(store)), make_janitor(store))
    assert read(folder, "SELECT count(*), count(DISTINCT id) FROM runs", tmp_path / "r") == [(4, 4)]


async def test_what_ends_in_a_verified_day_is_not_removed_with_it(
    store: Store, folder: Path, tmp_path: Path
) -> None:
    """The clock is set back between the last look at the day and its removal."""
    ids = await end_runs(store, 2, retried=True)
    archiver, janitor = make_archiver(store, archive_in(folder), await own(store)), make_janitor(store)
    while await store.find_unarchived_day(before=LATER) is not None:
        await archiver.tick(LATER)
    late = await end_runs(store, 3, retried=True)
    await janitor.tick(LATER)
    assert all(await store.get_runs(late))
    await settle(archiver, janitor)
    assert await store.get_runs([*ids, *late]) == [None] * 5
    for kind, number in (("runs", "id"), ("attempts", "run")):
        found = read(folder, f"SELECT count(*), count(DISTINCT {number}) FROM {kind}", tmp_path / "r")
        assert found == [(5, 5)]
    [day] = await store.list_archive_days(limit=9)
    assert (day.state, day.runs, day.attempts) == (ArchiveState.DROPPED, 5, 5)


@pytest.mark.parametrize("verb", ["compare", "verify"])
async def test_what_ends_while_a_day_is_verified_is_not_removed(
    store: Store, folder: Path, tmp_path: Path, verb: str
) -> None:
    await end_runs(store, 2)
    late: list[RunId] = []

    class SetBack:
        """Has a run end amid the last steps of a day."""

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        async def watch_archive_day(self, day: Any) -> None:
            if verb == "compare" and not late:
                late.extend(await end_runs(store, 1))
            await store.watch_archive_day(day)

        async def verify_archive_day(self, day: Any, **given: Any) -> bool:
            if verb == "verify" and not late:
                late.extend(await end_runs(store, 1))
            return await store.verify_archive_day(day, **given)

    archiver, janitor = make_archiver(SetBack(), archive_in(folder), await own(store)), make_janitor(store)
    for _ in range(10):
        await archiver.tick(LATER)
        if late:
            break
    await janitor.tick(LATER)
    assert all(await store.get_runs(late))
    await settle(archiver, janitor)
    assert await store.get_runs(late) == [None]
    assert read(folder, "SELECT count(*), count(DISTINCT id) FROM runs", tmp_path / "r") == [(3, 3)]


async def test_a_server_without_the_archive_removes_nothing_that_is_not_there(
    store: Store, folder: Path
) -> None:
    """It is in the store that there is one, so a server that was set up wrong keeps what it owns."""
    ownership = await own(store)
    archiver = make_archiver(store, archive_in(folder), ownership)
    assert await archiver.tick(LATER) > 0  # nothing is over yet
    ids = await end_runs(store, 2)
    other = make_janitor(store, archives=False)
    with capture_logs() as logs:
        for _ in range(3):
            await other.tick(LATER)
    assert all(await store.get_runs(ids))
    [said] = [entry for entry in logs if entry["event"] == "archive_not_set"]
    assert (said["log_level"], said["archive"]) == ("warning", str(folder))
    await settle(archiver, other)
    assert await store.get_runs(ids) == [None, None]
    ids = await end_runs(store, 1)
    await store.end_archive()
    await other.tick(LATER)
    assert await store.get_runs(ids) == [None]


@pytest.mark.postgres
async def test_a_server_of_an_earlier_release_keeps_the_day_of_another_ones_archive(
    postgres_database: str, folder: Path
) -> None:
    """It calls what it has always called; the function refuses."""
    async with opened(PostgresStore(postgres_database, random=system_random())) as store:
        await end_runs(store, 1)
        await make_archiver(store, archive_in(folder), await own(store)).tick(START)
        connection = await asyncpg.connect(postgres_database)
        detached = await connection.fetchval("SELECT detach_day('run_history', $1)", TODAY)
        await connection.close()
        assert detached is False
        assert await store.find_unarchived_day(before=LATER) == TODAY


async def test_a_day_is_cut_once(store: Store, folder: Path) -> None:
    """That reads a size of each row, so it is not done for each part."""
    await end_runs(store, 3, retried=True)
    cuts = 0

    class Counted:
        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        async def outline_archive_day(self, day: Any, **given: Any) -> Any:
            nonlocal cuts
            cuts += 1
            return await store.outline_archive_day(day, **given)

    archiver = make_archiver(Counted(), archive_in(folder), await own(store))
    ticks = 0
    while await store.find_unarchived_day(before=LATER) is not None:
        await archiver.tick(LATER)
        ticks += 1
    assert (ticks, cuts) == (5, 1)


@pytest.mark.postgres
async def test_days_are_looked_for_while_one_is_copied(postgres_database: str) -> None:
    """The janitor asks on a connection of its own; that of the archive is busy for as long as a copy takes."""
    async with opened(PostgresStore(postgres_database, random=system_random())) as store:
        await end_runs(store, 1)
        begun, go_on = asyncio.Event(), asyncio.Event()

        class Slow:
            async def begin(self) -> None:
                begun.set()
                await go_on.wait()

            async def write(self, data: bytes) -> None:
                del data

        [of] = await store.outline_archive_day(TODAY)
        copying = asyncio.create_task(store.copy_archive_range(TODAY, of, Slow()))
        await begun.wait()
        assert await store.find_unarchived_day(before=LATER) == TODAY
        assert (await store.read_archive()).url is None
        assert not copying.done()
        go_on.set()
        await copying


@pytest.mark.postgres
@pytest.mark.parametrize("role", [Role.UPKEEP, Role.ARCHIVE])
async def test_days_are_looked_for_by_the_names_of_tables(postgres_database: str, role: Role) -> None:
    """It is asked each minute: none of the rows of days is read, and of those without a table only what is over."""
    async with opened(PostgresStore(postgres_database, random=system_random())) as store:
        await end_runs(store, 1, retried=True)
    query = load_queries(PACKAGE)["find_unarchived_day"]
    connection = await asyncpg.connect(postgres_database)
    await connection.execute(RUNS_WITHOUT_A_TABLE)
    await connection.execute("VACUUM ANALYZE")
    await connection.close()
    before = "timestamptz '2001-01-01 00:10:00+00'"
    nodes = await explain(postgres_database, role, query, values={"before": before})
    read_from = {node["Relation Name"] for node in nodes if "Relation Name" in node}
    assert read_from == {"pg_inherits", "pg_class", "archive_part", "run_history_default", "attempt_default"}
    large = [node["Node Type"] for node in nodes if node.get("Relation Name") == "run_history_default"]
    assert large == ["Bitmap Heap Scan"]


@pytest.mark.postgres
async def test_ends_are_watched_only_where_an_archived_day_may_get_some(postgres_database: str) -> None:
    """A trigger for each row costs a sixth of all ends: a store without an archive has none."""
    watched = "SELECT tgrelid::regclass::text FROM pg_trigger WHERE tgname = 'reopens_archive_day'"
    async with opened(PostgresStore(postgres_database, random=system_random())) as store:
        await store.prepare_history(now=START)
        connection = await asyncpg.connect(postgres_database)
        assert await connection.fetch(watched) == []
        await store.watch_archive_day(TODAY)
        places = {row[0] for row in await connection.fetch(watched)}
        await connection.close()
    days = {f"run_history_{TODAY:%Y%m%d}", f"attempt_{TODAY:%Y%m%d}"}
    assert places == {*days, "run_history_default", "attempt_default"}


@pytest.mark.postgres
async def test_a_day_is_cut_by_ranges_of_pages(postgres_database: str) -> None:
    """None of them is looked at twice, and what lies beside the pages is not read."""
    async with opened(PostgresStore(postgres_database, random=system_random())) as store:
        await store.prepare_history(now=START)
        job = await add_job(store)
        ids = await submit(
            store, job, 50, payload=json.dumps(system_random().randbytes(30_000).hex()).encode()
        )
        await store.cancel_runs(ids, reason="operator", now=at(1))
        name = f"run_history_{TODAY:%Y%m%d}"
        connection = await asyncpg.connect(postgres_database)
        await connection.execute("SELECT pg_stat_force_next_flush()")
        read = "SELECT toast_blks_read + toast_blks_hit FROM pg_statio_all_tables WHERE relname = $1"
        before = await connection.fetchval(read, name)
        ranges = await connection.fetch(
            "SELECT first, until, bytes FROM cut_archive_pages('run_history', $1, 0, 9, 1000000, 4096, 8)",
            TODAY,
        )
        await connection.execute("SELECT pg_stat_force_next_flush()")
        assert await connection.fetchval(read, name) == before
        await connection.close()
    assert [row["first"] for row in ranges] == [0, *(row["until"] for row in ranges[:-1])]
    assert ranges[-1]["until"] == 9
    assert sum(row["bytes"] for row in ranges) == 50 * (300 + 2 * 60_002 + len("operator"))
