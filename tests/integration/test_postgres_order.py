"""What a statement promises to answer in order comes in order whatever plan PostgreSQL makes for it.

Where the tables are small or full of what an index leaves out, a plan may read them from end to end. Most other tests
would not notice a missing ORDER BY: the indexes of the hot path happen to give the order that is wanted.
"""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest

from mainspring.core.ids import LaneId, RunId
from mainspring.stores.postgres import PostgresStore
from mainspring.testing.conformance.claiming import ids_of
from mainspring.testing.factories import (
    START,
    add_job,
    add_session,
    all_lanes,
    at,
    claim,
    make_claim,
    make_fire_range,
    submit,
)
from tests.support.postgres_databases import open_store

pytestmark = pytest.mark.postgres

SCATTERED = (30, 10, 50, 20, 40)
"""Seconds, in the order in which rows are written."""


@pytest.fixture
async def store(dsn: str, watch: Any) -> AsyncIterator[PostgresStore]:
    """A store whose database reads tables from end to end, never by an index."""
    name = await watch.fetchval("SELECT quote_ident(current_database())")
    for plan in ("indexscan", "indexonlyscan", "bitmapscan"):
        await watch.execute(f"ALTER DATABASE {name} SET enable_{plan} = off")
    async with open_store(dsn) as opened:
        yield opened


async def scatter(store: PostgresStore, **columns: Any) -> dict[int, RunId]:
    job = await add_job(store)
    return {second: (await submit(store, job, due_at=at(second), **columns))[0] for second in SCATTERED}


async def test_claims_take_what_is_ready_longest(store: PostgresStore) -> None:
    due = await scatter(store)
    [lane] = await store.read_lanes([])
    assert lane.earliest_ready_at == at(10)
    session_id, other = await add_session(store), await add_session(store)
    assert ids_of(await claim(store, session_id, now=at(60))) == [due[10]]
    lows: dict[LaneId, datetime] = {}
    requests = [make_claim(session, [lane.id], lows=lows) for session in (other, session_id)]
    given = [ids_of(result.runs) for result in await store.claim_runs(requests, now=at(60))]
    assert given == [[due[20]], [due[30]]]


async def test_claims_of_runs_that_crashed_take_what_is_ready_longest(
    store: PostgresStore, watch: Any
) -> None:
    due = await scatter(store)
    await watch.execute("UPDATE run SET crashes = 1")
    [lane] = await store.read_lanes([])
    assert (lane.earliest_ready_at, lane.earliest_quarantined_at) == (None, at(10))
    for second in sorted(SCATTERED):
        leased = await claim(store, await add_session(store), now=at(60), is_quarantined=True)
        assert ids_of(leased) == [due[second]]


async def test_expiry_and_deadlines_take_the_oldest_first(store: PostgresStore, watch: Any) -> None:
    due = await scatter(store, expires_at=at(100))
    await watch.execute("UPDATE run SET expires_at = due_at")
    for second in (10, 20):
        assert await store.expire_runs(now=at(60), limit=1) == [due[second]]
    await watch.execute("UPDATE run SET expires_at = NULL")
    for _ in range(3):
        await store.claim_runs([make_claim(await add_session(store), await all_lanes(store))], now=at(60))
    await watch.execute("UPDATE run SET deadline_at = started_at - (due_at - created_at)")
    [held] = await store.list_overdue(now=at(60), limit=1)
    assert held.run_id == due[50]
    assert [held.run_id for held in await store.list_overdue(now=at(60), limit=9)] == [
        due[second] for second in (50, 40, 30)
    ]


async def test_due_clocks_and_fire_ranges_come_oldest_first(store: PostgresStore) -> None:
    jobs = {second: await add_job(store, next_fire_at=at(second), shard=3) for second in SCATTERED}
    [due] = await store.read_due([3], until=at(60), limit=1)
    assert due.job_id == jobs[10].id
    clocks = await store.read_due([3], until=at(60), limit=9)
    assert [clock.fire_at for clock in clocks] == [at(second) for second in sorted(SCATTERED)]
    for job in jobs.values():
        await store.add_fire_ranges([make_fire_range(job)], now=START)
    ids = [work.fire_range.id for work in await store.read_fire_ranges([3], limit=9)]
    assert ids == sorted(ids)
    assert [work.fire_range.id for work in await store.read_fire_ranges([3], limit=1)] == ids[:1]
    for _ in range(2):
        await store.add_fire_ranges([make_fire_range(jobs[10])], now=START)
    newest = [fire_range.id for fire_range in await store.list_fire_ranges(jobs[10].id)]
    assert newest == sorted(newest, reverse=True)


async def test_runs_are_listed_newest_first(store: PostgresStore) -> None:
    job = await add_job(store)
    run_ids = await submit(store, job, 6)
    await store.cancel_runs([run_ids[number] for number in (4, 0, 2)], reason="operator", now=START)
    newest_first = sorted(run_ids, reverse=True)
    for of_job in (None, job.id):
        assert [run.id for run in await store.list_runs("default", job_id=of_job)] == newest_first
        page = await store.list_runs("default", job_id=of_job, before=newest_first[1], limit=2)
        assert [run.id for run in page] == newest_first[2:4]
    [newest] = await store.newest_runs([job.id], now=at(1))
    assert newest is not None
    assert newest.id == newest_first[0]
