"""Tells other processes where the API of a SQLite store is: the one process that has the store writes it down.

The address stands in the file by which that process holds the store. Whoever takes the store empties the file, so an
address there is never that of an earlier holder.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from mainspring.config.settings import DATABASE_NAME

if TYPE_CHECKING:
    from mainspring.config.settings import StoreLocation

_MOST_BYTES = 1000


def tell_address(location: StoreLocation, url: str) -> None:
    """Write down where this process, which holds the store, serves its API. Other stores need no such word."""
    path = _path(location)
    if path is not None:
        with path.open("a") as file:
            file.write(f"{url}\n")


def find_address(location: StoreLocation) -> str | None:
    """Return where the holder of the store serves its API; None if there is none, or not yet."""
    path = _path(location)
    if path is None:
        return None
    try:
        with path.open() as file:
            lines = file.read(_MOST_BYTES).split("\n")
    except OSError:
        return None
    if len(lines) < 3 or not lines[0].isdigit():  # a line without its end is being written
        return None
    try:
        os.kill(int(lines[0]), 0)
    except PermissionError:  # another user's process
        pass
    except (ProcessLookupError, OverflowError):
        return None
    return lines[1]


def _path(location: StoreLocation) -> Path | None:
    return Path(location.target) / f"{DATABASE_NAME}.lock" if location.scheme == "sqlite" else None
