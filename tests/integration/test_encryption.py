"""A whole job on each store: what users put in is nowhere in its files, and comes back as it was."""

import random
import subprocess
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest
from structlog.testing import capture_logs

from mainspring.core.ciphertexts import NO_KEYS, KeyUses
from mainspring.core.dead_letters import DeadFilter
from mainspring.core.definition import plain_from_spec
from mainspring.core.ids import RunId, SessionId
from mainspring.core.model import JobSpec, Target
from mainspring.core.outcomes import Failure, succeeded
from mainspring.core.retry import RetryPolicy
from mainspring.core.states import RunState
from mainspring.encryption.cipher import Cipher
from mainspring.encryption.keys import Keys, make_key
from mainspring.encryption.starting import encrypt_store
from mainspring.encryption.store import encrypted
from mainspring.engine.usecases.submissions import Submission
from mainspring.errors import InvalidInput, SchemaMismatch
from mainspring.ports.doctor import StoreExaminer
from mainspring.ports.executor import Success
from mainspring.ports.gateway import Lease, Report
from mainspring.ports.store import Store
from mainspring.registry import FunctionRegistry
from mainspring.stores._sql.migrate import ENCRYPTED_SINCE, read_migrations
from mainspring.stores.postgres import ConnectionOptions, PostgresStore
from mainspring.stores.postgres.callers import open_store
from mainspring.stores.postgres.doctor import PostgresExaminer
from mainspring.stores.postgres.drivers import find_driver
from mainspring.stores.postgres.schema import migrate
from mainspring.stores.sqlite import SqliteStore
from mainspring.stores.sqlite.doctor import SqliteExaminer
from mainspring.stores.sqlite.store import migrate as migrate_sqlite
from mainspring.testing.clock import FakeClock
from mainspring.testing.factories import add_job, submit
from mainspring.testing.manual import ManualRuntime

CANARY = "canary-9b1e"
BODY = {
    "name": "report",
    "target": {
        "type": "http",
        "url": f"https://example.com/{CANARY}",
        "headers": {"Authorization": f"Bearer {CANARY}"},
    },
    "payload": {"customer": CANARY},
    "retry": {"max_retries": 1},
    "unique": {"key": "$.customer", "scope": "live"},
}


@dataclass
class Place:
    """A store that is encrypted, the engine on it, and how its files are read."""

    bare: Store
    runtime: ManualRuntime
    read: Callable[[], bytes]
    examiner: StoreExaminer


def keys(folder: Path) -> str:
    file = folder / "keys"
    file.touch(mode=0o600)
    file.write_text(f"{make_key('k1')}\n")
    return str(file)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    clock = FakeClock()
    read: Callable[[], bytes]
    bare: Store
    examiner: StoreExaminer
    if request.param == "sqlite":
        folder = tmp_path / "data"
        folder.mkdir()
        bare, examiner = SqliteStore(folder / "mainspring.db"), SqliteExaminer(folder / "mainspring.db")

        def read() -> bytes:
            return b"".join(file.read_bytes() for file in sorted(folder.iterdir()))

    else:
        dsn = request.getfixturevalue("migrated_database")
        bare = PostgresStore(dsn, random=random.Random(1))
        examiner = PostgresExaminer(ConnectionOptions(dsn), label="store")

        def read() -> bytes:
            return subprocess.run(["pg_dump", dsn], check=True, capture_output=True).stdout

    await bare.open()
    store = await encrypt_store(bare, keys(tmp_path), now=clock.now())
    runtime = ManualRuntime(FunctionRegistry(), store=store, clock=clock)
    try:
        yield Place(bare, runtime, read, examiner)
    finally:
        await bare.close()


async def test_whole_job_leaves_no_trace(place: Place) -> None:
    client, clock = place.runtime.client, place.runtime.clock
    job = await client.jobs.create("shop", BODY)
    worker = await place.runtime.worker(types=("http",))
    own = f'{{"customer": "{CANARY}-own"}}'.encode()
    submission = Submission(job_id=job.id, payload=own, idempotency_key="order-1")
    first = await client.runs.submit("shop", submission)
    assert (await client.runs.submit("shop", submission)).run_id == first.run_id
    await client.runs.submit("shop", Submission(job_id=job.id))
    ends = {}
    for attempt in range(2):
        leases = await worker.claim()
        assert {lease.payload for lease in leases} == {own, f'{{"customer":"{CANARY}"}}'.encode()}
        assert {lease.spec.target.params["url"] for lease in leases} == {f"https://example.com/{CANARY}"}
        for lease in leases:
            ends[lease.run_id] = Failure(error=f"ValueError: {CANARY} {attempt}", output=CANARY)
        await worker.report(
            *(Report(run_id=one.run_id, token=one.token, ending=ends[one.run_id]) for one in leases)
        )
        clock.advance(3600)
    dead = await client.dead_letters.list_page("shop", DeadFilter())
    assert {letter.run.error for letter in dead} == {f"ValueError: {CANARY} 1"}
    [group] = await client.dead_letters.groups("shop", DeadFilter())
    assert group.count == 2
    attempts = await client.runs.attempts("shop", first.run_id)
    assert [one.error for one in attempts] == [f"ValueError: {CANARY} 0", f"ValueError: {CANARY} 1"]
    again = await client.redriving.redrive("shop", first.run_id)
    [lease] = await worker.claim()
    assert lease.payload == own
    result = f'["{CANARY}"]'.encode()
    await worker.report(
        Report(run_id=lease.run_id, token=lease.token, ending=Success(result=result, output=CANARY))
    )
    assert again.run_id is not None
    run = await client.runs.get("shop", again.run_id)
    assert (run.state, run.payload, run.result, run.output) == (RunState.SUCCEEDED, own, result, CANARY)
    edited = await client.jobs.edit("shop", job.id, {"payload": [CANARY]})
    assert plain_from_spec(edited.spec)["payload"] == [CANARY]
    kept = place.read()
    assert b"order-1" in kept, "what stays plain is found"
    assert CANARY.encode() not in kept
    assert CANARY.encode().hex().encode() not in kept


async def test_search_in_errors_is_refused_by_name(place: Place) -> None:
    with pytest.raises(InvalidInput, match="error: errors are encrypted in the store"):
        await place.runtime.client.dead_letters.list_page("shop", DeadFilter(error="x"))


async def test_a_server_without_keys_says_so(place: Place) -> None:
    job = await place.runtime.client.jobs.create("shop", BODY)
    bare = ManualRuntime(FunctionRegistry(), store=place.bare, clock=place.runtime.clock)
    await place.runtime.client.runs.submit("shop", Submission(job_id=job.id))
    worker = await bare.worker(types=("http",))
    with capture_logs() as logs:
        assert await worker.claim() == []
    [told] = [one for one in logs if one["event"] == "run_cannot_be_decrypted"]
    assert (told["then"], told["why"]) == ("PENDING", f"it is encrypted; {NO_KEYS}")
    await leased_after_a_while(place)


async def test_a_server_without_keys_gives_out_no_encrypted_payload(place: Place) -> None:
    bare = ManualRuntime(FunctionRegistry(), store=place.bare, clock=place.runtime.clock)
    job = await bare.client.jobs.create("shop", {"name": "plain", "target": BODY["target"]})
    await place.runtime.client.runs.submit("shop", Submission(job_id=job.id, payload=b"[1]"))
    worker = await bare.worker(types=("http",))
    with capture_logs() as logs:
        assert await worker.claim() == []
    [told] = [one for one in logs if one["event"] == "run_cannot_be_decrypted"]
    assert told["why"] == f"the payload is encrypted; {NO_KEYS}"
    assert (await leased_after_a_while(place)).payload == b"[1]"


async def leased_after_a_while(place: Place) -> Lease:
    """Return the lease on the run that went back, which a process with keys gives out."""
    place.runtime.clock.advance(31)
    worker = await place.runtime.worker(types=("http",))
    [lease] = await worker.claim()
    return lease


async def test_what_needs_a_key_is_counted(place: Place, tmp_path: Path) -> None:
    """A key's id may be the beginning of another one's, at each place of base64."""
    ids = ("k1", "k10", "k101", "k1011")
    both = Cipher(Keys("k1", {key_id: number.to_bytes(32) for number, key_id in enumerate(ids)}))
    for count, key_id in enumerate(ids, start=1):
        cipher = Cipher(Keys(key_id, {key_id: ids.index(key_id).to_bytes(32)}))
        store = encrypted(place.bare, cipher)
        for number in range(count):
            target = Target("http", {"url": "https://example.com"})
            spec = JobSpec(name=f"{key_id} {number}", target=target, retry=RetryPolicy(max_retries=0))
            job = await add_job(store, spec, tenant="shop")
            await submit(store, job, payload=b"[1]")
    runtime = ManualRuntime(FunctionRegistry(), store=encrypted(place.bare, both), clock=place.runtime.clock)
    worker = await runtime.worker(types=("http",))
    leases = [lease for lease in await worker.claim() if lease.spec.name.endswith(" 0")]
    await worker.report(
        *(
            Report(run_id=one.run_id, token=one.token, ending=Failure(error="no", output=None))
            for one in leases
        )
    )
    uses = await place.examiner.count_key_uses([*ids, "other"])
    assert [(uses[key_id].jobs, uses[key_id].runs) for key_id in ids] == [(1, 0), (2, 1), (3, 2), (4, 3)]
    # Their payloads are each of its own key, and all errors of the one that writes now.
    assert [uses[key_id].dead_runs for key_id in ids] == [4, 1, 1, 1]
    assert uses["other"] == KeyUses(0, 0, 0)


@pytest.mark.postgres
async def test_transaction_of_a_caller_is_refused(migrated_database: str, tmp_path: Path) -> None:
    from mainspring.sdk.submit_options import SubmitOptions
    from mainspring.sdk.transactions import submit_within

    store = PostgresStore(migrated_database, random=random.Random(1))
    await store.open()
    await encrypt_store(store, keys(tmp_path), now=await store.read_time())
    await store.close()
    connection: Any = await asyncpg.connect(migrated_database)
    try:
        async with connection.transaction():
            with pytest.raises(InvalidInput, match="leads to a store that is encrypted"):
                await submit_within("shop", "report", [{}], SubmitOptions(connection=connection))
    finally:
        await connection.close()


@pytest.mark.postgres
async def test_a_callers_connection_from_before_is_refused_too(
    migrated_database: str, tmp_path: Path
) -> None:
    """The store of a connection is looked for once, but whether it is encrypted is asked each time."""
    from mainspring.sdk.submit_options import SubmitOptions
    from mainspring.sdk.transactions import submit_within

    store = PostgresStore(migrated_database, random=random.Random(1))
    await store.open()
    connection: Any = await asyncpg.connect(migrated_database)
    try:
        await ManualRuntime(FunctionRegistry(), store=store, clock=FakeClock()).client.jobs.create(
            "shop", BODY
        )
        options = SubmitOptions(connection=connection)
        async with connection.transaction():
            assert await submit_within("shop", "report", [{"customer": "a"}], options)
        await encrypt_store(store, keys(tmp_path), now=await store.read_time())
        async with connection.transaction():
            with pytest.raises(InvalidInput, match="leads to a store that is encrypted"):
                await submit_within("shop", "report", [{"customer": CANARY}], options)
        end = succeeded(RunId(256), 1, SessionId(1), f'"{CANARY}"'.encode())
        async with connection.transaction():
            found = await open_store(await find_driver(connection))
            with pytest.raises(InvalidInput, match="leads to a store that is encrypted"):
                await found.complete(end)
    finally:
        await connection.close()
        await store.close()


async def test_programs_that_know_no_encryption_do_not_start_any_more(
    request: pytest.FixtureRequest, place: Place, tmp_path: Path
) -> None:
    if isinstance(place.bare, PostgresStore):
        connection = await asyncpg.connect(request.getfixturevalue("migrated_database"))
        older = read_migrations("mainspring.stores.postgres")[: ENCRYPTED_SINCE - 1]
        try:
            with pytest.raises(
                SchemaMismatch, match=r"migration 0044, which works with migration 0044 or later"
            ):
                await migrate(connection, migrations=older)
        finally:
            await connection.close()
        return
    database = apsw.Connection(str(tmp_path / "data" / "mainspring.db"))
    older = read_migrations("mainspring.stores.sqlite")[: ENCRYPTED_SINCE - 1]
    with pytest.raises(SchemaMismatch, match=r"migration 0044, which works with migration 0044 or later"):
        migrate_sqlite(database, migrations=older)
    database.close()


@pytest.mark.postgres
async def test_it_does_not_begin_beside_servers_without_keys(migrated_database: str, tmp_path: Path) -> None:
    from mainspring.ports.store.nodes import NodeFacts

    store = PostgresStore(migrated_database, random=random.Random(1))
    await store.open()
    try:
        now = await store.read_time()
        node = NodeFacts(id="n", host="other", pid=1, version="1", tzdata="2026a")
        await store.beat_node(node, now=now)
        with pytest.raises(
            InvalidInput, match=r"keys_file: servers run on this store that do not encrypt yet \(other\)"
        ):
            await encrypt_store(store, keys(tmp_path), now=now)
        assert await store.list_encryption_keys() == []
    finally:
        await store.close()
