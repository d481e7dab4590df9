"""A backup's two files: for this user alone, nobody else's, and one backup at a time."""

import asyncio
import json
import os
import stat
from hashlib import sha256
from pathlib import Path

import pytest

from mainspring.config import StoreLocation
from mainspring.errors import Conflict, InvalidInput
from mainspring.host.backing_up import back_up
from mainspring.host.backup_files import manifest_of
from mainspring.stores.sqlite import SqliteStore


@pytest.fixture
async def location(tmp_path: Path) -> StoreLocation:
    store = SqliteStore(tmp_path / "data" / "mainspring.db")
    await store.open()
    await store.close()
    return StoreLocation.parse(f"sqlite:///{tmp_path}/data")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "backups").mkdir()
    return tmp_path / "backups" / "copy[1]"


def digest_of(file: Path) -> str:
    return sha256(file.read_bytes()).hexdigest()


def names_beside(file: Path) -> set[str]:
    return {path.name for path in file.parent.iterdir()}


async def test_files_that_others_have_laid_out_get_nothing(location: StoreLocation, file: Path) -> None:
    victim = file.parent / "victim"
    victim.write_text("precious")
    part = file.with_name(f"{file.name}.part")
    part.symlink_to(victim)
    made = await back_up(location, file)
    assert victim.read_text() == "precious"
    assert {stat.S_IMODE(path.stat().st_mode) for path in (file, manifest_of(file))} == {0o600}
    assert digest_of(file) == made.file.sha256
    assert names_beside(file) == {file.name, manifest_of(file).name, "victim", part.name}
    other = file.with_name("other")
    manifest_of(other).symlink_to(victim)
    with pytest.raises(InvalidInput, match="cannot be written"):
        await back_up(location, other)
    assert victim.read_text() == "precious"


async def test_what_a_killed_backup_has_left_is_not_in_the_way(location: StoreLocation, file: Path) -> None:
    manifest_of(file).write_text("half of a manifest that was longer than the next one" * 1000)
    file.with_name(f"{file.name}.0123456789abcdef.part").write_text("half")
    others = file.with_name("copy1.0123456789abcdef.part")
    others.write_text("of a backup that may be under way")
    made = await back_up(location, file)
    assert json.loads(manifest_of(file).read_text())["file"]["sha256"] == made.file.sha256
    assert names_beside(file) == {file.name, manifest_of(file).name, others.name}


async def test_a_manifest_of_another_user_is_not_written(
    location: StoreLocation, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest_of(file).write_text("theirs")
    monkeypatch.setattr(os, "geteuid", lambda: manifest_of(file).stat().st_uid + 1)
    with pytest.raises(Conflict, match="belongs to another user"):
        await back_up(location, file)
    assert manifest_of(file).read_text() == "theirs"


async def test_of_two_backups_with_one_name_the_second_is_refused(
    location: StoreLocation, file: Path
) -> None:
    made, refused = await asyncio.gather(
        back_up(location, file), back_up(location, file), return_exceptions=True
    )
    assert not isinstance(made, BaseException)
    assert isinstance(refused, Conflict)
    assert "another backup" in refused.message
    assert json.loads(manifest_of(file).read_text())["file"]["sha256"] == made.file.sha256
    content = manifest_of(file).read_bytes()
    with pytest.raises(Conflict, match="is there"):
        await back_up(location, file)
    assert manifest_of(file).read_bytes() == content


async def test_a_backup_that_fails_leaves_nothing(tmp_path: Path, file: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no"):
        await back_up(StoreLocation.parse(f"sqlite:///{tmp_path}/absent"), file)
    assert names_beside(file) == set()
