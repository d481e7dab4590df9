"""The old primary comes back after a failover: nobody writes there (ADR 0014)."""

from dataclasses import replace

import pytest

from mainspring.core.admission import SubmissionVerdict
from mainspring.errors import StoreUnavailable
from mainspring.ports.store.runs import IdempotencyKey
from mainspring.testing.factories import at, make_new_run
from tests.failover.conftest import StartPair
from tests.failover.servers import DATABASE, Pair, Server
from tests.failover.writing import Writer, open_writer

pytestmark = [pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(300)]


def count_runs(server: Server) -> int:
    return int(server.ask("SELECT count(*) FROM run", database=DATABASE))


async def test_nobody_writes_to_an_old_primary_that_came_back_as_it_was(start_pair: StartPair) -> None:
    """Split brain: both accept writes, and the DSN names the old one first."""
    pair = start_pair(is_synchronous=False)
    async with open_writer(pair.dsn) as a, open_writer(pair.dsn, job=a.job) as b:
        await a.submit(3)
        pair.catch_up()
        pair.fail_over()
        await b.submit_at_last()
        pair.primary.start()
        for _ in range(3):
            await a.submit_at_last()
        async with open_writer(pair.dsn, job=a.job) as fresh:  # a process that remembers nothing
            await fresh.submit()
            assert await fresh.missing() == []
        assert await a.missing() == []
        assert await b.missing() == []
        assert a.store.losses.runs == 0
    assert count_runs(pair.primary) == 3
    assert count_runs(pair.standby) == 8


async def submit_and_fail_over(writer: Writer, pair: Pair) -> None:
    """Submit before a failover, which loses nothing, and after it."""
    await writer.submit()
    pair.catch_up()
    pair.fail_over()
    await writer.submit_at_last()


async def test_old_primary_alone_is_refused_by_who_has_seen_its_successor(start_pair: StartPair) -> None:
    pair = start_pair(is_synchronous=False)
    async with open_writer(pair.dsn) as a:
        await submit_and_fail_over(a, pair)
        pair.standby.kill()
        pair.primary.start()
        reason = await a.refusal()
        assert "left behind by a failover: it is on timeline 1, and timeline 2 was seen" in reason
        pair.standby.start()
        await a.submit_at_last()
        assert await a.missing() == []
    assert count_runs(pair.primary) == 1


async def test_open_connections_to_a_primary_that_never_died_are_given_up(start_pair: StartPair) -> None:
    """The standby was promoted beside a living primary: the next look at the servers finds out."""
    pair = start_pair(is_synchronous=False)
    async with open_writer(pair.dsn) as a:
        await a.submit()
        await a.sample()
        pair.catch_up()
        pair.standby.promote()
        (lost,) = await a.submit()  # nobody knows yet
        with pytest.raises(StoreUnavailable, match="left behind"):
            await a.sample()
        (kept,) = await a.submit()
        assert count_runs(pair.primary) == 2
        assert count_runs(pair.standby) == 2
        assert (await a.missing(), a.store.losses.runs) == ([lost], 1)
        assert kept > lost  # no id is given twice


async def test_synchronous_primary_without_its_standby_acknowledges_nothing(start_pair: StartPair) -> None:
    """A process that knows only the old address has nothing but PostgreSQL itself to hold it back."""
    pair = start_pair(is_synchronous=True)
    async with open_writer(pair.primary.database) as first:
        await first.submit()
        job = first.job
    pair.fail_over()
    pair.primary.start()
    key = IdempotencyKey(key="k", request_hash=b"h", expires_at=at(3600))
    run = replace(make_new_run(job), submit_key=key)
    store_options = {"job": job, "command_timeout": 2.0}
    # Opening reads only: the schema is there.
    async with open_writer(pair.primary.database, **store_options) as late:  # type: ignore[arg-type]
        with pytest.raises(StoreUnavailable):
            await late.submit()
        with pytest.raises(StoreUnavailable):
            await late.store.submit_runs([run], now=at(0))
        # What waits in vain can be read there by now; a repetition must not be told that all is well.
        with pytest.raises(StoreUnavailable):
            await late.store.submit_runs([run], now=at(0))
    async with open_writer(pair.dsn, job=job) as right:
        (result,) = await right.store.submit_runs([run], now=at(0))
        assert result.status is SubmissionVerdict.SUBMITTED


@pytest.mark.parametrize("is_rewound", [True, False])
async def test_old_primary_comes_back_as_a_standby_and_takes_over_again(
    start_pair: StartPair, is_rewound: bool
) -> None:
    pair = start_pair(is_synchronous=False)
    async with open_writer(pair.dsn) as a:
        await submit_and_fail_over(a, pair)
        if is_rewound:
            pair.primary.start()
            pair.primary.stop()
            pair.primary.rewind_to(pair.standby)
        else:
            pair.primary.copy_from(pair.standby)
        pair.primary.start()
        await a.submit_at_last()
        pair.turn().catch_up()
        pair.turn().fail_over()
        await a.submit_at_last()
        assert await a.missing() == []
        assert (a.store.losses.failovers, a.store.losses.runs) == (2, 0)
