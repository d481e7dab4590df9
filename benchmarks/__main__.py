"""`make bench`: every figure that the README and the docs claim, measured now on this machine."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import time

from benchmarks.report import print_rows

ALONE = ("cron", "executors")
PARTS = (
    *(
        *ALONE,
        "start",
        "stores",
        "engine",
        "throughput",
        "steady",
        "embedded",
        "submitting",
        "rest",
        "remote",
    ),
    *(
        "pickup",
        "crash",
        "nodes",
        "sessions",
        "schedules",
        "growth",
        "scale",
        "browse",
        "idle",
        "live_logs",
        "flows",
        "events",
    ),
)
IN_QUICK = ("cron", "stores", "engine", "throughput", "embedded", "submitting", "rest", "remote", "pickup")
"""What a look before and after a change is at."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="which to run; all by default")
    parser.add_argument(
        "--quick", action="store_true", help="smaller counts, for a look before and after a change"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per row")
    options = parser.parse_args()
    dsn = os.environ.get("MAINSPRING_TEST_POSTGRES")
    print(
        f"# {os.cpu_count()} cores, Python {platform.python_version()}, PostgreSQL {'yes' if dsn else 'no'}"
    )
    for part in options.parts or (IN_QUICK if options.quick else PARTS):
        before = time.perf_counter()
        module = importlib.import_module(f"benchmarks.{part}")
        rows = module.run(options.quick) if part in ALONE else module.run(options.quick, dsn)
        print_rows(rows, as_json=options.json)
        print(f"# {part}: {time.perf_counter() - before:.0f} s", flush=True)


if __name__ == "__main__":
    main()
