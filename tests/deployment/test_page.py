"""docs/howto/deploy.md and the heads of the units: what they say to type or to set is taken."""

from __future__ import annotations

import re
import shlex
import sqlite3
import subprocess
from pathlib import Path

import click
import pytest

from mainspring.cli.calling import call
from mainspring.cli.main import cli
from mainspring.cli.options import read_choices
from mainspring.config.table import SETTINGS
from tests.deployment.compose import ROOT
from tests.processes.processes import command, server

PAGE = (ROOT / "docs" / "howto" / "deploy.md").read_text()
BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
UNITS = {path.name: path.read_text() for path in (ROOT / "deploy" / "systemd").iterdir()}


def understand(name: str, options: str) -> None:
    """Have a command read options; it complains where it does not know them."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    read_choices(command.make_context(name, shlex.split(options))).require()


def options_in(text: str) -> list[str]:
    return re.findall(r"^(?:#   )?MAINSPRING_OPTIONS=(.*)$", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("server", UNITS["mainspring-server.service"]),
        ("worker", UNITS["mainspring-worker@.service"]),
        ("up", UNITS["mainspring.service"]),
    ],
)
def test_options_in_the_heads_of_the_units_are_understood(name: str, text: str) -> None:
    (options,) = options_in(text)
    understand(name, options)


def test_options_on_the_page_are_understood() -> None:
    for_server, for_worker = options_in(PAGE)
    understand("server", for_server)
    understand("worker", for_worker)


def test_variables_on_the_page_and_in_the_units_are_read_by_somebody() -> None:
    named = set(re.findall(r"\bMAINSPRING_[A-Z_]+(?==)", PAGE + "".join(UNITS.values())))
    in_units = set(re.findall(r"\$(MAINSPRING_\w+)", "".join(UNITS.values())))
    assert named
    assert named <= in_units | {setting.variable for setting in SETTINGS.values()}


def test_files_that_are_installed_exist() -> None:
    (units, cluster) = [
        line for block in BLOCKS for line in block.splitlines() if line.startswith("install -m")
    ]
    named = [word for line in (units, cluster) for word in line.split() if word.startswith("deploy/")]
    assert sorted(Path(name).name for name in named) == sorted(UNITS)
    assert all((ROOT / name).is_file() for name in named)
    locks = re.findall(r"-r (\S+)", "".join(BLOCKS))
    assert locks
    assert all((ROOT / name).is_file() for name in locks)


def test_copy_of_a_running_sqlite_store_holds_what_was_acknowledged(tmp_path: Path) -> None:
    (line,) = [line for block in BLOCKS for line in block.splitlines() if " backup " in line]
    line = line.removeprefix("sudo -u mainspring ").replace("/opt/mainspring/bin/mainspring", command()[0])
    line = line.replace("/var/lib/mainspring", f"{tmp_path}/data").replace("/backup/", f"{tmp_path}/")
    with server("--data", tmp_path / "data", cwd=tmp_path) as (process, url):
        body = {"name": "kept", "cron": "0 9 * * *", "callback_url": "https://example.com/"}
        call(url, lambda client: client.put_job(body))
        subprocess.run(shlex.split(line), timeout=60, check=True)
        assert process.stop() == 0
    with sqlite3.connect(tmp_path / "mainspring.backup") as copy:
        assert copy.execute("SELECT count(*) FROM job").fetchone() == (1,)
        assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    copy.close()
