"""Who takes part, and how each is set up, loaded with no-op jobs and started: in its own documented best settings."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.peers.notes import NOTES
from tests.chaos.peers.surroundings import CACHE, ROOT, make_environment

HERE = Path(__file__).parent
SCRIPTS = ("notes.mjs", "graphile.mjs", "pgboss.mjs")


@dataclass(frozen=True, slots=True)
class Contestant:
    """A job queue on PostgreSQL.

    Attributes:
        command: brings its programs into `.cache`, once, and returns what its script is called with, followed by
            `prepare`; `load COUNT`; `feed BACKLOG SECONDS`, which keeps so many jobs waiting;
            `submit CHUNK AT_ONCE SECONDS`, which prints what it brought in; `ping COUNT GAP`, which submits stamped
            jobs; `hold`, which submits one of 30 s; or `work PURPOSE`, the purpose being `drain`, `idle` or `crash`.
            The database is named in DATABASE_URL.
        remaining: SQL that counts unfinished jobs, or says whether there are any.
        share: of the jobs that the fast ones drain, how many it is given: many times slower ones would take minutes.
    """

    name: str
    command: Callable[[], Sequence[str]]
    remaining: str
    environment: dict[str, str] = field(default_factory=dict)
    share: float = 1.0

    def call(self, dsn: str, *arguments: str) -> None:
        """Have its script do something, and wait for it."""
        subprocess.run(
            [*self.command(), *arguments], cwd=ROOT, env=self._environment(dsn), check=True, timeout=600
        )

    def ask(self, dsn: str, *arguments: str) -> Any:
        """Have its script do something, and return what it prints."""
        done = subprocess.run(
            [*self.command(), *arguments],
            cwd=ROOT,
            env=self._environment(dsn),
            check=True,
            timeout=600,
            stdout=subprocess.PIPE,
        )
        return json.loads(done.stdout)

    def start(self, dsn: str, notes: Path, *arguments: str) -> subprocess.Popen[bytes]:
        """Have its script do something meanwhile, in a process group of its own, with a folder for notes."""
        return subprocess.Popen(
            [*self.command(), *arguments],
            cwd=ROOT,
            env={**self._environment(dsn), NOTES: str(notes)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def start_worker(
        self, dsn: str, notes: Path, purpose: str = "drain", *options: str
    ) -> subprocess.Popen[bytes]:
        """Start one worker process, in a process group of its own, whose jobs leave their notes in a folder."""
        return self.start(dsn, notes, "work", purpose, *options)

    def _environment(self, dsn: str) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(ROOT), **self.environment, "DATABASE_URL": dsn}


OURS = Contestant(
    "Mainspring",
    lambda: (sys.executable, "-m", "benchmarks.peers.mainspring_jobs"),
    "SELECT count(*) FROM (SELECT FROM run LIMIT 1) AS left_over",
)

BARE = Contestant(
    "bare loop of its statements",
    lambda: (sys.executable, "-m", "benchmarks.peers.bare_jobs"),
    OURS.remaining,
)


def find_contestants(*, with_peers: bool) -> list[Contestant]:
    """Return ours, then, where asked, the peers."""
    if not with_peers:
        return [OURS]
    return [
        OURS,
        Contestant(
            "graphile-worker, local queue of 500",
            _node("graphile.mjs"),
            "SELECT count(*) FROM (SELECT FROM graphile_worker._private_jobs LIMIT 1) AS left_over",
        ),
        Contestant(
            "pgqueuer, batches of 1,000",
            _python("pgqueuer"),
            "SELECT count(*) FROM (SELECT FROM pgqueuer LIMIT 1) AS left_over",
        ),
        Contestant(
            "pg-boss, 10 times batches of 1,000 each 0.5 s",
            _node("pgboss.mjs"),
            "SELECT count(*) FROM (SELECT FROM pgboss.job WHERE state < 'completed' LIMIT 1) AS left_over",
            share=0.2,
        ),
        Contestant(
            "procrastinate, concurrency 20",
            _python("procrastinate"),
            "SELECT count(*) FROM (SELECT FROM procrastinate_jobs"
            " WHERE status IN ('todo', 'doing') LIMIT 1) AS left_over",
            share=0.05,
        ),
    ]


def huey() -> Contestant:
    """Return huey on SQLite: DATABASE_URL names its file, and `work` is followed by its consumer's own options."""
    return Contestant("huey", _python("huey"), "")


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask a process and what it has started to end, and make sure."""
    os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(10)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _python(name: str) -> Callable[[], Sequence[str]]:
    """Return what gives the command of a script in Python: NAME_jobs.py, with what NAME.txt pins."""
    return lambda: (str(make_environment(HERE / f"{name}.txt")), "-m", f"benchmarks.peers.{name}_jobs")


def _node(script: str) -> Callable[[], Sequence[str]]:
    def command() -> Sequence[str]:
        folder = CACHE / "node"
        wanted = (HERE / "package-lock.json").read_bytes()
        stamp = folder / "stamp"
        if not (stamp.exists() and stamp.read_bytes() == wanted):
            print("installing what package-lock.json names", file=sys.stderr, flush=True)
            folder.mkdir(parents=True, exist_ok=True)
            for name in ("package.json", "package-lock.json"):
                (folder / name).write_bytes((HERE / name).read_bytes())
            subprocess.run(["npm", "ci", "--silent", "--no-audit", "--no-fund"], cwd=folder, check=True)
            stamp.write_bytes(wanted)
        for name in SCRIPTS:  # they find their packages beside them
            (folder / name).write_bytes((HERE / name).read_bytes())
        return (str(folder / "node_modules" / ".bin" / "node"), str(folder / script))

    return command
