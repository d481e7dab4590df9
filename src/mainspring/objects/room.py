"""Looks how much room a folder has."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from mainspring.objects.store import ObjectMissing, ObjectsUnavailable

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Errors of a disk that is full."""


class DiskFull(ObjectsUnavailable):
    """A disk has not the room for what is about to be written."""


def check_room(folder: Path, needed: int) -> None:
    """Refuse to begin what would fill the disk of a folder.

    Args:
        needed: in bytes.

    Raises:
        DiskFull: so much is not free.
        ObjectsUnavailable: that cannot be read.
    """
    try:
        found = os.statvfs(folder)
    except OSError as error:
        kind = ObjectMissing if isinstance(error, FileNotFoundError) else ObjectsUnavailable
        raise kind(f"{error.filename}: {error.strerror}") from None
    free = found.f_bavail * found.f_frsize
    if free < needed:
        raise DiskFull(f"{folder} has {free / 1e6:,.1f} MB free, and {needed / 1e6:,.1f} MB are needed")
