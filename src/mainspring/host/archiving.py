"""Reads the archive, and writes a day of it by hand."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from mainspring.config.settings import DATABASE_NAME
from mainspring.errors import Conflict, InvalidInput, MissingExtra

if TYPE_CHECKING:
    from mainspring.archive.reading import ArchiveReader
    from mainspring.config.settings import StoreLocation
    from mainspring.core.archive import ArchivePart

_NAME = "archive.url"


@contextmanager
def open_reader(url: str) -> Iterator[ArchiveReader]:
    """Open an archive to read it. What is fetched is removed at the end.

    Raises:
        InvalidInput: the address is wrong.
        MissingExtra: the extra `archive` is not installed.
    """
    from mainspring.archive.reading import ArchiveReader
    from mainspring.objects import open_place, read_place

    objects = open_place(read_place(url, _NAME), feature=_NAME, extra="archive")
    with tempfile.TemporaryDirectory(prefix="mainspring-read-") as scratch:
        yield ArchiveReader(objects, scratch=Path(scratch))


def reach_archive(url: str) -> tuple[str | None, str | None]:
    """Return why an archive cannot be used from here, and the installation that it belongs to; None if it can, and if
    it is nobody's yet. Nothing is written.
    """
    from mainspring.archive.owner import read_owner
    from mainspring.archive.writing import ROOM, ChildArchive
    from mainspring.core.archive import FOLDER
    from mainspring.objects import ObjectsUnavailable, check_room, open_place, read_place

    try:
        place = read_place(url, _NAME)
        ChildArchive(url, place, memory=0)  # refused without the extra
        objects = open_place(place, feature=_NAME, extra="archive")
        objects.list(f"{FOLDER}/day=0000-00-00")
        owner = read_owner(objects)
        if place.kind == "folder":
            check_room(Path(place.target), ROOM)
        check_room(Path(tempfile.gettempdir()), ROOM)
    except (InvalidInput, MissingExtra, ObjectsUnavailable) as error:
        return str(error), None
    if place.kind == "folder" and not os.access(place.target, os.R_OK | os.W_OK | os.X_OK):
        return f"this user may not write to {place.target}", owner
    return None, owner


def check_store(location: StoreLocation) -> None:
    """Refuse a folder that is not there: opening the store would make it.

    Raises:
        InvalidInput: it is not.
    """
    if location.scheme == "sqlite" and not (Path(location.target) / DATABASE_NAME).is_file():
        raise InvalidInput("store", f"there is no store in {location.target}")
    if location.scheme == "memory":
        raise InvalidInput("store", "one in memory is a server's own; give --store or --data")


async def end_by_hand(location: StoreLocation) -> str | None:
    """Have the servers of a store remove the history without an archive again. Returns where it went before."""
    from mainspring.plugins import load_plugins
    from mainspring.runtime import make_store

    load_plugins()
    store = make_store(location)
    await store.open()
    try:
        home = await store.read_archive()
        await store.end_archive()
        return home.url
    finally:
        await store.close()


async def write_by_hand(
    location: StoreLocation, day: date, *, url: str, memory: int
) -> Sequence[ArchivePart]:
    """Write a day of a store into an archive; see `engine.usecases.archiving.write_day`."""
    from mainspring.archive.writing import ChildArchive
    from mainspring.engine.usecases.archiving import write_day
    from mainspring.objects import read_place
    from mainspring.plugins import load_plugins
    from mainspring.ports.archive import ArchiveMismatch, ArchiveUnavailable
    from mainspring.runtime import make_store

    archive = ChildArchive(url, read_place(url, _NAME), memory=memory)
    load_plugins()
    store = make_store(location)
    await store.open()
    try:
        return await write_day(store, archive, day, now=await store.read_time())
    except (ArchiveUnavailable, ArchiveMismatch) as error:
        raise Conflict(_NAME, str(error)) from None
    finally:
        await store.close()
