"""The process that writes the archive: it does one task, which it reads from its input as JSON.

It is a process of its own so that the memory that a part takes is bounded, and given back.
"""

from __future__ import annotations

import resource
import sys
from hashlib import file_digest
from pathlib import Path

import msgspec

from mainspring.archive.parquet import connect, sum_rows, write_parquet
from mainspring.archive.tasks import (
    MANIFEST,
    CheckTask,
    DayManifest,
    FinishTask,
    PartFacts,
    Task,
    TaskDone,
    TaskFailed,
    WriteTask,
)
from mainspring.core.archive import ArchiveKind, first_of_batch
from mainspring.errors import MainspringError
from mainspring.objects import ObjectMissing, Objects, ObjectsUnavailable, open_place, read_place

OWN_MEMORY = 80 << 20
"""What the process takes besides DuckDB's memory, in bytes."""
LEAST_MEMORY = 64 << 20


class NotAsCopied(MainspringError):
    """What was copied or read back does not hold what the history holds."""


def run_task(task: Task) -> PartFacts | None:
    """Do a task.

    Raises:
        ObjectsUnavailable: the archive cannot be reached.
        NotAsCopied: the copy has other rows than it should.
    """
    objects = open_place(read_place(task.url, "archive.url"), feature="archive.url", extra="archive")
    if isinstance(task, WriteTask):
        return _write(objects, task)
    if isinstance(task, CheckTask):
        return _check(objects, task)
    _finish(objects, task)
    return None


def _write(objects: Objects, task: WriteTask) -> PartFacts:
    source = Path(task.source)
    target = source.with_suffix(".parquet")
    with connect(memory=_memory(task.memory), scratch=source.parent / "spill") as db:
        write_parquet(db, task.kind, source, target)
    facts = _read_facts(task.name, task.kind, target, task.memory)
    if (facts.rows, facts.sum_ids) != (task.rows, task.sum_ids):
        raise NotAsCopied(
            f"{task.name}: {facts.rows:,} rows were copied, but the history has {task.rows:,}, or other ids"
        )
    _check_place(objects, facts)
    objects.put(task.name, target)
    return facts


def _finish(objects: Objects, task: FinishTask) -> None:
    parts, there = task.manifest.parts, _read_manifest(objects, task.name)
    if there is not None and (not parts or _batch_of(parts[0].name)):
        # They stand beside those of the batches before.
        mine = {part.name for part in parts}
        parts = (*(part for part in there.parts if part.name not in mine), *parts)
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


def _batch_of(name: str) -> int:
    digits = name.rpartition("-")[2].removesuffix(".parquet")
    return first_of_batch(int(digits)) if digits.isdecimal() else 0


def _check_place(objects: Objects, facts: PartFacts) -> None:
    """Refuse to put a part in place of one with other rows: that day is another installation's."""
    name = f"{facts.name.rpartition('/')[0]}/{MANIFEST}"
    there = _read_manifest(objects, name)
    if there is None:
        return
    known = next((part for part in there.parts if part.name == facts.name), None)
    batch = _batch_of(facts.name)
    if batch and not any(_batch_of(part.name) == batch for part in there.parts):
        return  # rows that came after the day was removed: the manifest gets these parts, too
    has = (0, "0") if known is None else (known.rows, known.sum_ids)
    if has != (facts.rows, facts.sum_ids):
        raise ObjectsUnavailable(
            f"{name} is there, and says that the day has other rows: give each installation an archive of its own;"
            " or, if the store was restored, move the folder of that day away"
        )


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


def main() -> int:
    """Do the task of standard input, and write what came of it to standard output."""
    import duckdb

    try:
        task = msgspec.json.decode(sys.stdin.buffer.read(), type=Task)
        done = TaskDone(run_task(task), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    except (MainspringError, OSError, duckdb.Error) as error:
        failed = TaskFailed(str(error).partition("\n")[0], isinstance(error, NotAsCopied))
        sys.stdout.buffer.write(msgspec.json.encode(failed))
        return 1
    sys.stdout.buffer.write(msgspec.json.encode(done))
    return 0


if __name__ == "__main__":
    sys.exit(main())
