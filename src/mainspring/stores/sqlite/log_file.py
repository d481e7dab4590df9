"""The file of what attempts write while they run: one that is damaged harms nothing else."""

from __future__ import annotations

from collections.abc import Awaitable
from itertools import count
from pathlib import Path
from typing import TypeVar

import apsw
import structlog

from mainspring.errors import StoreUnavailable
from mainspring.stores.sqlite.connection import attach_logs
from mainspring.stores.sqlite.statements import execute, fetch_value

T = TypeVar("T")
_log = structlog.get_logger(__name__)
_DAMAGE = (apsw.CorruptError, apsw.NotADBError)
_TABLES = 2
_BESIDE = ("", "-wal", "-shm")


def set_aside_if_damaged(path: Path) -> None:
    """Rename a file that is no database any more, so that a new one takes its place.

    Only its beginning is looked at, so this takes no time.
    """
    if not path.exists():
        return
    try:
        connection = apsw.Connection(":memory:")
        try:
            attach_logs(connection, path)
            if fetch_value(connection, "has_run_logs") == _TABLES:
                execute(connection, "look_at_run_logs")
        finally:
            connection.close()
    except _DAMAGE as error:
        _set_aside(path, error)
    except apsw.Error:
        return  # the store is about to open it, and tells what is wrong


def _set_aside(path: Path, error: apsw.Error) -> None:
    names = (path.with_name(f"{path.name}.damaged{number or ''}") for number in count())
    aside = next(name for name in names if not name.exists())
    for end in _BESIDE:
        old = path.with_name(path.name + end)
        if old.exists():
            old.rename(aside.with_name(aside.name + end))
    meaning = (
        "what runs have written live is lost, but for what their reports have; delete the file, or mend it"
    )
    _log.warning("run_logs_set_aside", file=str(aside), error=str(error), meaning=meaning)


async def or_nothing(work: Awaitable[T], nothing: T) -> T:
    """Await work on the file. If that is damaged, tell so, and return what there is then.

    Raises:
        StoreUnavailable: something else is wrong.
    """
    try:
        return await work
    except StoreUnavailable as error:
        if not isinstance(error.__cause__, _DAMAGE):
            raise
        _log.warning("run_logs_damaged", error=str(error), meaning="the next start sets the file aside")
        return nothing
