"""One process: a writer thread with group commit, a reader thread, and one that reads for people (design 8).

Calls that arrive during a commit share the next transaction, each in its own savepoint. So full durability
(synchronous=FULL) costs them one disk flush together.
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

from mainspring.errors import MainspringError, StoreLocked, StoreUnavailable, TookTooLong
from mainspring.ports.telemetry import SIZES, Distribution

R = TypeVar("R")
Work = Callable[[apsw.Connection], Any]
_PRIVATE = 0o600
"""The mode of files that hold jobs and payloads: only the server's own user may read them."""
GROUP = 128
"""The most calls in one transaction. It bounds how long the first of them waits."""
_STEPS = 10_000
"""How many steps of SQLite's machine a read makes before it checks whether anybody still waits: about 0.2 ms."""
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA busy_timeout = 10000",
    "PRAGMA cache_size = -65536",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA wal_autocheckpoint = 4000",
)


class DatabaseCall:
    """A call that a database thread runs, and its outcome.

    Attributes:
        is_given_up: nobody waits for the result any more. A read with a limit is then stopped.
    """

    __slots__ = ("error", "future", "is_given_up", "result", "work")

    def __init__(self, work: Work, future: asyncio.Future[Any]) -> None:
        self.work: Work = work
        self.future: asyncio.Future[Any] = future
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_given_up: bool = False

    def give_up(self) -> None:
        """Note that nobody waits for the result any more."""
        self.is_given_up = True


class LockFile:
    """Reserves a folder for one process. The kernel releases the lock when the process ends, however it ends.

    The file has the number of that process, and below it the address of its API, if it serves one.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock.

        Raises:
            StoreLocked: another process holds it.
            StoreUnavailable: the folder is not writable.
        """
        folder = self._path.parent
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _PRIVATE)
        except OSError as error:
            raise StoreUnavailable(f"{folder} cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = _name_holder(os.pread(descriptor, 32, 0))
            os.close(descriptor)
            message = f"{folder} is in use by {holder}; stop it, or choose another folder"
            raise StoreLocked(message) from error
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            os.close(descriptor)
            raise StoreUnavailable(f"{folder} cannot be written: {error.strerror}") from error
        self._descriptor = descriptor

    def release(self) -> None:
        """Release the lock."""
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            fcntl.flock(
                self._descriptor, fcntl.LOCK_UN
            )  # closing leaves it to a process that was forked from this one
            os.close(self._descriptor)
            self._descriptor = None


def _name_holder(written: bytes) -> str:
    """Name the process that wrote its number into the lock file, unless that process is gone: then another holds it."""
    pid = written.partition(b"\n")[0].strip()
    if not pid.isdigit() or int(pid) == 0:
        return "another process"
    try:
        os.kill(int(pid), 0)
    except PermissionError:  # it exists, as another user's
        pass
    except (ProcessLookupError, OverflowError):
        return "another process"
    return f"process {int(pid)}"


def make_private_file(path: Path) -> None:
    """Make a database file that only this user may read; one that exists keeps its mode.

    SQLite would make it readable by everyone whom the umask allows. It gives `-wal` and `-shm` the mode of the file.

    Raises:
        StoreUnavailable: it cannot be made.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _PRIVATE))
    except FileExistsError:
        return  # not even opened: closing it would release the locks that SQLite holds in this process
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be made: {error.strerror}") from error


def logs_path(path: Path) -> Path:
    """Return the file of what attempts write while they run, beside the store's."""
    return path.with_name(f"{path.stem}-logs{path.suffix}")


def attach_logs(connection: apsw.Connection, path: Path | None = None) -> None:
    """Attach the schema `logs`, unless it is there.

    What a killed process has written there stays, as it is the kernel's by then. Only a power cut may take the last of
    it, because nobody waits for the disk.

    Args:
        path: None is nowhere: it lasts as long as the connection.
    """
    if "logs" in connection.db_names():
        return
    connection.execute("ATTACH ? AS logs", (":memory:" if path is None else str(path),))
    if path is not None:
        connection.execute("PRAGMA logs.journal_mode = WAL")
        connection.execute("PRAGMA logs.synchronous = NORMAL")


class Transactions:
    """A connection, and how it runs calls: a reader one by one, a writer as one transaction for a group.

    Args:
        on_rollback: called after a rollback, to drop cached values that the rollback made invalid.
        is_limited: stop reads that are given up.

    Attributes:
        sizes: the number of calls in each of a writer's groups. Only the thread that runs them writes it.
    """

    def __init__(
        self, path: Path, *, is_writer: bool, on_rollback: Callable[[], None], is_limited: bool = False
    ) -> None:
        self._path = path
        self._is_limited = is_limited
        self._current: DatabaseCall | None = None
        self._is_writer = is_writer
        self._on_rollback = on_rollback
        self.sizes: Distribution = Distribution(SIZES)
        self._connection: apsw.Connection | None = None

    def open(self) -> None:
        """Connect.

        Raises:
            apsw.Error: the file cannot be opened.
        """
        connection = apsw.Connection(str(self._path), statementcachesize=256)
        # Otherwise SQLite plans a statement again each time another value is bound to it, which takes 20 µs.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        for pragma in _PRAGMAS:
            connection.execute(pragma)
        attach_logs(connection, logs_path(self._path))
        if self._is_limited:
            connection.set_progress_handler(self._is_given_up, _STEPS)
        self._connection = connection

    def close(self) -> None:
        """Disconnect, and roll back what is not committed."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def begin(self, group: list[DatabaseCall]) -> None:
        """Run the calls of a group. A writer's changes are durable after `commit`."""
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
        """Make the changes of `begin` durable. Answer the calls only after this."""
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
            self._current = call
            try:
                call.result = call.work(connection)
            except Exception as error:  # noqa: BLE001 - raised where the call is awaited
                call.error = translate(error)
            self._current = None

    def _is_given_up(self) -> bool:
        """Tell SQLite whether to stop the read that is under way."""
        return self._current is not None and self._current.is_given_up

    def _write_one(self, connection: apsw.Connection, call: DatabaseCall, *, is_only: bool) -> None:
        if not is_only:
            connection.execute("SAVEPOINT one")
        try:
            call.result = call.work(connection)
        except Exception as error:  # noqa: BLE001 - raised where the call is awaited
            call.error = translate(error)
            if not is_only:
                self._on_rollback()
                # If SQLite has already rolled back the whole transaction (disk full), this fails the whole group.
                connection.execute("ROLLBACK TO one")
        if not is_only:
            connection.execute("RELEASE one")

    def _fail(self, connection: apsw.Connection, group: list[DatabaseCall], error: apsw.Error) -> None:
        self._roll_back(connection)
        # If one call failed because of a full disk or a damaged file, that is the cause for all: none is committed.
        cause = next((call.error for call in group if isinstance(call.error, StoreUnavailable)), None)
        for call in group:
            call.error = cause or call.error or translate(error)

    def _roll_back(self, connection: apsw.Connection) -> None:
        self._on_rollback()
        if connection.in_transaction:
            connection.execute("ROLLBACK")


class Database(Protocol):
    """Runs a store's calls in order, each in a transaction."""

    def start(self) -> None:
        """Accept calls from the running event loop."""
        ...

    async def stop(self) -> None:
        """Finish the calls already made, then stop."""
        ...

    async def call(self, work: Callable[[apsw.Connection], R]) -> R:
        """Run `work` and return its result; for a writer, after the commit."""
        ...


class DatabaseThread:
    """A thread with its own connection.

    Args:
        patience: how long a call may take, in seconds, its wait for those before it included. Such a thread takes
            calls one at a time, and stops the one that is under way when its time is over or its caller is gone. None
            means as long as it takes.
    """

    def __init__(self, transactions: Transactions, *, name: str, patience: float | None = None) -> None:
        self._transactions = transactions
        self._patience = patience
        self._most = GROUP if patience is None else 1
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
        """Finish the calls already made, then stop."""
        if self._is_open:
            self._is_open = False
            self._calls.put(None)
            await asyncio.to_thread(self._thread.join)

    async def call(self, work: Callable[[apsw.Connection], R]) -> R:
        """Run `work` in the thread and return its result; for a writer, after the commit.

        Raises:
            StoreUnavailable: the store is closed, or SQLite cannot read or write its file.
            TookTooLong: the call was not done within the thread's patience.
        """
        if not self._is_open or self._loop is None:
            raise StoreUnavailable("the store is closed")
        call = DatabaseCall(work, self._loop.create_future())
        result: R
        if self._patience is None:
            self._calls.put(call)
            result = await call.future
            return result
        timer = self._loop.call_later(self._patience, call.give_up)
        try:
            self._calls.put(call)
            result = await call.future
        finally:
            timer.cancel()
            call.give_up()
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
            while len(group) < self._most:
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
        """Fail every call with the error that prevented the connection, until `stop` is called."""
        while (call := self._calls.get()) is not None:
            call.error = translate(error)
            self._answer([call])

    def _answer(self, group: list[DatabaseCall]) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(answer, group)
        except RuntimeError:  # the event loop is closed: no caller is left
            self._is_open = False


def answer(group: list[DatabaseCall]) -> None:
    """Set each call's result or error on its future, unless its caller was cancelled."""
    for call in group:
        if call.future.done():
            continue
        if call.error is not None:
            call.future.set_exception(call.error)
        else:
            call.future.set_result(call.result)


def translate(error: BaseException) -> BaseException:
    """Return `StoreUnavailable` for SQLite's errors about disk and file, and any other error unchanged."""
    if isinstance(error, MainspringError):
        return error
    if isinstance(error, apsw.InterruptError):
        return TookTooLong("SQLite: the read was stopped at its limit")
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
