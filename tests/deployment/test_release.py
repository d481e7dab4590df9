"""The files of a release have all that the installed program needs."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.deployment.compose import ROOT


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True)
    return folder


def test_a_wheel_has_every_file_of_the_package(made: Path) -> None:
    (wheel,) = made.glob("*.whl")
    package = ROOT / "src" / "mainspring"
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "src/mainspring"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    with ZipFile(wheel) as file:
        names = set(file.namelist())
    assert {str(Path(name).relative_to("src")) for name in tracked} <= names
    assert (package / "py.typed").exists()
    assert any(name.endswith("entry_points.txt") for name in names)


def test_the_source_has_what_a_build_and_the_tests_need(made: Path) -> None:
    (source,) = made.glob("*.tar.gz")
    with tarfile.open(source) as file:
        tops = {name.split("/")[1] for name in file.getnames() if "/" in name}
    assert {"src", "docs", "tests", "scripts", "requirements", "Makefile", "README.md", "LICENSE"} <= tops
