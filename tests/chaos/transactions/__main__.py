"""`python -m tests.chaos.transactions --kills 500`, within `scripts/services run`; see ../README.md."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from tests.chaos.campaign import read_count
from tests.chaos.transactions.campaign import run_campaign
from tests.support.postgres import missing_reason, server_dsn, temporary_database


def main() -> None:
    """Run a campaign; exit status 0 only if nothing was lost or doubled. For the control, it is the other way round."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=read_count, default=50, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pace", type=float, default=0.5, help="seconds between two kills, on average")
    parser.add_argument("--control", action="store_true", help="submit after the commit, and report as usual")
    parser.add_argument(
        "--crashes", action="store_true", help="PostgreSQL crashes, too: only a server of its own"
    )
    options = parser.parse_args()
    server = server_dsn()
    if server is None:
        parser.error(missing_reason())
    begun = time.monotonic()
    with temporary_database(server) as dsn, tempfile.TemporaryDirectory() as folder:
        found = run_campaign(
            dsn,
            Path(folder),
            kills=options.kills,
            seed=options.seed,
            is_control=options.control,
            pace=options.pace,
            has_crashes=options.crashes,
        )
    print(json.dumps(asdict(found) | {"seed": options.seed, "seconds": round(time.monotonic() - begun)}))
    sys.exit(found.is_good == options.control)


if __name__ == "__main__":
    main()
