"""The folders in which commands leave files behind, and what commands may do to them."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mainspring.core.artifacts import MAX_SIZE
from mainspring.core.ids import ArtifactId, SessionId
from mainspring.core.outcomes import Failure
from mainspring.executors._files import AttemptFiles
from mainspring.executors._shell_files import ArtifactFolders
from mainspring.ports.artifacts import ArtifactUpload
from mainspring.ports.executor import Success
from tests.unit.executors.attempts import make_attempt


class Room:
    """Notes the names of files."""

    def __init__(self) -> None:
        self.names: list[str] = []

    async def put_artifact(self, session_id: SessionId, upload: ArtifactUpload) -> ArtifactId:
        """Take a file."""
        self.names.append(upload.name)
        return ArtifactId(len(self.names))


@pytest.fixture
def room() -> Room:
    return Room()


@pytest.fixture
async def folders(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ArtifactFolders]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folders = ArtifactFolders(AttemptFiles(room, asyncio.get_running_loop()))
    yield folders
    await folders.stop()
    assert os.listdir(tmp_path) == []  # noqa: PTH208 -- a look, not a wait


async def keep(folders: ArtifactFolders, folder: Path) -> Success | Failure:
    until = asyncio.get_running_loop().time() + 30
    return await folders.keep(make_attempt({}), folder, Success(), until=until)


async def refuse(folders: ArtifactFolders, folder: Path) -> str:
    outcome = await keep(folders, folder)
    assert isinstance(outcome, Failure)
    assert not outcome.is_retryable
    return outcome.error


def bury(folder: Path, depth: int) -> None:
    """Make folders in each other, deeper than any path can tell."""
    place = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=place)
        below = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = below
    with os.fdopen(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=place), "w"):
        os.close(place)


async def test_files_in_folders_are_kept_by_their_names(folders: ArtifactFolders, room: Room) -> None:
    folder = folders.make(None)
    (folder / "plots" / "more").mkdir(parents=True)
    for name in ("b.txt", "a.txt", "plots/a.png", "plots/more/b.png"):
        (folder / name).write_text(name)
    assert await keep(folders, folder) == Success()
    assert room.names == ["a.txt", "b.txt", "plots/a.png", "plots/more/b.png"]
    await folders.remove(folder)
    assert not folder.exists()


async def test_folders_that_no_path_can_tell_are_refused_and_removed(folders: ArtifactFolders) -> None:
    folder = folders.make(None)
    bury(folder, 3000)
    assert "deeper than 100 folders" in await refuse(folders, folder)
    await folders.remove(folder)
    assert not folder.exists()


async def test_deep_folders_of_a_dead_worker_keep_no_worker_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: Room
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dead = ArtifactFolders(AttemptFiles(room, asyncio.get_running_loop()))
    bury(dead.make(None), 3000)
    dead._lock.close()  # as the end of its process does
    living = ArtifactFolders(AttemptFiles(room, asyncio.get_running_loop()))
    assert len(os.listdir(tmp_path)) == 1  # noqa: PTH208 -- likewise
    await living.stop()


async def test_many_folders_are_refused_before_all_are_read(folders: ArtifactFolders) -> None:
    folder = folders.make(None)
    for number in range(1001):
        (folder / str(number)).mkdir()
    assert "more than 1,000 files and folders" in await refuse(folders, folder)
    await folders.remove(folder)


async def test_a_huge_file_is_refused_before_it_is_read(folders: ArtifactFolders, room: Room) -> None:
    folder = folders.make(None)
    with (folder / "huge").open("wb") as file:
        file.truncate(MAX_SIZE + 1)
    error = await refuse(folders, folder)
    assert (
        "'huge' of MAINSPRING_ARTIFACTS cannot be kept: has 5,368,709,121 bytes; at most 5,368,709,120"
        in error
    )
    assert room.names == []
    await folders.remove(folder)


@pytest.mark.parametrize("kind", ["link", "folder link", "hard link", "pipe", "dangling"])
async def test_what_is_no_plain_file_is_refused(
    folders: ArtifactFolders, room: Room, kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, elsewhere = folders.make(None), folders.make(None)
    (elsewhere / "secret").write_text("of another")
    if kind == "pipe":
        os.mkfifo(folder / "odd")
    elif kind == "hard link":
        os.link(elsewhere / "secret", folder / "odd")
    else:
        targets = {"link": elsewhere / "secret", "folder link": elsewhere, "dangling": elsewhere / "none"}
        (folder / "odd").symlink_to(targets[kind])
    assert "holds 'odd', which is no plain file of its own" in await refuse(folders, folder)
    assert room.names == []
    await folders.remove(folder)
    assert (elsewhere / "secret").read_text() == "of another"
    await folders.remove(elsewhere)


@pytest.mark.parametrize("name", [".hidden", "a\nb", "a\\b", b"\xff\xfe".decode("utf-8", "surrogateescape")])
async def test_odd_names_are_refused(folders: ArtifactFolders, room: Room, name: str) -> None:
    folder = folders.make(None)
    (folder / name).write_text("x")
    assert "cannot be kept: " in await refuse(folders, folder)
    assert room.names == []
    await folders.remove(folder)
