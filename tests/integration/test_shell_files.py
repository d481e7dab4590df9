"""What commands leave in their folder is kept when they have ended, and nothing of others gets out that way."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mainspring.core.ids import ArtifactId, SessionId
from mainspring.core.outcomes import Failure
from mainspring.errors import Conflict
from mainspring.executors import ShellExecutor
from mainspring.ports.artifacts import ArtifactUpload
from mainspring.ports.executor import Outcome, Success
from tests.unit.executors.attempts import make_attempt

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="commands are carried out on Linux only")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
DONE = Success(result=b'{"exit_code":0}')
HERE = '"$MAINSPRING_ARTIFACTS"'


class Room:
    """Takes files into memory."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.error: Exception | None = None
        self.waits = asyncio.Event()
        self.waits.set()

    async def put_artifact(self, session_id: SessionId, upload: ArtifactUpload) -> ArtifactId:
        """Take a file."""
        await self.waits.wait()
        if self.error is not None:
            raise self.error
        with upload.open() as file:
            self.files[upload.name] = file.read()
        assert len(self.files[upload.name]) == upload.size
        return ArtifactId(len(self.files))


@pytest.fixture
def room() -> Room:
    return Room()


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir(mode=0o755)
    for parent in (tmp_path, *tmp_path.parents[:-1]):
        if parent.stat().st_uid == os.geteuid() and parent != Path("/tmp"):
            parent.chmod(parent.stat().st_mode | 0o011)  # another user's command has to reach it
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
async def shell(room: Room, scratch: Path) -> AsyncIterator[ShellExecutor]:
    executor = ShellExecutor(enabled=True, grace=timedelta(seconds=0.3), artifacts=room)
    await executor.start()
    yield executor
    await executor.stop()


async def run(shell: ShellExecutor, command: str, *, timeout: float = 20, **params: Any) -> Outcome:
    return await shell.execute(make_attempt({"command": command, "shell": True, **params}, timeout=timeout))


def folders_in(scratch: Path) -> list[str]:
    return sorted(one.name for base in scratch.iterdir() for one in base.iterdir() if one.is_dir())


async def test_files_are_kept_with_their_folders_and_the_folder_is_removed(
    shell: ShellExecutor, room: Room, scratch: Path
) -> None:
    command = f"cd {HERE} && mkdir -p plots/deep && printf one > a.txt && printf two > plots/deep/b.png"
    assert await run(shell, command) == DONE
    assert room.files == {"a.txt": b"one", "plots/deep/b.png": b"two"}
    assert folders_in(scratch) == []


async def test_a_command_that_leaves_nothing_costs_nothing(shell: ShellExecutor, room: Room) -> None:
    assert await run(shell, "true") == DONE
    assert room.files == {}


async def test_what_a_command_that_fails_leaves_is_kept(shell: ShellExecutor, room: Room) -> None:
    outcome = await run(shell, f"printf why > {HERE}/core.txt; exit 3")
    assert isinstance(outcome, Failure)
    assert outcome.error == "exit status 3"
    assert room.files == {"core.txt": b"why"}


async def test_a_file_that_cannot_be_kept_fails_the_attempt(shell: ShellExecutor, room: Room) -> None:
    room.error = Conflict("artifacts.url", "is not set, so files of runs cannot be kept")
    outcome = await run(shell, f"echo printed; printf x > {HERE}/a.txt")
    assert isinstance(outcome, Failure)
    assert "its files could not be kept: artifacts.url: is not set" in outcome.error
    assert (outcome.output, outcome.result, outcome.is_retryable) == ("printed\n", DONE.result, True)


async def test_files_are_kept_within_the_attempts_time(shell: ShellExecutor, room: Room) -> None:
    room.waits.clear()
    outcome = await run(shell, f"printf x > {HERE}/a.txt", timeout=1)
    assert isinstance(outcome, Failure)
    assert (outcome.is_timeout, "while its files were being kept" in outcome.error) == (True, True)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("ln -s /etc/passwd secret.txt", "no plain file of its own"),
        ("mkfifo pipe", "no plain file of its own"),
        ("printf x > a && ln a b", "no plain file of its own"),
        ("ln -s /etc folder", "no plain file of its own"),
        ("printf x > .hidden", "begins with a dot"),
        ("printf x > \"$(printf 'a\\377')\"", "cannot be printed"),
        ("touch $(seq 1001)", "more than 1,000 files"),
    ],
)
async def test_odd_files_fail_the_attempt_for_good(
    shell: ShellExecutor, room: Room, command: str, words: str
) -> None:
    outcome = await run(shell, f"cd {HERE} && {command}")
    assert isinstance(outcome, Failure), room.files
    assert words in outcome.error
    assert not outcome.is_retryable
    assert not any(b"root:" in data for data in room.files.values())


@needs_root
async def test_a_command_of_another_user_has_a_folder_of_its_own(shell: ShellExecutor, room: Room) -> None:
    assert await run(shell, f"id -un > {HERE}/who.txt", user="nobody", cwd="/") == DONE
    assert room.files == {"who.txt": b"nobody\n"}
    outcome = await run(shell, f"ls -la {HERE}/..", user="nobody", cwd="/")
    assert isinstance(outcome, Failure)
    assert "Permission denied" in (outcome.output or "")


async def test_a_worker_removes_what_a_dead_one_has_left(scratch: Path, room: Room) -> None:
    left, alive = scratch / "mainspring-artifacts-dead", ShellExecutor(enabled=True, artifacts=room)
    await alive.start()
    [other] = list(scratch.iterdir())  # noqa: ASYNC240 -- a test's own folder
    left.mkdir()
    (left / ".lock").touch()
    (left / "attempt").mkdir()
    (left / "attempt" / "file").write_text("x")
    second = ShellExecutor(enabled=True, artifacts=room)
    await second.start()
    assert not left.exists()
    assert other.exists()
    await second.stop()
    await alive.stop()
    assert list(scratch.iterdir()) == []  # noqa: ASYNC240 -- likewise


async def test_without_a_place_there_is_no_folder(scratch: Path) -> None:
    executor = ShellExecutor(enabled=True)
    await executor.start()
    outcome = await run(executor, 'printf "%s" "${MAINSPRING_ARTIFACTS-none}"')
    await executor.stop()
    assert outcome == Success(result=DONE.result, output="none")
