"""A PostgreSQL whose own clock jumps, as it does to its clients at a failover: the whole engine on the real store.

A function of the name `clock_timestamp` in a schema that the database searches before PostgreSQL's own takes the
place of the server's clock; nothing of the store is replaced.
"""

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime

import asyncpg
import pytest

from mainspring.stores.postgres import PostgresStore
from tests.support.clocks import SampledClock, open_trial

FAKE_CLOCK = """
CREATE SCHEMA fake;
CREATE TABLE fake.clock (instant timestamptz NOT NULL);
INSERT INTO fake.clock VALUES ('epoch');
CREATE FUNCTION fake.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT instant FROM fake.clock';
DO $$ BEGIN
    EXECUTE format('ALTER DATABASE %I SET search_path = public, fake, pg_catalog', current_database());
END $$;
"""

pytestmark = [pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(180)]


@asynccontextmanager
async def fake_clock(dsn: str) -> AsyncIterator[Callable[[datetime], Awaitable[object]]]:
    """Take over the clock of a database; give what sets it."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(FAKE_CLOCK)
        yield lambda instant: connection.execute("UPDATE fake.clock SET instant = $1", instant)
    finally:
        await connection.close()


@pytest.mark.parametrize("jump", [5.0, -5.0])
async def test_failover_to_a_clock_five_seconds_off_changes_no_fire_on_postgres(
    postgres_database: str, jump: float
) -> None:
    async with fake_clock(postgres_database) as set_clock:
        store = PostgresStore(postgres_database, random=random.Random(1))
        await store.open()
        clock = SampledClock()

        async def read_time() -> datetime:
            await set_clock(clock.store_time)
            answer = await store.read_time()
            assert answer == clock.store_time  # so the server's clock is really the one that is faked
            return answer

        clock.read_from(read_time)
        async with open_trial(clock, store) as trial:
            tick = await trial.add(80)
            await trial.live(12, step=0.5)
            clock.jump(jump)
            await trial.live(60, step=0.5)
            await trial.check(tick)
            assert abs((clock.now() - clock.store_time).total_seconds()) < 1e-3
