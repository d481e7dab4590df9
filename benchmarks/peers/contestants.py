"""Who takes part, and how each is set up, loaded with no-op jobs and started: in its own documented best settings."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.peers.surroundings import CACHE, make_environment

HERE = Path(__file__).parent
FIRST_JOBS = "BENCHMARK_FIRST_JOBS"
"""Names the folder in which each worker process leaves a file, named by its id, when its first job begins."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """A job queue on PostgreSQL.

    Attributes:
        install: brings its programs into `.cache`, once; not timed.
        command: what its script is called with: followed by `prepare`, `load COUNT` or `work`. The database is
            named in DATABASE_URL.
        remaining: SQL that counts unfinished jobs, or says whether there are any.
    """

    name: str
    command: Callable[[], Sequence[str]]
    remaining: str
    environment: dict[str, str] = field(default_factory=dict)

    def call(self, dsn: str, *arguments: str) -> None:
        """Have its script do something, and wait for it."""
        subprocess.run([*self.command(), *arguments], env=self._environment(dsn), check=True, timeout=600)

    def start_worker(self, dsn: str, first_jobs: Path) -> subprocess.Popen[bytes]:
        """Start one worker process."""
        environment = {**self._environment(dsn), FIRST_JOBS: str(first_jobs)}
        return subprocess.Popen(
            [*self.command(), "work"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _environment(self, dsn: str) -> dict[str, str]:
        return {**os.environ, **self.environment, "DATABASE_URL": dsn}


def find_contestants(*, with_peers: bool) -> list[Contestant]:
    """Return ours, then, where asked, the peers."""
    ours = Contestant(
        "Mainspring",
        lambda: (sys.executable, "-m", "benchmarks.peers.mainspring_jobs"),
        "SELECT count(*) FROM (SELECT FROM run LIMIT 1) AS left_over",
    )
    if not with_peers:
        return [ours]
    return [
        ours,
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
    ]


def _python(name: str) -> Callable[[], Sequence[str]]:
    return lambda: (str(make_environment(HERE / f"{name}.txt")), str(HERE / f"{name}_jobs.py"))


def _node(script: str) -> Callable[[], Sequence[str]]:
    def command() -> Sequence[str]:
        folder = CACHE / "node"
        wanted = (HERE / "package-lock.json").read_bytes()
        stamp = folder / "stamp"
        if not (stamp.exists() and stamp.read_bytes() == wanted):
            print("installing what package-lock.json names", flush=True)
            folder.mkdir(parents=True, exist_ok=True)
            for name in ("package.json", "package-lock.json"):
                (folder / name).write_bytes((HERE / name).read_bytes())
            subprocess.run(["npm", "ci", "--silent", "--no-audit", "--no-fund"], cwd=folder, check=True)
            stamp.write_bytes(wanted)
        (folder / script).write_bytes((HERE / script).read_bytes())  # it finds its packages beside it
        return (str(folder / "node_modules" / ".bin" / "node"), str(folder / script))

    return command
