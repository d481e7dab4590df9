"""The SQLite store on its file: killed, filled up, shared, aged, and asked by many at once."""

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from mainspring.core.admission import SubmissionVerdict
from mainspring.core.clocks import ChangeVerdict
from mainspring.core.outcomes import AttemptOutcome, Transition, succeeded
from mainspring.core.states import RunState
from mainspring.errors import SchemaMismatch, StoreLocked, StoreUnavailable, TookTooLong
from mainspring.ports.store.claims import ApplyResult
from mainspring.ports.store.runs import IdempotencyKey
from mainspring.ports.store.schedule import FireStatus
from mainspring.stores._sql.migrate import read_migrations
from mainspring.stores.sqlite import SqliteStore
from mainspring.stores.sqlite.inserts import insert_runs
from mainspring.testing.factories import (
    START,
    add_job,
    add_session,
    all_lanes,
    at,
    claim,
    make_change,
    make_claim,
    make_edit,
    make_fire,
    make_new_run,
    make_spec,
    own_shards,
    read_job,
    submit,
)


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "mainspring.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    async with opened(path) as store:
        yield store


def run_python(text: str, *arguments: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", text, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


# -- one process -----------------------------------------------------------------------------------------------

HOLD = """
import asyncio, sys
from pathlib import Path
from mainspring.stores.sqlite import SqliteStore
from mainspring.stores.sqlite.inserts import insert_runs

async def main():
    await SqliteStore(Path(sys.argv[1])).open()
    print("open", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_second_process_is_told_who_has_the_store(path: Path) -> None:
    with run_python(HOLD, path) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "open\n"
            with pytest.raises(StoreLocked, match=f"in use by process {holder.pid};"):
                await SqliteStore(path).open()
        finally:
            holder.kill()
    async with opened(path) as store:  # the lock went with its holder
        assert await store.list_sessions() == []


async def test_second_store_of_the_same_process_is_refused_and_harms_nobody(
    store: SqliteStore, path: Path
) -> None:
    other = SqliteStore(path)
    for _ in range(2):
        with pytest.raises(StoreLocked, match=f"process {os.getpid()};"):
            await other.open()
    assert await submit(store, await add_job(store))


async def test_a_process_that_is_gone_is_not_named_as_the_holder(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with run_python("", path) as gone:
        gone.wait()
    lock = path.with_name(f"{path.name}.lock")
    for written in (f"{gone.pid}\n", "", "0\n", "-1\n", "what\n", "9" * 30):
        lock.write_text(written)
        with lock.open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            with pytest.raises(StoreLocked, match="is in use by another process;"):
                await SqliteStore(path).open()


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
async def test_only_the_own_user_may_read_what_the_store_makes(tmp_path: Path, mask: int) -> None:
    folder = tmp_path / "data"
    before = os.umask(mask)
    try:
        async with opened(folder / "mainspring.db") as store:
            await add_job(store)
            modes = {file.name: file.stat().st_mode & 0o777 for file in (folder, *folder.iterdir())}
    finally:
        os.umask(before)
    assert modes == {
        "data": 0o700,
        "mainspring.db": 0o600,
        "mainspring.db-shm": 0o600,
        "mainspring.db-wal": 0o600,
        "mainspring.db.lock": 0o600,
        "mainspring-logs.db": 0o600,
        "mainspring-logs.db-shm": 0o600,
        "mainspring-logs.db-wal": 0o600,
    }


async def test_a_folder_and_a_database_that_exist_keep_their_modes(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(0o750)
    path = folder / "mainspring.db"
    path.touch()
    path.chmod(0o640)
    async with opened(path) as store:
        await add_job(store)
        assert folder.stat().st_mode & 0o777 == 0o750
        assert path.stat().st_mode & 0o777 == 0o640


async def test_settings_are_durable_and_plans_stable(store: SqliteStore) -> None:
    def look(db: apsw.Connection) -> tuple[Any, ...]:
        modes = [db.pragma(name) for name in ("journal_mode", "synchronous")]
        return *modes, db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, -1)

    full = 2
    assert await store._writer.call(look) == ("wal", full, 1)


async def test_ids_grow_on_after_the_tables_were_emptied_and_the_store_reopened(path: Path) -> None:
    async with opened(path) as store:
        job, session_id = await add_job(store), await add_session(store)
        ids = await submit(store, job, 3)
        runs = await claim(store, session_id, limit=3)
        await store.apply([succeeded(run.run_id, run.token, session_id) for run in runs], now=at(1))
        await store.close_sessions([session_id], now=at(1))
        assert await store.prune_history(before=at(2), limit=10) == 3
        assert await store.prune_sessions(before=at(2), limit=10) == 1
        assert await store.prune_lanes(limit=10) == 1
        assert await store.read_lanes([]) == []
    async with opened(path) as store:
        job = await read_job(store, job.id)
        [newer] = await submit(store, job)
        assert newer > max(ids)
        assert await add_session(store) > session_id


# -- killed ----------------------------------------------------------------------------------------------------

WORK = """
import asyncio, sys
from pathlib import Path
from mainspring.core.outcomes import succeeded
from mainspring.stores.sqlite import SqliteStore
from mainspring.stores.sqlite.inserts import insert_runs
from mainspring.testing.factories import *

def say(word, ids):
    print(word, *ids, flush=True)

async def main():
    store = SqliteStore(Path(sys.argv[1]))
    await store.open()
    [job] = await store.find_jobs("default", ["work"])
    session_id = await add_session(store)

    async def work():
        while True:
            say("submitted", await submit(store, job, 20))
            runs = await claim(store, session_id, limit=10)
            await store.apply([succeeded(run.run_id, run.token, session_id) for run in runs], now=START)
            say("done", [run.run_id for run in runs])

    await asyncio.gather(*(work() for _ in range(4)))

asyncio.run(main())
"""


async def test_what_was_acknowledged_survives_kill_9(path: Path) -> None:
    async with opened(path) as store:
        await add_job(store, make_spec(name="work"))
    known: dict[str, set[int]] = {"submitted": set(), "done": set()}
    for round_number in range(5):
        with run_python(WORK, path) as writer:
            assert writer.stdout is not None
            for _ in range(60 + round_number * 7):
                note(known, writer.stdout.readline())
            os.kill(writer.pid, signal.SIGKILL)
            for line in writer.stdout:  # what it said before it died
                note(known, line)
        db = apsw.Connection(str(path))
        assert db.pragma("integrity_check") == "ok"
        live = {row[0] for row in db.execute("SELECT id FROM run")}
        ended = {row[0] for row in db.execute("SELECT id FROM run_history")}
        db.close()
        assert known["submitted"] <= live | ended
        assert known["done"] <= ended
        assert live & ended == set()
    assert len(known["done"]) > 1000


def note(known: dict[str, set[int]], line: str) -> None:
    word, *ids = line.split()
    known[word].update(map(int, ids))


APPLY = """
import asyncio, sys
from dataclasses import replace
from pathlib import Path
from uuid import uuid4
from mainspring.ports.store.applying import JobsChange, OwnedNames
from mainspring.stores.sqlite import SqliteStore
from mainspring.testing.factories import *

async def main():
    store = SqliteStore(Path(sys.argv[1]))
    await store.open()
    while True:
        jobs = await store.list_jobs("default", limit=100)
        kept = [job for job in jobs if job.spec.name.startswith("kept")]
        number = kept[0].version
        specs = [make_spec(name=f"of {number} {each}") for each in range(20)]
        new = [replace(make_new_job(spec), id=uuid4()) for spec in specs]
        names = (*(job.spec.name for job in kept), *(job.spec.name for job in new))
        change = JobsChange(
            tenant="default",
            adds=new,
            edits=[make_edit(job, replace(job.spec, queue=f"q{number}")) for job in kept],
            deletes=[make_change(job) for job in jobs if job not in kept],
            owners=[OwnedNames(f"owner {number}", names)],
        )
        print("done" if await store.apply_jobs(change, now=START) is not None else "refused", flush=True)

asyncio.run(main())
"""


async def test_kill_9_in_an_apply_leaves_all_of_it_or_nothing(path: Path) -> None:
    async with opened(path) as store:
        for number in range(30):
            await add_job(store, make_spec(name=f"kept {number}"))
    applied = 0
    for round_number in range(6):
        with run_python(APPLY, path) as writer:
            assert writer.stdout is not None
            for _ in range(4 + round_number):
                assert writer.stdout.readline() == "done\n"
            os.kill(writer.pid, signal.SIGKILL)
            applied += 4 + round_number + sum(line == "done\n" for line in writer.stdout)
        async with opened(path) as store:
            jobs = await store.list_jobs("default", limit=100)
        kept = [job for job in jobs if job.spec.name.startswith("kept")]
        new = [job for job in jobs if job not in kept]
        assert (len(kept), len(new)) == (30, 20)
        [version] = {job.version for job in kept}
        assert version >= applied + 1
        assert {job.spec.queue for job in kept} == {f"q{version - 1}"}
        assert {job.owner for job in jobs} == {f"owner {version - 1}"}
        assert {job.spec.name.rpartition(" ")[0] for job in new} == {f"of {version - 1}"}


# -- a full disk -----------------------------------------------------------------------------------------------


async def set_limit(store: SqliteStore, spare: int | None) -> None:
    def work(db: apsw.Connection) -> None:
        limit = 2**31 if spare is None else db.pragma("page_count") + spare
        db.pragma("max_page_count", limit)

    await store._writer.call(work)


async def test_full_disk_is_an_unavailable_store_until_there_is_room(store: SqliteStore) -> None:
    job = await add_job(store)
    before = await submit(store, job, 5)
    await set_limit(store, 4)
    with pytest.raises(StoreUnavailable, match="the disk is full"):
        await submit(store, job, 2000)
    assert await store.count_runs(job.tenant) == {RunState.PENDING: 5}  # reading goes on
    await set_limit(store, None)
    after = await submit(store, job, 2000)
    assert await store.count_runs(job.tenant) == {RunState.PENDING: 2005}
    assert min(after) > max(before)


async def test_full_disk_takes_back_every_call_of_the_group(store: SqliteStore) -> None:
    job = await add_job(store)
    await set_limit(store, 4)
    calls = [submit(store, job, 1), submit(store, job, 2000), submit(store, job, 1), submit(store, job, 2000)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    written = sum(len(result) for result in results if isinstance(result, list))
    assert all(isinstance(result, list | StoreUnavailable) for result in results)
    assert any(isinstance(result, StoreUnavailable) for result in results)
    await set_limit(store, None)
    assert sum((await store.count_runs(job.tenant)).values()) == written
    ids = await submit(store, job, 10)
    assert [run is not None for run in await store.get_runs(ids)] == [True] * 10


async def test_folder_that_cannot_be_opened_is_an_unavailable_store(tmp_path: Path) -> None:
    (tmp_path / "mainspring.db").mkdir()
    store = SqliteStore(tmp_path / "mainspring.db")
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="cannot be read or written"):
            await store.open()


@pytest.fixture
def garbage(path: Path) -> Path:
    path.write_bytes(b"not a database, not at all. " * 1000)
    return path


async def test_file_that_is_no_database_is_an_unavailable_store(garbage: Path) -> None:
    with pytest.raises(StoreUnavailable, match="damaged"):
        await SqliteStore(garbage).open()


# -- other schemas ---------------------------------------------------------------------------------------------


async def change_migrations(path: Path, statement: str) -> None:
    async with opened(path):
        pass
    db = apsw.Connection(str(path))
    db.execute(statement)
    db.close()


async def test_newer_schema_is_refused(path: Path) -> None:
    await change_migrations(path, "INSERT INTO migration VALUES (9999, 'later', 'x', 0)")
    for _ in range(2):  # and the folder is free again
        with pytest.raises(
            SchemaMismatch, match=r"has migration 9999, which works with .*this program ends at"
        ):
            await SqliteStore(path).open()


async def test_altered_schema_is_refused(path: Path) -> None:
    await change_migrations(path, "UPDATE migration SET checksum = 'x' WHERE number = 1")
    with pytest.raises(SchemaMismatch, match="0001_spine was altered"):
        await SqliteStore(path).open()


async def test_migrations_are_applied_once(path: Path) -> None:
    rows: list[Any] = []
    for _ in range(3):
        async with opened(path) as store:
            rows = await store._reader.call(
                lambda db: db.execute("SELECT number, applied_at FROM migration").fetchall()
            )
    assert [row[0] for row in rows] == [
        migration.number for migration in read_migrations("mainspring.stores.sqlite")
    ]


# -- calls that wait together ----------------------------------------------------------------------------------


async def together(store: SqliteStore, *calls: Any) -> list[Any]:
    """Make calls wait for each other, so that they go in one transaction."""
    blocker = asyncio.Event()
    loop = asyncio.get_running_loop()

    def wait(db: apsw.Connection) -> None:
        asyncio.run_coroutine_threadsafe(blocker.wait(), loop).result(timeout=10)

    blocking = asyncio.create_task(store._writer.call(wait))
    waiting = [asyncio.ensure_future(call) for call in calls]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    blocker.set()
    await blocking
    return await asyncio.gather(*waiting, return_exceptions=True)


async def test_failing_call_leaves_the_rest_of_its_group_alone(store: SqliteStore) -> None:
    job = await add_job(store)

    def fail(db: apsw.Connection) -> None:
        db.execute("INSERT INTO tenant (id) VALUES ('halfway')")
        raise RuntimeError("a bug")

    first, error, second = await together(
        store, submit(store, job, 2), store._writer.call(fail), submit(store, job, 3)
    )
    assert isinstance(error, RuntimeError)
    assert str(error) == "a bug"
    found = await store.get_runs([*first, *second])
    assert [run is not None for run in found] == [True] * 5
    tenants = await store._reader.call(lambda db: db.execute("SELECT id FROM tenant").fetchall())
    assert tenants == []


async def test_lanes_of_a_call_that_was_rolled_back_are_forgotten(store: SqliteStore) -> None:
    job = await add_job(store)

    def intern_and_fail(db: apsw.Connection) -> None:
        insert_runs(db, store._lane_ids, [make_new_run(job)], 0)
        raise RuntimeError("a bug")

    for _ in range(2):  # alone, and in a group
        with pytest.raises(RuntimeError, match="a bug"):
            await store._writer.call(intern_and_fail)
        assert await store.read_lanes([]) == []
        error, ids = await together(store, store._writer.call(intern_and_fail), submit(store, job, 2))
        assert isinstance(error, RuntimeError)
        [lane] = await store.read_lanes([])
        runs = await store.get_runs(ids)
        assert [run is not None and run.lane == lane.key for run in runs] == [True, True]
        await store.cancel_runs(ids, reason="test", now=START)
        assert await store.prune_lanes(limit=10) == 1


async def test_lanes_that_the_janitor_took_are_made_anew(store: SqliteStore) -> None:
    job, session_id = await add_job(store), await add_session(store)
    for _ in range(3):
        [run_id] = await submit(store, job)
        [run] = await claim(store, session_id)
        assert run.run_id == run_id
        assert await store.prune_lanes(limit=10) == 0  # the run is still held
        await store.apply([succeeded(run_id, run.token, session_id)], now=at(1))
        assert await store.prune_lanes(limit=10) == 1


async def test_call_that_nobody_waits_for_any_more_is_carried_out_all_the_same(store: SqliteStore) -> None:
    job = await add_job(store)
    task = asyncio.create_task(submit(store, job, 2))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await submit(store, job, 1)
    assert await store.count_runs(job.tenant) == {RunState.PENDING: 3}


async def test_close_finishes_what_was_asked_for_and_refuses_the_rest(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    job = await add_job(store)
    waiting = [asyncio.create_task(submit(store, job, 20)) for _ in range(300)]
    await asyncio.sleep(0)
    await store.close()
    ids = [run_id for ids in await asyncio.gather(*waiting) for run_id in ids]
    with pytest.raises(StoreUnavailable, match="closed"):
        await submit(store, job)
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.get_jobs([job.id])
    await store.close()  # once more does no harm
    async with opened(path) as store:
        found = await store.get_runs(ids)
    assert len(ids) == 6000
    assert all(run is not None for run in found)


# -- laws under many tasks -------------------------------------------------------------------------------------


async def test_a_fire_is_won_once_among_many(store: SqliteStore) -> None:
    job = await add_job(store, next_fire_at=START)
    epochs = await own_shards(store)
    fires = [store.record_fires([make_fire(job)], epochs=epochs, now=at(1)) for _ in range(100)]
    statuses = Counter(result[0].status for result in await asyncio.gather(*fires))
    assert statuses == {FireStatus.FIRED: 1, FireStatus.LOST: 99}
    assert len(await store.list_runs(job.tenant)) == 1


async def test_a_plan_made_before_an_edit_loses(store: SqliteStore) -> None:
    jobs = [await add_job(store, next_fire_at=START) for _ in range(40)]
    epochs = await own_shards(store)
    pairs: list[Any] = [
        pair
        for job in jobs
        for pair in (
            store.edit_jobs([make_edit(job, next_fire_at=at(3600))], now=at(1)),
            store.record_fires([make_fire(job)], epochs=epochs, now=at(1)),
        )
    ]
    results = [result[0] for result in await asyncio.gather(*pairs)]
    for job, edit, fire in zip(jobs, results[::2], results[1::2], strict=True):
        # Either the edit came first and the plan lost, or the fire came first and moved the clock under the edit.
        assert {edit, fire.status} in (
            {ChangeVerdict.DONE, FireStatus.LOST},
            {ChangeVerdict.MOVED, FireStatus.FIRED},
        )
        now = await read_job(store, job.id)
        assert now.next_fire_at == (at(3600) if edit is ChangeVerdict.DONE else at(60))


async def test_one_of_many_edits_wins(store: SqliteStore) -> None:
    job = await add_job(store, next_fire_at=START)
    changes: list[Any] = [
        store.edit_jobs([make_edit(job, next_fire_at=at(number))], now=at(1)) for number in range(1, 50)
    ]
    results = Counter(result[0] for result in await asyncio.gather(*changes))
    assert results == {ChangeVerdict.DONE: 1, ChangeVerdict.MOVED: 48}
    assert (await store.delete_jobs([make_change(job)], now=at(2))) == [ChangeVerdict.MOVED]


async def test_every_run_is_given_to_one_claim_and_a_late_token_is_stale(store: SqliteStore) -> None:
    job = await add_job(store)
    ids = await submit(store, job, 400)
    lanes = await all_lanes(store)
    sessions = [await add_session(store) for _ in range(20)]
    claims = [
        store.claim_runs([make_claim(sessions[number % 20], lanes, limit=7)], now=START)
        for number in range(100)
    ]
    results_of_claims = await asyncio.gather(*claims)
    runs = [
        (run, sessions[number % 20])
        for number, [result] in enumerate(results_of_claims)
        for run in result.runs
    ]
    assert sorted(run.run_id for run, _ in runs) == sorted(ids)

    def lose(run_id: Any, token: int, session_id: Any) -> Transition:
        return Transition(
            run_id, token, session_id, to=RunState.PENDING, outcome=AttemptOutcome.LOST, ready_at=START
        )

    # Each run is declared lost and reported done at once: whoever comes first wins, the other one is stale.
    calls: list[Any] = [
        call
        for run, holder in runs
        for call in (
            store.apply([lose(run.run_id, run.token, holder)], now=at(1)),
            store.apply([succeeded(run.run_id, run.token, holder)], now=at(1)),
        )
    ]
    results = [result[0] for result in await asyncio.gather(*calls)]
    for lost, done in zip(results[::2], results[1::2], strict=True):
        assert {lost, done} == {ApplyResult.APPLIED, ApplyResult.STALE}
    again = [run for run in await claim_all(store, sessions[0]) if run.token == 3]
    lost_number = sum(result is ApplyResult.APPLIED for result in results[::2])
    assert len(again) == lost_number
    holders = {run.run_id: holder for run, holder in runs}
    late = await store.apply([succeeded(run.run_id, 1, holders[run.run_id]) for run in again], now=at(2))
    assert set(late) <= {ApplyResult.STALE}
    reported = await store.apply([succeeded(run.run_id, run.token, sessions[0]) for run in again], now=at(2))
    assert set(reported) <= {ApplyResult.APPLIED}
    assert await store.count_runs(job.tenant) == {RunState.SUCCEEDED: 400}


async def claim_all(store: SqliteStore, session_id: Any) -> list[Any]:
    return list(await claim(store, session_id, limit=1000, now=at(1)))


async def test_one_call_takes_successes_and_other_ends_together(store: SqliteStore) -> None:
    job, session_id = await add_job(store), await add_session(store)
    await submit(store, job, 6)
    runs = await claim(store, session_id, limit=6)
    ends = [succeeded(run.run_id, run.token, session_id, b"1") for run in runs]
    bury = Transition(
        run_id=runs[1].run_id,
        token=1,
        session_id=session_id,
        to=RunState.FAILED,
        outcome=AttemptOutcome.FAILED,
        error="broken",
    )
    retry = Transition(
        run_id=runs[2].run_id,
        token=1,
        session_id=session_id,
        to=RunState.RETRYING,
        outcome=AttemptOutcome.FAILED,
        ready_at=at(60),
    )
    with_output = succeeded(runs[3].run_id, 1, session_id, b"2", "said")
    stale = succeeded(runs[4].run_id, 7, session_id)
    mixed = [ends[0], bury, retry, with_output, stale]
    wanted = [ApplyResult.APPLIED] * 4 + [ApplyResult.STALE]
    assert await store.apply(mixed, now=at(1)) == wanted
    assert await store.apply(mixed, now=at(2)) == wanted  # a repeat is answered alike
    twice = [ends[5], bury, ends[5]]
    assert await store.apply(twice, now=at(3)) == [ApplyResult.APPLIED] * 3
    found = [run for run in await store.get_runs([run.run_id for run in runs]) if run is not None]
    assert [run.state for run in found] == [
        RunState.SUCCEEDED,
        RunState.FAILED,
        RunState.RETRYING,
        RunState.SUCCEEDED,
        RunState.RUNNING,
        RunState.SUCCEEDED,
    ]
    assert [(run.result, run.output, run.error) for run in found] == [
        (b"1", None, None),
        (None, None, "broken"),
        (None, None, None),
        (b"2", "said", None),
        (None, None, None),
        (b"1", None, None),
    ]


async def test_one_key_among_many_submitters_is_one_run(store: SqliteStore) -> None:
    job = await add_job(store)
    key = IdempotencyKey(key="k", request_hash=b"h", expires_at=START + timedelta(hours=1))
    run = make_new_run(job, submit_key=key)
    results = [
        result[0]
        for result in await asyncio.gather(*(store.submit_runs([run], now=START) for _ in range(50)))
    ]
    assert Counter(result.status for result in results) == {
        SubmissionVerdict.SUBMITTED: 1,
        SubmissionVerdict.DUPLICATE: 49,
    }
    assert len({result.run_id for result in results}) == 1


ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


async def test_the_planner_does_not_wait_behind_a_long_list(path: Path) -> None:
    async with opened(path) as store:
        begun, may_end = threading.Event(), threading.Event()

        def list_for_long(_: apsw.Connection) -> bool:
            begun.set()
            return may_end.wait(timeout=60)

        listing = asyncio.create_task(store._browser.call(list_for_long))
        await asyncio.to_thread(begun.wait, 60)
        assert await store.read_due(range(256), until=START, limit=10) == []
        counting = asyncio.create_task(store.count_runs("default"))
        assert await store.read_shards()
        assert not counting.done()  # lists and counts go one at a time
        may_end.set()
        assert await listing
        assert await counting == {}


async def test_a_list_is_stopped_at_its_limit_and_the_next_one_goes_on(path: Path) -> None:
    store = SqliteStore(path, browse_timeout=0.1)
    await store.open()
    try:
        with pytest.raises(TookTooLong):
            await store._browser.call(lambda db: db.execute(ENDLESS).fetchall())
        assert await store.list_runs("default") == []
    finally:
        await store.close()


async def test_a_list_that_nobody_waits_for_any_more_is_stopped(path: Path) -> None:
    store = SqliteStore(path, browse_timeout=3600)
    await store.open()
    try:
        begun = threading.Event()

        def list_forever(db: apsw.Connection) -> object:
            begun.set()
            return db.execute(ENDLESS).fetchall()

        listing = asyncio.create_task(store._browser.call(list_forever))
        await asyncio.to_thread(begun.wait, 60)
        listing.cancel()
        assert await store.list_runs("default") == []
    finally:
        await store.close()
