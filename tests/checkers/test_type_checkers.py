"""mypy and pyright understand the SDK: they find each mistake of a user, and complain of nothing else."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
UNAVAILABLE = 69
SAMPLES = {name: str(HERE.relative_to(ROOT) / name) for name in ("shop.py", "typos.py")}
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.xdist_group("checkers")]


def typos() -> list[int]:
    """Return the lines on which a checker has to find something."""
    lines = (HERE / "typos.py").read_text().splitlines()
    found = [number for number, line in enumerate(lines, start=1) if line.endswith("# typo")]
    assert len(found) >= 10
    return found


def pyright(*arguments: str) -> str:
    """Return what pyright prints. Skips where it cannot be had; with `CI=true` that is a failure."""
    command = [str(ROOT / "scripts" / "pyright"), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == UNAVAILABLE:
        if os.environ.get("CI") == "true":
            pytest.fail(done.stderr)
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode in {0, 1}, done.stderr
    return done.stdout


def by_sample(found: list[tuple[str, int, str]]) -> dict[str, list[int]]:
    lines: dict[str, set[int]] = {name: set() for name in SAMPLES}
    for path, line, message in found:
        assert Path(path).name in lines, f"{path}:{line}: {message}"
        lines[Path(path).name].add(line)
    return {name: sorted(numbers) for name, numbers in lines.items()}


def test_mypy_finds_each_typo_and_nothing_else() -> None:
    command = [sys.executable, "-m", "mypy", "--no-error-summary", *SAMPLES.values()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = re.findall(r"^(.+?):(\d+): error: (.+)$", done.stdout, re.MULTILINE)
    errors = [(path, int(line), message) for path, line, message in found]
    assert by_sample(errors) == {"shop.py": [], "typos.py": typos()}, done.stdout + done.stderr


def test_pyright_finds_each_typo_and_nothing_else() -> None:
    answer = json.loads(pyright("--outputjson", *SAMPLES.values()))
    errors = [
        (one["file"], one["range"]["start"]["line"] + 1, one["message"])
        for one in answer["generalDiagnostics"]
        if one["severity"] == "error"
    ]
    assert by_sample(errors) == {"shop.py": [], "typos.py": typos()}, errors


def test_pyright_knows_every_type_of_the_package() -> None:
    answer = json.loads(pyright("--verifytypes", "mainspring", "--ignoreexternal", "--outputjson"))
    known = answer["typeCompleteness"]
    faults = [
        f"{symbol['name']}: {fault['message']}"
        for symbol in known["symbols"]
        for fault in symbol.get("diagnostics", ())
        if fault["severity"] == "error"
    ]
    assert known["completenessScore"] == 1, "\n".join(faults)
