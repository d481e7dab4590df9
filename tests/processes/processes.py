"""Starts the real command line for tests and waits for what it prints."""

from __future__ import annotations

import contextlib
import io
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from mainspring.cli.main import run_command

SECONDS = 60.0


def environment(**more: str) -> dict[str, str]:
    """The test's environment without what would point to other servers."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MAINSPRING_")}
    return {**inherited, "PYTHONUNBUFFERED": "1", **more}


def command(*arguments: object) -> list[str]:
    return [str(Path(sys.executable).with_name("mainspring")), *map(str, arguments)]


def run(
    *arguments: object, cwd: Path | None = None, text: str = "", **more: str
) -> subprocess.CompletedProcess[str]:
    """Carry out a command to its end."""
    return subprocess.run(
        command(*arguments),
        cwd=cwd,
        env=environment(**more),
        input=text,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def run_here(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Carry out a command in this process, which starts none: for tests of many commands."""
    given = list(map(str, arguments))
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run_command(given)
    return subprocess.CompletedProcess(given, code, out.getvalue(), err.getvalue())


def await_that(what: str, check: Callable[[], object]) -> None:
    """Wait until `check` holds."""
    deadline = time.monotonic() + 2 * SECONDS
    while not check():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


class Running:
    """A process that goes on until it is told to end."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []

    def wait_for(self, start: str) -> str:
        """Return what follows `start` in the first line of stdout that begins with it."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + SECONDS
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while time.monotonic() < deadline and selector.select(deadline - time.monotonic()):
                line = self.process.stdout.readline()
                if not line:
                    break
                self.lines.append(line)
                if line.startswith(start):
                    return line.removeprefix(start).strip()
        raise AssertionError(f"no line {start!r}; there were {self.lines}, then {self.process.poll()}")

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it and return its exit code."""
        self.process.send_signal(number)
        return self.process.wait(SECONDS)


@contextlib.contextmanager
def running(*arguments: object, cwd: Path, **more: str) -> Iterator[Running]:
    """Start a command and make sure that it is gone afterwards."""
    with (cwd / "stderr.log").open("a") as errors:
        process = subprocess.Popen(
            command(*arguments),
            cwd=cwd,
            env=environment(**more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        try:
            yield Running(process)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


@contextlib.contextmanager
def server(*arguments: object, cwd: Path, **more: str) -> Iterator[tuple[Running, str]]:
    """Start `mainspring up` on a free port; give the process and its address."""
    with running("up", *arguments, "--port", 0, cwd=cwd, **more) as process:
        yield process, process.wait_for("listening on ")
