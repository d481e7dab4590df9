"""Starts the product as a user does, and ends it as nobody should."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import IO

from tests.chaos.effects import FOLDER_VARIABLE
from tests.chaos.failpoints import FAILPOINT_VARIABLE, NOTES_VARIABLE, STOPPING_VERBS, Failpoint, read_notes

READY = re.compile(rb"listening on (http://\S+)")
WORKER_READY = re.compile(rb"(ready)")
ROOT = Path(__file__).resolve().parents[2]
APP = "tests.chaos.jobs:app"
START_SECONDS = 120.0
"""Seconds that a process may take to its line: ten times what it takes on a busy machine, and less than tests may."""
_LAST_WORDS = 5.0
"""Seconds in which a process that hangs may write where it does."""
_TOLD = 4_000
"""Bytes of the end of a log that an error has."""
_PORTS = (20_000, 32_000)
"""Below the ports that connections go out from: a client that tries a port in vain may else connect to itself."""
_ROOM = 1_000
"""How many ports there are at least from the first one on."""


class Ended(RuntimeError):
    """A process ended before it was ready."""


class Stuck(RuntimeError):
    """A process neither ended nor was ready in time. Nobody may take it for one that ended, and start it again."""


class Process(ABC):
    """A process of the product, started and killed any number of times.

    Args:
        folder: where it keeps its log, its notes and the jobs' effects.
        is_watched: start it with the fuse of product.py instead of plainly.

    Attributes:
        is_paused: whether it is stopped now.
        harmed: the process ids that were killed or stopped.
    """

    def __init__(self, folder: Path, *, name: str, is_watched: bool) -> None:
        self.name = name
        self.effects = folder / "effects"
        self.notes = folder / "notes"
        for path in (self.effects, self.notes):
            path.mkdir(parents=True, exist_ok=True)
        self.log = (folder / f"{name}.log").open("ab")
        self._module = "tests.chaos.product" if is_watched else "mainspring"
        self._process: subprocess.Popen[bytes] | None = None
        self.is_paused = False
        self.harmed: set[int] = set()

    @property
    def pid(self) -> int:
        """The process id of the newest start."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def ends_within(self, seconds: float) -> bool:
        """Wait for its end at most so long; say whether it has ended."""
        assert self._process is not None
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    @abstractmethod
    def start(self) -> None:
        """Start and return once it is ready.

        Raises:
            Ended: it ended before that.
            Stuck: it was not ready in time; the error has the end of its log, with where each of its threads is.
        """

    def kill(self) -> float:
        """Kill the process and all its descendants with SIGKILL, the root first so that it cannot react; say when."""
        assert self._process is not None
        victims = [self._process.pid, *descendants(self._process.pid)]
        self.harmed.add(self._process.pid)
        self.is_paused = False
        at = time.time()
        for pid in victims:
            _signal(pid, signal.SIGKILL)
        self.reap()
        return at

    def stop(self) -> int:
        """End it as a user does; return its exit status."""
        self.terminate()
        return self.reap()

    def terminate(self) -> None:
        """Ask it to end."""
        _signal(self.pid, signal.SIGTERM)

    def pause(self) -> float:
        """Freeze the process, not what it has started; say when."""
        _signal(self.pid, signal.SIGSTOP)
        self.harmed.add(self.pid)
        self.is_paused = True
        return time.time()

    def resume(self) -> float:
        """Let it go on; say when."""
        _signal(self.pid, signal.SIGCONT)
        self.is_paused = False
        return time.time()

    def reap(self) -> int:
        """Wait for its end; return its exit status."""
        assert self._process is not None
        assert self._process.stdout is not None
        code = self._process.wait(60)
        self._process.stdout.close()
        return code

    def close(self) -> None:
        """Kill what is left, and let go of the log."""
        if self.is_running:
            self.kill()
        self.log.close()

    def reached(self) -> float | None:
        """Return when the newest start came to its failpoint, if it did."""
        found = read_notes(self.notes, self.pid)
        return next((at for at, what in found if what.startswith("reached ")), None)

    def _spawn(self, arguments: Sequence[str], ready: re.Pattern[bytes], given: Mapping[str, str]) -> str:
        environment = {**os.environ, FOLDER_VARIABLE: str(self.effects), NOTES_VARIABLE: str(self.notes)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", self._module, *arguments],
            cwd=ROOT,
            env={**environment, "PYTHONFAULTHANDLER": "1", **given},  # SIGABRT then shows where it is
            stdout=subprocess.PIPE,
            stderr=self.log,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        try:
            for line in lines_within(START_SECONDS, self._process.stdout):
                self.log.write(line)
                if match := ready.search(line):
                    return match.group(1).decode()
            code = self._process.wait(60)
        except (TimeoutError, subprocess.TimeoutExpired):
            if self.is_running:
                raise self._stuck() from None
            code = self._process.wait()  # what it has started holds its output open
        self._process.stdout.close()
        raise Ended(f"{self.name} ended with {code}: see {self._end_of_log()}")

    def _stuck(self) -> Stuck:
        """Have the process write where it is, kill it, and return what to raise."""
        _signal(self.pid, signal.SIGABRT)
        self.ends_within(_LAST_WORDS)
        self.kill()
        return Stuck(f"{self.name} was not ready after {START_SECONDS:.0f} s: see {self._end_of_log()}")

    def _end_of_log(self) -> str:
        self.log.flush()
        path = Path(self.log.name)
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TOLD))
            return f"{path}, which ends:\n{file.read().decode(errors='replace')}"


class Product(Process):
    """One `mainspring up` on a data folder.

    Args:
        receiver: host and port that callbacks may reach.
        slots: attempts of its embedded worker at a time; 0 is none.
        options: more options of `mainspring up`; one given again wins over the one here.
    """

    def __init__(
        self,
        folder: Path,
        *,
        receiver: str,
        slots: int = 100,
        beat_period: float = 1.0,
        is_watched: bool = False,
        options: Sequence[str] = (),
    ) -> None:
        super().__init__(folder, name="mainspring", is_watched=is_watched)
        self.data = folder / "data"
        self.address = ""
        self._port = free_port() if is_watched else 0
        self._options = [
            *("--data", str(self.data), "--slots", str(slots), "--beat-period", str(beat_period)),
            *("--allow-shell", "--callback-allow", receiver, "--drain", "10"),
            *options,
        ]

    def start(self, failpoint: Failpoint | None = None) -> None:
        """Start and return once it listens.

        Raises:
            Ended: it ended before it listened.
        """
        arguments = ["up", APP, "--port", str(self._port), *self._options]
        self.address = self._spawn(arguments, READY, set_failpoint(failpoint))


class Worker(Process):
    """One `mainspring worker`.

    Args:
        place: the options that say where it gets its work: `--server URL`, several of these, or `--store DSN`.
    """

    def __init__(
        self, folder: Path, *, name: str, place: Callable[[], Sequence[str]], receiver: str, slots: int
    ) -> None:
        super().__init__(folder, name=name, is_watched=True)
        self._place = place
        self.halt = folder / f"{name}.halt"
        self._options = [
            *("--name", name, "--slots", str(slots), "--drain", "10"),
            *("--allow-shell", "--callback-allow", receiver),
        ]

    def start(self) -> None:
        """Start and return once it has registered.

        Raises:
            Ended: it ended before that.
        """
        arguments = ["worker", APP, *self._place(), *self._options]
        self._spawn(arguments, WORKER_READY, {"MAINSPRING_CHAOS_HALT": str(self.halt)})

    @property
    def speaks_http(self) -> bool:
        """Whether it works for servers, not straight on the store."""
        return "--server" in self._place()

    def order_halt(self, point: str) -> None:
        """Have it stop itself when it next comes to a point (product.py)."""
        self.halt.with_suffix(".new").write_text(point)
        self.halt.with_suffix(".new").rename(self.halt)

    def halted(self, since: float) -> float | None:
        """Return when the process stopped itself after an instant, if it did."""
        found = read_notes(self.notes, self.pid)
        return next((at for at, what in found if what.startswith("halted ") and at >= since), None)


def set_failpoint(failpoint: Failpoint | None) -> dict[str, str]:
    """Return what to add to a process's environment so that it comes to its end there."""
    return {} if failpoint is None else {FAILPOINT_VARIABLE: str(failpoint)}


def must_be_asked(failpoint: Failpoint) -> bool:
    """Say whether the failpoint lies in an orderly end, which somebody has to ask for."""
    return failpoint.verb in STOPPING_VERBS


def free_port(*, above: int | None = None) -> int:
    """Return a port that nobody listens on.

    The first is a random one: who starts a second campaign at the same time would else be given the same.
    """
    first = Random().randrange(_PORTS[0], _PORTS[1] - _ROOM) if above is None else above + 1
    for port in range(first, _PORTS[1]):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no port is free")


def lines_within(seconds: float, pipe: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of a pipe as they come, until its end.

    Raises:
        TimeoutError: it has not come to its end after so many seconds.
    """
    deadline, rest, poll = time.monotonic() + seconds, b"", select.poll()
    poll.register(pipe, select.POLLIN)
    while True:
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise TimeoutError
        read = os.read(pipe.fileno(), 1 << 16)
        *lines, rest = (rest + read).splitlines(keepends=True) or [b""]
        if rest.endswith(b"\n") or not read:
            lines, rest = [*lines, rest], b""
        yield from filter(None, lines)
        if not read:
            return


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
