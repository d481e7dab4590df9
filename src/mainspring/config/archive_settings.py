"""The settings of the archive."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from mainspring.config.kinds import OneLine
from mainspring.config.setting import SERVER, UP, Setting
from mainspring.core.fields import kind as kind_of
from mainspring.core.kinds import Kind, Schema
from mainspring.core.values import value
from mainspring.errors import InvalidInput
from mainspring.objects import read_place

_HOSTS = (UP, SERVER)
_SIZE = re.compile(r"([0-9]{1,12}) ?(B|kB|MB|GB)?", re.ASCII)
_UNITS = {None: 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}
_MB = _UNITS["MB"]


@value()
class ArchiveUrl(OneLine):
    """The address of the archive."""

    metavar: ClassVar[str] = "URL"

    def read(self, value: object, path: str, old: Any) -> str:
        """Read an address; it is kept as it was written."""
        text = OneLine.read(self, value, path, old)
        read_place(text, path)
        return text

    def limits(self) -> str:
        """Say which forms it has."""
        return "folder, `file:///FOLDER`, or `s3://BUCKET/PREFIX`"


@value()
class MemorySize(Kind):
    """A number of bytes, with or without a unit of a thousand: `256MB`."""

    low: int
    high: int
    metavar: ClassVar[str] = "SIZE"
    is_json: ClassVar[bool] = False

    def read(self, value: object, path: str, old: Any) -> int:
        """Read a size within the bounds."""
        del old
        bounds = f"must be a size from {write_size(self.low)} to {write_size(self.high)}, like 256MB"
        if isinstance(value, str):
            found = _SIZE.fullmatch(value.strip())
            if found is None:
                raise InvalidInput(path, f"{bounds}, not {value[:60]!r}")
            value = int(found[1]) * _UNITS[found[2]]
        if not isinstance(value, int) or isinstance(value, bool):
            raise InvalidInput(path, f"{bounds}, not {kind_of(value)}")
        if not self.low <= value <= self.high:
            raise InvalidInput(path, f"{bounds}, not {write_size(value)}")
        return value

    def show(self, value: int) -> str:
        """Return it with the largest unit that fits."""
        return write_size(value)

    def schema(self) -> Schema:
        """Return the schema of a size."""
        return {"type": ["string", "integer"]}

    def limits(self) -> str:
        """Say its bounds."""
        return f"{write_size(self.low)} to {write_size(self.high)}"


def write_size(size: int) -> str:
    """Return a size to the byte, with the largest unit that fits."""
    for unit in ("GB", "MB", "kB"):
        if size and size % _UNITS[unit] == 0:
            return f"{size // _UNITS[unit]}{unit}"
    return f"{size}B"


def show_size(size: int) -> str:
    """Return a size for readers."""
    for unit in ("GB", "MB", "kB"):
        if size >= _UNITS[unit]:
            return f"{size / _UNITS[unit]:.1f} {unit}"
    return f"{size} bytes"


QUERY_MEMORY = MemorySize(64 * _MB, 64_000 * _MB)
"""What a query may use."""


ARCHIVE_SETTINGS = (
    Setting(
        name="archive.url",
        kind=ArchiveUrl(),
        default=None,
        default_words="none: what is over `history.keep` is removed",
        field="archive_url",
        flag="--archive-url",
        used_by=_HOSTS,
        words="Where days of the history are written before they are removed: a folder that is there, or a bucket. "
        "The same on all servers. Needs the extra `archive`.",
    ),
    Setting(
        name="archive.memory",
        kind=MemorySize(160 * _MB, 64_000 * _MB),
        default=256 * _MB,
        default_words="`256MB`",
        field="archive_memory",
        used_by=_HOSTS,
        words="How much memory the process may use that writes the archive.",
    ),
)
