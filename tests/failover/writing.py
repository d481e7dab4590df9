"""Stores that submit, and what they were told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mainspring.core.admission import SubmissionVerdict
from mainspring.core.ids import RunId
from mainspring.core.model import Job
from mainspring.errors import StoreUnavailable
from mainspring.stores.postgres import ConnectionOptions, PostgresStore
from mainspring.stores.postgres.failover import WrongServer
from mainspring.testing.factories import add_job, at, make_new_run
from tests.support.postgres_databases import open_store

SAMPLE = 3
"""Reads of the time in one sample of the clock; one of them looks at the servers."""


class Writer:
    """A process's store, and the runs that it was told are safe.

    Attributes:
        acknowledged: ids of runs, in order.
    """

    def __init__(self, store: PostgresStore, job: Job) -> None:
        self.store = store
        self.job = job
        self.acknowledged: list[RunId] = []

    async def submit(self, count: int = 1) -> list[RunId]:
        """Submit runs by one call and keep their ids."""
        results = await self.store.submit_runs([make_new_run(self.job) for _ in range(count)], now=at(0))
        assert {result.status for result in results} == {SubmissionVerdict.SUBMITTED}
        ids = [result.run_id for result in results if result.run_id is not None]
        self.acknowledged += ids
        return ids

    async def submit_at_last(self) -> list[RunId]:
        """Submit as a client does: again, as long as it is told that the store is unavailable."""
        for _ in range(100):
            try:
                return await self.submit()
            except StoreUnavailable:
                continue
        raise AssertionError("the store stays unavailable")

    async def refusal(self) -> str:
        """Submit until the connections that broke are used up; return why the server that is left is refused."""
        for _ in range(10):
            try:
                await self.submit()
            except WrongServer as error:
                return str(error)
            except StoreUnavailable:
                continue
            raise AssertionError("the submission was accepted")
        raise AssertionError("no server was refused")

    async def missing(self) -> list[RunId]:
        """Return the acknowledged runs that the store does not have."""
        found = await self.store.get_runs(self.acknowledged)
        return [run_id for run_id, run in zip(self.acknowledged, found, strict=True) if run is None]

    async def sample(self) -> None:
        """Read the time as often as a sample of the clock does."""
        for _ in range(SAMPLE):
            await self.store.read_time()


@asynccontextmanager
async def open_writer(
    dsn: str, *, job: Job | None = None, command_timeout: float = 30.0
) -> AsyncIterator[Writer]:
    """Open a store of its own, as another process would; the first one adds the job."""
    options = ConnectionOptions(dsn, command_timeout=command_timeout)
    async with open_store(options) as store:
        yield Writer(store, job or await add_job(store))
