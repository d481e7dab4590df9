"""Pauses beside programs of earlier releases, and what a pause waits for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from mainspring.core.lane_caps import CapKey, CapScope, LaneCap
from mainspring.core.limits import JobLimit
from mainspring.core.model import Overlap
from mainspring.core.once import UniqueRule
from mainspring.core.pauses import Pause, PauseScope
from mainspring.engine.usecases.limits import check_limits
from mainspring.errors import Conflict
from mainspring.ports.store.restrictions import TELLS_FLOWS
from mainspring.ports.store.sessions import Beat
from mainspring.stores.postgres import PostgresStore
from mainspring.stores.postgres.connecting import Role
from mainspring.testing.factories import (
    START,
    add_job,
    add_session,
    all_lanes,
    at,
    make_claim,
    make_node,
    make_spec,
    submit,
)
from tests.support.postgres_databases import open_store, wait_until_blocked

pytestmark = pytest.mark.postgres
PAUSE = Pause(scope=PauseScope.ALL, name="", made_by="ann", since=START)


@pytest.fixture
async def store(dsn: str) -> AsyncIterator[PostgresStore]:
    async with open_store(dsn) as opened:
        yield opened


@pytest.fixture
async def other(dsn: str) -> AsyncIterator[Any]:
    """A connection in whose transaction something has been written and is not committed yet."""
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()


async def epoch_of(store: PostgresStore) -> int:
    found = await store.read_restrictions()
    assert found is not None
    return found.epoch


async def test_worker_of_an_earlier_release_is_named_until_a_newer_server_serves_it(
    store: PostgresStore, watch: Any
) -> None:
    job, session = await add_job(store), await add_session(store, worker="old", host="here", pid=7)
    await submit(store, job, 2)
    await watch.execute("UPDATE session SET policy_epoch = NULL")  # as a release before 0015 has added it
    assert await store.add_pauses([PAUSE], now=START) == ["worker old (host here, pid 7)"]
    assert await epoch_of(store) == 0
    # Until then it gets runs, whatever the epoch of those who serve it.
    [result] = await store.claim_runs([make_claim(session, await all_lanes(store))], now=at(1))
    assert len(result.runs) == 1
    await store.beat_sessions([Beat(session_id=session, held=())], now=at(1))
    assert await store.add_pauses([PAUSE], now=START) == []
    [result] = await store.claim_runs([make_claim(session, await all_lanes(store))], now=at(1))
    assert result.is_policy_old


async def test_server_of_an_earlier_release_is_named_until_it_is_gone(
    store: PostgresStore, watch: Any
) -> None:
    await store.beat_node(make_node("new"), now=START)
    await store.beat_node(make_node("old"), now=START)
    await watch.execute("UPDATE node SET protocol = NULL WHERE id = 'old'")
    [named] = await store.add_pauses([PAUSE], now=START)
    assert named.startswith("server old (")
    # A pause that there is can be lifted all the same.
    assert await store.lift_pauses([PAUSE.key], now=START) == [False]
    await watch.execute("DELETE FROM node WHERE id = 'old'")
    assert await store.add_pauses([PAUSE], now=START) == []


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": (JobLimit(limit=1),)},
        {"overlap": Overlap.QUEUE_ONE},
        {"unique": UniqueRule(key="$.order")},
    ],
)
async def test_rules_that_an_earlier_release_would_break_are_refused_while_it_runs(
    store: PostgresStore, watch: Any, options: dict[str, Any]
) -> None:
    ruled = make_spec(**options)
    await store.beat_node(make_node("old"), now=START)
    await watch.execute("UPDATE node SET protocol = NULL")
    await check_limits(store, "default", [make_spec()])
    with pytest.raises(Conflict, match=r"an older release is running, and would break .*: server old"):
        await check_limits(store, "default", [make_spec(), ruled])
    await watch.execute("DELETE FROM node")
    await check_limits(store, "default", [ruled])


async def test_pause_waits_for_a_claim_that_is_under_way(
    store: PostgresStore, watch: Any, other: Any
) -> None:
    """It is not told as done before that claim is committed, so nothing is given out after the answer."""
    session = await add_session(store)
    claim = other.transaction()
    await claim.start()
    await other.execute("UPDATE session SET claim_number = 5 WHERE id = $1", session)
    pausing = asyncio.ensure_future(store.add_pauses([PAUSE], now=START))
    await wait_until_blocked(watch, Role.EDIT)
    assert not pausing.done()
    await claim.commit()
    assert await pausing == []


async def test_session_that_is_added_beside_a_pause_has_its_epoch(
    store: PostgresStore, watch: Any, other: Any
) -> None:
    change = other.transaction()
    await change.start()
    await other.execute("UPDATE revision SET number = 77 WHERE name = 'policy_epoch'")
    adding = asyncio.ensure_future(add_session(store))
    await wait_until_blocked(watch, Role.BEAT)
    await change.commit()
    session = await adding
    assert await watch.fetchval("SELECT policy_epoch FROM session WHERE id = $1", session) == 77


async def test_epoch_is_never_the_same_again_after_a_failover(store: PostgresStore, watch: Any) -> None:
    """A failover may lose a change, with its number; the next change has another one."""
    await store.add_pauses([PAUSE], now=at(1))
    lost = await epoch_of(store)
    await watch.execute("UPDATE revision SET number = 0 WHERE name = 'policy_epoch'")
    await store.add_pauses([PAUSE], now=at(2))
    assert await epoch_of(store) > lost


CAP = LaneCap(CapKey(CapScope.QUEUE, "default"), 1)


async def test_cap_counts_what_a_claim_under_way_gives(store: PostgresStore, watch: Any, other: Any) -> None:
    session = await add_session(store)
    [run_id] = await submit(store, await add_job(store))
    claim = other.transaction()
    await claim.start()
    await other.execute("UPDATE session SET claim_number = 5 WHERE id = $1", session)
    await other.execute(
        "UPDATE run SET state = 'RUNNING', token = 1, session_id = $1, claim_number = 5, started_at = now()"
        " WHERE id = $2",
        session,
        run_id,
    )
    setting = asyncio.ensure_future(store.write_caps([CAP], now=START))
    await wait_until_blocked(watch, Role.EDIT)
    assert not setting.done()
    await claim.commit()
    assert await setting == []
    [use] = await store.read_cap_uses([CAP.key])
    assert [holder.run_id for holder in use.holders] == [run_id]


async def test_cap_is_refused_while_an_older_worker_lives_and_its_end_is_not(
    store: PostgresStore, watch: Any
) -> None:
    session = await add_session(store)
    await watch.execute("UPDATE session SET policy_epoch = NULL WHERE id = $1", session)
    [named] = await store.write_caps([CAP], now=START)
    assert named.startswith("worker ")
    found = await store.read_restrictions()
    assert found is not None
    assert not found.caps
    assert await store.write_caps([LaneCap(CAP.key, None)], now=START) == []


async def test_programs_are_told_apart_by_what_they_know(store: PostgresStore, watch: Any) -> None:
    await store.beat_node(make_node("new"), now=START)
    await store.beat_node(make_node("before"), now=START)
    await watch.execute("UPDATE node SET protocol = $1 WHERE id = 'before'", TELLS_FLOWS - 1)
    assert await store.list_older_programs() == []
    [named] = await store.list_older_programs(protocol=TELLS_FLOWS)
    assert named.startswith("server before (")
