"""Submitting within a caller's own transaction: by each driver, with each kind of key, and what is refused."""

import asyncio
import itertools
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import psycopg
import pytest

from mainspring import App, Conflict, Debounce, InvalidInput, NotFound, SchemaMismatch, Throttle, Unique
from mainspring.core.applying import CancelVerdict
from mainspring.core.definition import read_definition
from mainspring.core.ids import parse_run_id
from mainspring.core.model import Priority
from mainspring.core.queues import Queue
from mainspring.core.states import RunState
from mainspring.engine.usecases.submissions import JobForm, Submission, make_submitted_run
from mainspring.ports.store.jobs import NewJob
from mainspring.ports.store.runs import NewRun
from mainspring.stores._sql.queries import load_queries
from mainspring.stores.postgres import PostgresStore
from mainspring.stores.postgres.callers import _statements
from mainspring.testing.factories import make_new_job
from tests.support.callers import CALLERS, FEW, Begin
from tests.support.postgres import fetch, temporary_database
from tests.support.postgres_databases import open_store

NUMBERS = itertools.count(1)
app = App("http://127.0.0.1:9")  # nobody answers there


@app.job()
def add(x: int, y: int = 1) -> int:
    return x + y


@app.job(unique=Unique("$.order"))
def sync(order: str) -> None: ...


@app.job(unique=Unique("$.order", on_conflict="reject"))
def pay(order: str) -> None: ...


@app.job(debounce=Debounce("$.order", wait="5s"))
def index(order: str) -> None: ...


@app.job(throttle=Throttle("$.order", limit=1, per="1h"))
def mail(order: str) -> None: ...


@app.job(concurrency={"limit": 1, "key": "$.customer"})
def bill(customer: str) -> None: ...


@app.job(queue="hasty")
def hurry() -> None: ...


async def add_all(store: PostgresStore) -> None:
    """Add the app's jobs, as a server does."""
    for body in app.definitions():
        new: NewJob = make_new_job(read_definition(body, now=datetime.now(UTC)))
        await store.add_jobs([new], now=datetime.now(UTC))


@pytest.fixture(scope="module")
def dsn(postgres_server: str, postgres_template: str) -> Iterator[str]:
    """A database with the app's jobs, for all tests of this module: each has keys of its own."""

    async def prepare(found: str) -> None:
        async with open_store(found) as store:
            await add_all(store)

    with temporary_database(postgres_server, template=postgres_template) as found:
        asyncio.run(prepare(found))
        yield found


@pytest.fixture
async def store(dsn: str) -> AsyncIterator[PostgresStore]:
    async with open_store(dsn) as store:
        yield store


@pytest.fixture(params=CALLERS, ids=str)
def each(request: pytest.FixtureRequest) -> Begin:
    return CALLERS[request.param]


@pytest.fixture(params=FEW, ids=str)
def begin(request: pytest.FixtureRequest) -> Begin:
    return CALLERS[request.param]


async def find(store: PostgresStore, handle: Any) -> Any:
    [run] = await store.get_runs([parse_run_id(handle.id)])
    return run


async def test_run_is_there_once_the_caller_commits(each: Begin, dsn: str, store: PostgresStore) -> None:
    async with each(dsn) as caller:
        await caller.sql("CREATE TEMPORARY TABLE sale (id int)")
        handle = await caller.enqueue(add, x=1)
        assert await find(store, handle) is None
    run = await find(store, handle)
    assert (run.state, run.payload, run.lane.priority) == (RunState.PENDING, b'{"x":1}', Priority.MEDIUM)
    assert handle.status == "submitted"
    assert await store.find_jobs("default", ["add"])


async def test_first_statement_of_the_transaction_can_be_the_submission(
    each: Begin, dsn: str, store: PostgresStore
) -> None:
    with suppress(ZeroDivisionError):
        async with each(dsn) as caller:
            handle = await caller.enqueue(add, x=1)
            raise ZeroDivisionError
    assert await find(store, handle) is None


async def test_run_vanishes_with_a_rolled_back_savepoint(
    begin: Begin, dsn: str, store: PostgresStore
) -> None:
    async with begin(dsn) as caller:
        await caller.sql("SAVEPOINT here")
        gone = await caller.enqueue(add, x=1)
        await caller.sql("ROLLBACK TO SAVEPOINT here")
        kept = await caller.enqueue(add, x=2)
    assert await find(store, gone) is None
    assert (await find(store, kept)).payload == b'{"x":2}'


async def test_many_in_one_statement(begin: Begin, dsn: str, store: PostgresStore) -> None:
    async with begin(dsn) as caller:
        handles = await caller.enqueue_many(add, [{"x": number} for number in range(1_200)])
    assert len({handle.id for handle in handles}) == 1_200
    assert (await find(store, handles[-1])).payload == b'{"x":1199}'
    async with begin(dsn) as caller:
        assert await caller.enqueue_many(add, []) == []


async def test_options_are_kept(begin: Begin, dsn: str, store: PostgresStore) -> None:
    await store.write_queues([Queue(name="hasty", expires_after=timedelta(minutes=5))])
    async with begin(dsn) as caller:
        options = {"delay": "1h", "priority": "HIGH"}
        handle = await caller.enqueue_with(add, options, x=1)
        hasty = await caller.enqueue(hurry)
    run = await find(store, handle)
    assert run.lane.priority is Priority.HIGH
    assert run.due_at - run.created_at == timedelta(hours=1)
    assert expiry(dsn, hasty) == timedelta(minutes=5)


def expiry(dsn: str, handle: Any) -> timedelta:
    statement = f"SELECT expires_at - due_at FROM run WHERE id = {parse_run_id(handle.id)}"
    found: timedelta = fetch(dsn, statement)
    return found


async def test_idempotency_key_returns_the_first_run(begin: Begin, dsn: str, store: PostgresStore) -> None:
    options = {"idempotency_key": f"order-{next(NUMBERS)}"}
    async with begin(dsn) as caller:
        first = await caller.enqueue_with(add, options, x=1)
        assert await caller.enqueue_with(add, options, x=1) == first
    async with begin(dsn) as caller:
        again = await caller.enqueue_with(add, options, x=1)
        with pytest.raises(Conflict, match="was used for another request"):
            await caller.enqueue_with(add, options, x=2)
    assert again == first
    assert (again.status, await find(store, again) is not None) == ("submitted", True)


async def test_key_of_a_rolled_back_transaction_is_free(dsn: str, store: PostgresStore) -> None:
    options = {"idempotency_key": "order-17"}
    with suppress(ZeroDivisionError):
        async with CALLERS["asyncpg"](dsn) as caller:
            await caller.enqueue_with(add, options, x=1)
            raise ZeroDivisionError
    async with CALLERS["psycopg"](dsn) as caller:
        handle = await caller.enqueue_with(add, options, x=2)
    assert (await find(store, handle)).payload == b'{"x":2}'


async def test_unique_job_joins_the_holder_and_does_not_lock_it(
    begin: Begin, dsn: str, store: PostgresStore
) -> None:
    order = f"o-{next(NUMBERS)}"
    async with begin(dsn) as caller:
        first = await caller.enqueue(sync, order=order)
        assert (await caller.enqueue(sync, order=order)).status == "existing"
    async with begin(dsn) as caller:
        second = await caller.enqueue(sync, order=order)
        assert (second, second.status) == (first, "existing")
        # The holder goes its way meanwhile.
        assert await store.cancel_runs([parse_run_id(first.id)], reason="test", now=datetime.now(UTC))
    async with begin(dsn) as caller:
        assert (await caller.enqueue(sync, order=order)).status == "submitted"


async def test_limited_job_waits_in_its_line(begin: Begin, dsn: str, store: PostgresStore) -> None:
    async with begin(dsn) as caller:
        handles = await caller.enqueue_many(bill, [{"customer": "a"}, {"customer": "b"}])
    connection = await asyncpg.connect(dsn)
    ids = [parse_run_id(handle.id) for handle in handles]
    rows = await connection.fetch("SELECT is_parked, key_id FROM run WHERE id = ANY($1)", ids)
    await connection.close()
    assert [row["is_parked"] for row in rows] == [True, True]
    assert len({row["key_id"] for row in rows}) == 2


@pytest.mark.parametrize(
    ("function", "rule"), [(pay, "'unique' with 'on_conflict'"), (index, "'debounce'"), (mail, "'throttle'")]
)
async def test_rules_that_decide_between_transactions_are_refused(
    dsn: str, store: PostgresStore, function: Any, rule: str
) -> None:
    async with CALLERS["asyncpg"](dsn) as caller:
        with pytest.raises(InvalidInput, match=f"connection: does not go with {rule} of the job"):
            await caller.enqueue(function, order="o-1")
        await caller.enqueue(add, x=1)  # the transaction goes on
    del store


async def test_unknown_job_and_wrong_arguments(begin: Begin, dsn: str, store: PostgresStore) -> None:
    other = App("http://127.0.0.1:9", tenant="other")

    @other.job("add")
    def unknown(x: int) -> None: ...

    async with begin(dsn) as caller:
        with pytest.raises(NotFound, match="no job 'add'"):
            await caller.enqueue(unknown, x=1)
        with pytest.raises(InvalidInput, match="payload"):
            await caller.enqueue(add, z=1)
        with pytest.raises(InvalidInput, match="idempotency_key"):
            await caller.enqueue_with(add, {"idempotency_key": "\n"}, x=1)
        with pytest.raises(InvalidInput, match="the name of a priority class"):
            await caller.enqueue_with(add, {"priority": "nobody"}, x=1)
        handle = await caller.enqueue(add, x=1)
    assert await find(store, handle) is not None


async def test_connection_without_a_transaction_is_refused(dsn: str, store: PostgresStore) -> None:
    del store
    connection = await asyncpg.connect(dsn)
    with pytest.raises(InvalidInput, match="has no transaction open"):
        await add.options(connection=connection).enqueue(x=1)
    await connection.close()
    with (
        psycopg.connect(dsn, autocommit=True) as sync_connection,
        pytest.raises(InvalidInput, match="has no transaction open"),
    ):
        add.options(connection=sync_connection).enqueue_sync(x=1)


async def test_wrong_objects_are_refused_with_what_would_be_right(dsn: str) -> None:
    wrong: Any = "postgresql://"
    known = "must be an asyncpg or psycopg 3 connection, or a connection or session of SQLAlchemy"
    with pytest.raises(InvalidInput, match=f"connection: {known} on one of these, not builtins.str"):
        await add.options(connection=wrong).enqueue(x=1)
    with pytest.raises(InvalidInput, match=known):
        add.options(connection=wrong).enqueue_sync(x=1)
    async with asyncpg.create_pool(dsn, min_size=0) as pool:
        anything: Any = pool
        with pytest.raises(InvalidInput, match=r"not asyncpg\.pool\.Pool"):
            await add.options(connection=anything).enqueue(x=1)
        with pytest.raises(InvalidInput, match=r"not asyncpg\.pool\.Pool"):
            await app.complete(anything, attempt=anything)


async def test_sync_and_async_are_not_mixed_up(each: Begin, dsn: str) -> None:
    async with each(dsn) as caller:
        submitter = add.options(connection=caller.connection)
        if caller.is_sync:
            with pytest.raises(InvalidInput, match="use the method that ends in _sync"):
                await submitter.enqueue(x=1)
        else:
            with pytest.raises(InvalidInput, match="await the method without _sync"):
                submitter.enqueue_sync(x=1)


async def test_database_without_the_store_is_refused(postgres_database: str) -> None:
    for name in ("asyncpg", "psycopg"):
        async with CALLERS[name](postgres_database) as caller:
            with pytest.raises(InvalidInput, match="a database without Mainspring's tables"):
                await caller.enqueue(add, x=1)


async def test_newer_program_than_the_store_is_refused(migrated_database: str) -> None:
    connection = await asyncpg.connect(migrated_database)
    await connection.execute("DELETE FROM migration WHERE number = (SELECT max(number) FROM migration)")
    async with connection.transaction():
        with pytest.raises(SchemaMismatch, match="start a server of this release first"):
            await add.options(connection=connection).enqueue(x=1)
    await connection.close()


@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
async def test_stricter_isolation(dsn: str, store: PostgresStore, isolation: str) -> None:
    for name in ("asyncpg", "psycopg"):
        async with CALLERS[name](dsn) as caller:
            await caller.sql(f"SET TRANSACTION ISOLATION LEVEL {isolation}")
            handle = await caller.enqueue(add, x=1)
            keyed = await caller.enqueue_with(add, {"idempotency_key": f"{name}-{isolation}"}, x=1)
        assert await find(store, handle) is not None
        assert await find(store, keyed) is not None


async def test_search_path_and_temporary_tables_do_not_matter(
    begin: Begin, dsn: str, store: PostgresStore
) -> None:
    async with begin(dsn) as caller:
        await caller.sql("CREATE TEMPORARY TABLE run (id int)")
        await caller.sql("SET LOCAL search_path TO pg_catalog")
        handle = await caller.enqueue(add, x=1)
    assert await find(store, handle) is not None


async def test_store_in_a_schema_of_its_own(postgres_database: str) -> None:
    connection = await asyncpg.connect(postgres_database)
    await connection.execute('CREATE SCHEMA "My Jobs"')
    await connection.execute(
        f'ALTER DATABASE "{postgres_database.rpartition("/")[2]}" SET search_path TO "My Jobs"'
    )
    async with open_store(postgres_database) as store:
        await add_all(store)
        async with connection.transaction():  # it still has the search path from before
            handle = await add.options(connection=connection).enqueue(x=1)
        assert await find(store, handle) is not None
        await connection.execute("CREATE SCHEMA elsewhere")
    await connection.execute("SET search_path TO public")
    for name in ("run_sequence",):
        await connection.execute(f"CREATE SEQUENCE elsewhere.{name}")
    await connection.execute("CREATE TABLE elsewhere.job_clock ()")
    await connection.close()
    connection = await asyncpg.connect(postgres_database, server_settings={"search_path": "public"})
    async with connection.transaction():
        with pytest.raises(InvalidInput, match="several schemas hold Mainspring's tables"):
            await add.options(connection=connection).enqueue(x=1)
    await connection.close()


async def test_every_statement_is_complete_without_a_search_path(dsn: str) -> None:
    connection = await asyncpg.connect(dsn, server_settings={"search_path": "nowhere"})
    used = {*load_queries("mainspring.stores.postgres")} & set(STATEMENTS)
    assert used == set(STATEMENTS)
    for name in STATEMENTS:
        await connection.prepare(_statements("public")[name][0])
    await connection.close()


STATEMENTS = [
    "find_schemas",
    "read_migrations",
    "read_submitted_job",
    "list_priority_classes",
    "find_lanes",
    "intern_lanes",
    "hold_lanes",
    "insert_runs",
    "insert_lined_up",
    "insert_skipped",
    "reserve_run_ids",
    "find_existing_jobs",
    "reserve_keys",
    "read_keys",
    "settle_keys",
    "release_keys",
    "take_unique_keys",
    "lock_unique_keys",
    "read_holders",
    "pass_unique_keys",
    "delete_unique_keys",
    "find_keys",
    "intern_rules",
    "intern_keys",
    "read_time",
    "lock_runs",
    "find_workers",
    "apply_successes",
    "finish_runs",
    "add_attempts",
    "forbid_commit",
]
"""What is executed on callers' connections."""


async def test_through_a_pooler(dsn: str, pooled_server: str, store: PostgresStore) -> None:
    pooled = f"{pooled_server}/{dsn.rpartition('/')[2]}"
    connection = await asyncpg.connect(pooled, statement_cache_size=0)
    for number in range(3):
        async with connection.transaction():
            handle = await add.options(connection=connection).enqueue(x=number)
        assert await find(store, handle) is not None
    await connection.close()
    with psycopg.connect(pooled, prepare_threshold=None) as sync_connection:
        handle = add.options(connection=sync_connection).enqueue_sync(x=9)
    assert await find(store, handle) is not None


async def test_callers_at_the_same_time_with_one_key(dsn: str, store: PostgresStore) -> None:
    """The second waits for the first, and gets a run of its own because that one is rolled back."""
    options = {"idempotency_key": "at the same time"}
    first, second = await asyncpg.connect(dsn), await asyncpg.connect(dsn)
    undone, kept = first.transaction(), second.transaction()
    await undone.start()
    await kept.start()
    gone = await add.options(connection=first, **options).enqueue(x=1)
    waiting = asyncio.create_task(add.options(connection=second, **options).enqueue(x=1))
    blocked = "SELECT count(*) FROM pg_locks WHERE pid = $1 AND NOT granted"
    while not await first.fetchval(blocked, second.get_server_pid()):
        continue
    await undone.rollback()
    handle = await waiting
    await kept.commit()
    assert await find(store, gone) is None
    assert (await find(store, handle)).state is RunState.PENDING
    await first.close()
    await second.close()


async def test_open_transaction_holds_up_no_others(dsn: str, store: PostgresStore) -> None:
    """As long as a lane and the keys exist, an open transaction is in nobody's way."""
    [job] = await store.find_jobs("default", ["bill"])
    assert job is not None
    now = datetime.now(UTC)
    form = JobForm(job, timedelta(hours=1))

    def make_run() -> NewRun:
        wanted = Submission(job_id=job.id, payload=b'{"customer":"shared"}')
        return make_submitted_run(form, wanted, now=now, expiries={})

    [first] = await store.submit_runs([make_run()], now=now)
    connection = await asyncpg.connect(dsn)
    transaction = connection.transaction()
    await transaction.start()
    handle = await bill.options(connection=connection).enqueue(customer="shared")
    async with asyncio.timeout(10):
        [second] = await store.submit_runs([make_run()], now=now)
        assert first.run_id is not None
        assert second.run_id is not None
        await store.prune_lanes(limit=100)
        ids = [first.run_id, second.run_id]
        assert await store.cancel_runs(ids, reason="test", now=now) == [CancelVerdict.CANCELLED] * 2
    await transaction.commit()
    assert await find(store, handle) is not None
    await connection.close()


def test_nothing_is_imported_unless_such_an_object_is_passed() -> None:
    code = (
        "import sys; import mainspring.stores.postgres.callers, mainspring.sdk.transactions;"
        "print(sorted({'psycopg', 'sqlalchemy'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
