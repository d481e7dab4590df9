"""What the server tells the process that writes the archive, and what that answers."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from mainspring.core.archive import ArchiveKind

FORMAT = 1
MANIFEST = "day.json"
"""What a day has beside its parts."""
OWN_MEMORY = 80 << 20
"""What the process that writes takes besides DuckDB's memory, in bytes."""
INSTALLATION = "history/installation.json"
"""Says whose archive it is."""


class InstallationNote(Struct, frozen=True, kw_only=True):
    """Says whose archive it is: the identity that a store has, and copies of it."""

    installation: str


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


class PartMade(Struct, frozen=True, kw_only=True):
    """A part that was made.

    Attributes:
        known_rows, known_ids: of the rows that were left out, because other files of the day have them; the sum of
            their ids as text.
    """

    facts: PartFacts
    known_rows: int = 0
    known_ids: str = "0"


class DayManifest(Struct, frozen=True, kw_only=True):
    """What a day in the archive consists of. It is written last: a day without one is not whole."""

    format: int
    day: str
    parts: tuple[PartFacts, ...]


class BeginTask(Struct, frozen=True, kw_only=True, tag="begin"):
    """See that the archive is this installation's, and read what it has of the day with this manifest."""

    url: str
    installation: str
    name: str
    scratch: str


class WriteTask(Struct, frozen=True, kw_only=True, tag="write"):
    """Make a part of the file `source`, if that has so many rows and that sum of ids, and put it into the archive."""

    url: str
    memory: int
    installation: str
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
    installation: str
    name: str
    manifest: DayManifest
    scratch: str


Task = BeginTask | WriteTask | CheckTask | FinishTask


class FailureKind(StrEnum):
    """What is wrong when a task was not done."""

    MISMATCH = "mismatch"
    FULL = "full"
    OTHER = "other"


class TaskFailed(Struct, frozen=True):
    """Why a task was not done.

    Attributes:
        reason: for readers.
        kind: what was copied or read back is wrong, or a disk is full; otherwise it could not be done now.
    """

    reason: str
    kind: FailureKind


class TaskDone(Struct, frozen=True):
    """What was done.

    Attributes:
        part: what the part is like; None if there is none.
        last: the highest number of a part that the day has; None if it has none.
        peak: the most memory that the process has used, in bytes.
    """

    part: PartMade | None = None
    last: int | None = None
    peak: int = 0
