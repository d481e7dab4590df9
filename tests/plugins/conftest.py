"""The toy package, installed in a folder of its own: processes find it where PYTHONPATH names the folder."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

collect_ignore = ["toy_package"]  # its test runs where it is installed
TOY = Path(__file__).parent / "toy_package"


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("source") / "toy_package"
    shutil.copytree(TOY, source)
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip += ["--no-deps", "--no-build-isolation", "--no-index", "--target", str(folder), str(source)]
    subprocess.run(pip, check=True, timeout=120)
    return folder
