"""Kills producers, workers and PostgreSQL's backends at random moments, and then compares orders, runs and effects."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self

import psycopg

from tests.chaos.transactions.app import CONTROL, DSN
from tests.processes.processes import Running, await_that, command, environment, running
from tests.support.postgres import fetch

DRIVERS = ("asyncpg", "psycopg", "sqlalchemy")
APP = "tests.chaos.transactions.app:app"
ROOT = Path(__file__).parents[3]
BEAT = "0.5s"
FROZEN = 3.0
"""Seconds for which a worker is stopped: it is declared dead after two."""
FAULTS = ("backend",) * 3 + ("producer",) * 2 + ("worker",) * 2 + ("freeze",)
"""What is done, each as often as it stands here."""
CRASH = "crash"
"""Kills one of PostgreSQL's processes with SIGKILL, so that PostgreSQL ends all and recovers."""
TABLES = """
CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY);
CREATE TABLE effect (order_id bigint, run text, token integer);
"""
RUNS = """
SELECT (convert_from(payload, 'UTF8')::json ->> 'order')::bigint AS order_id, id, state FROM any_run
"""
STUCK = (
    """
    SELECT state, count(*), max(crashes), max(attempt), min(ready_at) - now(), max(deadline_at) - now() FROM run
    GROUP BY state
    """,
    "SELECT state, count(*) FROM session GROUP BY state",
    """
    SELECT application_name, state, wait_event_type, count(*), max(now() - xact_start) FROM pg_stat_activity
    WHERE datname = current_database() GROUP BY 1, 2, 3
    """,
)
"""What is asked when runs do not end."""
BACKENDS = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
  AND (application_name LIKE 'chaos-%' OR application_name LIKE 'mainspring-%')
ORDER BY application_name NOT LIKE 'chaos-%%' AND random() < 0.7, random() LIMIT 1
"""


@dataclass(slots=True, kw_only=True)
class Findings:
    """What the tables hold at the end.

    Attributes:
        lost_runs: orders without a run.
        doubled_runs: orders with more than one.
        strays: runs whose order does not exist.
        lost_effects: runs that have succeeded without an effect.
        doubled_effects: runs with more than one.
        unfinished: runs in another state than SUCCEEDED.
    """

    orders: int = 0
    runs: int = 0
    effects: int = 0
    lost_runs: int = 0
    doubled_runs: int = 0
    strays: int = 0
    lost_effects: int = 0
    doubled_effects: int = 0
    unfinished: int = 0
    faults: dict[str, int] = field(default_factory=dict)

    @property
    def is_good(self) -> bool:
        """Whether nothing was lost or doubled."""
        wrong = (self.lost_runs, self.doubled_runs, self.strays, self.lost_effects, self.doubled_effects)
        return not any(wrong) and not self.unfinished and 0 < self.orders == self.runs == self.effects


class Campaign:
    """A server that lives, and producers and workers that do not.

    Args:
        dsn: an empty database.
        folder: where the server keeps its log.
        is_control: without the transactions.
        has_crashes: the server is this campaign's own, so PostgreSQL may crash as well.
    """

    def __init__(
        self, dsn: str, folder: Path, *, seed: int, is_control: bool, has_crashes: bool = False
    ) -> None:
        self._faults = (*FAULTS, CRASH) if has_crashes else FAULTS
        self._dsn = dsn
        self._folder = folder
        self._random = Random(seed)
        self._more = {
            DSN: dsn,
            CONTROL: "1" if is_control else "0",
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        }
        self._stack = ExitStack()
        self._producers: list[subprocess.Popen[bytes]] = []
        self._workers: list[subprocess.Popen[bytes]] = []
        self._frozen: dict[int, threading.Timer] = {}
        self._address = ""

    def __enter__(self) -> Self:
        for statement in TABLES.split(";")[:-1]:
            fetch(self._dsn, statement)
        options = ("server", "--store", self._dsn, "--port", 0, "--beat-period", BEAT)
        server: Running = self._stack.enter_context(running(*options, cwd=self._folder))
        self._address = server.wait_for("listening on ")
        self._more["MAINSPRING_SERVER"] = self._address
        self._workers = [self._start_worker(place) for place in range(2)]
        await_that("the jobs", lambda: fetch(self._dsn, "SELECT count(*) FROM job") == 2)
        self._producers = [self._start_producer(place) for place in range(len(DRIVERS))]
        await_that("effects", lambda: fetch(self._dsn, "SELECT count(*) FROM effect") >= len(DRIVERS))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for timer in self._frozen.values():
            timer.cancel()
        for process in (*self._producers, *self._workers):
            _kill(process)
        self._stack.close()

    def _start(self, line: list[str]) -> subprocess.Popen[bytes]:
        log = self._stack.enter_context((self._folder / "processes.log").open("ab"))
        return subprocess.Popen(
            line, cwd=ROOT, env=environment(**self._more), stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )

    def _start_worker(self, place: int) -> subprocess.Popen[bytes]:
        """Start a worker: the first straight on the store, the second over HTTP."""
        way = ("--store", self._dsn, "--beat-period", BEAT) if place == 0 else ("--server", self._address)
        return self._start(command("worker", APP, *way, "--slots", 8))

    def _start_producer(self, place: int) -> subprocess.Popen[bytes]:
        return self._start([sys.executable, "-m", "tests.chaos.transactions.producer", DRIVERS[place]])

    def harm(self, kills: int, *, pace: float) -> dict[str, int]:
        """Do harm so many times, with random pauses of `pace` seconds on average. Return how often each was done."""
        done: Counter[str] = Counter()
        while done.total() < kills:
            time.sleep(self._random.random() * 2 * pace)
            fault = self._random.choice(self._faults)
            if self._harm_by(fault):
                done[fault] += 1
        return dict(done)

    def _harm_by(self, fault: str) -> bool:
        if fault in ("backend", CRASH):
            return self._harm_backend(is_crash=fault == CRASH)
        if fault == "producer":
            place = self._random.randrange(len(self._producers))
            _kill(self._producers[place])
            self._producers[place] = self._start_producer(place)
            return True
        place = self._random.randrange(len(self._workers))
        worker = self._workers[place]
        if worker.pid in self._frozen or worker.poll() is not None:
            return self._revive(place)
        if fault == "freeze":
            worker.send_signal(signal.SIGSTOP)
            self._frozen[worker.pid] = timer = threading.Timer(FROZEN, self._thaw, (worker.pid,))
            timer.start()
            return True
        _kill(worker)
        self._workers[place] = self._start_worker(place)
        return True

    def _harm_backend(self, *, is_crash: bool) -> bool:
        with (
            suppress(psycopg.Error),  # it is still recovering from the last crash
            psycopg.connect(self._dsn, autocommit=True, application_name="harm") as connection,
        ):
            row = connection.execute(BACKENDS).fetchone()
            if row is None:
                return False
            if is_crash:
                os.kill(row[0], signal.SIGKILL)
            else:
                connection.execute("SELECT pg_terminate_backend(%s)", row)
            return True
        return False

    def _answers(self) -> bool:
        with suppress(psycopg.Error), psycopg.connect(self._dsn):
            return True
        return False

    def _revive(self, place: int) -> bool:
        if self._workers[place].poll() is not None:
            self._workers[place] = self._start_worker(place)
        return False

    def _thaw(self, pid: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
        self._frozen.pop(pid, None)

    def settle(self) -> None:
        """Stop the producers, and wait until all runs have ended."""
        for process in self._producers:
            _kill(process)
        await_that("PostgreSQL", self._answers)
        await_that("the thaw", lambda: not self._frozen)
        # What a killed producer had open ends when PostgreSQL notices.
        producers = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'chaos-producer'"
        await_that("the producers' end", lambda: not fetch(self._dsn, producers))
        try:
            await_that("the end of all runs", self._is_over)
        except AssertionError:
            raise AssertionError(f"runs do not end: {self._describe()}") from None

    def _is_over(self) -> bool:
        for place in range(len(self._workers)):
            self._revive(place)
        return not fetch(self._dsn, "SELECT count(*) FROM run")

    def _describe(self) -> list[Any]:
        """Return what the runs wait for, as far as the tables and PostgreSQL tell it."""
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            return [connection.execute(statement.encode()).fetchall() for statement in STUCK] + [
                [worker.poll() for worker in self._workers]
            ]

    def find(self) -> Findings:
        """Compare orders, runs and effects."""
        with psycopg.connect(self._dsn) as connection:
            orders = [row[0] for row in connection.execute("SELECT id FROM orders")]
            runs: list[tuple[Any, ...]] = connection.execute(RUNS.encode()).fetchall()
            effects = [row[0] for row in connection.execute("SELECT order_id FROM effect")]
        per_order = Counter(run[0] for run in runs)
        by_order = Counter(effects)
        return Findings(
            orders=len(orders),
            runs=len(runs),
            effects=len(effects),
            lost_runs=sum(order not in per_order for order in orders),
            doubled_runs=sum(count > 1 for count in per_order.values()),
            strays=len(per_order.keys() - set(orders)),
            lost_effects=sum(order not in by_order for order in per_order),
            doubled_effects=sum(count > per_order[order] for order, count in by_order.items()),
            unfinished=sum(run[2] != "SUCCEEDED" for run in runs),
        )


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def run_campaign(
    dsn: str,
    folder: Path,
    *,
    kills: int,
    seed: int,
    is_control: bool,
    pace: float,
    has_crashes: bool = False,
) -> Findings:
    """Run a campaign on an empty database, and return what it found."""
    with Campaign(dsn, folder, seed=seed, is_control=is_control, has_crashes=has_crashes) as campaign:
        faults = campaign.harm(kills, pace=pace)
        campaign.settle()
        found = campaign.find()
    found.faults = faults
    return found
