"""A package from outside the source adds a trigger, a target with its executor, and a store."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.conftest import TOY
from tests.processes.processes import await_that, environment, run, running, server

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "extend.md"
pytestmark = pytest.mark.slow


def ask(url: str, *arguments: object, **more: str) -> Any:
    done = run(*arguments, "--server", url, "--json", cwd=None, text="", **more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.timeout(180)
def test_a_server_and_a_worker_run_jobs_of_added_types_on_an_added_store(
    installed: Path, tmp_path: Path
) -> None:
    more = {"PYTHONPATH": str(installed)}
    pipe = tmp_path / "lines"
    os.mkfifo(pipe)
    with running("server", "--store", "toy://here", "--port", 0, cwd=tmp_path, **more) as process:
        url = process.wait_for("listening on ")
        with running("worker", "--server", url, cwd=tmp_path, **more) as worker:
            worker.wait_for("ready")
            arguments = ("--step-seconds", 1, "--append-to", pipe, "--payload", '"fired"')
            job = ask(url, "job", "add", "beat", *arguments, **more)
            assert job["trigger"] == {"type": "step", "seconds": 1}
            assert job["target"] == {"type": "append", "path": str(pipe)}
            assert len(job["next_fire_times"]) == 5
            with pipe.open() as lines:  # opens when the executor does
                assert lines.readline() == '"fired"\n'
            listed = run("job", "list", "--server", url, cwd=None, text="", **more)
            assert "step 1" in listed.stdout


@pytest.mark.timeout(180)
def test_a_server_without_the_package_names_the_type_and_keeps_the_job(
    installed: Path, tmp_path: Path
) -> None:
    more = {"PYTHONPATH": str(installed)}
    file = tmp_path / "lines"
    with server("--data", tmp_path / "data", cwd=tmp_path, **more) as (process, url):
        for name in ("beat", "other"):
            ask(url, "job", "add", name, "--step-seconds", 1, "--append-to", file, **more)
        await_that("the first line", file.exists)
        process.stop()
    log = tmp_path / "stderr.log"
    log.write_text("")
    with server("--data", tmp_path / "data", cwd=tmp_path) as (process, url):
        before = file.read_bytes()
        await_that("the log names the type", lambda: "job_waits_for_its_trigger_type" in log.read_text())
        assert re.search(r"trigger_type_unknown.*type=step", log.read_text())
        assert re.search(r"target_type_unknown.*type=append", log.read_text())
        assert "Traceback" not in log.read_text()
        job = ask(url, "job", "show", "beat")
        assert job["trigger"] == {"type": "step", "seconds": 1}
        assert job["target"] == {"type": "append", "path": str(file)}
        assert job["next_fire_times"] == [job["next_fire_time"]]
        assert "step" in run("job", "list", "--server", url).stdout
        ledger = run("ledger", "beat", "--server", url)
        assert (ledger.returncode, "'step' is not known here; install the package" in ledger.stderr) == (
            2,
            True,
        )
        ask(url, "job", "pause", "beat")
        assert run("job", "resume", "beat", "--server", url).returncode == 2
        assert run("job", "rm", "other", "--server", url).returncode == 0
        refused = run("job", "add", "new", "--target", '{"type": "append"}', "--server", url)
        assert "target.type: must be one of function, http" in refused.stderr
        assert file.read_bytes() == before
        process.stop()
    with server("--data", tmp_path / "data", cwd=tmp_path, **more) as (_, url):
        ask(url, "job", "resume", "beat", **more)
        await_that("a line after the package is back", lambda: file.read_bytes() != before)


@pytest.mark.parametrize("option", ["--no-api", "--no-scheduler"])
def test_half_a_server_is_refused_on_a_store_for_one_process(
    installed: Path, tmp_path: Path, option: str
) -> None:
    more = {"PYTHONPATH": str(installed)}
    refused = run("server", "--store", "toy://here", option, cwd=tmp_path, text="", **more)
    field = option.removeprefix("--").replace("-", "_")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith(f"error: {field}: a store of toy:// can have one process only")
    (tmp_path / "mainspring.toml").write_text('store = "toy://here"\nscheduler.enabled = false\n')
    checked = run("config", "check", cwd=tmp_path, text="", **more)
    assert checked.returncode == 3
    assert checked.stdout.startswith("scheduler.enabled: a store of toy:// can have one process only")


@pytest.mark.timeout(180)
def test_the_toy_store_passes_the_shipped_suite(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "test_store.py").write_text((TOY / "test_store.py").read_text())
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_store.py"],
        cwd=tmp_path,
        env=environment(PYTHONPATH=str(installed)),
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) > 200


def test_the_pages_commands_are_understood_where_the_package_is_installed(installed: Path) -> None:
    lines = [
        line
        for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)
        for line in block.splitlines()
    ]
    ours = [shlex.split(line)[1:] for line in lines if line.startswith("mainspring ")]
    assert len(ours) >= 3
    assert [line for line in lines if not line.startswith(("mainspring ", "pip install ", "pytest "))] == []
    code = (
        "import json, sys, click\n"
        "from mainspring.cli.main import cli\n"
        "for words in json.loads(sys.argv[1]):\n"
        "    command, names = cli, []\n"
        "    while isinstance(command, click.Group):\n"
        "        names.append(words.pop(0))\n"
        "        command = command.get_command(click.Context(command), names[-1])\n"
        "    command.make_context(names[-1], words)\n"
    )
    subprocess.run(
        [sys.executable, "-c", code, json.dumps(ours)],
        env=environment(PYTHONPATH=str(installed)),
        check=True,
        timeout=60,
    )
