"""What a failover costs: nothing with a synchronous standby; with another one what it lacked, and that is told."""

import asyncio
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from mainspring.errors import StoreUnavailable
from mainspring.ports.store.alerts import FailoverLoss
from mainspring.testing.factories import at, lane_of, make_new_run
from tests.failover.conftest import StartPair
from tests.failover.writing import Writer, open_writer

LANES = 80
"""More than a sequence is ahead on a standby: PostgreSQL logs 32 numbers at a time."""
pytestmark = [pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(300)]


class Load:
    """A client that submits without a pause."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._has_more = asyncio.Event()
        self._task = asyncio.create_task(self._submit())

    async def _submit(self) -> None:
        while True:
            try:
                await self._writer.submit(20)
            except StoreUnavailable:
                continue
            self._has_more.set()

    async def acknowledged(self, more: int) -> None:
        """Wait until so many more runs were acknowledged."""
        wanted = len(self._writer.acknowledged) + more
        while len(self._writer.acknowledged) < wanted:
            self._has_more.clear()
            await self._has_more.wait()

    async def end(self) -> None:
        """Submit no more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def test_synchronous_failover_under_load_loses_nothing_acknowledged(start_pair: StartPair) -> None:
    pair = start_pair(is_synchronous=True)
    async with open_writer(pair.dsn) as a, open_writer(pair.dsn, job=a.job) as b:
        loads = [Load(writer) for writer in (a, b)]
        for load in loads:
            await load.acknowledged(100)
        await asyncio.to_thread(pair.primary.kill)
        await asyncio.to_thread(pair.standby.promote)
        for load in loads:
            await load.acknowledged(200)
            await load.end()
        for writer in (a, b):
            assert await writer.missing() == []
            assert (writer.store.losses.failovers, writer.store.losses.runs) == (1, 0)


async def test_asynchronous_failover_tells_which_acknowledged_runs_are_lost(start_pair: StartPair) -> None:
    pair = start_pair(is_synchronous=False)
    async with open_writer(pair.dsn) as a:
        await a.submit(10)
        pair.catch_up()
        pair.standby.detach()
        lost = await a.submit(50)
        await a.sample()
        lost += await a.submit(50)
        with capture_logs() as logs:
            pair.fail_over()
            (kept,) = await a.submit_at_last()
        assert await a.missing() == lost
        losses = a.store.losses
        assert (losses.failovers, losses.runs) == (1, 100)
        assert losses.wal_bytes > 0
        (line,) = [line for line in logs if line["event"] == "acknowledged_runs_lost"]
        assert (line["log_level"], line["count"], line["runs_checked"]) == ("error", 100, 110)
        assert (line["from_timeline"], line["to_timeline"]) == (1, 2)
        assert kept > max(lost)
        (facts,) = a.store.failovers
        assert (facts.from_timeline, facts.to_timeline) == (1, 2)
        assert (facts.runs_lost, facts.runs_checked, facts.are_all_checked) == (100, 110, True)
        assert facts.lost_run_ids == tuple(lost[:20])
        assert facts.missing_wal == facts.last_position - facts.shared_position == losses.wal_bytes
        assert facts.noticed_at <= await a.store.read_time()
        async with open_writer(
            pair.dsn, job=a.job
        ) as other:  # which tells of it, even if the first one ends now
            noted = await other.store.list_failovers(since=facts.noticed_at)
        assert noted == [FailoverLoss(noticed_at=facts.noticed_at, runs_lost=100)]


async def test_loss_that_no_remembered_run_shows_is_told_by_the_wal(start_pair: StartPair) -> None:
    """Edits, reports and other processes' writes leave a trace in the positions."""
    pair = start_pair(is_synchronous=False)
    async with open_writer(pair.dsn) as a:
        await a.submit()
        pair.catch_up()
        pair.standby.detach()
        async with open_writer(pair.dsn, job=a.job) as other:
            await other.submit(10)
        await a.sample()
        with capture_logs() as logs:
            pair.fail_over()
            await a.submit_at_last()
        assert a.store.losses.runs == 0
        assert a.store.losses.wal_bytes > 0
        (line,) = [line for line in logs if line["event"] == "acknowledged_writes_perhaps_lost"]
        assert line["log_level"] == "error"


async def test_lane_that_was_lost_is_not_taken_for_the_one_that_has_its_id_now(start_pair: StartPair) -> None:
    pair = start_pair(is_synchronous=False)
    async with open_writer(pair.dsn) as a:
        await a.submit()
        pair.catch_up()
        pair.standby.detach()
        mine, others = (
            [replace(lane_of(a.job), queue=f"{name}-{number}") for number in range(LANES)]
            for name in ("mine", "other")
        )
        await a.store.submit_runs([make_new_run(a.job, lane=lane) for lane in mine], now=at(0))
        pair.fail_over()
        async with open_writer(pair.dsn, job=a.job) as b:
            await b.store.submit_runs([make_new_run(b.job, lane=lane) for lane in others], now=at(0))
        await a.submit_at_last()
        ids = []
        for lane in mine:
            [result] = await a.store.submit_runs([make_new_run(a.job, lane=lane)], now=at(0))
            assert result.run_id is not None
            ids.append(result.run_id)
        assert [run and run.lane for run in await a.store.get_runs(ids)] == mine
