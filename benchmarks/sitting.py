"""Every line of the table, ours and the peers in turn, in one sitting: `make bench-table`.

What takes longest (millions of jobs, a transaction that is open for ten minutes) comes with `--long`. Each part writes
what it finds to `benchmarks/results` as soon as it has it; one that fails is named at the end.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

SHORT = (
    ("throughput", "--rounds", "3"),
    ("throughput", "--rounds", "1", "--commit-delay", "2"),
    ("costs",),
    ("embedded", "--rounds", "3"),
    ("submitting", "--rounds", "3"),
    ("remote", "--rounds", "3"),
    ("rest", "--rounds", "3"),
    ("pickup", "--rounds", "3"),
    ("crash",),
    ("start",),
    ("nodes", "--rounds", "3", "--runs", "60000"),
    ("sessions", "--seconds", "30"),
    ("steady", "--seconds", "180"),
)
LONG = (
    ("growth", "--sizes", "1000", "100000", "10000000"),
    ("schedules", "--jobs", "0", "--rounds", "3", "--beside"),
    ("schedules", "--jobs", "10000000", "--seconds", "600", "--once", "0", "--peers", "100000"),
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-table", description=__doc__)
    parser.add_argument("--long", action="store_true", help="the long parts, too")
    parser.add_argument("parts", nargs="*", help="which to run; all by default")
    options = parser.parse_args()
    failed = []
    for part, *given in SHORT + (LONG if options.long else ()):
        if options.parts and part not in options.parts:
            continue
        print(f"# {part} {' '.join(given)}", flush=True)
        began = time.monotonic()
        done = subprocess.run([sys.executable, "-m", f"benchmarks.{part}", *given], check=False)
        print(f"# {part}: {time.monotonic() - began:.0f} s", flush=True)
        if done.returncode:
            failed.append(part)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
