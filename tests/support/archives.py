"""A day of the history that is written into an archive, as the tests do it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb

from mainspring.archive.child import kind_of, run_task
from mainspring.archive.reading import ArchiveReader, QueryLimits
from mainspring.archive.tasks import Task, TaskDone
from mainspring.archive.writing import ERRORS, ChildArchive
from mainspring.clock import LoopWaiter
from mainspring.engine.scheduling.archiver import Archiver
from mainspring.engine.scheduling.ownership import Ownership
from mainspring.engine.settling.janitor import Janitor, Retention
from mainspring.errors import MainspringError
from mainspring.objects import open_place, read_place
from mainspring.ports.store import Store
from mainspring.testing.factories import START, own_shards

KEEP = timedelta(days=1)
LATER = START + timedelta(days=3)
LIMITS = QueryLimits(memory=256_000_000, seconds=20, fetched=10**9, rows=1000)


class InProcess(ChildArchive):
    """Does the tasks of the child process in a thread of this one, which takes less time."""

    async def _run(self, task: Task) -> TaskDone:
        try:
            return await asyncio.to_thread(run_task, task)
        except (MainspringError, OSError, duckdb.Error) as error:
            raise ERRORS[kind_of(error)](str(error)) from None


@asynccontextmanager
async def opened(store: Store) -> AsyncIterator[Store]:
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def archive_in(url: object) -> InProcess:
    return InProcess(str(url), read_place(str(url), "archive.url"), memory=256_000_000)


def new_folder(path: Path) -> Path:
    path.mkdir()
    return path


def files_in(folder: Path, pattern: str = "*") -> list[Path]:
    return [path for path in folder.rglob(pattern) if path.is_file()]


async def own(store: Any) -> Ownership:
    ownership = Ownership()
    ownership.update(await own_shards(store))
    return ownership


def make_archiver(store: Any, archive: Any, ownership: Ownership) -> Archiver:
    return Archiver(store, archive, ownership=ownership, waiter=LoopWaiter(), keep=KEEP)


def make_janitor(store: Any, *, archives: bool = True) -> Janitor:
    return Janitor(store, waiter=LoopWaiter(), retention=Retention(history=KEEP), archives=archives)


async def settle(archiver: Archiver, janitor: Janitor) -> None:
    """Let both work until nothing is left to do."""
    for _ in range(30):
        waits = await archiver.tick(LATER)
        again = await janitor.tick(LATER)
        if waits and again >= 1:
            break
    await archiver.tick(LATER)


def reader_of(url: object, scratch: Path) -> ArchiveReader:
    scratch.mkdir(exist_ok=True)
    return ArchiveReader(
        open_place(read_place(str(url), "archive.url"), feature="archive.url", extra="archive"),
        scratch=scratch,
    )


def read(url: object, sql: str, scratch: Path, *, tenant: str | None = None) -> list[Any]:
    reader = reader_of(url, scratch)
    return [tuple(row) for row in reader.query(sql, reader.list_days(), tenant=tenant, limits=LIMITS).rows]
