"""The systemd units: systemd takes them, and what they start works and stops as they say."""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainspring.cli.calling import call
from tests.deployment.compose import ROOT, option, seconds
from tests.processes.processes import Running, await_that, running

FOLDER = ROOT / "deploy" / "systemd"
UNITS = sorted(path.name for path in FOLDER.glob("*.service"))
PROGRAM = "/opt/mainspring/bin/mainspring"
pytestmark = pytest.mark.timeout(600)  # processes start, on a host that may be busy


class Unit:
    """A unit file: its settings, and its command as systemd would start it."""

    def __init__(self, name: str) -> None:
        lines = (FOLDER / name).read_text().splitlines()
        pairs = [line.partition("=") for line in lines if re.match(r"[A-Z]\w+=", line)]
        self.settings = [(key, value) for key, _, value in pairs]

    def all(self, key: str) -> list[str]:
        return [value for name, value in self.settings if name == key]

    def one(self, key: str) -> str:
        (value,) = self.all(key)
        return value

    def command(self, *, instance: str = "", **variables: str) -> list[str]:
        """The words of ExecStart without the program: a variable alone is as many words as it holds, or none."""
        text = self.one("ExecStart").replace("%i", instance).replace("%H", socket.gethostname())
        program, *words = text.split()
        assert program == PROGRAM
        found: list[str] = []
        for word in words:
            found += shlex.split(variables.get(word[1:], "")) if word.startswith("$") else [word]
        return found


def test_there_is_a_unit_for_each_process() -> None:
    assert UNITS == ["mainspring-server.service", "mainspring-worker@.service", "mainspring.service"]


@pytest.mark.parametrize("name", [name for name in UNITS if "worker" not in name])
def test_units_that_serve_may_ask_the_kernel_who_calls(name: str) -> None:
    """Without it a server on loopback could not tell its own user's connections from others' (ADR 0027)."""
    families = [family for line in Unit(name).all("RestrictAddressFamilies") for family in line.split()]
    assert not families or {"AF_INET", "AF_INET6", "AF_NETLINK"} <= set(families)
    assert Unit(name).all("PrivateUsers") == []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("mainspring")
    for name in UNITS:
        text = (FOLDER / name).read_text().replace(PROGRAM, str(program))
        (tmp_path / name.replace("@.", "@one.")).write_text(text)
    files = sorted(map(str, tmp_path.iterdir()))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *files],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    complaints = [line for line in done.stderr.splitlines() if "mainspring" in line]
    assert (done.returncode, complaints) == (0, [])


@pytest.mark.parametrize("name", UNITS)
def test_unit_gives_longer_to_stop_than_the_drain_and_spares_what_is_under_way(name: str) -> None:
    unit = Unit(name)
    assert seconds(unit.one("TimeoutStopSec")) >= float(option(unit.command(), "--drain")) + 10
    assert unit.one("KillMode") == "mixed"
    assert unit.one("Restart") == "always"
    assert unit.one("Type") == "notify"


@pytest.mark.parametrize("name", UNITS)
def test_unit_has_an_unprivileged_user_and_no_secret_on_its_command_line(name: str) -> None:
    unit = Unit(name)
    assert unit.one("User") == "mainspring"
    assert unit.one("NoNewPrivileges") == "yes"
    assert unit.all("EnvironmentFile")
    assert "postgresql://" not in unit.one("ExecStart")


@contextlib.contextmanager
def started(words: list[str], folder: Path, ready: str, **variables: str) -> Iterator[tuple[Running, str]]:
    with running(*words, cwd=folder, **variables) as process:
        yield process, process.wait_for(ready)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "deploy" / "compose" / "jobs.py", tmp_path)
    return tmp_path


def has_beaten(url: str) -> bool:
    runs = call(url, lambda client: client.list_runs(state="SUCCEEDED")).items
    return any(run.result is not None and "still here" in str(run.result) for run in runs)


@pytest.mark.postgres
def test_units_of_a_cluster_work_and_stop(postgres_database: str, folder: Path) -> None:
    server, worker = Unit("mainspring-server.service"), Unit("mainspring-worker@.service")
    server_variables = {"MAINSPRING_STORE": postgres_database, "MAINSPRING_OPTIONS": "--port=0"}
    words = server.command(**server_variables)
    with started(words, folder, "listening on ", **server_variables) as (server_process, url):
        variables = {
            "MAINSPRING_SERVER": url,
            "MAINSPRING_APP": "jobs:app",
            "MAINSPRING_OPTIONS": "--slots=5 --queue=default",
        }
        words = worker.command(instance="one", **variables)
        with started(words, folder, "ready", **variables) as (worker_process, _):
            (found,) = call(url, lambda client: client.list_workers()).items
            assert found.name == f"{socket.gethostname()}-one"
            await_that("no heartbeat", lambda: has_beaten(url))
            assert worker_process.stop() == 0
        assert server_process.stop() == 0


def test_unit_of_one_process_works_and_stops(folder: Path) -> None:
    unit = Unit("mainspring.service")
    variables = {"MAINSPRING_APP": "jobs:app", "MAINSPRING_OPTIONS": "--port=0"}
    state = f"/var/lib/{unit.one('StateDirectory')}"
    words = [word.replace(state, str(folder / "state")) for word in unit.command(**variables)]
    assert f"--data={folder / 'state'}" in words
    with started(words, folder, "listening on ", **variables) as (process, url):
        await_that("no heartbeat", lambda: has_beaten(url))
        assert process.stop() == 0


def test_unit_of_one_process_needs_no_variables() -> None:
    assert Unit("mainspring.service").command() == ["up", "--data=/var/lib/mainspring", "--drain=30"]


def test_what_is_refused_ends_with_the_code_that_is_not_tried_again(folder: Path) -> None:
    unit = Unit("mainspring-server.service")
    assert unit.one("RestartPreventExitStatus") == "2"
    words = unit.command(MAINSPRING_OPTIONS="--host=192.0.2.1")
    with running(*words, cwd=folder, MAINSPRING_STORE="memory://") as process:
        assert process.process.wait(60) == 2
    assert "--trusted-network" in (folder / "stderr.log").read_text()
