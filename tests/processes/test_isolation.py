"""Functions in processes of their own, in a real server and a real worker."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.processes.processes import await_that, run, running, server

APP = """
import ctypes
import os
import time
from pathlib import Path

from mainspring import App

app = App()


@app.job(isolation="process", retries=0)
def crash() -> None:
    print("about to crash")
    ctypes.string_at(0)


@app.job(isolation="process")
def spin(path: str) -> None:
    Path(path).write_text(f"{os.getpid()} {os.getppid()}")
    while True:
        pass


@app.job()
def neighbour(path: str) -> str:
    with open(path) as pipe:
        return pipe.read()
"""
ON = {"MAINSPRING_EXECUTORS_PROCESS_ENABLED": "true"}
pytestmark = pytest.mark.xdist_group("processes")


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_crash_leaves_the_worker_and_its_neighbours_alone(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP)
    os.mkfifo(tmp_path / "pipe")
    with server("shop:app", "--data", tmp_path / "data", cwd=tmp_path, **ON) as (_, url):
        payload = json.dumps({"path": str(tmp_path / "pipe")})
        started = run("job", "run", "neighbour", "--payload", payload, "--server", url, cwd=tmp_path)
        assert started.returncode == 0
        with (tmp_path / "pipe").open("w") as pipe:  # it is under way
            crashed = run("job", "run", "crash", "--wait", 30, "--json", "--server", url, cwd=tmp_path)
            pipe.write("unharmed")
        run_id = json.loads(crashed.stdout)["run_id"]
        shown = json.loads(run("run", "show", run_id, "--json", "--server", url, cwd=tmp_path).stdout)
        assert shown["status"] == "FAILED"
        assert shown["error"] == "its process was killed by SIGSEGV"
        assert shown["output"].startswith("about to crash\nFatal Python error: Segmentation fault")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_function_dies_with_its_worker(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "shop.py").write_text(APP)
    os.mkfifo(tmp_path / "pid")
    data = ("--data", tmp_path / "data", "--drain", "0s")
    with running("up", "shop:app", *data, "--port", 0, cwd=tmp_path, **ON) as up:
        url = up.wait_for("listening on ")
        payload = json.dumps({"path": str(tmp_path / "pid")})
        assert run("job", "run", "spin", "--payload", payload, "--server", url, cwd=tmp_path).returncode == 0
        pid, parent = map(int, (tmp_path / "pid").read_text().split())
        up.stop(number)
        await_that("the function is dead", lambda: not is_alive(pid))
        await_that("what has forked it is dead", lambda: not is_alive(parent))
