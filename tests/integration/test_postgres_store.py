"""The PostgreSQL store between two connections, under broken ones, and beside other servers."""

import asyncio
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from mainspring.core import outcomes
from mainspring.core.admission import SubmissionVerdict
from mainspring.core.applying import CancelVerdict
from mainspring.core.clocks import ChangeVerdict
from mainspring.core.ids import LaneId, RunId, SessionId, job_shard
from mainspring.core.states import RunState
from mainspring.engine.common.group_commit import GroupCommit
from mainspring.errors import SchemaMismatch, StoreUnavailable, TookTooLong
from mainspring.ports.store.claims import ApplyResult, ClaimedRun
from mainspring.ports.store.runs import IdempotencyKey, NewRun, SubmitResult
from mainspring.ports.store.schedule import FireResult, FireStatus
from mainspring.ports.store.sessions import Beat
from mainspring.stores._sql.migrate import Applied, make_migration, pending, read_migrations
from mainspring.stores.postgres import ConnectionOptions, PostgresStore, closed_days
from mainspring.stores.postgres.schema import PACKAGE
from mainspring.stores.postgres.snapshot import describe
from mainspring.testing.conformance.claiming import crashed_run
from mainspring.testing.factories import (
    START,
    add_job,
    add_session,
    all_lanes,
    at,
    claim,
    facts_of,
    make_change,
    make_claim,
    make_edit,
    make_fire,
    make_new_run,
    make_spec,
    own_shards,
    read_held,
    read_job,
    running_run,
    submit,
)
from tests.support.postgres_databases import open_store, wait_until_blocked

pytestmark = pytest.mark.postgres

SCHEMA = Path(__file__).parents[2] / "src/mainspring/stores/postgres/schema.sql"
DAY = timedelta(days=1)


@pytest.fixture
async def store(dsn: str) -> AsyncIterator[PostgresStore]:
    async with open_store(dsn) as opened:
        yield opened


@pytest.fixture
async def other(dsn: str) -> AsyncIterator[PostgresStore]:
    """A second server on the same database."""
    async with open_store(dsn) as opened:
        yield opened


@pytest.fixture
async def raw(dsn: str) -> AsyncIterator[Any]:
    """A connection whose transactions stand still in the middle."""
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()


async def deadlocks(watch: Any) -> int:
    await watch.execute("SELECT pg_stat_clear_snapshot()")
    count = await watch.fetchval("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    return int(count)


def successes(leased: tuple[ClaimedRun, ...], session_id: SessionId) -> list[outcomes.Transition]:
    return [outcomes.succeeded(run.run_id, run.token, session_id) for run in leased]


# -- interleaved -----------------------------------------------------------------------------------------------


async def test_plan_that_waited_for_an_edit_is_stale(store: PostgresStore, raw: Any, watch: Any) -> None:
    job = await add_job(store, next_fire_at=at(60))
    epochs = await own_shards(store)
    async with raw.transaction():
        await raw.execute("UPDATE job_clock SET revision = revision + 1 WHERE job_id = $1", job.id)
        firing = asyncio.create_task(store.record_fires([make_fire(job)], epochs=epochs, now=at(60)))
        await wait_until_blocked(watch, "fire")
    assert await firing == [FireResult(FireStatus.LOST)]
    assert await store.list_runs("default") == []


async def test_edit_that_waited_for_a_fire_has_moved(
    store: PostgresStore, other: PostgresStore, raw: Any, watch: Any
) -> None:
    job = await add_job(store, next_fire_at=at(60))
    epochs = await own_shards(store)
    lane = await submit(store, job)
    async with raw.transaction():  # the fire wins the clock, then waits at the lane
        await raw.execute("SELECT FROM lane FOR UPDATE")
        firing = asyncio.create_task(store.record_fires([make_fire(job)], epochs=epochs, now=at(60)))
        await wait_until_blocked(watch, "fire")
        editing = asyncio.create_task(other.edit_jobs([make_edit(job)], now=at(60)))
        await wait_until_blocked(watch, "edit")
    [result] = await firing
    assert result.status is FireStatus.FIRED
    assert await editing == ["moved"]
    assert len(await store.list_runs("default")) == len(lane) + 1


async def test_taken_shard_fences_a_writer_that_waited(store: PostgresStore, raw: Any, watch: Any) -> None:
    job = await add_job(store, next_fire_at=at(60))
    epochs = await own_shards(store)
    async with raw.transaction():
        await raw.execute("UPDATE shard_lease SET epoch = epoch + 1, node_id = 'other'")
        firing = asyncio.create_task(store.record_fires([make_fire(job)], epochs=epochs, now=at(60)))
        await wait_until_blocked(watch, "fire")
    assert await firing == [FireResult(FireStatus.FENCED)]


async def test_shard_is_not_taken_while_its_owner_writes(
    store: PostgresStore, other: PostgresStore, raw: Any, watch: Any
) -> None:
    job = await add_job(store, next_fire_at=at(60))
    epochs = await own_shards(store)
    async with raw.transaction():
        await raw.execute("SELECT FROM job_clock FOR UPDATE")
        firing = asyncio.create_task(store.record_fires([make_fire(job)], epochs=epochs, now=at(60)))
        await wait_until_blocked(watch, "fire")
        busy = job_shard(job.id)
        # Passed over, not waited for: the node that takes has a heartbeat to send.
        assert await other.take_shards("b", {busy: epochs[busy]}, now=at(60)) == {}
    [result] = await firing
    assert result.status is FireStatus.FIRED
    assert await other.take_shards("b", {busy: epochs[busy]}, now=at(60)) == {busy: epochs[busy] + 1}


@pytest.mark.parametrize("is_plain", [True, False])
async def test_report_that_waited_for_a_loss_is_stale(
    store: PostgresStore, other: PostgresStore, raw: Any, watch: Any, is_plain: bool
) -> None:
    held = await running_run(store)
    if is_plain:
        report = outcomes.succeeded(held.run_id, held.token, held.session_id)
    else:
        report = outcomes.snoozed(facts_of(held), until=at(9))
    async with raw.transaction():
        await raw.execute(
            "UPDATE run SET state = 'PENDING', session_id = NULL, token = token + 1 WHERE id = $1",
            held.run_id,
        )
        applying = asyncio.create_task(store.apply([report], now=at(1)))
        await wait_until_blocked(watch, "apply")
    assert await applying == [ApplyResult.STALE]
    [run] = await store.get_runs([held.run_id])
    assert run is not None
    assert run.state is RunState.PENDING
    assert await store.list_attempts(held.run_id) == []


async def test_claim_under_a_session_that_is_just_expired_gets_nothing(
    store: PostgresStore, raw: Any, watch: Any
) -> None:
    await submit(store, await add_job(store))
    session_id = await add_session(store)
    request = make_claim(session_id, await all_lanes(store))
    async with raw.transaction():
        await raw.execute("UPDATE session SET state = 'dead', ended_at = now()")
        claiming = asyncio.create_task(store.claim_runs([request], now=at(1)))
        await wait_until_blocked(watch, "claim")
    [result] = await claiming
    assert (result.runs, result.is_session_live) == ((), False)
    assert await store.count_runs("default") == {RunState.PENDING: 1}


async def test_session_that_is_just_claiming_is_not_expired(store: PostgresStore, raw: Any) -> None:
    session_id = await add_session(store)
    async with raw.transaction():
        await raw.execute("UPDATE session SET claim_number = 7")
        assert await store.expire_sessions([(session_id, 0)], now=at(1)) == [False]
    assert await store.expire_sessions([(session_id, 0)], now=at(1)) == [True]


async def test_bystanders_pass_over_locked_rows(store: PostgresStore, raw: Any) -> None:
    job = await add_job(store)
    await crashed_run(store, job)
    await submit(store, job, expires_at=at(5))
    async with raw.transaction():
        await raw.execute("SELECT FROM run FOR UPDATE")
        await raw.execute("SELECT FROM lane FOR KEY SHARE")
        assert await store.expire_runs(now=at(10), limit=10) == []
        assert await store.prune_lanes(limit=10) == 0
        assert await claim(store, await add_session(store), now=at(1)) == ()
        assert await claim(store, await add_session(store), now=at(1), is_quarantined=True) == ()
        lanes, lows = await all_lanes(store), dict[LaneId, datetime]()
        requests = [make_claim(await add_session(store), lanes, lows=lows) for _ in range(2)]
        assert [result.runs for result in await store.claim_runs(requests, now=at(1))] == [(), ()]
    assert len(await store.expire_runs(now=at(10), limit=10)) == 1


async def test_submit_interns_the_lane_that_was_pruned_while_it_waited(
    store: PostgresStore, raw: Any, watch: Any
) -> None:
    job = await add_job(store)
    [first] = await submit(store, job)
    await store.cancel_runs([first], reason="operator", now=START)
    async with raw.transaction():
        await raw.execute("DELETE FROM lane")
        submitting = asyncio.create_task(submit(store, job))
        await wait_until_blocked(watch, "submit")
    [run_id] = await submitting
    leased = await claim(store, await add_session(store))
    assert [run.run_id for run in leased] == [run_id]


async def test_pruning_and_submitting_leave_no_run_without_its_lane(
    store: PostgresStore, other: PostgresStore, raw: Any
) -> None:
    jobs = [await add_job(store, make_spec(queue=f"q{number}")) for number in range(5)]
    for _ in range(40):
        answers = await asyncio.gather(
            store.submit_runs([make_new_run(job) for job in jobs], now=START),
            other.prune_lanes(limit=10),
            other.submit_runs([make_new_run(job) for job in reversed(jobs)], now=START),
        )
        run_ids = [result.run_id for results in (answers[0], answers[2]) for result in results]
        assert await raw.fetchval("SELECT count(*) FROM run") == 10
        assert await raw.fetchval("SELECT count(*) FROM live_run") == 10
        await store.cancel_runs([RunId(run_id) for run_id in run_ids if run_id], reason="operator", now=START)
    assert len(await store.list_runs("default", limit=1000)) == 400


async def test_opposite_orders_never_deadlock(
    store: PostgresStore, other: PostgresStore, watch: Any, dsn: str
) -> None:
    job = await add_job(store)
    session_id = await add_session(store)
    before = await deadlocks(watch)
    async with open_store(dsn) as third:
        for number in range(300):
            await submit(store, job, 20)
            leased = await claim(store, session_id, limit=20)
            ends = successes(leased, session_id)
            if number % 2:  # the general path: a second claim of the runs
                held = [await read_held(store, run.run_id) for run in leased[:2]]
                ends[:2] = [outcomes.snoozed(facts_of(run), until=at(10**6)) for run in held]
            mixed = ends[::-1]
            random.Random(number).shuffle(mixed)
            run_ids = [run.run_id for run in leased]
            answers, repeated, again, cancels = await asyncio.gather(
                store.apply(ends, now=START),
                other.apply(ends[::-1], now=START),
                third.apply(mixed, now=START),
                third.cancel_runs(run_ids[::-1], reason="operator", now=START),
            )
            assert {*answers, *repeated, *again} == {ApplyResult.APPLIED}
            assert set(cancels) <= {CancelVerdict.REQUESTED, CancelVerdict.FINISHED, CancelVerdict.CANCELLED}
    assert await deadlocks(watch) == before
    runs = await store.list_runs("default", limit=10_000)
    assert Counter(run.state for run in runs).keys() <= {
        RunState.SUCCEEDED,
        RunState.CANCELLED,
        RunState.RETRYING,
    }
    assert len(runs) == 6000


async def test_deadlock_with_somebody_else_is_tried_again(store: PostgresStore, raw: Any, watch: Any) -> None:
    job = await add_job(store)
    held = [await running_run(store, job) for _ in range(2)]
    low, high = sorted(run.run_id for run in held)
    await raw.execute("SET deadlock_timeout = '1h'")  # the store's side shall be the victim
    transaction = raw.transaction()
    await transaction.start()
    await raw.execute("SELECT FROM run WHERE id = $1 FOR UPDATE", high)
    ends = [outcomes.succeeded(run.run_id, run.token, run.session_id) for run in held]
    applying = asyncio.create_task(store.apply(ends, now=at(1)))
    await wait_until_blocked(watch, "apply")
    await raw.execute("SELECT FROM run WHERE id = $1 FOR UPDATE", low)
    await transaction.rollback()
    assert await applying == [ApplyResult.APPLIED] * 2


@pytest.mark.parametrize("verb", ["delete_jobs", "pause_jobs", "resume_jobs"])
async def test_change_of_a_job_that_met_a_deadlock_is_decided_anew(
    store: PostgresStore, raw: Any, verb: str
) -> None:
    job = await add_job(store)
    if verb == "resume_jobs":
        await store.pause_jobs([make_change(job)], now=START)
        job = await read_job(store, job.id)
    await raw.execute("CREATE SEQUENCE tries")  # counts what is rolled back, too
    await raw.execute(
        "CREATE FUNCTION fail_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF nextval('tries') = 1 THEN RAISE deadlock_detected; END IF; RETURN NULL; END $$"
    )
    for table in ("job", "job_clock"):
        await raw.execute(
            f"CREATE TRIGGER fail_once AFTER UPDATE OR DELETE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION fail_once()"
        )
    change = make_change(job, next_fire_at=job.next_fire_at)
    assert await getattr(store, verb)([change], now=at(1)) == [ChangeVerdict.DONE]
    assert await raw.fetchval("SELECT last_value FROM tries") > 1
    [found] = await store.get_jobs([job.id])
    assert found is None if verb == "delete_jobs" else found is not None


async def test_names_taken_meanwhile_are_found_on_the_next_try(
    store: PostgresStore, raw: Any, watch: Any
) -> None:
    job, rival = await add_job(store), await add_job(store)
    async with raw.transaction():
        await raw.execute("UPDATE job SET name = 'wanted' WHERE id = $1", rival.id)
        editing = asyncio.create_task(store.edit_jobs([make_edit(job, make_spec(name="wanted"))], now=at(1)))
        await wait_until_blocked(watch, "edit")
    assert await editing == ["name_taken"]
    assert await read_job(store, job.id) == job


# -- broken connections ----------------------------------------------------------------------------------------


async def test_killed_apply_is_done_once(store: PostgresStore, raw: Any, watch: Any) -> None:
    held = await running_run(store)
    async with raw.transaction():
        await raw.execute("SELECT FROM run FOR UPDATE")
        applying = asyncio.create_task(
            store.apply([outcomes.succeeded(held.run_id, held.token, held.session_id)], now=at(1))
        )
        pid = await wait_until_blocked(watch, "apply")
        await watch.execute("SELECT pg_terminate_backend($1)", pid)
        await asyncio.sleep(0.1)
    assert await applying == [ApplyResult.APPLIED]
    assert await watch.fetchval("SELECT count(*) FROM run_history WHERE id = $1", held.run_id) == 1


async def test_killed_claim_gives_each_run_once(store: PostgresStore, raw: Any, watch: Any) -> None:
    await submit(store, await add_job(store), 5)
    session_id = await add_session(store)
    request = make_claim(session_id, await all_lanes(store), limit=3)
    async with raw.transaction():
        await raw.execute("SELECT FROM session FOR UPDATE")
        claiming = asyncio.create_task(store.claim_runs([request], now=at(1)))
        pid = await wait_until_blocked(watch, "claim")
        await watch.execute("SELECT pg_terminate_backend($1)", pid)
        await asyncio.sleep(0.1)
    [result] = await claiming
    assert len(result.runs) == 3
    assert (await store.count_runs("default"))[RunState.RUNNING] == 3


async def test_killed_submit_says_that_it_does_not_know(store: PostgresStore, raw: Any, watch: Any) -> None:
    job = await add_job(store)
    await submit(store, job)
    async with raw.transaction():
        await raw.execute("SELECT FROM lane FOR UPDATE")
        submitting = asyncio.create_task(submit(store, job))
        pid = await wait_until_blocked(watch, "submit")
        await watch.execute("SELECT pg_terminate_backend($1)", pid)
        with pytest.raises(StoreUnavailable, match="not known"):
            await submitting
    assert len(await store.list_runs("default")) == 1
    await submit(store, job)
    assert len(await store.list_runs("default")) == 2


async def test_killed_before_its_commit_a_keyed_submit_is_tried_again(
    store: PostgresStore, raw: Any, watch: Any
) -> None:
    job = await add_job(store)
    await submit(store, job)
    key = IdempotencyKey(key="k", request_hash=b"", expires_at=at(60))
    async with raw.transaction():
        await raw.execute("SELECT FROM lane FOR UPDATE")
        submitting = asyncio.create_task(store.submit_runs([make_new_run(job, submit_key=key)], now=START))
        pid = await wait_until_blocked(watch, "submit")
        await watch.execute("SELECT pg_terminate_backend($1)", pid)
        await asyncio.sleep(0.1)
    [result] = await submitting
    assert result.status is SubmissionVerdict.SUBMITTED
    assert len(await store.list_runs("default")) == 2


async def test_connections_killed_while_idle_are_opened_anew(store: PostgresStore, watch: Any) -> None:
    job = await add_job(store)
    await submit(store, job)
    await watch.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'mainspring-%'"
        " AND datname = current_database()"
    )
    await asyncio.sleep(0.1)
    await submit(store, job)
    assert len(await store.list_runs("default")) == 2


async def test_slow_command_is_given_up(dsn: str, raw: Any) -> None:
    async with open_store(ConnectionOptions(dsn, command_timeout=0.2)) as store:
        job = await add_job(store)
        await submit(store, job)
        async with raw.transaction():
            await raw.execute("SELECT FROM lane FOR UPDATE")
            with pytest.raises(StoreUnavailable):
                await submit(store, job)
        assert len(await submit(store, job)) == 1
        assert len(await store.list_runs("default")) == 2


async def test_unreachable_server_and_closed_store_are_unavailable(dsn: str) -> None:
    store = PostgresStore("postgresql://postgres@127.0.0.1:1/nowhere", random=random.Random(1))
    with pytest.raises(StoreUnavailable):
        await store.open()
    missing = PostgresStore(f"{dsn}_missing", random=random.Random(1))
    with pytest.raises(StoreUnavailable):
        await missing.open()
    async with open_store(dsn) as opened:
        pass
    with pytest.raises(StoreUnavailable, match="closed"):
        await opened.read_time()


async def test_close_finishes_what_is_under_way(store: PostgresStore, raw: Any, watch: Any) -> None:
    job = await add_job(store)
    await submit(store, job)
    async with raw.transaction():
        await raw.execute("SELECT FROM lane FOR UPDATE")
        submitting = asyncio.create_task(submit(store, job))
        await wait_until_blocked(watch, "submit")
        closing = asyncio.create_task(store.close())
        await asyncio.sleep(0.05)
        assert not closing.done()
    assert len(await submitting) == 1
    await closing
    assert await watch.fetchval("SELECT count(*) FROM run") == 2


# -- schema ----------------------------------------------------------------------------------------------------


async def test_call_of_a_group_commit_goes_on_without_its_caller_and_close_waits_for_it(
    store: PostgresStore, raw: Any, watch: Any
) -> None:
    job = await add_job(store)
    await submit(store, job)  # its lane is known now

    async def commit(runs: Sequence[NewRun]) -> Sequence[SubmitResult]:
        return await store.submit_runs(runs, now=START)

    async with raw.transaction():
        await raw.execute("LOCK TABLE run IN SHARE MODE")
        submitting = asyncio.create_task(GroupCommit(commit)([make_new_run(job)]))
        await wait_until_blocked(watch, "submit")
        submitting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await submitting
        closing = asyncio.create_task(store.close())
        await asyncio.sleep(0)
        assert not closing.done()
    await closing
    assert await watch.fetchval("SELECT count(*) FROM run") == 2


async def test_servers_that_start_at_once_migrate_once(postgres_database: str) -> None:
    code = (
        "import asyncio, random, sys\n"
        "from mainspring.stores.postgres import PostgresStore\n"
        "async def main():\n"
        "    stores = [PostgresStore(sys.argv[1], random=random.Random(1)) for _ in range(3)]\n"
        "    await asyncio.gather(*(store.open() for store in stores))\n"
        "    await asyncio.gather(*(store.close() for store in stores))\n"
        "asyncio.run(main())\n"
    )
    processes = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", code, postgres_database) for _ in range(2)
    ]
    assert [await process.wait() for process in processes] == [0, 0]
    async with open_store(postgres_database) as store:
        assert len(await store.read_shards()) == 256


async def test_newer_and_altered_schemas_are_refused(dsn: str, raw: Any) -> None:
    await raw.execute("INSERT INTO migration (number, name, checksum) VALUES (9999, 'future', '')")
    with pytest.raises(SchemaMismatch, match="9999"):
        async with open_store(dsn):
            pass
    await raw.execute("DELETE FROM migration WHERE number = 9999")
    await raw.execute("UPDATE migration SET checksum = 'altered' WHERE number = 1")
    with pytest.raises(SchemaMismatch, match="altered"):
        async with open_store(dsn):
            pass


def test_schema_with_a_hole_is_refused() -> None:
    available = [
        *read_migrations(PACKAGE),
        make_migration(9998, "late", ""),
        make_migration(9999, "later", ""),
    ]
    applied = {each.number: Applied(each.checksum, None) for each in available if each.number != 9998}
    with pytest.raises(SchemaMismatch, match="not 9998"):
        pending(applied, available)


async def test_snapshot_is_what_the_migrations_make(dsn: str) -> None:
    assert SCHEMA.read_text() == await describe(dsn), "make it anew: see mainspring.stores.postgres.snapshot"


# -- history ---------------------------------------------------------------------------------------------------


async def partitions(watch: Any, parent: str) -> list[str]:
    rows = await watch.fetch(
        "SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = $1::text::regclass ORDER BY 1",
        parent,
    )
    return [row["name"] for row in rows]


async def test_history_has_partitions_by_day_made_ahead(
    store: PostgresStore, other: PostgresStore, watch: Any
) -> None:
    await asyncio.gather(*(side.prepare_history(now=START) for side in (store, other, store)))
    days = ["20260105", "20260106", "20260107", "20260108"]
    wanted = sorted([*(f"run_history_{day}" for day in days), "run_history_default"])
    assert await partitions(watch, "run_history") == wanted
    held = await running_run(store)
    await store.apply([outcomes.succeeded(held.run_id, held.token, held.session_id)], now=at(1))
    assert await watch.fetchval("SELECT count(*) FROM run_history_20260105") == 1


@pytest.mark.parametrize("is_plain", [True, False], ids=["success", "failure"])
async def test_report_that_waited_for_a_new_day_goes_into_it(
    store: PostgresStore, raw: Any, watch: Any, is_plain: bool
) -> None:
    job = await add_job(store)
    held = await running_run(store, job)
    end = outcomes.succeeded(held.run_id, held.token, held.session_id)
    if not is_plain:
        failure = outcomes.Failure(error="boom", is_retryable=False)
        end = outcomes.failed(facts_of(held), job.spec, failure, now=at(1), random=lambda: 0.5)
    async with raw.transaction():
        await raw.execute("SELECT prepare_history($1, 3)", START)
        applying = asyncio.create_task(store.apply([end], now=at(1)))
        await wait_until_blocked(watch, "apply")
    assert await applying == [ApplyResult.APPLIED]
    table = "run_history_20260105" if is_plain else "attempt_20260105"
    assert await watch.fetchval(f"SELECT count(*) FROM {table}") == 1


async def end_some(store: PostgresStore) -> tuple[RunId, RunId]:
    """Let a run succeed and one die, and return their ids."""
    job = await add_job(store)
    done, dead = await running_run(store, job), await running_run(store, job)
    failure = outcomes.Failure(error="boom", is_retryable=False)
    failed = outcomes.failed(facts_of(dead), job.spec, failure, now=at(1), random=lambda: 0.5)
    await store.apply([outcomes.succeeded(done.run_id, done.token, done.session_id), failed], now=at(1))
    return done.run_id, dead.run_id


async def test_days_are_dropped_whole_and_dead_runs_keep_their_attempts(
    store: PostgresStore, other: PostgresStore, watch: Any
) -> None:
    await store.prepare_history(now=START)
    done, dead = await end_some(store)
    assert await store.prune_history(before=START, limit=10) == 0
    removed = await asyncio.gather(
        *(side.prune_history(before=START + DAY, limit=10) for side in (store, other))
    )
    assert sum(removed) >= 1
    assert "run_history_20260105" not in await partitions(watch, "run_history")
    assert "attempt_20260105" not in await partitions(watch, "attempt")
    assert not await watch.fetchval("SELECT count(*) FROM pg_class WHERE relname ~ '^dropped_'")
    assert not await watch.fetchval("SELECT count(*) FROM run_tally WHERE state <> 'FAILED'")
    assert await store.get_runs([done]) == [None]
    assert [attempt.error for attempt in await store.list_attempts(dead)] == ["boom"]


async def test_attempts_of_a_day_are_looked_at_in_steps(
    store: PostgresStore, watch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closed_days, "WINDOW", 2)
    monkeypatch.setattr(closed_days, "MOST_WINDOWS", 2)
    await store.prepare_history(now=START)
    dead = [(await end_some(store))[1] for _ in range(5)]
    assert await store.prune_history(before=START + DAY, limit=100) == 100, "the rest is to come soon"
    assert "attempt_20260105" in await partitions(watch, "attempt")
    assert [len(await store.list_attempts(run_id)) for run_id in dead] == [1] * 5
    await watch.execute("TRUNCATE kept_attempt")  # as a failover does that loses what was committed last
    for heard in store._connections.servers.on_failover:
        heard()
    assert await store.prune_history(before=START + DAY, limit=100) == 100, "it begins again"
    await store.prune_history(before=START + DAY, limit=100)
    assert "attempt_20260105" not in await partitions(watch, "attempt")
    assert [len(await store.list_attempts(run_id)) for run_id in dead] == [1] * 5


async def test_day_that_a_process_has_detached_before_it_died_is_dropped_by_the_next(
    store: PostgresStore, watch: Any
) -> None:
    await store.prepare_history(now=START)
    await end_some(store)
    assert await watch.fetchval("SELECT detach_day('run_history', '2026-01-05')")
    assert await watch.fetchval("SELECT count(*) FROM dropped_run_history_20260105") == 1
    assert await store.prune_history(before=START, limit=10) == 1
    assert await watch.fetchval("SELECT to_regclass('dropped_run_history_20260105')") is None


async def test_day_that_somebody_reads_stays_and_the_rest_is_not_kept_waiting(
    store: PostgresStore, raw: Any, watch: Any
) -> None:
    await store.prepare_history(now=START)
    done, _ = await end_some(store)
    async with raw.transaction():
        await raw.execute("SELECT count(*) FROM run_history")
        await store.prune_history(before=START + DAY, limit=10)
        assert "run_history_20260105" in await partitions(watch, "run_history")
        assert all(await store.get_runs([done]))
    assert await store.prune_history(before=START + DAY, limit=10) >= 1
    assert await store.get_runs([done]) == [None]


async def test_day_that_the_default_partition_has_rows_of_stays_there(
    store: PostgresStore, watch: Any
) -> None:
    held = await running_run(store)
    await store.apply([outcomes.succeeded(held.run_id, held.token, held.session_id)], now=at(1))
    await store.prepare_history(now=START)
    assert "run_history_20260105" not in await partitions(watch, "run_history")
    assert "run_history_20260106" in await partitions(watch, "run_history")
    assert await store.prune_history(before=START + DAY, limit=10) == 1


async def test_reader_of_the_history_does_not_make_upkeep_fail(store: PostgresStore, raw: Any) -> None:
    async with raw.transaction():
        await raw.execute("SELECT count(*) FROM run_history")
        await store.prepare_history(now=START)
        assert await store.prune_history(before=START, limit=10) == 0
    await store.prepare_history(now=START)


async def test_heartbeat_on_a_connection_that_hangs_is_given_up_before_other_calls_are(
    store: PostgresStore, raw: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = await add_session(store)
    async with raw.transaction():
        await raw.execute("SELECT FROM session FOR UPDATE")
        with monkeypatch.context() as patch:
            patch.setattr("mainspring.stores.postgres.pool.BEAT_TIMEOUT", 0.2)
            with pytest.raises(StoreUnavailable):
                await store.beat_sessions([Beat(session_id=session_id, held=())], now=at(1))
    [result] = await store.beat_sessions([Beat(session_id=session_id, held=())], now=at(2))
    assert result.is_session_live


async def test_long_look_at_the_clocks_keeps_no_heartbeat_and_no_claim_waiting(
    store: PostgresStore, raw: Any, watch: Any
) -> None:
    """A node that could not say that it lives would be taken for dead."""
    async with raw.transaction():
        await raw.execute("LOCK TABLE job_clock IN ACCESS EXCLUSIVE MODE")
        look = asyncio.create_task(store.read_due(range(256), until=at(60), limit=10))
        await wait_until_blocked(watch, "plan")
        async with asyncio.timeout(10):
            await store.read_cluster()
            assert await store.read_lanes(()) == []
    assert await look == []


async def test_a_count_is_stopped_at_its_limit_and_not_tried_again(dsn: str, watch: Any) -> None:
    async with open_store(ConnectionOptions(dsn, browse_timeout=0.2)) as store:
        await add_job(store)
        async with watch.transaction():
            await watch.execute("LOCK TABLE run")
            with pytest.raises(TookTooLong, match="statement timeout"):
                await store.count_runs("default")
        assert await store.list_runs("default") == []


async def test_a_browsing_connection_is_opened_when_somebody_lists(dsn: str, watch: Any) -> None:
    names = "SELECT application_name FROM pg_stat_activity WHERE datname = current_database()"
    async with open_store(dsn) as store:
        await add_job(store)
        assert "mainspring-browse" not in [row["application_name"] for row in await watch.fetch(names)]
        assert await store.list_runs("default") == []
        assert "mainspring-browse" in [row["application_name"] for row in await watch.fetch(names)]
