"""What the server tells the process that writes the archive, and what that answers."""

from __future__ import annotations

from msgspec import Struct

from mainspring.core.archive import ArchiveKind

FORMAT = 1
MANIFEST = "day.json"
"""What a day has beside its parts."""


class PartFacts(Struct, frozen=True, kw_only=True):
    """What a file in the archive is like.

    Attributes:
        sum_ids: as text, because it may be larger than 64 bits.
        sha256: of the file, in hexadecimal.
    """

    name: str
    kind: ArchiveKind
    rows: int
    sum_ids: str
    first_id: int | None
    last_id: int | None
    bytes: int
    sha256: str


class DayManifest(Struct, frozen=True, kw_only=True):
    """What a day in the archive consists of. It is written last: a day without one is not whole."""

    format: int
    day: str
    parts: tuple[PartFacts, ...]


class WriteTask(Struct, frozen=True, kw_only=True, tag="write"):
    """Make a part of the file `source`, if that has so many rows and that sum of ids, and put it into the archive."""

    url: str
    memory: int
    name: str
    kind: ArchiveKind
    source: str
    rows: int
    sum_ids: str


class CheckTask(Struct, frozen=True, kw_only=True, tag="check"):
    """Read a part back from where it lies."""

    url: str
    memory: int
    name: str
    kind: ArchiveKind
    scratch: str


class FinishTask(Struct, frozen=True, kw_only=True, tag="finish"):
    """Put the manifest of a day into the archive."""

    url: str
    memory: int
    name: str
    manifest: DayManifest
    scratch: str


Task = WriteTask | CheckTask | FinishTask


class TaskFailed(Struct, frozen=True):
    """Why a task was not done.

    Attributes:
        reason: for readers.
        is_mismatch: what was copied or read back is wrong; otherwise it could not be done now.
    """

    reason: str
    is_mismatch: bool


class TaskDone(Struct, frozen=True):
    """What was done.

    Attributes:
        part: what the part is like; None if there is none.
        peak: the most memory that the process has used, in bytes.
    """

    part: PartFacts | None
    peak: int
