"""Where a rule of the core stands in SQL, too, for speed, both say the same: over generated rows, on both dialects.

Which runs are ready, who ends an attempt that succeeded at the first claim, and who wins a fire.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import apsw
import asyncpg
import pytest

from mainspring.core.applying import LiveRun, settle
from mainspring.core.claiming import is_expired, is_ready, must_be_alone
from mainspring.core.clocks import wins_fire
from mainspring.core.fencing import FIRST_TOKEN, is_held
from mainspring.core.ids import RunId, SessionId
from mainspring.core.outcomes import succeeded
from mainspring.core.states import RunState
from mainspring.ports.store import Store
from mainspring.ports.store.claims import ApplyResult
from mainspring.ports.store.schedule import FireStatus
from mainspring.stores.sqlite import SqliteStore
from mainspring.stores.sqlite.rows import to_micros
from mainspring.testing.factories import (
    START,
    add_job,
    add_session,
    all_lanes,
    at,
    claim,
    make_fire,
    own_shards,
    read_job,
    submit,
)
from tests.support.postgres_databases import open_store

CASES = 150
NOW = at(100)
Alter = Callable[..., Awaitable[None]]
Stage = tuple[Store, Alter]


def _assignments(columns: dict[str, Any]) -> str:
    return ", ".join(f"{name} = ${number}" for number, name in enumerate(columns, 2))


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
async def stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stage]:
    """A store, and how to write into its tables what no verb would."""
    if request.param == "sqlite":
        store = SqliteStore(tmp_path / "mainspring.db")
        await store.open()

        async def alter(table: str, key: str, value: Any, **columns: Any) -> None:
            values = [getattr(value, "bytes", value), *columns.values()]
            plain = [to_micros(item) if isinstance(item, datetime) else item for item in values]
            text = f"UPDATE {table} SET {_assignments(columns)} WHERE {key} = $1".replace("$", "?")

            def work(db: apsw.Connection) -> None:
                db.execute(text, plain)

            await store._writer.call(work)

        yield store, alter
        await store.close()
        return
    dsn = request.getfixturevalue("migrated_database")
    connection = await asyncpg.connect(dsn)

    async def alter_there(table: str, key: str, value: Any, **columns: Any) -> None:
        text = f"UPDATE {table} SET {_assignments(columns)} WHERE {key} = $1"
        await connection.execute(text, value, *columns.values())

    async with open_store(dsn) as opened:
        yield opened, alter_there
    await connection.close()


@pytest.mark.parametrize("seed", range(3))
async def test_ready_runs_are_the_ones_that_are_claimed(stage: Stage, seed: int) -> None:
    store, alter = stage
    random = Random(seed)
    job = await add_job(store)
    ready: dict[bool, dict[RunId, datetime]] = {True: {}, False: {}}
    for number, run_id in enumerate(await submit(store, job, CASES)):
        state = random.choice([RunState.PENDING, RunState.RETRYING, RunState.BLOCKED])
        crashes = random.choice([0, 0, 0, 1, 2])
        is_parked = (
            crashes == 0 and random.random() < 0.2
        )  # one that crashed waits in quarantine, keys or not
        ready_at = at(random.choice([0, 50, 100, 150])) + timedelta(
            microseconds=number * random.choice([0, -1, 1])
        )
        expires_at = random.choice([None, None, at(99), NOW, at(101)])
        await alter(
            "run",
            "id",
            run_id,
            state=state.value,
            is_parked=is_parked,
            crashes=crashes,
            ready_at=ready_at,
            expires_at=expires_at,
        )
        if is_ready(state, is_parked=is_parked):
            is_open = not is_expired(expires_at, NOW) and ready_at <= NOW
            ready[must_be_alone(crashes)][run_id] = ready_at if is_open else at(10_000)
    wanted = {
        is_quarantined: {run_id for run_id, ready_at in found.items() if ready_at <= NOW}
        for is_quarantined, found in ready.items()
    }
    leased = await claim(store, await add_session(store), now=NOW, limit=CASES)
    assert {run.run_id for run in leased} == wanted[False]
    alone = set()
    for _ in range(len(wanted[True])):
        [run] = await claim(store, await add_session(store), now=NOW, limit=CASES, is_quarantined=True)
        alone.add(run.run_id)
    assert alone == wanted[True]
    assert await claim(store, await add_session(store), now=NOW, limit=CASES, is_quarantined=True) == ()


@pytest.mark.parametrize("seed", range(3))
async def test_first_success_is_applied_where_the_lease_is_held(stage: Stage, seed: int) -> None:
    store, alter = stage
    random = Random(seed)
    job = await add_job(store)
    await submit(store, job, CASES)
    sessions = [await add_session(store) for _ in range(3)]
    lanes = await all_lanes(store)
    held = [
        (run, session)
        for session in sessions
        for run in await claim(store, session, lanes=lanes, limit=CASES // 3)
    ]
    ends, expected = [], []
    for run, session in held:
        token = random.choice([1, 1, 1, 2])
        is_running = random.random() < 0.8
        holder = session if is_running else None
        state = RunState.RUNNING if is_running else RunState.PENDING
        await alter("run", "id", run.run_id, token=token, state=state.value, session_id=holder)
        end = succeeded(
            run.run_id, random.choice([1, 1, 1, 2]), random.choice([session, *sessions]), b"1", None
        )
        live = make_live(state, token, holder)
        ends.append(end)
        expected.append((live, is_held(live, end.token, end.session_id)))
    # One by one and together: the statement for first successes, and the way past it.
    firsts = [end for end in ends if end.token == FIRST_TOKEN]
    results = dict(zip([end.run_id for end in firsts], await store.apply(firsts, now=NOW), strict=True))
    others = [end for end in ends if end.token != FIRST_TOKEN]
    results |= dict(zip([end.run_id for end in others], await store.apply(others, now=NOW), strict=True))
    assert results == {
        end.run_id: ApplyResult.APPLIED if fits else ApplyResult.STALE
        for end, (_, fits) in zip(ends, expected, strict=True)
    }
    for end, (live, fits) in zip(ends, expected, strict=True):
        [run_after] = await store.get_runs([end.run_id])
        assert run_after is not None
        found = (run_after.state, run_after.token, run_after.attempt, run_after.crashes, run_after.reason)
        if fits:
            after = settle(end, live, now=NOW)
            assert found == (after.state, after.token, after.attempt, after.crashes, after.reason)
            assert bool(await store.list_attempts(end.run_id)) is after.writes_attempt
        else:
            assert found[:2] == (live.state, live.token)


def make_live(state: RunState, token: int, session_id: SessionId | None) -> LiveRun:
    return LiveRun(
        state=state,
        token=token,
        session_id=session_id,
        attempt=1,
        crashes=0,
        quarantined_crashes=0,
        is_quarantined=False,
        is_cancel_requested=False,
        cancel_reason=None,
    )


@pytest.mark.parametrize("seed", range(3))
async def test_fire_is_won_where_the_clock_stands(stage: Stage, seed: int) -> None:
    store, alter = stage
    random = Random(seed)
    epochs = await own_shards(store)
    fires, expected = [], []
    for _ in range(40):
        job = await add_job(store, next_fire_at=at(60))
        columns = {
            "revision": random.choice([1, 1, 2]),
            "next_fire_at": random.choice([None, at(60), at(60), at(61)]),
            "fired_through": random.choice([None, at(59), at(60), at(61)]),
        }
        await alter("job_clock", "job_id", job.id, **columns)
        clock = await read_job(store, job.id)
        revision = random.choice([1, 1, 2])
        fires.append(make_fire(job, revision=revision, fire_at=at(60), runs=()))
        is_won = wins_fire(clock, revision=revision, fire_at=at(60), fired_through=clock.fired_through)
        expected.append(FireStatus.FIRED if is_won else FireStatus.LOST)
    results = await store.record_fires(fires, epochs=epochs, now=START)
    assert [result.status for result in results] == expected
