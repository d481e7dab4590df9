"""The workers that the docs show, started as the page says, and what tests need around them."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes.processes import environment
from tests.support.asking import PATIENCE, ask, wait_until

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "howto" / "write-a-worker.md").read_text()
WORKERS = ["python", "shell"]


def write_functions(folder: Path) -> Path:
    """Write the programs that the page shows into a folder, under the names that it gives them."""
    folder.mkdir()
    for name, text in re.findall(r"^`(\w+)`:\n\n```sh\n(#!.*?)```", PAGE, re.DOTALL | re.MULTILINE):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    assert sorted(path.name for path in folder.iterdir()) == ["add", "nap"]
    return folder


def need_tools() -> None:
    """Skip without curl and jq, which `scripts/services` installs where it may; on CI that is a failure."""
    missing = [name for name in ("curl", "jq") if shutil.which(name) is None]
    if missing:
        reason = f"there is no {' and no '.join(missing)} here"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)


def has_processes(session: int) -> bool:
    """Say whether any process of a session of the system is alive, zombies aside."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, its_session = path.read_text().rpartition(")")[2].split()[:4]
            if int(its_session) == session and state != "Z":
                return True
    return False


class Written:
    """A worker of the page under way, in a process group of its own."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.log = log

    def send_to_all(self, number: signal.Signals) -> None:
        os.killpg(self.process.pid, number)

    def drain(self) -> int:
        """Ask the worker to end, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


@contextlib.contextmanager
def written_worker(kind: str, address: str, folder: Path) -> Iterator[Written]:
    """Start one of the two workers."""
    server = address.removeprefix("http://")
    if kind == "python":
        arguments = [sys.executable, "-I", str(ROOT / "examples" / "worker.py"), server]
    else:
        need_tools()
        functions = write_functions(folder / "functions")
        arguments = [str(ROOT / "examples" / "worker.sh"), server, str(functions)]
    log = folder / "worker.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            arguments,
            cwd=folder,
            env=environment(TMPDIR=str(folder)),
            stdout=errors,
            stderr=errors,
            start_new_session=True,
        )
    worker = Written(process, log)
    try:
        yield worker
    finally:
        with contextlib.suppress(ProcessLookupError):
            worker.send_to_all(signal.SIGKILL)
        process.wait()


def sessions(address: str) -> list[str]:
    """Return the live sessions."""
    return [item["session_id"] for item in ask(address, "GET", "workers")["items"]]


def make_job(address: str, function: str, **policies: object) -> str:
    """Make a job of the worker's function, of the same name; return its id."""
    job = ask(address, "POST", "jobs", {"name": function, "function": function, **policies})
    return str(job["job_id"])


class Submitted:
    """A run and what has become of it."""

    def __init__(self, address: str, job_id: str, payload: object) -> None:
        self._address = address
        self.id: str = ask(address, "POST", f"jobs/{job_id}/run", {"payload": payload})["run_id"]

    def look(self) -> Any:
        return ask(self._address, "GET", f"runs/{self.id}")

    def wait_for(self, status: str) -> Any:
        wait_until(lambda: self.look()["status"] == status)
        return self.look()
