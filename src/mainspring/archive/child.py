"""The process that writes the archive: it does one task, which it reads from its input as JSON.

It is a process of its own so that the memory that a part takes is bounded, and given back.
"""

from __future__ import annotations

import errno
import os
import resource
import sys
from hashlib import file_digest
from pathlib import Path

import msgspec

from mainspring.archive.owner import read_owner, tell_owner
from mainspring.archive.parquet import connect, sum_rows, write_parquet
from mainspring.archive.tasks import (
    INSTALLATION,
    MANIFEST,
    OWN_MEMORY,
    BeginTask,
    CheckTask,
    DayManifest,
    FailureKind,
    FinishTask,
    InstallationNote,
    PartFacts,
    PartMade,
    Task,
    TaskDone,
    TaskFailed,
    WriteTask,
)
from mainspring.core.archive import ArchiveKind, RowSum, first_of_batch, number_of
from mainspring.errors import MainspringError
from mainspring.objects import (
    FULL,
    DiskFull,
    ObjectMissing,
    Objects,
    ObjectsUnavailable,
    open_place,
    read_place,
)

LEAST_MEMORY = 64 << 20


class NotAsCopied(MainspringError):
    """What was copied or read back does not hold what the history holds."""


def run_task(task: Task) -> TaskDone:
    """Do a task.

    Raises:
        ObjectsUnavailable: the archive cannot be reached, or is another installation's.
        NotAsCopied: the copy has other rows than it should.
    """
    objects = open_place(read_place(task.url, "archive.url"), feature="archive.url", extra="archive")
    if isinstance(task, CheckTask):
        return TaskDone(part=PartMade(facts=_check(objects, task)))
    _check_owner(objects, task)
    if isinstance(task, WriteTask):
        return TaskDone(part=_write(objects, task))
    if isinstance(task, FinishTask):
        _finish(objects, task)
        return TaskDone()
    there = _read_manifest(objects, task.name)
    numbers = [] if there is None else [number_of(part.name) for part in there.parts]
    return TaskDone(last=max(numbers, default=None))


def _check_owner(objects: Objects, task: BeginTask | WriteTask | FinishTask) -> None:
    """Refuse an archive of another installation; one that is nobody's yet is this one's from now on."""
    found = read_owner(objects)
    if found is None:
        folder = Path(task.source).parent if isinstance(task, WriteTask) else Path(task.scratch)
        file = folder / Path(INSTALLATION).name
        file.write_bytes(msgspec.json.encode(InstallationNote(installation=task.installation)) + b"\n")
        objects.put_new(INSTALLATION, file)  # the first of two has it
        found = read_owner(objects)
    if found != task.installation:
        raise ObjectsUnavailable(tell_owner(found, task.installation))


def _write(objects: Objects, task: WriteTask) -> PartMade:
    source = Path(task.source)
    folder, target = source.parent, source.with_suffix(".parquet")
    others = _find_others(objects, task)
    with connect(memory=_memory(task.memory), scratch=folder / "spill") as db:
        known = write_parquet(db, task.kind, source, target, beside=_fetch(objects, others, folder))
    facts = _read_facts(task.name, task.kind, target, task.memory)
    total = RowSum(facts.rows, int(facts.sum_ids)) + known
    if (total.rows, str(total.ids)) != (task.rows, task.sum_ids):
        raise NotAsCopied(
            f"{task.name}: {total.rows:,} rows were copied, but the history has {task.rows:,}, or other ids"
        )
    made = PartMade(facts=facts, known_rows=known.rows, known_ids=str(known.ids))
    if not facts.rows:
        return msgspec.structs.replace(made, facts=msgspec.structs.replace(facts, bytes=0, sha256=""))
    _check_place(objects, facts)
    objects.put(task.name, target)
    return made


def _find_others(objects: Objects, task: WriteTask) -> list[PartFacts]:
    """Return the parts of other batches that may have rows of this one: a restored store has days once more."""
    there = _read_manifest(objects, _manifest_of(task.name))
    parts = () if there is None else there.parts
    batch = first_of_batch(number_of(task.name))
    return [
        part for part in parts if part.kind is task.kind and first_of_batch(number_of(part.name)) != batch
    ]


def _fetch(objects: Objects, parts: list[PartFacts], folder: Path) -> list[Path]:
    files = []
    for number, part in enumerate(parts):
        file = objects.local(part.name)
        if file is None:
            file = folder / f"beside-{number}.parquet"
            objects.get(part.name, file)
        files.append(file)
    return files


def _finish(objects: Objects, task: FinishTask) -> None:
    parts, there = task.manifest.parts, _read_manifest(objects, task.name)
    if there is not None:
        # They stand beside those of the other batches.
        mine = {first_of_batch(number_of(part.name)) for part in parts}
        parts = (*(part for part in there.parts if first_of_batch(number_of(part.name)) not in mine), *parts)
    file = Path(task.scratch) / MANIFEST
    manifest = DayManifest(format=task.manifest.format, day=task.manifest.day, parts=parts)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
    objects.put(task.name, file)


def _read_manifest(objects: Objects, name: str) -> DayManifest | None:
    """Return what a day has; None if it is not whole yet, or new."""
    try:
        return msgspec.json.decode(objects.read(name), type=DayManifest)
    except ObjectMissing:
        return None
    except msgspec.MsgspecError as error:
        raise ObjectsUnavailable(f"{name} is damaged: {error}") from None


def _manifest_of(name: str) -> str:
    return f"{name.rpartition('/')[0]}/{MANIFEST}"


def _check_place(objects: Objects, facts: PartFacts) -> None:
    """Refuse to put a part in place of one with other rows, or beside those of a batch that is whole."""
    there = _read_manifest(objects, _manifest_of(facts.name))
    parts = () if there is None else there.parts
    batch = first_of_batch(number_of(facts.name))
    mine = [
        (part.name, part.rows, part.sum_ids)
        for part in parts
        if first_of_batch(number_of(part.name)) == batch
    ]
    if mine and (facts.name, facts.rows, facts.sum_ids) not in mine:
        raise NotAsCopied(f"{facts.name}: the day is whole there, and has other rows; they stay as they are")


def _check(objects: Objects, task: CheckTask) -> PartFacts:
    import duckdb

    file = Path(task.scratch) / "read-back.parquet"
    try:
        objects.get(task.name, file)
    except ObjectMissing as error:
        raise NotAsCopied(f"{task.name} is not there any more: {error}") from None
    try:
        return _read_facts(task.name, task.kind, file, task.memory)
    except duckdb.OutOfMemoryException:
        raise  # that says nothing about the file
    except duckdb.Error as error:
        raise NotAsCopied(f"{task.name} cannot be read: {error}") from None


def _read_facts(name: str, kind: ArchiveKind, file: Path, memory: int) -> PartFacts:
    with connect(memory=_memory(memory), scratch=file.parent / "spill") as db:
        total, first, last = sum_rows(db, kind, file)
    with file.open("rb") as read:
        digest = file_digest(read, "sha256").hexdigest()
        size = read.tell()
    return PartFacts(
        name=name,
        kind=kind,
        rows=total.rows,
        sum_ids=str(total.ids),
        first_id=first,
        last_id=last,
        bytes=size,
        sha256=digest,
    )


def _memory(bound: int) -> int:
    return max(bound - OWN_MEMORY, LEAST_MEMORY)


def _read_peak() -> int:
    """Return the most memory that this process has used, in bytes."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return (
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        )  # which has what its parent used, too
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def kind_of(error: Exception) -> FailureKind:
    """Return what an error is to the server."""
    if isinstance(error, NotAsCopied):
        return FailureKind.MISMATCH
    is_full = isinstance(error, DiskFull) or (isinstance(error, OSError) and error.errno in FULL)
    # DuckDB tells it in words only.
    return FailureKind.FULL if is_full or os.strerror(errno.ENOSPC) in str(error) else FailureKind.OTHER


def main() -> int:
    """Do the task of standard input, and write what came of it to standard output."""
    import duckdb

    try:
        task = msgspec.json.decode(sys.stdin.buffer.read(), type=Task)
        done = run_task(task)
        used = _read_peak()
    except (MainspringError, OSError, duckdb.Error) as error:
        failed = TaskFailed(str(error).partition("\n")[0], kind_of(error))
        sys.stdout.buffer.write(msgspec.json.encode(failed))
        return 1
    sys.stdout.buffer.write(msgspec.json.encode(msgspec.structs.replace(done, peak=used)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
