"""The SQLite store of a simulated process: real files, no threads, and commits that a crash can prevent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import apsw

from mainspring.core.storage import Storage
from mainspring.errors import StoreUnavailable
from mainspring.stores.sqlite import SqliteStore
from mainspring.stores.sqlite.connection import GROUP, Database, DatabaseCall, Transactions, answer

R = TypeVar("R")


class LoopLane:
    """A database on the event loop instead of in a thread.

    Calls that wait together share a transaction, as in the thread; other things can happen before its commit.
    """

    def __init__(self, transactions: Transactions, *, delay: Callable[[], float]) -> None:
        self._transactions = transactions
        self._delay = delay
        self._calls: list[DatabaseCall] = []
        self._news = asyncio.Event()
        self._is_open = False
        self._serving: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Connect and begin to serve."""
        self._transactions.open()
        self._is_open = True
        self._serving = asyncio.create_task(self._serve())

    async def stop(self) -> None:
        """Finish the calls already made, and end. Who asks again waits for the same."""
        self._is_open = False
        self._news.set()
        if self._serving is not None:
            await self._serving
            self._transactions.close()

    def abandon(self) -> None:
        """Release the file as a killed process does: what is not committed is rolled back."""
        self._is_open = False
        self._transactions.close()

    async def call(self, work: Callable[[apsw.Connection], R]) -> R:
        """Run `work`. A writer returns once it is committed."""
        if not self._is_open:
            raise StoreUnavailable("the store is closed")
        call = DatabaseCall(work, asyncio.get_running_loop().create_future())
        self._calls.append(call)
        self._news.set()
        result: R = await call.future
        return result

    async def _serve(self) -> None:
        while self._is_open or self._calls:
            if not self._calls:
                self._news.clear()
                await self._news.wait()
                continue
            group, self._calls = self._calls[:GROUP], self._calls[GROUP:]
            self._transactions.begin(group)
            await asyncio.sleep(self._delay())
            self._transactions.commit(group)
            answer(group)


class FileStore(SqliteStore):
    """A `SqliteStore` of one simulated process.

    Args:
        time: the clock that `read_time` returns, because SQLite's own clock is the host's.
        delay: draws the seconds between a transaction's last statement and its commit.
    """

    def __init__(self, path: Path, *, time: Callable[[], datetime], delay: Callable[[], float]) -> None:
        super().__init__(path)
        self._time = time
        self._delay = delay
        self._lanes: list[LoopLane] = []

    async def read_time(self) -> datetime:
        """Return the simulated instant."""
        return self._time()

    async def read_storage(self) -> Storage:
        """Return nothing of the disk: it is the host's, and looking at it takes a thread."""
        return Storage(size=0, history=0)

    def abandon(self) -> None:
        """Release the files without finishing anything, as a killed process does."""
        for lane in self._lanes:
            lane.abandon()
        self._lock.release()

    def _make_database(self, name: str, *, is_writer: bool, patience: float | None = None) -> Database:
        del name, patience  # no call takes any time here
        forget = self._lane_ids.clear if is_writer else lambda: None
        lane = LoopLane(Transactions(self._path, is_writer=is_writer, on_rollback=forget), delay=self._delay)
        self._lanes.append(lane)
        return lane
