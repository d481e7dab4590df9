"""Copies a SQLite store into a file while its process runs, and fills an empty folder from such a file."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import apsw

from mainspring.core.backups import (
    BackupManifest,
    KeptClock,
    LedgerFacts,
    Restored,
    SealFacts,
    StoreFacts,
    step_over,
    sum_up_ledger,
)
from mainspring.errors import Conflict, InvalidInput, StoreUnavailable
from mainspring.ports.backups import Saved
from mainspring.stores.sqlite.connection import (
    LockFile,
    attach_logs,
    logs_path,
    make_private_file,
    translate,
)
from mainspring.stores.sqlite.rows import make_job_id, to_instant, to_micros, to_optional_instant
from mainspring.stores.sqlite.statements import execute, fetch_row, fetch_rows, fetch_value, fetch_values
from mainspring.stores.sqlite.store import migrate

_LOG_TABLES = 2
_PATIENCE = 10_000
"""Milliseconds to wait for a lock of the process that uses the store."""


class SqliteBackups:
    """Implements `BackupStore` by `VACUUM INTO`: it reads one snapshot, however much is written meanwhile.

    Args:
        path: the database file.
    """

    kind = "sqlite"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._copying: apsw.Connection | None = None

    async def save(self, file: Path) -> Saved:
        """See `BackupStore`."""
        if not self._path.exists():
            raise InvalidInput("store", f"there is no {self._path}; name the folder that has mainspring.db")
        try:
            return await asyncio.to_thread(self._save, file)
        except asyncio.CancelledError:
            if self._copying is not None:
                self._copying.interrupt()  # or its thread would hold up the end until it is done
            raise

    def _save(self, file: Path) -> Saved:
        with _opened(self._path, apsw.SQLITE_OPEN_READWRITE) as db:
            taken_at = to_instant(int(fetch_value(db, "read_time")) * 1000)
            self._copying = db
            try:
                execute(db, "copy_into", {"file": str(file)})
            finally:
                self._copying = None
        self._copy_logs(file)
        _sync(file)
        with _opened(file, apsw.SQLITE_OPEN_READONLY) as db:
            return Saved(f"sqlite {apsw.sqlite_lib_version()}", taken_at, _read_facts(db))

    def _copy_logs(self, file: Path) -> None:
        """Put into the copy what attempts have written, too; it is in a file of its own."""
        logs = logs_path(self._path)
        if not logs.exists():  # of an earlier release
            return
        with _opened(file, apsw.SQLITE_OPEN_READWRITE) as db:
            attach_logs(db, logs)
            self._copying = db
            try:
                if fetch_value(db, "has_run_logs") == _LOG_TABLES:
                    execute(db, "copy_log_chunks")
                    execute(db, "copy_run_progress")
            finally:
                self._copying = None

    async def restore(self, file: Path, manifest: BackupManifest, *, now: datetime) -> Restored:
        """See `BackupStore`."""
        return await asyncio.to_thread(self._restore, file, manifest, now)

    def _restore(self, file: Path, manifest: BackupManifest, now: datetime) -> Restored:
        lock = LockFile(self._path.with_name(f"{self._path.name}.lock"))
        lock.acquire()
        part = self._path.with_name(f"{self._path.name}.part")
        try:
            self._refuse_full()
            part.unlink(missing_ok=True)
            make_private_file(part)
            shutil.copyfile(file, part)
            restored = _make_ours(part, manifest, now)
            for made in (logs_path(part), part):
                _sync(made)
            logs_path(part).replace(logs_path(self._path))
            part.replace(self._path)
            _sync(self._path.parent)
            return restored
        except OSError as error:
            raise StoreUnavailable(
                f"{self._path.parent} cannot take the copy: {error.strerror or error}"
            ) from error
        finally:
            for left in (part, *_beside(part), logs_path(part), *_beside(logs_path(part))):
                left.unlink(missing_ok=True)
            lock.release()

    def _refuse_full(self) -> None:
        logs = logs_path(self._path)
        for path in (self._path, *_beside(self._path), logs, *_beside(logs)):
            if path.exists():
                raise Conflict("store", f"{path} is there; a restore needs a folder without a store")


def _make_ours(part: Path, manifest: BackupManifest, now: datetime) -> Restored:
    """Look at a copy, and change in it what those of before must not meet again."""
    step = step_over(manifest.taken_at, now)
    with _opened(part, apsw.SQLITE_OPEN_READWRITE) as db:
        if (said := fetch_value(db, "check_pages")) != "ok":
            raise InvalidInput("file", f"it is damaged: {said}")
        found = _read_facts(db)
        make_private_file(logs_path(part))
        attach_logs(db, logs_path(part))
        db.execute("PRAGMA logs.journal_mode = DELETE")  # so that it is one file, which can be moved
        db.execute("BEGIN IMMEDIATE")
        migrate(db)
        _take_logs(db)
        sessions, runs = _step_over(db, step, to_micros(now))
        db.execute("COMMIT")
    return Restored(found=found, step=step, sessions=sessions, runs=runs)


def _take_logs(db: apsw.Connection) -> None:
    """Put what attempts have written into a file of its own."""
    if fetch_value(db, "has_copied_logs") == _LOG_TABLES:
        for name in ("take_log_chunks", "take_run_progress", "drop_copied_chunks", "drop_copied_progress"):
            execute(db, name)


def _step_over(db: apsw.Connection, step: int, now: int) -> tuple[int, int]:
    """Raise what the store gives out, and end all sessions. Return how many there were, and how many runs they held."""
    ended = fetch_values(db, "end_sessions_of_before", {"now": now})
    execute(db, "copy_holding_sessions", {"step": step, "now": now})
    held = fetch_values(db, "hand_over_held", {"step": step})
    execute(db, "begin_id_sequences")
    for name in (
        "raise_id_sequences",
        "raise_run_sequence",
        "raise_epochs",
        "raise_clock_revisions",
    ):
        execute(db, name, {"step": step})
    execute(db, "raise_all_revisions", {"step": step, "now": now})
    execute(db, "forget_nodes")
    return len(ended), len(held)


def _read_facts(db: apsw.Connection) -> StoreFacts:
    rows = {table.name: _count(db, table.counting) for table in fetch_rows(db, "list_tables")}
    if "migration" not in rows:
        raise InvalidInput("store", "it is no store of Mainspring")
    seal = fetch_row(db, "read_newest_seal")
    return StoreFacts(
        schema=int(fetch_value(db, "read_schema_number")),
        rows=rows,
        seal=None if seal is None else SealFacts(id=seal.id, digest=seal.digest.hex()),
        ledger=_read_ledger(db),
    )


def _count(db: apsw.Connection, counting: str) -> int:
    [(count,)] = db.execute(counting).fetchall()
    assert isinstance(count, int)
    return count


def _read_ledger(db: apsw.Connection) -> LedgerFacts:
    return sum_up_ledger(
        KeptClock(
            job_id=make_job_id(row.job_id),
            next_fire_at=to_optional_instant(row.next_fire_at),
            fired_through=to_optional_instant(row.fired_through),
            fires=row.fires,
            last_fire_at=to_optional_instant(row.last_fire_at),
        )
        for row in fetch_rows(db, "list_clock_facts")
    )


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[apsw.Connection]:
    """Open a database for a while.

    Raises:
        StoreUnavailable: SQLite cannot read or write it.
        InvalidInput: it is not what it should be.
    """
    connection: apsw.Connection | None = None
    try:
        connection = apsw.Connection(str(path), flags=flags)
        connection.set_busy_timeout(_PATIENCE)
        yield connection
    except apsw.SQLError as error:
        raise InvalidInput(
            "store", f"{path} is no store of Mainspring, or too old a one ({error})"
        ) from error
    except apsw.Error as error:
        raise translate(error) from error
    finally:
        if connection is not None:
            connection.close()


def _beside(path: Path) -> tuple[Path, ...]:
    return tuple(path.with_name(f"{path.name}{end}") for end in ("-wal", "-shm", "-journal"))


def _sync(path: Path) -> None:
    """Make what was written outlast a power cut: `VACUUM INTO` does not."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
