"""docs/howto/watch-it-live.md: `mainspring top` on a terminal and without one."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import signal
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainspring import App
from tests.processes.processes import SECONDS, command, environment, run, run_here, server

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "watch-it-live.md").read_text()
LINES = [shlex.split(line)[1:] for line in re.findall(r"^(mainspring top.*)$", PAGE, re.MULTILINE)]
SHOP = """from mainspring import App

app = App()


@app.job(queue="mail", retry={"max_retries": 0})
def fail() -> None:
    raise ValueError("the partner said no")
"""
LEAVES = "\x1b[?1049l"
"""What shows again what was on the terminal before."""


@pytest.fixture(autouse=True)
def _interrupts_are_taken() -> Iterator[None]:
    """A suite that runs in the background ignores SIGINT, and what it starts would, too."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Watched:
    """`mainspring top` on a terminal of its own."""

    def __init__(self, *arguments: object, cwd: Path, **variables: str) -> None:
        self.terminal, theirs = pty.openpty()
        termios.tcsetwinsize(self.terminal, (40, 100))
        self.before = termios.tcgetattr(theirs)
        self.theirs = theirs
        self.process = subprocess.Popen(
            command(*arguments),
            cwd=cwd,
            env=environment(TERM="xterm", LC_ALL="C.UTF-8", **variables),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        self.seen = ""

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + SECONDS
        while text not in self.seen:
            assert time.monotonic() < deadline, (text, self.seen[-3000:])
            if select.select([self.terminal], [], [], 1)[0]:
                self.seen += os.read(self.terminal, 65536).decode(errors="replace")

    def press(self, key: str) -> None:
        self.seen = ""
        os.write(self.terminal, key.encode())

    def end(self) -> int:
        code = self.process.wait(SECONDS)
        self.wait_for(LEAVES)
        assert termios.tcgetattr(self.theirs) == self.before, "the terminal is as it was"
        for descriptor in (self.terminal, self.theirs):
            os.close(descriptor)
        return code


def test_it_is_drawn_until_a_key_quits(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    with server("shop:app", cwd=tmp_path) as (_, url):
        app = App(server=url)
        (one,) = app.sync.submit_runs([{"job": "fail"}])
        assert one.run_id is not None
        assert app.wait_for_sync(one.run_id, 60).status == "FAILED"
        for line in LINES:
            told = run(*line, "--server", url, cwd=tmp_path)  # without a terminal
            assert (told.returncode, "\x1b" in told.stdout) == (0, False), told.stderr
            assert re.search(
                r"^\S+ +fail +run_\w+ +ValueError: the partner said no$", told.stdout, re.MULTILINE
            )
        watched = Watched("top", "--interval", "500ms", "--server", url, cwd=tmp_path)
        watched.wait_for("the partner said no")
        watched.wait_for("q quit")
        watched.press("p")
        watched.wait_for("paused: p goes on")
        watched.press("p")
        (two,) = app.sync.submit_runs([{"job": "fail"}])
        watched.wait_for(str(two.run_id))
        watched.press("q")
        assert watched.end() == 0
        app.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_the_terminal_as_it_was(tmp_path: Path, number: signal.Signals) -> None:
    with server("--slots", 0, cwd=tmp_path) as (_, url):
        watched = Watched("top", "--server", url, cwd=tmp_path, NO_COLOR="1")
        watched.wait_for("there is no worker")
        assert not re.search(r"\x1b\[\d*m", watched.seen)
        watched.process.send_signal(number)
        assert watched.end() == (0 if number is signal.SIGTERM else 130)


def test_a_terminal_that_is_gone_ends_it(tmp_path: Path) -> None:
    with server("--slots", 0, cwd=tmp_path) as (_, url):
        watched = Watched("top", "--interval", "500ms", "--server", url, cwd=tmp_path)
        watched.wait_for("there is no worker")
        for descriptor in (watched.theirs, watched.terminal):
            os.close(descriptor)
        watched.process.wait(SECONDS)


def test_a_server_that_ends_is_told_and_waited_for(tmp_path: Path) -> None:
    with server("--slots", 0, cwd=tmp_path) as (process, url):
        watched = Watched("top", "--interval", "500ms", "--server", url, cwd=tmp_path)
        watched.wait_for("there is no worker")
        watched.seen = ""
        process.process.kill()
        watched.wait_for("no answer from")
        watched.press("q")
        assert watched.end() == 0


def test_what_is_wrong_from_the_beginning_is_an_error() -> None:
    away = run_here("top", "--once", "--server", "http://127.0.0.1:9")
    assert (away.returncode, "connection refused" in away.stderr) == (1, True)
    often = run_here("top", "--interval", "1ms")
    assert (often.returncode, "interval: must be between 500ms and 1h" in often.stderr) == (2, True)
