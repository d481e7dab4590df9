"""F11, F13 and F14: a PostgreSQL that goes away, is full of connections, or undoes transactions."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from random import Random

import asyncpg

from tests.chaos.cluster.scene import Cluster

_OUTAGE = (0.5, 8.0)
_HOGGED_FOR = 4.0
_MOST_HOGS = 200
_UNDO_FOR = 4.0
_HOLD = (0.1, 0.8)
_UNDO = """
    CREATE FUNCTION chaos_undo() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF random() < 0.03 THEN
            RAISE EXCEPTION 'chaos' USING ERRCODE = CASE WHEN random() < 0.5 THEN '40001' ELSE '40P01' END;
        END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER chaos_undo AFTER INSERT OR UPDATE OR DELETE ON run FOR EACH STATEMENT EXECUTE FUNCTION chaos_undo();
"""
_UNDO_NO_MORE = "DROP TRIGGER chaos_undo ON run; DROP FUNCTION chaos_undo();"
_TAKE_BACKWARDS = "SELECT id FROM run ORDER BY id DESC LIMIT 50 FOR UPDATE"


async def restart_store(cluster: Cluster, random: Random) -> None:
    """F11: PostgreSQL is stopped, in good order or at once, and is away for some seconds."""
    await take_store_away(
        cluster, random.uniform(*_OUTAGE), how=random.choice([signal.SIGINT, signal.SIGQUIT])
    )


async def take_store_away(cluster: Cluster, seconds: float, *, how: signal.Signals = signal.SIGINT) -> None:
    """Stop PostgreSQL for so many seconds."""
    at = time.time()
    await asyncio.to_thread(cluster.database.stop, how)
    await asyncio.sleep(seconds)
    await cluster.start_database()
    cluster.blame("outage", "store", at, time.time())


async def use_up_connections(cluster: Cluster, random: Random) -> None:
    """F13: others take all of PostgreSQL's connections, and everybody has to connect anew."""
    at = time.time()
    hogs: list[asyncpg.Connection[asyncpg.Record]] = []
    try:
        for proxy in cluster.proxies:
            proxy.reset()
        with contextlib.suppress(asyncpg.PostgresError, OSError):
            while len(hogs) < _MOST_HOGS:
                hogs.append(await asyncpg.connect(cluster.dsn))
        cluster.reached["hogs"] += len(hogs)
        await asyncio.sleep(random.uniform(1.0, _HOGGED_FOR))
    finally:
        for hog in hogs:
            await hog.close()
    cluster.blame("outage", "store", at, time.time())


async def undo_transactions(cluster: Cluster, random: Random) -> None:
    """F14: some transactions are undone, as after deadlocks; others wait for rows that somebody takes backwards."""
    at = time.time()
    connection = await asyncpg.connect(cluster.dsn)
    try:
        await connection.execute(_UNDO)
        try:
            until = time.monotonic() + _UNDO_FOR
            while time.monotonic() < until:
                with contextlib.suppress(asyncpg.DeadlockDetectedError, asyncpg.SerializationError):
                    async with connection.transaction():
                        await connection.fetch(_TAKE_BACKWARDS)
                        await asyncio.sleep(random.uniform(*_HOLD))
                await asyncio.sleep(random.uniform(*_HOLD))
        finally:
            await _insist(connection, _UNDO_NO_MORE)
    finally:
        await connection.close()
    cluster.blame("outage", "store", at, time.time())


async def _insist(connection: asyncpg.Connection[asyncpg.Record], statement: str) -> None:
    while True:
        try:
            await connection.execute(statement)
        except asyncpg.DeadlockDetectedError:
            continue
        return
