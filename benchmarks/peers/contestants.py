"""Who takes part, and how each is set up, loaded with no-op jobs and started: in its own documented best settings."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.peers.installing import go, java, node, python
from benchmarks.peers.notes import NOTES
from tests.chaos.peers.surroundings import ROOT


@dataclass(frozen=True, slots=True)
class Contestant:
    """A job queue on PostgreSQL.

    Attributes:
        command: brings its programs into `.cache`, once, and returns what its script is called with, followed by
            `prepare`; `load COUNT`; `feed BACKLOG SECONDS`, which keeps so many jobs waiting;
            `submit CHUNK AT_ONCE SECONDS`, which prints what it brought in; `ping COUNT GAP`, which submits stamped
            jobs; `hold`, which submits one of 30 s; `schedule COUNT INSTANT`, which loads stamped jobs that are all due
            at an instant, in seconds since 1970; or `work PURPOSE`, the purpose being `drain`, `idle` or `crash`.
            The database is named in DATABASE_URL. A script knows what is measured of it.
        remaining: SQL that counts unfinished jobs, or says whether there are any.
        share: of the jobs that the fast ones drain, how many it is given: many times slower ones would take minutes.
        tools: programs that it is installed with and run by, and is left out without.
        can_schedule: its script knows `schedule`.
    """

    name: str
    command: Callable[[], Sequence[str]]
    remaining: str
    environment: dict[str, str] = field(default_factory=dict)
    share: float = 1.0
    tools: tuple[str, ...] = ()
    can_schedule: bool = False

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


PEERS = (
    Contestant(
        f"graphile-worker, local queue of {int(os.environ.get('GRAPHILE_QUEUE', '4000')):,}",
        node("graphile.mjs"),
        "SELECT count(*) FROM (SELECT FROM graphile_worker._private_jobs LIMIT 1) AS left_over",
        tools=("npm",),
    ),
    Contestant(
        "River, 2,000 workers",
        go("river"),
        "SELECT count(*) FROM (SELECT FROM river_job"
        " WHERE state IN ('available', 'running', 'scheduled') LIMIT 1) AS left_over",
        tools=("go",),
        can_schedule=True,
    ),
    Contestant(
        "pgqueuer, batches of 1,000",
        python("pgqueuer"),
        "SELECT count(*) FROM (SELECT FROM pgqueuer LIMIT 1) AS left_over",
    ),
    Contestant(
        "db-scheduler, 20 threads, lock-and-fetch of 400",
        java("DbSchedulerJobs"),
        "SELECT count(*) FROM (SELECT FROM scheduled_tasks LIMIT 1) AS left_over",
        tools=("java", "javac", "mvn"),
        can_schedule=True,
    ),
    Contestant(
        "pg-boss, 10 times batches of 1,000 each 0.5 s",
        node("pgboss.mjs"),
        "SELECT count(*) FROM (SELECT FROM pgboss.job WHERE state < 'completed' LIMIT 1) AS left_over",
        share=0.2,
        tools=("npm",),
    ),
    Contestant(
        "procrastinate, concurrency 20",
        python("procrastinate"),
        "SELECT count(*) FROM (SELECT FROM procrastinate_jobs"
        " WHERE status IN ('todo', 'doing') LIMIT 1) AS left_over",
        share=0.05,
    ),
    Contestant(
        "Quartz, 50 threads, batches of 50",
        java("QuartzJobs"),
        "SELECT count(*) FROM (SELECT FROM qrtz_triggers LIMIT 1) AS left_over",
        share=0.05,
        tools=("java", "javac", "mvn"),
        can_schedule=True,
    ),
)


def find_contestants(*, with_peers: bool) -> list[Contestant]:
    """Return ours, then, where asked, the peers; one whose tools are missing is left out, and named."""
    return [OURS, *(peer for peer in PEERS if with_peers and _has_tools(peer))]


def _has_tools(contestant: Contestant) -> bool:
    missing = [tool for tool in contestant.tools if shutil.which(tool) is None]
    if missing:
        print(f"{contestant.name} is left out: no {', '.join(missing)} on the PATH", file=sys.stderr)
    return not missing


def huey() -> Contestant:
    """Return huey on SQLite: DATABASE_URL names its file, and `work` is followed by its consumer's own options."""
    return Contestant("huey", python("huey"), "")


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask a process and what it has started to end, and make sure."""
    os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(10)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
