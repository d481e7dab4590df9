"""How long until it is there: `mainspring up` until /health says that it is well, and `import mainspring`.

Each start is a process of its own, on a free port, with the compiled modules and the pages of its files in memory, as
at the second start on a machine. The clock runs from before the process is made until the answer has been read.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from benchmarks.report import Row, publish

PATIENCE = 30.0
LOOK = 0.002
"""Seconds between two questions to a server that does not listen yet."""
TIMED_IMPORT = "import time; before = time.perf_counter(); {0}; print(time.perf_counter() - before)"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


def time_start(folder: Path) -> tuple[float, float]:
    """Start a server on a folder and end it; return seconds until it answered, and its processor time until then.

    Raises:
        RuntimeError: it ended, or did not answer.
    """
    port = free_port()
    command = [sys.executable, "-m", "mainspring", "up", "--data", str(folder), "--port", str(port)]
    before = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not is_well(port):
            if process.poll() is not None or time.perf_counter() - before > PATIENCE:
                raise RuntimeError(f"no server came up on {folder}")
            time.sleep(LOOK)
        taken = time.perf_counter() - before
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return taken, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def is_well(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", "/health")
        answer = connection.getresponse()
        return answer.status == 200 and json.loads(answer.read())["status"] == "ok"
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def time_import(statement: str) -> float:
    """Return seconds that an import takes in a new interpreter, without that interpreter's own start."""
    command = [sys.executable, "-c", TIMED_IMPORT.format(statement)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(rounds: int) -> list[Row]:
    fresh: list[tuple[float, float]] = []
    existing: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as base:
        time_start(Path(base) / "first")  # compiles what was never loaded before
        for number in range(rounds):
            folder = Path(base) / f"folder-{number}"
            fresh.append(time_start(folder))
            existing.append(time_start(folder))
    rows = []
    for where, times in (("fresh folder", fresh), ("existing folder", existing)):
        row = row_of(f"cold start of `mainspring up`, {where}", [taken for taken, _ in times], "s", 1)
        row["detail"] = {"processor time, s": round(statistics.median(spent for _, spent in times), 2)}
        rows.append(row)
    statements = ("import mainspring", "from mainspring import App")
    return rows + [
        row_of(f"`{statement}`", [time_import(statement) for _ in range(rounds)], "ms", 1e3)
        for statement in statements
    ]


def row_of(name: str, times: list[float], unit: str, scale: float) -> Row:
    low, middle, high = (
        round(pick * scale, 3) for pick in (min(times), statistics.median(times), max(times))
    )
    return {"name": name, "value": middle, "unit": unit, "low": low, "high": high}


def run(quick: bool, dsn: str | None = None) -> list[Row]:
    """Measure; no PostgreSQL is needed."""
    del dsn
    return measure(3 if quick else 9)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.start", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    publish("start", measure(options.rounds))


if __name__ == "__main__":
    main()
