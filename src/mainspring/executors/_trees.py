"""Removes folders that may hold anything: also folders in each other, deeper than Python or a path can tell."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from itertools import count
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_MOST_LOOKS = 100_000
"""One for each folder that lies in another. Without an end, a process that goes on making files would hold this up."""


def remove_tree(folder: Path) -> None:
    """Remove a folder and all that is in it, as far as that can be done. No link is followed.

    What a folder in it holds is moved up into it first, so that nothing is ever deep.
    """
    with contextlib.suppress(OSError):
        top = os.open(folder, _FOLDER)
        try:
            _empty(top)
        finally:
            os.close(top)
        folder.rmdir()


def _empty(top: int) -> None:
    numbers = count()
    for _ in range(_MOST_LOOKS):
        if not sum(_remove(top, name, numbers) for name in _names_in(top)):
            return


def _names_in(place: int) -> list[str]:
    with os.scandir(place) as entries:
        return [entry.name for entry in entries]


def _remove(top: int, name: str, numbers: count[int]) -> bool:
    """Remove a file or a folder, whose own folders are moved up. Return whether that worked."""
    try:
        if not _is_folder(name, top):
            os.unlink(name, dir_fd=top)
            return True
        place = os.open(name, _FOLDER, dir_fd=top)
        try:
            for one in _names_in(place):
                if _is_folder(one, place):
                    _move_up(one, place, top, numbers)
                else:
                    os.unlink(one, dir_fd=place)
        finally:
            os.close(place)
        os.rmdir(name, dir_fd=top)
    except OSError:
        return False
    return True


def _move_up(name: str, place: int, top: int, numbers: count[int]) -> None:
    """Move a folder to a name that is free, or is that of an empty folder."""
    while True:
        try:
            os.rename(name, f".{next(numbers)}", src_dir_fd=place, dst_dir_fd=top)
        except (FileExistsError, NotADirectoryError):
            continue
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
        else:
            return


def _is_folder(name: str, place: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode)
