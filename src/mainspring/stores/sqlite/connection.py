"""One writer thread with group commit, one reader thread, one process (design 8).

Calls that wait while a commit is under way go together in the next transaction, each in a savepoint of its own, so
that full durability (synchronous=FULL) costs one disk flush for all of them.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import apsw

from mainspring.errors import MainspringError, StoreLocked, StoreUnavailable
from mainspring.ports.telemetry import SIZES, Distribution

R = TypeVar("R")
Work = Callable[[apsw.Connection], Any]
GROUP = 128
"""Calls in one transaction, so that the first of them does not wait for ever."""
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA busy_timeout = 10000",
    "PRAGMA cache_size = -65536",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA wal_autocheckpoint = 4000",
)


class DatabaseCall:
    """A call on its way through a lane."""

    __slots__ = ("error", "future", "result", "work")

    def __init__(self, work: Work, future: asyncio.Future[Any]) -> None:
        self.work = work
        self.future = future
        self.result: Any = None
        self.error: BaseException | None = None


class LockFile:
    """Holds a folder for one process; the lock goes with the process, however it ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock.

        Raises:
            StoreLocked: another process has it.
            StoreUnavailable: the folder cannot be written.
        """
        folder = self._path.parent
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StoreUnavailable(f"{folder} cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            message = f"{folder} is in use by process {holder}; stop it, or choose another folder"
            raise StoreLocked(message) from error
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            os.close(descriptor)
            raise StoreUnavailable(f"{folder} cannot be written: {error.strerror}") from error
        self._descriptor = descriptor

    def release(self) -> None:
        """Give the lock back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class Transactions:
    """A connection, and how calls are carried out on it: readers one by one, writers together in one transaction.

    Args:
        on_rollback: called when something was undone, so that what was remembered of it is forgotten.

    Attributes:
        sizes: of a writer's groups, in calls; written by whoever carries them out.
    """

    def __init__(self, path: Path, *, is_writer: bool, on_rollback: Callable[[], None]) -> None:
        self._path = path
        self._is_writer = is_writer
        self._on_rollback = on_rollback
        self.sizes = Distribution(SIZES)
        self._connection: apsw.Connection | None = None

    def open(self) -> None:
        """Connect.

        Raises:
            apsw.Error: the file cannot be opened.
        """
        connection = apsw.Connection(str(self._path), statementcachesize=256)
        # Or else SQLite plans a statement anew whenever another value is bound to it: 20 µs each time.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        for pragma in _PRAGMAS:
            connection.execute(pragma)
        self._connection = connection

    def close(self) -> None:
        """Disconnect; what is not committed is undone."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def begin(self, group: list[DatabaseCall]) -> None:
        """Carry out calls; what a writer did is durable after `commit`."""
        assert self._connection is not None
        if not self._is_writer:
            self._read(self._connection, group)
            return
        self.sizes.add(len(group))
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for call in group:
                self._write_one(self._connection, call, is_only=len(group) == 1)
        except apsw.Error as error:
            self._fail(self._connection, group, error)

    def commit(self, group: list[DatabaseCall]) -> None:
        """Make what `begin` did durable; only then may the calls be answered."""
        assert self._connection is not None
        try:
            if self._is_writer and len(group) == 1 and group[0].error is not None:
                self._roll_back(self._connection)
            elif self._connection.in_transaction:
                self._connection.execute("COMMIT")
        except apsw.Error as error:
            self._fail(self._connection, group, error)

    def _read(self, connection: apsw.Connection, group: list[DatabaseCall]) -> None:
        for call in group:
            try:
                call.result = call.work(connection)
            except Exception as error:  # noqa: BLE001 - handed to whoever awaits the call
                call.error = translate(error)

    def _write_one(self, connection: apsw.Connection, call: DatabaseCall, *, is_only: bool) -> None:
        if not is_only:
            connection.execute("SAVEPOINT one")
        try:
            call.result = call.work(connection)
        except Exception as error:  # noqa: BLE001 - handed to whoever awaits the call
            call.error = translate(error)
            if not is_only:
                self._on_rollback()
                # Where SQLite has rolled the whole transaction back itself (disk full), this raises for the group.
                connection.execute("ROLLBACK TO one")
        if not is_only:
            connection.execute("RELEASE one")

    def _fail(self, connection: apsw.Connection, group: list[DatabaseCall], error: apsw.Error) -> None:
        self._roll_back(connection)
        # Where one call failed for good reason (a full disk), that is the reason for all: nothing was committed.
        cause = next((call.error for call in group if isinstance(call.error, StoreUnavailable)), None)
        for call in group:
            call.error = cause or call.error or translate(error)

    def _roll_back(self, connection: apsw.Connection) -> None:
        self._on_rollback()
        if connection.in_transaction:
            connection.execute("ROLLBACK")


class Database(Protocol):
    """What carries out a store's calls in order, each in a transaction."""

    def start(self) -> None:
        """Get ready to take calls, on the running loop."""
        ...

    async def stop(self) -> None:
        """Finish what was asked for, and end."""
        ...

    async def call(self, work: Callable[[apsw.Connection], R]) -> R:
        """Carry out `work`; for a writer, return once it is committed."""
        ...


class DatabaseThread:
    """A lane in a thread with a connection of its own."""

    def __init__(self, transactions: Transactions, *, name: str) -> None:
        self._transactions = transactions
        self._calls: queue.SimpleQueue[DatabaseCall | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_open = False

    def start(self) -> None:
        """Start the thread."""
        self._loop = asyncio.get_running_loop()
        self._is_open = True
        self._thread.start()

    async def stop(self) -> None:
        """Finish what was asked for, and end."""
        if self._is_open:
            self._is_open = False
            self._calls.put(None)
            await asyncio.to_thread(self._thread.join)

    async def call(self, work: Callable[[apsw.Connection], R]) -> R:
        """Carry out `work` in the thread; for a writer, return once it is committed."""
        if not self._is_open or self._loop is None:
            raise StoreUnavailable("the store is closed")
        call = DatabaseCall(work, self._loop.create_future())
        self._calls.put(call)
        result: R = await call.future
        return result

    def _serve(self) -> None:
        try:
            self._transactions.open()
        except apsw.Error as error:
            self._refuse_all(error)
            return
        is_ending = False
        while not is_ending:
            first = self._calls.get()
            if first is None:
                break
            group = [first]
            while len(group) < GROUP:
                try:
                    call = self._calls.get_nowait()
                except queue.Empty:
                    break
                if call is None:
                    is_ending = True
                    break
                group.append(call)
            self._transactions.begin(group)
            self._transactions.commit(group)
            self._answer(group)
        self._transactions.close()

    def _refuse_all(self, error: apsw.Error) -> None:
        """Answer every call with the reason why there is no connection, until told to stop."""
        while (call := self._calls.get()) is not None:
            call.error = translate(error)
            self._answer([call])

    def _answer(self, group: list[DatabaseCall]) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(answer, group)
        except RuntimeError:  # the loop was closed under us: nobody waits any more
            self._is_open = False


def answer(group: list[DatabaseCall]) -> None:
    """Give each call's result, or its error, to whoever waits for it."""
    for call in group:
        if call.future.done():
            continue
        if call.error is not None:
            call.future.set_exception(call.error)
        else:
            call.future.set_result(call.result)


def translate(error: BaseException) -> BaseException:
    """Turn SQLite's errors that are nobody's fault here into `StoreUnavailable`; leave bugs as they are."""
    if isinstance(error, MainspringError):
        return error
    if isinstance(error, apsw.FullError):
        return _unavailable("the disk is full", error)
    if isinstance(
        error, apsw.IOError | apsw.CantOpenError | apsw.ReadOnlyError | apsw.BusyError | apsw.LockedError
    ):
        return _unavailable("the database file cannot be read or written", error)
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return _unavailable("the database file is damaged", error)
    return error


def _unavailable(what: str, error: BaseException) -> StoreUnavailable:
    unavailable = StoreUnavailable(f"SQLite: {what} ({error})")
    unavailable.__cause__ = error
    return unavailable
