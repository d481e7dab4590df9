"""An app within processes that something else runs: one scheduler, take-overs, and no loss when one of them stops."""

import contextlib
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from tests.processes.processes import Running, await_that, environment

APP = """
import os, sys, time
from mainspring import App, current_attempt

app = App(name="shop")

def note(file, *words):
    with open(file, "a") as notes:
        notes.write(" ".join(map(str, words)) + "\\n")

@app.job(every="1s")
def tick():
    note("ticks", current_attempt().fire_at.isoformat(), os.getpid())

@app.job()
def take(number: int):
    note("taken", number)

@app.job()
def hold():
    note("began", os.getpid())
    while not os.path.exists("go"):
        time.sleep(0.01)
    note("held", os.getpid())

with app.embedded(port=0, **eval(sys.argv[1])):
    print("serving", os.getpid(), flush=True)
    for line in sys.stdin:
        name, *numbers = line.split()
        if name == "hold":
            print("submitted", hold.enqueue_sync().id, flush=True)
        elif name == "take":
            for number in range(*map(int, numbers)):
                take.enqueue_sync(number)
            print("took", flush=True)
        else:
            print("is", app.sync.get_run(numbers[0]).status, flush=True)
print("stopped", flush=True)
"""


class Process(Running):
    """One process of the app, which obeys lines on stdin."""

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def ask(self, line: str, start: str) -> str:
        self.say(line)
        return self.wait_for(start)

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()


@contextlib.contextmanager
def started(folder: Path, **options: object) -> Iterator[Process]:
    (folder / "web.py").write_text(APP)
    with (folder / "errors").open("a") as errors:
        process = subprocess.Popen(
            [sys.executable, "web.py", repr(options)],
            cwd=folder,
            env=environment(MAINSPRING_WORKER_BEAT_PERIOD="0.3s"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        one = Process(process)
        one.wait_for("serving")
        yield one
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()


def lines(path: Path) -> list[str]:
    return path.read_text().split("\n")[:-1] if path.exists() else []


def check_ticks(folder: Path) -> None:
    """Each second has one fire, and each fire one run."""
    fires = sorted(datetime.fromisoformat(line.split()[0]) for line in lines(folder / "ticks"))
    assert len(fires) >= 2
    assert {later - earlier for earlier, later in pairwise(fires)} == {timedelta(seconds=1)}


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def where(request: pytest.FixtureRequest) -> dict[str, object]:
    if request.param == "sqlite":
        return {"data": "data"}
    return {"store": request.getfixturevalue("migrated_database")}


@pytest.mark.slow
def test_one_fire_is_one_run_and_a_stop_loses_and_doubles_nothing(
    where: dict[str, object], tmp_path: Path
) -> None:
    with started(tmp_path, **where) as first, started(tmp_path, **where) as second:
        both = {process.process.pid: process for process in (first, second)}
        run = second.ask("hold", "submitted ")
        await_that("the run begins", lambda: lines(tmp_path / "began"))
        holder = both.pop(int(lines(tmp_path / "began")[0]))
        (other,) = both.values()
        other.say("take 0 30")
        holder.end()  # it waits for the attempt, while the other one goes on submitting
        other.wait_for("took")
        (tmp_path / "go").touch()
        holder.wait_for("stopped")
        assert holder.process.wait(10) == 0
        other.ask("take 30 40", "took")
        await_that("all are taken", lambda: len(lines(tmp_path / "taken")) >= 40)
        assert other.ask(f"look {run}", "is ") == "SUCCEEDED"
        ticks = len(lines(tmp_path / "ticks"))
        await_that("the other one goes on", lambda: len(lines(tmp_path / "ticks")) >= ticks + 2)
    assert set(Counter(lines(tmp_path / "taken")).values()) == {1}
    assert len(lines(tmp_path / "taken")) == 40
    assert len(lines(tmp_path / "held")) == 1
    check_ticks(tmp_path)


@pytest.mark.parametrize("how", ["drained", "killed"])
def test_another_process_takes_over_what_did_not_end(
    how: str, where: dict[str, object], tmp_path: Path
) -> None:
    with started(tmp_path, drain="0.1s", **where) as first, started(tmp_path, **where) as second:
        both = {process.process.pid: process for process in (first, second)}
        run = first.ask("hold", "submitted ")
        await_that("the run begins", lambda: lines(tmp_path / "began"))
        holder = both.pop(int(lines(tmp_path / "began")[0]))
        (other,) = both.values()
        if how == "killed" or holder is second:  # only the first one gives up at once
            holder.process.send_signal(signal.SIGKILL)
        else:
            holder.end()
        await_that("it begins again", lambda: len(lines(tmp_path / "began")) == 2)
        assert lines(tmp_path / "began")[1] == str(other.process.pid)
        (tmp_path / "go").touch()
        await_that("it ends", lambda: str(other.process.pid) in lines(tmp_path / "held"))
        await_that("it is told", lambda: other.ask(f"look {run}", "is ") == "SUCCEEDED")
