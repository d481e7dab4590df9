"""What somebody probably meant is said: by meaning, and by spelling. Completion knows the commands."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import click
import pytest

from mainspring.cli.main import cli, run_command
from mainspring.cli.suggestions import TOP


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("jobs", "mainspring job list"),
        ("ps", "mainspring status"),
        ("log", "mainspring run logs"),
        ("delete", "mainspring job rm"),
        ("staus", "mainspring status"),
        ("wrokers", "mainspring workers"),
        ("quit", None),
        ("job delete", "mainspring job rm"),
        ("job lst", "mainspring job list"),
        ("calendar rm", "mainspring calendar delete"),
        ("run log", "mainspring run logs"),
        ("run rerun", "mainspring run retry"),
        ("job run x --countdown 5", "mainspring job run --delay"),
        ("job add x --timezone UTC", "mainspring job add --tz"),
        ("run list --status FAILED", "mainspring run list --state"),
        ("run list --nonsense", None),
    ],
)
def test_a_wrong_word_names_the_right_one(
    line: str, meant: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(line.split()) == 2
    told = capsys.readouterr().err
    assert "No such" in told
    tried = [row for row in told.splitlines() if row.startswith("Try: ")]
    assert tried == ([] if meant is None else [f"Try: {meant}"])


@pytest.mark.parametrize("meant", sorted(set(TOP.values())))
def test_what_is_suggested_exists(meant: str) -> None:
    words = [word for word in meant.split() if not word.startswith("-") and word != "FAILED"]
    command: click.Command | None = cli
    for word in words:
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), word)
        assert command is not None, meant


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_of_each_shell(shell: str) -> None:
    program = [sys.executable, "-c", "from mainspring.cli.main import main; main()"]
    environment = {**os.environ, "_MAINSPRING_COMPLETE": f"{shell}_source"}
    # click asks bash for its version, and refuses old ones
    if shell == "bash" and shutil.which("bash") is None:
        pytest.skip("no bash")
    script = subprocess.run(program, env=environment, capture_output=True, text=True, check=True).stdout
    assert f"_MAINSPRING_COMPLETE={shell}_complete" in script
    asked = {
        **os.environ,
        "_MAINSPRING_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": "mainspring run l",
        "COMP_CWORD": "l" if shell == "fish" else "2",
    }
    found = subprocess.run(program, env=asked, capture_output=True, text=True, check=True).stdout
    assert {"list", "logs"} <= set(found.replace(",", "\n").split())
