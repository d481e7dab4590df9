"""The fuse in the real PostgreSQL store: it burns right at the commit."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainspring.core.outcomes import succeeded
from mainspring.ports.store.claims import ApplyResult
from mainspring.testing.factories import (
    add_job,
    add_session,
    all_lanes,
    at,
    make_claim,
    make_new_job,
    submit,
)
from tests.chaos.failpoints import NOTES_VARIABLE, Failpoint, Fuse, read_notes
from tests.chaos.fused_postgres import FusedConnections, FusedPostgresStore
from tests.chaos.fuses import STALE
from tests.support.postgres import fetch, temporary_database

pytestmark = pytest.mark.postgres


@pytest.fixture
def dsn(postgres_server: str) -> Iterator[str]:
    with temporary_database(postgres_server) as dsn:
        yield dsn


@pytest.mark.parametrize(("moment", "is_there"), [("before", 0), ("after", 1)])
@pytest.mark.parametrize(
    ("verb", "counted"),
    [("add_jobs", "SELECT count(*) FROM job"), ("add_sessions", "SELECT count(*) FROM session")],
)
async def test_fuse_burns_on_its_side_of_the_commit(
    dsn: str, monkeypatch: pytest.MonkeyPatch, moment: str, is_there: int, verb: str, counted: str
) -> None:
    seen: list[int] = []
    fuse = Fuse(Failpoint(moment, verb, 1), lambda: seen.append(fetch(dsn, counted)))
    monkeypatch.setattr(FusedConnections, "fuse", fuse)
    store = FusedPostgresStore(dsn, random=random.Random(1))
    await store.open()
    await store.add_jobs([make_new_job()], now=at(0))
    await add_session(store)
    await store.close()
    assert seen == [is_there]


async def test_stale_write_is_noted(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NOTES_VARIABLE, str(tmp_path))
    store = FusedPostgresStore(dsn, random=random.Random(1))
    await store.open()
    await submit(store, await add_job(store))
    session_id = await add_session(store)
    claims = [make_claim(session_id, await all_lanes(store))]
    ((run,),) = [result.runs for result in await store.claim_runs(claims, now=at(1))]
    results = await store.apply([succeeded(run.run_id, run.token - 1, session_id)], now=at(2))
    await store.close()
    assert results == [ApplyResult.STALE]
    assert [what for _, what in read_notes(tmp_path)] == [STALE]


async def test_all_parts_of_the_store_go_over_the_connections_with_the_fuse(dsn: str) -> None:
    store = FusedPostgresStore(dsn, random=random.Random(1))
    await store.open()
    pruned = await store.prune_history(before=at(0), limit=10)
    await store.close()
    assert pruned == 0
