"""Executed no-op jobs a second on SQLite: ours in one process, with huey's SQLite storage in turn.

Jobs are loaded first, then executed. Ours is scheduler and worker in one process, as `mainspring up` is, with
synchronous=FULL, history, leases and retries; the clock runs from the worker's start until the last run is reported.
huey's consumer, with two worker processes and results off (its fastest settings), commits without synchronising; the
clock runs from its first job's begin, which leaves its start out, until its queue is empty.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import tempfile
import time
from pathlib import Path

import structlog
import uvloop

from benchmarks.engine import throughput_one_process
from benchmarks.peers.contestants import end, huey
from benchmarks.report import Row, publish
from mainspring.host.process import settle_memory

HUEY_SHARE = 0.1
PATIENCE = 180.0
WORKERS = ("-k", "process", "-w", "2")


def ours(count: int) -> float:
    """Return executed jobs a second of ours."""
    with tempfile.TemporaryDirectory() as folder:
        _, executed = uvloop.run(throughput_one_process(f"sqlite://{Path(folder) / 'data'}", count))
        return executed


def hueys(count: int) -> float:
    """Return executed jobs a second of huey."""
    contestant = huey()
    with tempfile.TemporaryDirectory() as data, tempfile.TemporaryDirectory() as notes:
        file = str(Path(data) / "huey.db")
        contestant.call(file, "load", str(count))
        worker = contestant.start_worker(file, Path(notes), *WORKERS)
        try:
            return count / _time_drain(file, Path(notes))
        finally:
            end(worker)


def _time_drain(file: str, notes: Path) -> float:
    import sqlite3

    deadline = time.monotonic() + PATIENCE
    connection = sqlite3.connect(file, timeout=10)
    try:
        while connection.execute("SELECT EXISTS (SELECT * FROM task)").fetchone()[0]:
            if time.monotonic() > deadline:
                raise RuntimeError("huey did not come to an end")
            time.sleep(0.02)
        ended_at = time.time()
    finally:
        connection.close()
    return ended_at - min(path.stat().st_ctime for path in notes.iterdir())


def measure(quick: bool, *, rounds: int, with_peers: bool) -> list[Row]:
    count = 20_000 if quick else 100_000
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        found.setdefault("Mainspring", []).append(ours(count))
        if with_peers:
            found.setdefault("huey", []).append(hueys(int(count * HUEY_SHARE)))
    return [
        {
            "name": "no-op jobs executed, SQLite",
            "contestant": name,
            "value": round(statistics.median(rates)),
            "unit": "jobs/s",
            "low": round(min(rates)),
            "high": round(max(rates)),
        }
        for name, rates in found.items()
    ]


def prepare_process() -> None:
    """Set this process up as the command line does."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    settle_memory()


def run(quick: bool, dsn: str | None = None) -> list[Row]:
    """Measure ours alone, once."""
    del dsn
    prepare_process()
    return measure(quick, rounds=1, with_peers=False)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.embedded", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--alone", action="store_true", help="without the peer")
    options = parser.parse_args()
    prepare_process()
    rows = measure(options.quick, rounds=options.rounds, with_peers=not options.alone)
    publish("embedded", rows, is_kept=not options.quick)


if __name__ == "__main__":
    main()
