"""Writes the archive by a child process for each part."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import date
from importlib.util import find_spec
from pathlib import Path

import msgspec

from mainspring.archive.tasks import (
    FORMAT,
    MANIFEST,
    OWN_MEMORY,
    BeginTask,
    CheckTask,
    DayManifest,
    FailureKind,
    FinishTask,
    PartFacts,
    Task,
    TaskDone,
    TaskFailed,
    WriteTask,
)
from mainspring.core.archive import ArchivedFile, ArchiveKind, RowSum, day_folder
from mainspring.errors import MainspringError, MissingExtra
from mainspring.objects import FULL, DiskFull, ObjectPlace, check_room
from mainspring.ports.archive import (
    ArchiveFull,
    ArchiveMismatch,
    ArchiveSpool,
    ArchiveStopped,
    ArchiveUnavailable,
)

_PREFIX = "mainspring-archive-"
_CHUNK = 1 << 20
ERRORS: dict[FailureKind, type[MainspringError]] = {
    FailureKind.MISMATCH: ArchiveMismatch,
    FailureKind.FULL: ArchiveFull,
    FailureKind.OTHER: ArchiveUnavailable,
}
SHARE = 0.4
"""Of the memory for making a file, what a copy may be: measured with narrow and wide rows."""
COPIES = 3
"""What a copy takes while a file is made of it: itself, what does not fit into the memory, and the file."""
ROOM = 64 << 20
"""Bytes that stay free besides."""
_OLD = 3600.0
"""Seconds after which a copy may be one that was left. Processes of other containers are not seen from here."""


class FileSpool:
    """A copy in a file. Implements `ArchiveSpool`."""

    def __init__(self, folder: Path) -> None:
        self.file: Path = folder / "rows.csv"
        self._pending: list[bytes] = []
        self._size = 0
        self._is_closed = False

    async def begin(self) -> None:
        """Forget what has come."""
        self._pending, self._size = [], 0
        try:
            await asyncio.to_thread(self.file.write_bytes, b"")
        except OSError as error:
            raise self._no_room(error) from None

    async def write(self, data: bytes) -> None:
        """Take more of it.

        Raises:
            ArchiveStopped: nobody waits for it any more.
        """
        if self._is_closed:
            raise ArchiveStopped("the process stops")
        self._pending.append(data)
        self._size += len(data)
        if self._size >= _CHUNK:
            await self.flush()

    async def flush(self) -> None:
        """Write what is pending."""
        data, self._pending, self._size = b"".join(self._pending), [], 0
        try:
            await asyncio.to_thread(self._append, data)
        except OSError as error:
            raise self._no_room(error) from None

    def close(self) -> None:
        """Take no more."""
        self._is_closed = True

    def _no_room(self, error: OSError) -> ArchiveUnavailable:
        kind = ArchiveFull if error.errno in FULL else ArchiveUnavailable
        return kind(f"no room for a copy in {self.file.parent}: {error.strerror}")

    def _append(self, data: bytes) -> None:
        with self.file.open("ab") as file:
            file.write(data)


class ChildArchive:
    """Implements `Archive`.

    Args:
        url: the setting `archive.url`, which `place` was read from.
        memory: how much a child process may use, in bytes.

    Raises:
        MissingExtra: the extra `archive` is not installed.
    """

    def __init__(self, url: str, place: ObjectPlace, *, memory: int) -> None:
        needed = ("duckdb",) if place.kind == "folder" else ("duckdb", "obstore")
        if not all(find_spec(name) for name in needed):  # without importing them: only the child does
            raise MissingExtra("archive.url", "archive")
        self._url = url
        self._place = place
        self._memory = memory
        self._installation = ""

    @property
    def url(self) -> str:
        """See `Archive`."""
        return self._url

    def url_of(self, name: str) -> str:
        """See `Archive`."""
        return self._place.url_of(name)

    @property
    def part_weight(self) -> int:
        """See `Archive`."""
        return int((self._memory - OWN_MEMORY) * SHARE)

    async def begin(self, day: date, *, installation: str) -> int | None:
        """See `Archive`."""
        self._installation = installation
        async with _folder() as folder:
            task = BeginTask(
                url=self._url, installation=installation, name=_manifest_of(day), scratch=str(folder)
            )
            return (await self._run(task)).last

    @asynccontextmanager
    async def open_spool(self, size: int = 0) -> AsyncIterator[ArchiveSpool]:
        """See `Archive`."""
        async with _folder() as folder:
            try:
                await asyncio.to_thread(check_room, folder, COPIES * size + ROOM)
            except DiskFull as error:
                raise ArchiveFull(f"no room for a copy: {error}") from None
            spool = FileSpool(folder)
            try:
                yield spool
            finally:
                spool.close()

    async def write(
        self, spool: ArchiveSpool, name: str, kind: ArchiveKind, expected: RowSum
    ) -> ArchivedFile:
        """See `Archive`."""
        assert isinstance(spool, FileSpool), "it comes from open_spool"
        await spool.flush()
        task = WriteTask(
            url=self._url,
            memory=self._memory,
            installation=self._installation,
            name=name,
            kind=kind,
            source=str(spool.file),
            rows=expected.rows,
            sum_ids=str(expected.ids),
        )
        return _file_of(await self._run(task))

    async def check(self, name: str, kind: ArchiveKind) -> ArchivedFile:
        """See `Archive`."""
        async with _folder() as folder:
            task = CheckTask(url=self._url, memory=self._memory, name=name, kind=kind, scratch=str(folder))
            return _file_of(await self._run(task))

    async def finish(self, day: date, files: Sequence[ArchivedFile]) -> None:
        """See `Archive`."""
        manifest = DayManifest(
            format=FORMAT, day=day.isoformat(), parts=tuple(_facts_of(file) for file in files)
        )
        async with _folder() as folder:
            await self._run(
                FinishTask(
                    url=self._url,
                    installation=self._installation,
                    name=_manifest_of(day),
                    manifest=manifest,
                    scratch=str(folder),
                )
            )

    async def _run(self, task: Task) -> TaskDone:
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-P", "-m", "mainspring.archive.child"),  # modules in the current folder are not ours
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            out, err = await child.communicate(msgspec.json.encode(task))
        finally:
            if child.returncode is None:
                with suppress(ProcessLookupError):
                    child.kill()
                await child.wait()
        if child.returncode == 0:
            return msgspec.json.decode(out, type=TaskDone)
        try:
            failed = msgspec.json.decode(out, type=TaskFailed)
        except msgspec.MsgspecError:
            last = err.decode(errors="replace").strip().rpartition("\n")[2]
            raise ArchiveUnavailable(
                f"the process that writes the archive ended with {child.returncode}: {last or 'it said nothing'}"
            ) from None
        raise ERRORS[failed.kind](failed.reason)


@asynccontextmanager
async def _folder() -> AsyncIterator[Path]:
    """Make a folder for this user alone, and remove it at the end, with those that processes left that were killed."""
    try:
        folder = await asyncio.to_thread(_make_folder)
    except OSError as error:
        kind = ArchiveFull if error.errno in FULL else ArchiveUnavailable
        raise kind(f"no room for a copy in {tempfile.gettempdir()}: {error.strerror}") from None
    try:
        yield folder
    finally:
        await asyncio.shield(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))


def _make_folder() -> Path:
    made = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
    now = made.stat().st_mtime
    for old in made.parent.glob(f"{_PREFIX}*"):
        pid = old.name.removeprefix(_PREFIX).partition("-")[0]
        with suppress(FileNotFoundError):  # its process has just removed it
            is_old = now - old.stat().st_mtime > _OLD
            if is_old and pid.isdigit() and not Path("/proc", pid).exists():
                shutil.rmtree(old, ignore_errors=True)  # of another user it cannot be removed, and need not
    return made


def _manifest_of(day: date) -> str:
    return f"{day_folder(day)}/{MANIFEST}"


def _file_of(done: TaskDone) -> ArchivedFile:
    assert done.part is not None, "such a task is about a part"
    facts = done.part.facts
    return ArchivedFile(
        name=facts.name,
        kind=facts.kind,
        sum=RowSum(facts.rows, int(facts.sum_ids)),
        first_id=facts.first_id,
        last_id=facts.last_id,
        bytes=facts.bytes,
        digest=bytes.fromhex(facts.sha256),
        known=RowSum(done.part.known_rows, int(done.part.known_ids)),
    )


def _facts_of(file: ArchivedFile) -> PartFacts:
    return PartFacts(
        name=file.name,
        kind=file.kind,
        rows=file.sum.rows,
        sum_ids=str(file.sum.ids),
        first_id=file.first_id,
        last_id=file.last_id,
        bytes=file.bytes,
        sha256=file.digest.hex(),
    )
