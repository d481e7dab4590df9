"""A disk that hangs is waited for in one thread at most, and not for long."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from mainspring.core.storage import Disk
from mainspring.stores._sql.disk import DiskLook


async def test_a_disk_that_hangs_is_looked_at_once_until_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, asked, original = threading.Event(), [], shutil.disk_usage

    def hang(path: str) -> object:
        asked.append(path)
        answers.wait()
        return original(path)

    monkeypatch.setattr(shutil, "disk_usage", hang)
    disk = DiskLook(patience=0.01)
    try:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await disk.look(str(tmp_path))
        assert asked == [str(tmp_path)]
    finally:
        answers.set()
    found = await _look_until_it_answers(disk, tmp_path)
    assert found is not None
    assert (found.path, found.size) == (str(tmp_path), original(tmp_path).total)


async def test_a_disk_that_is_not_there_is_not_known(tmp_path: Path) -> None:
    assert await DiskLook().look(str(tmp_path / "none")) is None


async def _look_until_it_answers(disk: DiskLook, path: Path) -> Disk | None:
    while True:
        try:
            return await disk.look(str(path))
        except TimeoutError:
            continue
