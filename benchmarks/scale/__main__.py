"""`python -m benchmarks.scale`: the figures of docs/explanation/scale.md, measured now on this machine."""

from __future__ import annotations

import argparse
import json
import logging

import structlog

from benchmarks.scale import measure, report


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--live", type=int, default=1_000_000, help="live runs, and jobs with a clock")
    parser.add_argument("--finished", type=int, default=10_000_000, help="finished runs")
    parser.add_argument("--open", type=float, default=600, help="seconds for which a transaction stays open")
    parser.add_argument("--rate", type=int, default=1_000, help="runs carried out in a second all along")
    parser.add_argument(
        "--fires", type=int, default=200, help="jobs that fall due in each second, among them"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per row")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    small, large = measure(options.live, options.finished, options.open, options.rate, options.fires)
    if options.json:
        for row in [*small.rows, *large.rows]:
            print(json.dumps(row))
    else:
        print("\n".join(report(small, large)))


if __name__ == "__main__":
    main()
