"""The older versions are what they are taken for."""

import re
import tarfile
from pathlib import Path

import pytest

from tests.upgrade import versions
from tests.upgrade.versions import (
    NEWEST,
    SOURCE,
    Version,
    archive_commit,
    baseline_pack,
    find_commit,
    release_before_pack,
)


@pytest.mark.parametrize("pack_path", [baseline_pack(), release_before_pack()], ids=["baseline", "before"])
def test_pack_is_the_commit_that_it_is_named_after(tmp_path: Path, pack_path: Path) -> None:
    commit = find_commit(pack_path.name.partition(".")[0])
    if commit is None:  # no history, or none that reaches so far: then the name is all that there is to see
        assert re.fullmatch(r"[0-9a-f]{7}\.tar\.xz", pack_path.name)
        return
    with tarfile.open(pack_path, "r:xz") as pack:
        pack.extractall(tmp_path / "packed", filter="data")
    (tmp_path / "commit.tar").write_bytes(archive_commit(commit))
    with tarfile.open(tmp_path / "commit.tar") as archive:
        archive.extractall(tmp_path / "archived", filter="data")
    packed, archived = (
        {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        for root in (tmp_path / "packed", tmp_path / "archived")
    )
    assert packed == archived


def test_baseline_can_work_on_todays_schema(baseline: Version) -> None:
    assert baseline.python_path is not None
    folder = baseline.python_path / "mainspring/stores/postgres/migrations"
    newest = max(int(file.name[:4]) for file in folder.glob("[0-9]*.sql"))
    assert versions.oldest_compatible(newest) <= newest <= NEWEST, "renew it: see tests/upgrade/README.md"


def test_without_a_history_the_baseline_stands_for_the_previous_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "find_commit", lambda expression: None)
    assert "no history" in versions.describe_older()
    version = versions.extract_previous(tmp_path)
    assert version.name.startswith("baseline")
    assert version.python_path is not None
    assert (version.python_path.parent / SOURCE / "__init__.py").is_file()


def test_commit_that_does_not_know_the_rule_is_not_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    old = tmp_path / "old" / SOURCE / "stores" / "_sql"
    old.mkdir(parents=True)
    (old / "migrate.py").write_text("# before there were compatible schemas")
    with tarfile.open(tmp_path / "old.tar", "w") as archive:
        archive.add(tmp_path / "old" / "src", "src")
    monkeypatch.setattr(versions, "find_commit", lambda expression: "0" * 40)
    monkeypatch.setattr(versions, "archive_commit", lambda commit: (tmp_path / "old.tar").read_bytes())
    commit, why = versions.find_previous()
    assert commit is None
    assert why == "commit 000000000 knows no compatible schemas; the baseline stands for it"
