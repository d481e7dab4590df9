"""Looks at a store on SQLite, also while its process runs."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import apsw

from mainspring.core.ciphertexts import KeyUses, heads_of
from mainspring.core.doctor import ClusterLook, FolderFacts, StoreLook, TokenLook
from mainspring.errors import MainspringError
from mainspring.stores._sql.doctor import (
    ARCHIVED_SINCE,
    INSTALLED_SINCE,
    LOGINS_SINCE,
    MOST_TOKENS,
    SOON,
    look_at_tokens,
    make_cluster_look,
)
from mainspring.stores._sql.migrate import ENCRYPTED_SINCE
from mainspring.stores.sqlite.access import find_ending
from mainspring.stores.sqlite.archive import find_unarchived
from mainspring.stores.sqlite.connection import translate
from mainspring.stores.sqlite.rows import to_instant, to_json, to_micros
from mainspring.stores.sqlite.statements import fetch_rows, fetch_value

_MOUNTS = Path("/proc/mounts")
_TRIES = 3
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class SqliteExaminer:
    """Implements `StoreExaminer`.

    Args:
        path: the database file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    async def look(self, *, monotonic: Callable[[], float], now: Callable[[], datetime]) -> StoreLook:
        """See `StoreExaminer`."""
        return await asyncio.to_thread(self._look, monotonic, now)

    async def count_key_uses(self, key_ids: Sequence[str]) -> Mapping[str, KeyUses]:
        """See `StoreExaminer`."""
        return await asyncio.to_thread(self._count_key_uses, key_ids)

    def _count_key_uses(self, key_ids: Sequence[str]) -> Mapping[str, KeyUses]:
        found = {}
        try:
            with closing(apsw.Connection(str(self._path), flags=apsw.SQLITE_OPEN_READWRITE)) as db:
                db.set_busy_timeout(1000)
                db.execute("PRAGMA query_only = ON")
                for key_id in key_ids:
                    heads = heads_of(key_id)
                    values = {
                        "data": heads.data,
                        "text": heads.text,
                        "definitions": to_json(list(heads.definitions)),
                    }
                    [row] = fetch_rows(db, "count_key_uses", values)
                    found[key_id] = KeyUses(row.jobs, row.runs, row.dead_runs)
        except apsw.Error:
            return found
        return found

    def _look(self, monotonic: Callable[[], float], now: Callable[[], datetime]) -> StoreLook:
        label = str(self._path)
        if not self._path.exists():
            return StoreLook(label=label, error="there is no such file")
        connection: apsw.Connection | None = None
        try:
            connection = apsw.Connection(label, flags=apsw.SQLITE_OPEN_READWRITE)
            connection.set_busy_timeout(1000)
            connection.execute("PRAGMA query_only = ON")
            return self._look_through(connection, label, monotonic, now)
        except apsw.Error as error:
            return StoreLook(label=label, error=str(translate(error)))
        except (MainspringError, OSError) as error:
            return StoreLook(label=label, error=str(error))
        finally:
            if connection is not None:
                connection.close()

    def _look_through(
        self,
        db: apsw.Connection,
        label: str,
        monotonic: Callable[[], float],
        now: Callable[[], datetime],
    ) -> StoreLook:
        begun, here = monotonic(), now()
        there = to_instant(int(fetch_value(db, "read_time")) * 1000)
        round_trip = monotonic() - begun
        is_store = bool(fetch_rows(db, "find_migration_table"))
        number = int(fetch_value(db, "read_schema_number")) if is_store else None
        return StoreLook(
            label=label,
            schema=number,
            clock_ahead=(there - here).total_seconds(),
            round_trip=round_trip,
            folder=self._look_at_folder(db, monotonic),
            cluster=None if number is None else _look_at_cluster(db, there, schema=number),
        )

    def _look_at_folder(self, db: apsw.Connection, monotonic: Callable[[], float]) -> FolderFacts:
        folder = self._path.parent
        usage = shutil.disk_usage(folder)
        log = self._path.with_name(f"{self._path.name}-wal")
        is_own = os.access(self._path, os.W_OK) and os.access(folder, os.W_OK)
        return FolderFacts(
            path=str(folder),
            filesystem=filesystem_of(folder),
            free=usage.free,
            size=usage.total,
            is_private=not self._path.stat().st_mode & _OTHERS,
            is_own=is_own,
            journal=str(fetch_value(db, "read_journal_mode")),
            log_size=log.stat().st_size if log.exists() else 0,
            sync=_time_sync(folder, monotonic) if is_own else 0.0,
        )


def filesystem_of(folder: Path, mounts: str | None = None) -> str:
    """Return the type of the file system that a folder is on, as the kernel names it.

    Args:
        mounts: the kernel's list; None reads it.
    """
    if mounts is None:
        mounts = _MOUNTS.read_text() if _MOUNTS.exists() else ""
    path = folder.resolve()
    found, longest = "unknown", -1
    for line in mounts.splitlines():
        _, place, kind, *_ = line.split(" ")
        place = place.replace("\\040", " ")
        if path.is_relative_to(place) and len(place) >= longest:
            found, longest = kind, len(place)
    return found


def _time_sync(folder: Path, monotonic: Callable[[], float]) -> float:
    """Return how long a small write takes until it is on the disk: the middle of a few."""
    path = folder / f".doctor-{os.getpid()}"
    taken = []
    try:
        for _ in range(_TRIES):
            begun = monotonic()
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, b"\0" * 4096)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            taken.append(monotonic() - begun)
    finally:
        path.unlink(missing_ok=True)
    return sorted(taken)[len(taken) // 2]


def _look_at_cluster(db: apsw.Connection, now: datetime, *, schema: int) -> ClusterLook | None:
    values = {"now": to_micros(now)}

    def rows(name: str) -> list[Mapping[str, Any]]:
        return [row._asdict() for row in fetch_rows(db, name, values)]

    found = rows("look_at_cluster")
    if not found:
        return None
    return make_cluster_look(
        found[0],
        nodes=rows("look_at_nodes"),
        queues=rows("look_at_queues"),
        tokens=look_at_tokens(find_ending(db, after=now, before=now + SOON, limit=MOST_TOKENS), now)
        if schema >= LOGINS_SINCE
        else [TokenLook(**row) for row in rows("look_at_tokens_before_logins")],
        channels=[row._asdict() for row in fetch_rows(db, "look_at_channels")],
        ledger=fetch_value(db, "read_ledger_check"),
        unarchived=find_unarchived(db, now) if schema >= ARCHIVED_SINCE else None,
        keys=[row._asdict() for row in fetch_rows(db, "list_encryption_keys")]
        if schema >= ENCRYPTED_SINCE
        else [],
        home=rows("read_archive")[0] if schema >= INSTALLED_SINCE else {},
        now=now,
    )
