"""A transaction that stays open elsewhere keeps what was claimed in the indexes; nobody passes it twice."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from mainspring.core.outcomes import succeeded
from mainspring.ports.store.claims import ClaimRequest
from mainspring.stores._sql.queries import load_queries
from mainspring.stores.postgres.connecting import Role, settings_for
from mainspring.stores.postgres.schema import PACKAGE
from mainspring.testing.factories import (
    START,
    add_job,
    add_session,
    at,
    make_fire,
    make_new_job,
    own_shards,
    submit,
)
from tests.support.postgres import temporary_database
from tests.support.postgres_databases import open_store, template_database

pytestmark = pytest.mark.postgres

RUNS = 2_000
JOBS, FIRES = 500, 12
CLAIMS = 1_000
FEW = 40
"""Buffers that a look may touch, however much is over."""


@pytest.fixture
def dsn(postgres_server: str) -> Iterator[str]:
    with (
        template_database(postgres_server) as template,
        temporary_database(postgres_server, template=template) as dsn,
    ):
        yield dsn


async def hold_snapshot(dsn: str) -> Any:
    connection = await asyncpg.connect(dsn)
    await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    await connection.fetchval("SELECT count(*) FROM run")
    return connection


async def buffers(dsn: str, role: Role, name: str, **values: str) -> int:
    """Carry out a query of the product and return how many buffers it touched.

    Args:
        values: the parameters as SQL.
    """
    text, names = load_queries(PACKAGE)[name].positional()
    connection = await asyncpg.connect(dsn, server_settings=settings_for(role))
    try:
        await connection.execute(f"PREPARE query AS {text}")
        arguments = ", ".join(values[parameter] for parameter in names)
        plan = await connection.fetchval(
            f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE query({arguments})"
        )
    finally:
        await connection.close()
    top = json.loads(plan)[0]["Plan"]
    return int(top["Shared Hit Blocks"] + top["Shared Read Blocks"])


async def test_claimed_runs_are_not_passed_again_by_the_look_at_the_lanes(dsn: str) -> None:
    async with open_store(dsn) as store:
        job = await add_job(store)
        session_id = await add_session(store)
        await submit(store, job, due_at=at(100))
        [lane] = await store.read_lanes([])
        holder = await hold_snapshot(dsn)
        try:
            for number in range(RUNS // 500):
                await submit(store, job, 500, now=at(number), due_at=at(number))
                request = ClaimRequest(session_id=session_id, number=number + 1, lanes=(lane.id,), limit=500)
                [result] = await store.claim_runs([request], now=at(number))
                ends = [succeeded(run.run_id, run.token, session_id) for run in result.runs]
                await store.apply(ends, now=at(number))
            low = at(99)
            [seen] = await store.read_lanes([], lows={lane.id: low})
            assert seen.earliest_ready_at == at(100)
            lists = {"queues": "'{}'", "is_all": "true", "after": "0", "limit": "NULL"}
            bounded = {"lane_ids": f"'{{{lane.id}}}'", "lows": f"ARRAY['{low.isoformat()}'::timestamptz]"}
            everything = {"lane_ids": "'{}'", "lows": "'{}'"}
            from_low = await buffers(dsn, Role.WATCH, "read_lanes", **lists, **bounded)
            from_beginning = await buffers(dsn, Role.WATCH, "read_lanes", **lists, **everything)
        finally:
            await holder.close()
    assert from_low < FEW
    assert from_beginning > FEW  # else the long transaction did not keep the entries, and nothing was shown


async def test_a_claim_does_not_pass_the_earlier_ones_of_its_session(dsn: str) -> None:
    async with open_store(dsn) as store:
        session_id = await add_session(store)
        holder = await hold_snapshot(dsn)
        try:
            for number in range(CLAIMS):
                request = ClaimRequest(session_id=session_id, number=number + 1, lanes=(), limit=1)
                [result] = await store.claim_runs([request], now=at(number))
                assert result.is_session_live
            values = {
                "session_id": str(session_id),
                "number": str(CLAIMS + 1),
                "lanes": "'{}'",
                "lows": "'{}'",
                "quotas": "'{100}'",
                "policy_epoch": "0",
                "limit": "1",
                "now": f"'{at(CLAIMS).isoformat()}'",
            }
            touched = await buffers(dsn, Role.CLAIM, "claim_runs", **values)
        finally:
            await holder.close()
    assert touched < FEW


async def test_clocks_that_have_moved_on_are_not_passed_again_by_the_due_window(dsn: str) -> None:
    async with open_store(dsn) as store:
        epochs = await own_shards(store)
        new = [make_new_job(next_fire_at=START) for _ in range(JOBS)]
        await store.add_jobs(new, now=START)
        holder = await hold_snapshot(dsn)
        try:
            for number in range(FIRES):
                jobs = [job for job in await store.get_jobs([job.id for job in new]) if job is not None]
                fires = [make_fire(job, next_fire_at=at(number + 1), runs=()) for job in jobs]
                await store.record_fires(fires, epochs=epochs, now=at(number))
            until = at(FIRES) + timedelta(seconds=4)
            since = at(FIRES - 0.5)
            due = await store.read_due(range(256), since=since, until=until, limit=10)
            assert {clock.fire_at for clock in due} == {at(FIRES)}
            values = {
                "priorities": "'{0,1,2}'",
                "shards": f"'{{{','.join(map(str, range(256)))}}}'",
                "until": f"'{until.isoformat()}'",
                "limit": "10",
            }
            bounded = await buffers(dsn, Role.PLAN, "read_due", **values, since=f"'{since.isoformat()}'")
            everything = await buffers(dsn, Role.PLAN, "read_due", **values, since="'-infinity'")
        finally:
            await holder.close()
    assert bounded < FEW
    assert everything > FEW


async def test_orphans_are_found_without_passing_what_live_sessions_held(dsn: str) -> None:
    async with open_store(dsn) as store:
        job = await add_job(store)
        session_id, gone = await add_session(store), await add_session(store)
        holder = await hold_snapshot(dsn)
        try:
            await submit(store, job, RUNS)
            [lane] = await store.read_lanes([])
            [result] = await store.claim_runs(
                [ClaimRequest(session_id=session_id, number=1, lanes=(lane.id,), limit=RUNS)], now=START
            )
            await store.apply(
                [succeeded(run.run_id, run.token, session_id) for run in result.runs], now=START
            )
            [last] = await submit(store, job)
            await store.claim_runs(
                [ClaimRequest(session_id=gone, number=1, lanes=(lane.id,), limit=1, lows={lane.id: START})],
                now=START,
            )
            await store.close_sessions([gone], now=START)
            [orphan] = await store.list_orphans(limit=10)
            assert orphan.run_id == last
            touched = await buffers(dsn, Role.WATCH, "list_orphans", limit="10")
        finally:
            await holder.close()
    assert touched < FEW
