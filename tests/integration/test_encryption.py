"""A whole job on each store: what users put in is nowhere in its files, and comes back as it was."""

import random
import subprocess
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from structlog.testing import capture_logs

from mainspring.core.ciphertexts import NO_KEYS
from mainspring.core.dead_letters import DeadFilter
from mainspring.core.definition import plain_from_spec
from mainspring.core.outcomes import Failure
from mainspring.core.states import RunState
from mainspring.encryption.keys import make_key
from mainspring.encryption.starting import encrypt_store
from mainspring.engine.usecases.submissions import Submission
from mainspring.errors import InvalidInput
from mainspring.ports.executor import Success
from mainspring.ports.gateway import Lease, Report
from mainspring.ports.store import Store
from mainspring.registry import FunctionRegistry
from mainspring.stores.postgres import PostgresStore
from mainspring.stores.sqlite import SqliteStore
from mainspring.testing.clock import FakeClock
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
    if request.param == "sqlite":
        folder = tmp_path / "data"
        folder.mkdir()
        bare = SqliteStore(folder / "mainspring.db")

        def read() -> bytes:
            return b"".join(file.read_bytes() for file in sorted(folder.iterdir()))

    else:
        dsn = request.getfixturevalue("migrated_database")
        bare = PostgresStore(dsn, random=random.Random(1))

        def read() -> bytes:
            return subprocess.run(["pg_dump", dsn], check=True, capture_output=True).stdout

    await bare.open()
    store = await encrypt_store(bare, keys(tmp_path), now=clock.now())
    runtime = ManualRuntime(FunctionRegistry(), store=store, clock=clock)
    try:
        yield Place(bare, runtime, read)
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


@pytest.mark.postgres
async def test_transaction_of_a_caller_is_refused(migrated_database: str, tmp_path: Path) -> None:
    from mainspring.sdk.function import SubmitOptions
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
