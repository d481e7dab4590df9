"""Settings of real processes, from a file, the environment and options; and the commands that show and check them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mainspring.cli.main import run_command
from mainspring.config.table import SETTINGS
from tests.processes.processes import environment, run, running


def write(folder: Path, text: str) -> None:
    (folder / "mainspring.toml").write_text(text)


def workers_at(url: str) -> list[dict[str, Any]]:
    code = f"import urllib.request as r; print(r.urlopen('{url}/api/v1/workers').read().decode())"
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    body: Any = json.loads(asked.stdout)
    workers: list[dict[str, Any]] = body["items"] if isinstance(body, dict) else body
    return workers


def slots_of(folder: Path, *arguments: object, **variables: str) -> tuple[int, str]:
    """Start everything in one process; return its worker's slots and what it logged."""
    with running("up", *arguments, "--port", 0, cwd=folder, **variables) as process:
        (worker,) = workers_at(process.wait_for("listening on "))
        assert process.stop() == 0
    return worker["slots"], (folder / "stderr.log").read_text()


def test_a_process_takes_options_before_variables_before_the_file(tmp_path: Path) -> None:
    write(tmp_path, 'store = "memory://"\n[worker]\nslots = 11\n')
    assert slots_of(tmp_path)[0] == 11
    assert slots_of(tmp_path, MAINSPRING_WORKER_SLOTS="12")[0] == 12
    assert slots_of(tmp_path, "--slots", 13, MAINSPRING_WORKER_SLOTS="12")[0] == 13
    assert not (tmp_path / "mainspring-data").exists()


def test_a_file_is_named_by_option_before_variable_before_the_folder(tmp_path: Path) -> None:
    for name, slots in (("mainspring.toml", 1), ("variable.toml", 2), ("option.toml", 3)):
        (tmp_path / name).write_text(f"[worker]\nslots = {slots}\n")

    def found(*arguments: str, **variables: str) -> tuple[object, object, object]:
        done = run("config", "show", "--changed", "--json", *arguments, cwd=tmp_path, **variables)
        shown = json.loads(done.stdout)
        return shown["file"], shown["found_by"], shown["settings"][0]["value"]

    assert found() == ("mainspring.toml", "usual place", 1)
    variable = {"MAINSPRING_CONFIG": "variable.toml"}
    assert found(**variable) == ("variable.toml", "MAINSPRING_CONFIG", 2)
    assert found("--config", "option.toml", **variable) == ("option.toml", "--config", 3)


def test_every_command_line_process_stops_at_a_file_that_is_wrong(tmp_path: Path) -> None:
    write(tmp_path, "[worker]\nslot = 1\n")
    for process in ("up", "server", "worker"):
        done = run(process, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        said = "error: worker.slot: there is no such setting; did you mean 'worker.slots'? (in mainspring.toml)\n"
        assert done.stderr == said


def test_commands_that_ask_a_server_take_it_from_the_file(tmp_path: Path) -> None:
    write(tmp_path, 'server = ["http://127.0.0.1:9", "http://127.0.0.1:19"]\n')
    done = run("job", "list", cwd=tmp_path)
    assert done.returncode == 1
    assert re.search(r"no answer from http://127\.0\.0\.1:1?9 ", done.stderr)  # it begins with either
    done = run("job", "list", cwd=tmp_path, MAINSPRING_SERVER="http://127.0.0.1:8")
    assert "no answer from http://127.0.0.1:8" in done.stderr
    done = run("job", "list", "--server", "http://127.0.0.1:7", cwd=tmp_path)
    assert "no answer from http://127.0.0.1:7" in done.stderr
    write(tmp_path, "server = 1\n")
    done = run("job", "list", cwd=tmp_path)
    assert (done.returncode, done.stderr.startswith("error: server: must be a list of texts")) == (2, True)


def test_workers_of_one_parent_read_the_file_and_no_one_starts_more(tmp_path: Path) -> None:
    write(tmp_path, 'server = "http://127.0.0.1:1"\n[worker]\nprocesses = 2\nslots = 3\n')
    with running("up", "--port", 0, "--store", "memory://", "--slots", 0, cwd=tmp_path) as process:
        url = process.wait_for("listening on ")
        with running("worker", cwd=tmp_path, MAINSPRING_SERVER=url) as workers:
            workers.wait_for("ready")
            assert [worker["slots"] for worker in workers_at(url)] == [3, 3]
            assert workers.stop() == 0
        assert process.stop() == 0


def test_logs_as_json_and_their_level(tmp_path: Path) -> None:
    options = ("--log-format", "json", "--store", "memory://", "--slots", 1)
    _, log = slots_of(tmp_path, *options)
    events = [json.loads(line) for line in log.splitlines()]
    assert {"info"} <= {event["level"] for event in events}
    (tmp_path / "stderr.log").unlink()
    assert slots_of(tmp_path, *options, MAINSPRING_LOGGING_LEVEL="warning")[1] == ""


def test_show_says_where_each_value_comes_from_and_hides_passwords(tmp_path: Path) -> None:
    write(tmp_path, "[worker]\nslots = 11\n")
    done = run(
        "config", "show", "--drain", "5s", cwd=tmp_path, MAINSPRING_STORE="postgresql://me:hunter2@db/x"
    )
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[0] == "file: mainspring.toml (usual place)"
    assert "store postgresql://me:***@db/x environment MAINSPRING_STORE" in lines
    assert "worker.slots 11 file mainspring.toml" in lines
    assert "drain 5s flag --drain" in lines
    assert "port 8620 default" in lines
    assert len(lines) == 3 + len(SETTINGS)
    assert "hunter2" not in done.stdout + run("config", "show", "--json", cwd=tmp_path).stdout


def test_check_reports_all_problems_of_a_file_and_of_variables(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(
        "prot = 1\nhost = '10.0.0.1'\n[history]\nkeep = 'ever'\n[executors.http]\nallow = ['a:b:c']\n"
    )
    done = run("config", "check", "bad.toml", cwd=tmp_path, MAINSPRING_WORKER_SLOT="1")
    assert done.returncode == 3
    assert done.stderr == ""
    fields = [line.partition(":")[0] for line in done.stdout.splitlines()]
    assert fields == ["prot", "history.keep", "executors.http.allow", "MAINSPRING_WORKER_SLOT", "host"]
    told = json.loads(run("config", "check", "bad.toml", "--json", cwd=tmp_path).stdout)
    assert [problem["setting"] for problem in told["problems"]] == [*fields[:3], *fields[4:]]


def test_check_reports_an_address_that_a_worker_refuses(tmp_path: Path) -> None:
    write(tmp_path, "server = ['ftp://x']\n")
    checked, worker = run("config", "check", cwd=tmp_path), run("worker", cwd=tmp_path)
    assert (checked.returncode, worker.returncode) == (3, 2)
    assert checked.stdout.startswith("server: must be an address like http://127.0.0.1:8620")
    assert worker.stderr == f"error: {checked.stdout}"


def test_check_is_content_with_a_store_that_is_for_servers(tmp_path: Path) -> None:
    for store in ("sqlite:///data", "memory://"):
        done = run("config", "check", "--store", store, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_check_is_content_with_what_is_right(tmp_path: Path) -> None:
    write(tmp_path, "[worker]\nslots = 11\n")
    done = run("config", "check", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "mainspring.toml: right\n", "")
    done = run("config", "check", "absent.toml", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.startswith("config: absent.toml cannot be read")


@pytest.mark.parametrize("arguments", [["config", "show"], ["config", "show", "--json"], ["config", "check"]])
def test_what_cannot_be_shown_is_refused_in_a_line(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "port = 70000\n")
    assert run_command(arguments) == (3 if "check" in arguments else 2)
    said = capsys.readouterr()
    assert (said.out + said.err).removeprefix("error: ").startswith("port: 70000 is not between 0 and 65535")


def test_a_command_that_asks_a_server_loads_nothing_for_its_settings(tmp_path: Path) -> None:
    """What is in a file costs its reading; the table of settings alone must cost nothing that is felt."""
    code = "import sys, mainspring.cli.options; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), cwd=tmp_path, capture_output=True, text=True, check=True
    )  # fmt: skip
    late = {"mainspring.config.settings", "mainspring.core.model", "tomllib", "structlog", "msgspec"}
    assert late & set(done.stdout.split()) == set()
