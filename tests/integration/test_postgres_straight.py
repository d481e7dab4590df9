"""Straight submissions on PostgreSQL: what they wait for, and what they leave behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from mainspring.core.ids import LaneId, SessionId
from mainspring.core.model import Job
from mainspring.ports.store.claims import ClaimedRun
from mainspring.stores.postgres import PostgresStore
from mainspring.testing.factories import (
    START,
    add_job,
    add_session,
    all_lanes,
    make_claim,
    make_new_run,
    submit,
)
from tests.support.postgres_databases import open_store, wait_until_blocked

pytestmark = pytest.mark.postgres

NEXT_TRANSACTION = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"


@pytest.fixture
async def store(dsn: str) -> AsyncIterator[PostgresStore]:
    async with open_store(dsn) as opened:
        yield opened


@pytest.fixture
async def raw(dsn: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()


@pytest.fixture
async def scene(store: PostgresStore) -> tuple[Job, SessionId, tuple[LaneId, ...]]:
    """A job whose lane is interned and empty, a session without runs, and the lane."""
    job = await add_job(store)
    await store.cancel_runs(await submit(store, job), reason="test", now=START)
    return job, await add_session(store), await all_lanes(store)


Scene = tuple[Job, SessionId, tuple[LaneId, ...]]


async def submit_claimed(store: PostgresStore, scene: Scene) -> ClaimedRun | None:
    job, session_id, lanes = scene
    return await store.submit_claimed(make_new_run(job), request=make_claim(session_id, lanes), now=START)


async def test_run_is_remembered_for_the_account_after_a_failover(store: PostgresStore, scene: Scene) -> None:
    claimed = await submit_claimed(store, scene)
    assert claimed is not None
    assert (claimed.run_id, START) in store._connections.servers.recent.told()


async def test_refusal_is_no_transaction_that_writes(store: PostgresStore, raw: Any, scene: Scene) -> None:
    """Neither a lock nor a row: PostgreSQL gives it no transaction id, so its end waits for no flush."""
    await submit(store, scene[0])
    before = await raw.fetchval(NEXT_TRANSACTION)
    for _ in range(50):
        assert await submit_claimed(store, scene) is None
    assert await raw.fetchval(NEXT_TRANSACTION) - before < 10, "what others do meanwhile is not 50"


@pytest.mark.parametrize("lock", ["FOR NO KEY UPDATE", "FOR UPDATE"])
async def test_session_that_is_just_being_written_is_not_waited_for(
    store: PostgresStore, raw: Any, scene: Scene, lock: str
) -> None:
    async with raw.transaction():
        await raw.execute(f"SELECT FROM session WHERE id = $1 {lock}", scene[1])
        assert await asyncio.wait_for(submit_claimed(store, scene), 5) is None
    assert await submit_claimed(store, scene) is not None


async def test_session_that_changed_after_the_statement_began_is_left_alone(
    store: PostgresStore, raw: Any, scene: Scene
) -> None:
    """It is closed and the lane's row is held meanwhile, so that the statement sees the session as it was."""
    _, session_id, [lane_id] = scene
    holder = raw.transaction()
    await holder.start()
    await raw.execute("SELECT FROM lane WHERE id = $1 FOR UPDATE", lane_id)
    submission = asyncio.create_task(submit_claimed(store, scene))
    await wait_until_blocked(raw, "submit")
    await store.close_sessions([session_id], now=START)
    await holder.commit()
    assert await submission is None
    assert await store.list_orphans(limit=10) == []
    [run] = await store.list_runs(scene[0].tenant, limit=10)
    assert run.reason == "test"
