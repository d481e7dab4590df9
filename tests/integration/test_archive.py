"""Days of the history get into an archive, whole, before they are removed, wherever the process that does it dies."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from mainspring.archive.child import NotAsCopied, run_task
from mainspring.archive.parquet import connect
from mainspring.archive.reading import QueryLimits
from mainspring.archive.tasks import CheckTask
from mainspring.archive.writing import ChildArchive, FileSpool
from mainspring.clock import system_random
from mainspring.core.archive import ArchiveKind, ArchiveState, start_of_day
from mainspring.core.ciphertexts import FIRST_BYTE
from mainspring.core.ids import RunId, format_run_id
from mainspring.core.states import RunState
from mainspring.core.workflows.state import FlowPhase, FlowState, StepStatus
from mainspring.engine.scheduling.archiver import RETRY
from mainspring.engine.usecases.archiving import write_day
from mainspring.errors import Conflict, InvalidInput
from mainspring.objects import read_place
from mainspring.ports.archive import ArchiveUnavailable
from mainspring.ports.flow_codec import encode_flow_state
from mainspring.ports.store import Store
from mainspring.ports.store.flows import FlowVerdict
from mainspring.stores._sql.queries import load_queries
from mainspring.stores.memory import MemoryStore
from mainspring.stores.postgres import PostgresStore
from mainspring.stores.sqlite import SqliteStore
from mainspring.testing.conformance.archive import TODAY, end_runs
from mainspring.testing.conformance.flows import end_of, make_turn, start_flow
from mainspring.testing.factories import START, add_job, at, submit
from tests.support.archives import (
    KEEP,
    LATER,
    LIMITS,
    archive_in,
    files_in,
    make_archiver,
    make_janitor,
    new_folder,
    opened,
    own,
    read,
    reader_of,
    settle,
)
from tests.support.buckets import bucket_server

STORES = ["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


class Crash(Exception):
    """The process dies here."""


class Crashing:
    """Passes calls on, and dies right after the call whose turn it is."""

    def __init__(self, inner: Any, calls: Iterator[int], dies_after: int) -> None:
        self._inner, self._calls, self._dies_after = inner, calls, dies_after

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def call(*args: Any, **given: Any) -> Any:
            answer = await found(*args, **given)
            if next(self._calls) == self._dies_after:
                raise Crash(name)
            return answer

        return call


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
    path = tmp_path / "archive"
    path.mkdir()
    return path


async def test_a_day_is_archived_then_removed(store: Store, folder: Path, tmp_path: Path) -> None:
    ids = await end_runs(store, 5, retried=True)
    await settle(make_archiver(store, archive_in(folder), await own(store)), make_janitor(store))
    assert await store.get_runs(ids) == [None] * 5
    [day] = await store.list_archive_days(limit=9)
    assert (day.day, day.state, day.runs, day.attempts) == (TODAY, ArchiveState.DROPPED, 5, 5)
    found = read(
        folder, "SELECT run_id, id, job LIKE 'job-%', tenant, state FROM runs ORDER BY id", tmp_path / "r"
    )
    assert found == [(format_run_id(run_id), run_id, True, "default", "CANCELLED") for run_id in sorted(ids)]
    assert read(folder, "SELECT count(*), min(error) FROM attempts", tmp_path / "r") == [(5, "boom")]


async def test_what_ends_again_on_a_day_that_was_removed_is_archived(
    store: Store, folder: Path, tmp_path: Path
) -> None:
    """The store's clock was days ahead, and was put right."""
    archiver, janitor = make_archiver(store, archive_in(folder), await own(store)), make_janitor(store)
    ids: list[RunId] = []
    for count in (2, 3, 1):
        ids += await end_runs(store, count, retried=True)
        await settle(archiver, janitor)
        assert await store.get_runs(ids) == [None] * len(ids)
        for kind in ("runs", "attempts"):
            assert read(folder, f"SELECT count(*) FROM {kind}", tmp_path / f"r{count}") == [(len(ids),)]
    [day] = await store.list_archive_days(limit=9)
    assert (day.state, day.runs, day.attempts, day.parts) == (ArchiveState.DROPPED, 6, 6, 6)
    names = sorted(path.name for path in files_in(folder, "part-*"))
    assert names == ["part-0000.parquet", "part-100000.parquet", "part-200000.parquet"]


async def test_a_day_that_is_not_over_its_time_stays(store: Store, folder: Path) -> None:
    ids = await end_runs(store, 1)
    archiver, janitor = make_archiver(store, archive_in(folder), await own(store)), make_janitor(store)
    early = start_of_day(TODAY) + KEEP + timedelta(days=1) - timedelta(seconds=1)
    assert await archiver.tick(early) > 0
    await janitor.tick(early)
    assert all(await store.get_runs(ids))
    assert files_in(folder) == []


async def test_nothing_is_removed_while_the_archive_is_away(store: Store, folder: Path) -> None:
    ids = await end_runs(store, 2)
    archiver, janitor = make_archiver(store, archive_in(folder), await own(store)), make_janitor(store)
    away = folder.with_name("away")
    shutil.move(folder, away)
    for _ in range(3):
        assert await archiver.tick(LATER) == RETRY
        await janitor.tick(LATER)
    assert all(await store.get_runs(ids))
    counts = {measure.name: measure.value for measure in archiver.measures() if measure.labels == ()}
    assert counts["archive_waiting_seconds"] == timedelta(hours=36).total_seconds()
    shutil.move(away, folder)
    await settle(archiver, janitor)
    assert await store.get_runs(ids) == [None, None]


async def test_a_part_that_was_changed_is_found_and_written_anew(
    store: Store, folder: Path, tmp_path: Path
) -> None:
    ids = await end_runs(store, 3)
    archiver, janitor = make_archiver(store, archive_in(folder), await own(store)), make_janitor(store)
    assert await archiver.tick(LATER) == 0
    [part] = files_in(folder, "*.parquet")
    part.chmod(0o600)
    part.write_bytes(part.read_bytes()[:-100])
    assert await archiver.tick(LATER) == RETRY
    await janitor.tick(LATER)
    assert all(await store.get_runs(ids))
    await settle(archiver, janitor)
    assert await store.get_runs(ids) == [None] * 3
    assert read(folder, "SELECT count(*) FROM runs", tmp_path / "r") == [(3,)]


async def test_a_file_that_vanished_is_written_anew(store: Store, folder: Path, tmp_path: Path) -> None:
    await end_runs(store, 2)
    archiver = make_archiver(store, archive_in(folder), await own(store))
    assert await archiver.tick(LATER) == 0
    shutil.rmtree(folder / "history")
    assert await archiver.tick(LATER) == RETRY
    await settle(archiver, make_janitor(store))
    assert read(folder, "SELECT count(*) FROM runs", tmp_path / "r") == [(2,)]


async def test_an_address_that_changes_takes_the_whole_day(
    store: Store, folder: Path, tmp_path: Path
) -> None:
    ids, ownership = await end_runs(store, 2, retried=True), await own(store)
    assert await make_archiver(store, archive_in(folder), ownership).tick(LATER) == 0
    other = new_folder(tmp_path / "other")
    await settle(make_archiver(store, archive_in(other), ownership), make_janitor(store))
    assert await store.get_runs(ids) == [None, None]
    assert read(other, "SELECT count(*) FROM runs", tmp_path / "r") == [(2,)]


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "history/v1/day=2026-01-05/../../../x.parquet", "history/v1/x"]
)
def test_a_manifest_that_names_other_files_is_refused(name: str, folder: Path, tmp_path: Path) -> None:
    day = folder / "history/v1/day=2026-01-05"
    day.mkdir(parents=True)
    part = {"kind": "runs", "rows": 1, "sum_ids": "1", "first_id": 1, "last_id": 1, "bytes": 1, "sha256": ""}
    (day / "day.json").write_text(
        json.dumps({"format": 1, "day": "2026-01-05", "parts": [{**part, "name": name}]})
    )
    with pytest.raises(InvalidInput, match="it names files outside of its folder"):
        reader_of(folder, tmp_path / "r").list_days()


async def test_two_installations_do_not_share_an_archive(folder: Path, tmp_path: Path) -> None:
    for name, count in (("first", 2), ("second", 3)):
        async with opened(SqliteStore(new_folder(tmp_path / name) / "mainspring.db")) as store:
            ids = await end_runs(store, count)
            await settle(make_archiver(store, archive_in(folder), await own(store)), make_janitor(store))
            assert all(await store.get_runs(ids)) == (name == "second")
    assert read(folder, "SELECT count(*) FROM runs", tmp_path / "r") == [(2,)]


async def test_whoever_lost_shard_0_writes_nothing(store: Store, folder: Path) -> None:
    await end_runs(store, 1)
    ownership = await own(store)
    archiver = make_archiver(store, archive_in(folder), ownership)
    ownership.update({0: ownership.epochs[0] - 1})
    assert await archiver.tick(LATER) > 0
    assert files_in(folder) == []
    assert 0 not in ownership.epochs


async def test_a_crash_after_any_step_loses_and_doubles_nothing(
    store: Store, folder: Path, tmp_path: Path
) -> None:
    ids = sorted(await end_runs(store, 3, retried=True))
    ownership, archive = await own(store), archive_in(folder)
    crashes, dies_after = 0, 1
    while True:
        calls = iter(range(1, 10_000))
        cut: Any = Crashing(store, calls, dies_after)
        both = make_archiver(cut, Crashing(archive, calls, dies_after), ownership), make_janitor(cut)
        try:
            await settle(*both)
        except Crash:
            crashes += 1
            dies_after += 1
            gone = [run is None for run in await store.get_runs(ids)]
            if any(gone):  # only what can be read in the archive
                assert read(folder, "SELECT id FROM runs ORDER BY id", tmp_path / "r") == [
                    (one,) for one in ids
                ]
            continue
        break
    assert crashes > 10
    assert await store.get_runs(ids) == [None] * 3
    assert read(folder, "SELECT id FROM runs ORDER BY id", tmp_path / "r") == [(run_id,) for run_id in ids]
    assert read(folder, "SELECT count(*) FROM attempts", tmp_path / "r") == [(3,)]
    [day] = await store.list_archive_days(limit=9)
    assert (day.state, day.runs, day.attempts) == (ArchiveState.DROPPED, 3, 3)


async def test_a_stale_owner_does_not_put_less_over_what_was_verified(store: Store, folder: Path) -> None:
    """It has asked what there is, stops, and goes on when the day has left the history."""
    await end_runs(store, 2)
    ownership, archive = await own(store), archive_in(folder)

    class Late:
        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        async def outline_archive_day(self, day: Any, **given: Any) -> Any:
            found = await store.outline_archive_day(day, **given)
            await settle(make_archiver(store, archive, ownership), make_janitor(store))
            return found

    stale = make_archiver(Late(), archive, ownership)
    await stale.tick(LATER)
    [file] = files_in(folder, "part-*.parquet")
    with connect(memory=100_000_000, scratch=folder / "spill") as db:
        assert db.execute(f"SELECT count(*) FROM read_parquet('{file}')").fetchall() == [(2,)]


async def test_a_day_is_written_by_hand_and_stays(store: Store, folder: Path, tmp_path: Path) -> None:
    ids = await end_runs(store, 2)
    with pytest.raises(InvalidInput, match="not over for an hour"):
        await write_day(store, archive_in(folder), TODAY, now=START + timedelta(hours=12))
    with pytest.raises(Conflict, match="nothing that ended on 2026-01-04"):
        await write_day(store, archive_in(folder), TODAY - timedelta(days=1), now=LATER)
    [part] = await write_day(store, archive_in(folder), TODAY, now=LATER)
    assert part.sum.rows == 2
    assert all(await store.get_runs(ids))
    assert read(folder, "SELECT count(*) FROM runs", tmp_path / "r") == [(2,)]
    await settle(make_archiver(store, archive_in(folder), await own(store)), make_janitor(store))
    assert read(folder, "SELECT count(*) FROM runs", tmp_path / "r") == [(2,)]
    with pytest.raises(Conflict, match="in the archive already"):
        await write_day(store, archive_in(folder), TODAY, now=LATER)


async def test_values_come_back_as_they_were(store: Store, folder: Path, tmp_path: Path) -> None:
    await store.prepare_history(now=START)
    job = await add_job(store)
    odd = 'ä "quoted",\r\nline\t\\N \\x00 \U0001f600'
    [text, sealed, encrypted] = [
        *await submit(store, job, payload=b'{"a": [1, null]}'),
        *await submit(store, job, payload=b"\xff\x00x"),
        *await submit(store, job, payload=FIRST_BYTE + b"x"),  # which could be text
    ]
    await store.cancel_runs([text], reason=odd, now=at(1))
    await store.cancel_runs([sealed, encrypted], reason="", now=at(2))
    await settle(make_archiver(store, archive_in(folder), await own(store)), make_janitor(store))
    columns = "id, reason, payload, payload_sealed, payload->>'$.a[0]', finished_at, started_at"
    first, second, third = read(folder, f"SELECT {columns} FROM runs ORDER BY id", tmp_path / "r")
    assert first == (text, odd, '{"a": [1, null]}', None, "1", at(1), None)
    assert second == (sealed, "", None, b"\xff\x00x", None, at(2), None)
    assert third == (encrypted, "", None, b"\x01x", None, at(2), None)


async def test_a_tenant_sees_its_own(store: Store, folder: Path, tmp_path: Path) -> None:
    await store.prepare_history(now=START)
    for tenant in ("shop", "bank"):
        job = await add_job(store, tenant=tenant)
        await store.cancel_runs(await submit(store, job), reason="operator", now=at(1))
    await settle(make_archiver(store, archive_in(folder), await own(store)), make_janitor(store))
    assert read(folder, "SELECT tenant FROM runs", tmp_path / "r", tenant="shop") == [("shop",)]
    assert read(folder, "SELECT count(*) FROM runs", tmp_path / "r") == [(2,)]


async def test_a_run_is_found_with_its_attempts(store: Store, folder: Path, tmp_path: Path) -> None:
    ids = await end_runs(store, 3, retried=True)
    await settle(make_archiver(store, archive_in(folder), await own(store)), make_janitor(store))
    reader = reader_of(folder, tmp_path / "r")
    days = reader.list_days()
    found = reader.find(ids[1], days, limits=LIMITS)
    assert found is not None
    run, attempts = found
    assert (run["run_id"], [one["error"] for one in attempts]) == (format_run_id(ids[1]), ["boom"])
    assert reader.find(RunId(ids[1] + 1), days, limits=LIMITS) is None
    assert reader.find(RunId(2**60), days, limits=LIMITS) is None


async def test_the_run_of_a_workflow_is_found_with_its_steps(
    store: Store, folder: Path, tmp_path: Path
) -> None:
    await store.prepare_history(now=START)
    ownership = await own(store)
    flow_id = await start_flow(store, await add_job(store))
    statuses = bytes((StepStatus.SUCCEEDED, StepStatus.SKIPPED, StepStatus.UPSTREAM_FAILED))
    state = encode_flow_state(FlowState(FlowPhase.ENDED, statuses, 0, b""))
    end = await end_of(store, flow_id, RunState.SUCCEEDED)
    turn = await make_turn(store, flow_id, state=state, end=end)
    assert await store.turn_flows([turn], epochs=ownership.epochs, now=at(1)) == [FlowVerdict.TURNED]
    await settle(make_archiver(store, archive_in(folder), ownership), make_janitor(store))
    reader = reader_of(folder, tmp_path / "r")
    found = reader.find(flow_id, reader.list_days(), limits=LIMITS)
    assert found is not None
    assert found[0]["steps"] == ["SUCCEEDED", "SKIPPED", "UPSTREAM_FAILED"]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("COPY (SELECT 1) TO '/tmp/x'", "must be one SELECT"),
        ("SELECT 1; SELECT 2", "must be one SELECT"),
        ("SET enable_external_access = true", "must be one SELECT"),
        ("INSTALL httpfs", "must be one SELECT"),
        ("ATTACH '/tmp/x.db'", "must be one SELECT"),
        ("", "must be one SELECT"),
        ("EXPLAIN SELECT 1", "must be one SELECT"),
        ("EXPLAIN ANALYZE SELECT 1", "must be one SELECT"),
        ("PRAGMA version", "must be one SELECT"),
        ("CALL duckdb_functions()", "must be one SELECT"),
        ("CREATE TABLE t AS SELECT 1", "must be one SELECT"),
        ("EXECUTE a", "must be one SELECT"),
        ("SELECT getenv('HOME')", "getenv does not exist"),
        ("SELECT * FROM read_text('/etc/passwd')", "file system operations are disabled"),
        ("SELECT * FROM query('COPY (SELECT 1) TO ''/tmp/x'' ')", "Expected a single SELECT"),
        ("SELECT * FROM read_csv('/etc/passwd')", "file system operations are disabled"),
        ("SELECT * FROM read_parquet('/etc/*')", "file system operations are disabled"),
        ("SELECT * FROM glob('/etc/*')", "disabled"),
        ("SELECT nothing FROM runs", 'column "nothing" not found'),
        ("SELECT FROM WHERE", "syntax error"),
        ("SELECT count(*) FROM range(1000000000000) a, range(1000000) b", "took longer than 0.5 s"),
    ],
)
def test_sql_reads_the_archive_and_nothing_else(sql: str, said: str, folder: Path, tmp_path: Path) -> None:
    reader = reader_of(folder, tmp_path / "r")
    limits = QueryLimits(memory=100_000_000, seconds=0.5, fetched=1, rows=10)
    with pytest.raises(InvalidInput, match=said):
        reader.query(sql, [], tenant=None, limits=limits)


async def test_no_statement_writes_to_a_part(folder: Path, tmp_path: Path) -> None:
    async with opened(SqliteStore(tmp_path / "mainspring.db")) as store:
        await end_runs(store, 2)
        await settle(make_archiver(store, archive_in(folder), await own(store)), make_janitor(store))
    [part] = files_in(folder, "*.parquet")
    before = part.read_bytes()
    assert part.stat().st_mode & 0o777 == 0o400
    copy = f"COPY (SELECT 1 AS id) TO '{part}' (FORMAT parquet, USE_TMP_FILE false)"
    for first in ("", "EXPLAIN ", "EXPLAIN ANALYZE ", "WITH a AS (SELECT 1) "):
        with pytest.raises(InvalidInput):
            read(folder, f"{first}{copy}", tmp_path / "r")
    assert part.read_bytes() == before


@pytest.mark.parametrize("sql", ["WITH a AS (SELECT 1 AS n) SELECT n FROM a", "FROM (VALUES (1)) t(n)"])
def test_every_form_of_select_is_answered(sql: str, folder: Path, tmp_path: Path) -> None:
    assert read(folder, sql, tmp_path / "r") == [(1,)]


def test_a_file_that_no_part_can_be_is_not_as_copied(folder: Path, tmp_path: Path) -> None:
    """Whatever DuckDB says about it: such a part is written anew, and not asked for again and again."""
    folder.joinpath("other.parquet").touch()
    with connect(memory=100_000_000, scratch=tmp_path / "spill") as db:
        db.execute(f"COPY (SELECT 'x' AS id) TO '{folder / 'text.parquet'}' (FORMAT parquet)")
    for name in ("other.parquet", "text.parquet"):
        task = CheckTask(
            url=str(folder), memory=256_000_000, name=name, kind=ArchiveKind.RUNS, scratch=str(tmp_path)
        )
        with pytest.raises(NotAsCopied, match=f"{name} cannot be read"):
            run_task(task)


async def test_a_copy_that_cannot_begin_is_told(tmp_path: Path) -> None:
    with pytest.raises(ArchiveUnavailable, match="no room for a copy"):
        await FileSpool(tmp_path / "gone").begin()


async def test_ends_at_one_instant_are_copied_once(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page and a range end amid them."""
    from mainspring.stores.sqlite import archive as verbs

    monkeypatch.setattr(verbs, "PAGE", 2)
    monkeypatch.setattr(verbs, "LOOK", 5)
    async with opened(SqliteStore(tmp_path / "mainspring.db")) as store:
        job = await add_job(store)
        ids = await submit(store, job, 12)
        for number, some in enumerate((ids[:1], ids[1:8], ids[8:9], ids[9:])):
            await store.cancel_runs(some, reason="operator", now=at(number))
        ranges = await store.outline_archive_day(TODAY, most=1000)
        sums = [(await store.count_archive_range(TODAY, of)).rows for of in ranges]
        assert sums == [3, 3, 3, 3]
        await settle(make_archiver(store, archive_in(folder), await own(store)), make_janitor(store))
    assert read(folder, "SELECT id FROM runs ORDER BY id", tmp_path / "r") == [(one,) for one in sorted(ids)]


@pytest.mark.postgres
@pytest.mark.parametrize("has_day", [True, False])
async def test_pages_of_one_table_are_read(postgres_database: str, has_day: bool) -> None:
    """The bounds of the day tell the planner which table that is, and the pages where to begin."""
    async with opened(PostgresStore(postgres_database, random=system_random())) as store:
        if has_day:
            await store.prepare_history(now=START)
    query = load_queries("mainspring.stores.postgres")["copy_archived_runs"].text.rstrip("; \n")
    since = start_of_day(TODAY)
    for name, value in {
        "since": f"'{since.isoformat()}'",
        "before": f"'{(since + timedelta(days=1)).isoformat()}'",
        "first": "50000",
        "until": "100000",
    }.items():
        query = query.replace(f":{name}::", f"{value}::")
    connection = await asyncpg.connect(postgres_database)
    try:
        plan = "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN {query}"))
    finally:
        await connection.close()
    assert plan.count("Tid Range Scan on run_history") == 1, plan
    assert ("run_history_default" in plan) is not has_day, plan


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A place in a bucket of a real server, with the variables that lead to it."""
    with bucket_server("runs-of-years", log=tmp_path / "bucket.log") as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        yield "s3://runs-of-years/mainspring"


@pytest.mark.timeout(300)  # the first one installs the server of the bucket
async def test_a_bucket_takes_days_and_gives_them_back(bucket: str, tmp_path: Path) -> None:
    async with opened(SqliteStore(tmp_path / "mainspring.db")) as store:
        ids = await end_runs(store, 4)
        await settle(make_archiver(store, archive_in(bucket), await own(store)), make_janitor(store))
        assert await store.get_runs(ids) == [None] * 4
        [part] = await store.list_archive_parts(TODAY)
    assert part.url == f"{bucket}/history/v1/day=2026-01-05/part-0000.parquet"
    assert read(bucket, "SELECT count(*), min(day)::VARCHAR FROM runs", tmp_path / "r") == [(4, "2026-01-05")]
    reader = reader_of(bucket, tmp_path / "other")
    few = QueryLimits(memory=256_000_000, seconds=20, fetched=100, rows=10)
    with pytest.raises(InvalidInput, match="narrow them by --since"):
        reader.query("SELECT 1 FROM runs", reader.list_days(), tenant=None, limits=few)


@pytest.mark.timeout(300)  # the first one installs the server of the bucket
async def test_a_bucket_that_is_not_there_keeps_the_day(bucket: str, tmp_path: Path) -> None:
    async with opened(SqliteStore(tmp_path / "mainspring.db")) as store:
        ids = await end_runs(store, 1)
        archiver = make_archiver(store, archive_in("s3://no-such-bucket/x"), await own(store))
        assert await archiver.tick(LATER) == RETRY
        assert all(await store.get_runs(ids))


async def test_the_process_that_writes_is_bounded(folder: Path, tmp_path: Path) -> None:
    """Here the real one does it: it ends with its stop, and what it was about stays undone."""
    async with opened(SqliteStore(tmp_path / "mainspring.db")) as store:
        await end_runs(store, 2)
        archive = ChildArchive(str(folder), read_place(str(folder), "x"), memory=256_000_000)
        archiver = make_archiver(store, archive, await own(store))
        assert await archiver.tick(LATER) == 0
        [part] = await store.list_archive_parts(TODAY)
        assert part.sum.rows == 2
        ticking = asyncio.create_task(archiver.tick(LATER))
        await asyncio.sleep(0)
        archiver.give_up()
        assert await ticking > 0
        assert await store.find_unarchived_day(before=LATER) == TODAY
    assert files_in(Path(tempfile.gettempdir()), f"mainspring-archive-{os.getpid()}-*/*") == []


def test_old_copies_of_killed_processes_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mainspring.archive import writing

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("999999999-x", "999999999-new", "x"):
        (tmp_path / f"mainspring-archive-{name}").mkdir()
    for name in ("999999999-x", "x"):
        os.utime(tmp_path / f"mainspring-archive-{name}", (1, 1))
    (tmp_path / f"mainspring-archive-{os.getpid()}-y").mkdir()
    made = writing._make_folder()
    names = {path.name for path in tmp_path.iterdir()} - {made.name}
    assert names == {f"mainspring-archive-{name}" for name in ("999999999-new", "x", f"{os.getpid()}-y")}
    shutil.rmtree(made)


def test_kinds_are_those_of_files() -> None:
    assert list(ArchiveKind) == ["runs", "attempts"]
