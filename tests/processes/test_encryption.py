"""Encryption by the settings file, against a real server with a worker: docs/howto/encrypt-what-jobs-carry.md, done."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes.processes import run, running, server

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "encrypt-what-jobs-carry.md").read_text()
CANARY = "canary-7e1a"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def console(command: str, folder: Path) -> str:
    """Carry out a command of the page in a shell."""
    assert f"$ {command}\n" in PAGE
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    done = subprocess.run(
        ["/bin/sh", "-c", command], cwd=folder, env={"PATH": path}, check=True, capture_output=True, text=True
    )
    return done.stdout


def test_the_page(tmp_path: Path) -> None:
    console("(umask 077; mainspring keys new > keys)", tmp_path)
    keys = tmp_path / "keys"
    assert keys.stat().st_mode & 0o777 == 0o600
    [settings] = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    file = tmp_path / "mainspring.toml"
    file.write_text(settings.replace("/etc/mainspring/keys", str(keys)))
    data = tmp_path / "data"
    job = {
        "name": "greet",
        "target": {"type": "shell", "command": f"echo {CANARY}; exit 3", "shell": True},
        "payload": {"a": CANARY},
        "retry": {"max_retries": 0},
    }
    with server("--data", data, "--allow-shell", cwd=tmp_path) as (_, url):
        added = run("job", "add", "--body", "-", "--server", url, cwd=tmp_path, text=json.dumps(job))
        assert added.returncode == 0, added.stderr
        shown = run("job", "run", "greet", "--wait", "30", "--server", url, cwd=tmp_path)
        assert "FAILED" in shown.stdout + shown.stderr
        described = run("job", "show", "greet", "--json", "--server", url, cwd=tmp_path).stdout
        assert CANARY in described
        refused = run("dead", "list", "--error", "x", "--server", url, cwd=tmp_path)
        assert "errors are encrypted in the store" in refused.stderr
    kept = b"".join(path.read_bytes() for path in data.iterdir() if path.is_file())
    assert b"greet" in kept
    assert CANARY.encode() not in kept
    assert CANARY not in (tmp_path / "stderr.log").read_text()

    new = console("mainspring keys new 2027", tmp_path)
    assert re.fullmatch(r"2027 = \S{44}\n", new)
    old = keys.read_text()
    keys.write_text(new + old)
    with server("--data", data, "--allow-shell", cwd=tmp_path) as (_, url):
        assert CANARY in run("job", "show", "greet", "--json", "--server", url, cwd=tmp_path).stdout
    checked = run("doctor", "--data", data, cwd=tmp_path).stdout
    day = old.partition(" = ")[0]
    assert re.search(rf"ok  encryption +encrypted with 2 keys: {day}, 2027; 2027 writes", checked)

    def start() -> str:
        done = run("up", "--data", data, "--port", "0", cwd=tmp_path)
        assert done.returncode == 2
        return done.stderr

    keys.write_text(old)
    assert "lacks the key '2027', with which this store has been encrypted since" in start()
    keys.write_text(new.replace("2027", day) + old.replace(day, "2027"))
    assert "is not the one that this store was encrypted with" in start()
    file.write_text("")
    [said] = re.findall(r"```text\n(error: .*?\n)```", PAGE, re.DOTALL)
    assert said in start()


@pytest.mark.postgres
def test_processes_without_keys_end_once_another_one_encrypts(postgres_database: str, tmp_path: Path) -> None:
    """A server that only serves the API, and a worker, are no nodes: the first server with keys does not know them."""
    keys = tmp_path / "keys"
    keys.touch(0o600)
    keys.write_text(run("keys", "new", "k1").stdout)
    with_keys, without = tmp_path / "with", tmp_path / "without"
    for folder, settings in ((with_keys, f'keys_file = "{keys}"\n'), (without, "")):
        folder.mkdir()
        (folder / "mainspring.toml").write_text(settings)
    place = ("--store", postgres_database)
    with (
        running("server", "--no-scheduler", "--port", 0, *place, cwd=without) as api,
        running("worker", *place, "--allow-shell", cwd=without) as worker,
    ):
        api.wait_for("listening on ")
        worker.wait_for("ready")
        with running("server", "--port", 0, *place, cwd=with_keys) as encrypting:
            encrypting.wait_for("listening on ")
            assert [one.process.wait(60) for one in (api, worker)] == [2, 2]
            assert encrypting.stop() == 0
    said = (without / "stderr.log").read_text()
    assert said.count("error: keys_file: is not set, but this store is encrypted since a moment ago") == 2
    assert "Traceback" not in said
