"""Starts the product as a user does, and ends it as nobody should."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.chaos.effects import FOLDER_VARIABLE

READY = re.compile(rb"listening on (http://\S+)")
ROOT = Path(__file__).resolve().parents[2]


class Product:
    """One `mainspring up` on a data folder, started and killed any number of times.

    Args:
        options: more options of `mainspring up`; one given again wins over the one here.
    """

    def __init__(self, folder: Path, *, receiver: str, options: Sequence[str] = ()) -> None:
        self._folder = folder
        self._receiver = receiver
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.effects = folder / "effects"
        self.effects.mkdir(parents=True, exist_ok=True)
        self.address = ""
        self.log = (folder / "mainspring.log").open("ab")

    def start(self) -> None:
        """Start and return once it listens.

        Raises:
            RuntimeError: it ended before it listened.
        """
        command = [
            *(sys.executable, "-m", "mainspring", "up", "tests.chaos.jobs:app"),
            *("--data", str(self._folder / "data"), "--port", "0", "--allow-shell"),
            *("--callback-allow", self._receiver, "--beat-period", "1", "--drain", "10"),
            *self._options,
        ]
        environment = {**os.environ, FOLDER_VARIABLE: str(self.effects)}
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=self.log,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.log.write(line)
            match = READY.search(line)
            if match:
                self.address = match.group(1).decode()
                return
        raise RuntimeError(f"mainspring up ended with {self._process.wait()}: see {self.log.name}")

    def kill(self) -> None:
        """Kill the process and all its descendants with SIGKILL, the root first so that it cannot react."""
        assert self._process is not None
        victims = [self._process.pid, *descendants(self._process.pid)]
        for pid in victims:
            _signal(pid, signal.SIGKILL)
        self._reap()

    def stop(self) -> None:
        """End it as a user does."""
        assert self._process is not None
        self._process.terminate()
        self._reap()

    def _reap(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.wait(60)
        self._process.stdout.close()

    def close(self) -> None:
        """Let go of the log."""
        self.log.close()


def descendants(pid: int) -> list[int]:
    """Return the process ids of all children, their children and so on."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parent = int(stat.rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
