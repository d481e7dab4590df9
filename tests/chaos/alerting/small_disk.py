"""A small disk for the store: a file system of its own for one database, which is filled without harm to others.

PostgreSQL keeps that database in a tablespace there, and servers reach it by PostgreSQL's socket: only so do they know
where it is. Its log of writes stays where it was, so that it goes on when the disk is full.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.postgres import execute, fetch, temporary_database

SIZE = 256 * 2**20
_LEFT = 0.05
"""The share of it that stays free when it is nearly full. The rule asks for twice as much."""
_NAME = "small_disk"


class NoSmallDiskError(Exception):
    """There can be none here; the message says why."""


@contextmanager
def database_on_small_disk(server: str) -> Iterator[tuple[str, Path]]:
    """Make a disk with a database; provide the database's address and the disk's folder.

    Raises:
        NoSmallDiskError: the server is another machine, or nothing can be mounted here.
    """
    folder = Path(fetch(f"{server}/postgres", "SHOW data_directory"))
    if not folder.is_dir():
        raise NoSmallDiskError("PostgreSQL is on another machine")
    with _mounted(folder.parent / _NAME, folder.stat()) as disk:
        execute(server, f"CREATE TABLESPACE {_NAME} LOCATION '{disk / 'tables'}'")
        try:
            with temporary_database(server, tablespace=_NAME) as dsn:
                yield _by_socket(server, dsn.rpartition("/")[2]), disk
        finally:
            execute(server, f"DROP TABLESPACE {_NAME}")


@contextmanager
def _mounted(disk: Path, owner: os.stat_result) -> Iterator[Path]:
    disk.mkdir()
    try:
        command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(disk)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise NoSmallDiskError(f"a file system cannot be mounted here: {done.stderr.strip()}")
        try:
            (disk / "tables").mkdir()
            for path in (disk, disk / "tables"):
                os.chown(path, owner.st_uid, owner.st_gid)
            yield disk
        finally:
            subprocess.run(["umount", "--lazy", disk], check=True)
    finally:
        disk.rmdir()


def _by_socket(server: str, database: str) -> str:
    folder = str(fetch(f"{server}/postgres", "SHOW unix_socket_directories")).partition(",")[0].strip()
    port = fetch(f"{server}/postgres", "SHOW port")
    return f"postgresql://postgres@/{database}?host={folder}&port={port}"


@contextmanager
def filled(disk: Path) -> Iterator[None]:
    """Have a file take nearly all that is free."""
    ballast = disk / "ballast"
    usage = shutil.disk_usage(disk)
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, usage.free - round(_LEFT * usage.total))
    try:
        yield
    finally:
        ballast.unlink()
