"""What the tests in hostile surroundings share: a product to talk to, conditions to wait for, refused starts."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx

from mainspring.core.ids import format_run_id
from tests.chaos.collect import check_integrity
from tests.chaos.effects import read_effects
from tests.chaos.processes import ROOT, Product

R = TypeVar("R")
SECONDS = 30.0
FINAL = {"SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED"}
NOBODY = "127.0.0.1:9"
"""No callbacks are received here."""


def wait_for(condition: Callable[[], R], what: str, seconds: float = SECONDS) -> R:
    """Return the condition's first true value; fail by the name of what was waited for."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s: {what}")


class Mainspring(Product):
    """A product to talk to and to look at from outside."""

    def __init__(self, folder: Path, *options: str) -> None:
        super().__init__(folder, receiver=NOBODY, options=options)

    @property
    def holder(self) -> int:
        """The process that holds the folder, as the product itself writes it down."""
        return int((self.data / "mainspring.db.lock").read_text().split()[0])

    def kill_alone(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send the process a signal, and none to its descendants."""
        os.kill(self.pid, number)
        if number == signal.SIGKILL:
            self.reap()

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request, whatever it is answered."""
        return httpx.request(method, f"{self.address}/api/v1{path}", timeout=20, **options)

    def call(self, method: str, path: str, **options: Any) -> Any:
        """Send a request that must succeed."""
        answer = self.ask(method, path, **options)
        assert answer.is_success, answer.text
        return answer.json()

    def add_job(self, name: str, **body: Any) -> str:
        """Add a job; return its id."""
        return str(self.call("POST", "/jobs", json={"name": name, **body})["job_id"])

    def find_job(self, name: str) -> str:
        """Return the id of a job."""
        return str(self.call("GET", f"/jobs?name={name}")["items"][0]["job_id"])

    def submit(self, job_id: str, **body: Any) -> str:
        """Submit a run; return its id."""
        return str(self.call("POST", f"/jobs/{job_id}/runs", json=body)["run_id"])

    def run(self, run_id: str) -> dict[str, Any]:
        """Return a run with its attempts."""
        run: dict[str, Any] = self.call("GET", f"/runs/{run_id}")
        return run

    def await_end(self, run_id: str, seconds: float = SECONDS) -> dict[str, Any]:
        """Return a run when it is final."""
        run: dict[str, Any] = {}

        def is_final() -> bool:
            run.update(self.run(run_id))
            return run["status"] in FINAL

        wait_for(is_final, f"the end of {run_id}, {run}", seconds)
        return run

    def endings(self) -> dict[str, list[str | None]]:
        """Return, for each run that began, how its executions ended by the jobs' own word."""
        endings: dict[str, list[str | None]] = defaultdict(list)
        for effect in read_effects(self.effects):
            endings[format_run_id(effect.run_id)].append(effect.ending)
        return endings

    def errors(self) -> str:
        """Return what it has logged."""
        return Path(self.log.name).read_text()

    def integrity(self) -> str:
        """Return what SQLite says of the file."""
        return check_integrity(self.data / "mainspring.db")


@contextlib.contextmanager
def started(folder: Path, *options: str) -> Iterator[Mainspring]:
    """Start a product; whatever is left of it at the end is killed."""
    product = Mainspring(folder, *options)
    try:
        product.start()
        yield product
    finally:
        product.kill()
        product.close()


def try_up(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Start `mainspring up` where it is to be refused, and return how it ended."""
    command = [sys.executable, "-m", "mainspring", "up", "--port", "0", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        command,
        cwd=cwd or ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def error_of(done: subprocess.CompletedProcess[str]) -> str:
    """Return the one line that a refused process ends with."""
    assert done.returncode == 1, done
    assert done.stdout == ""
    assert re.fullmatch(r"error: .+\n", done.stderr), done.stderr
    return done.stderr
