"""`python -m tests.chaos.cluster --trials 20 --fault F5`: harm a cluster and judge it; see ../README.md."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

from tests.chaos.campaign import read_count, read_rate
from tests.chaos.cluster.faults import FAULTS, FaultKind
from tests.chaos.cluster.trials import Tally, run_trials
from tests.chaos.report import is_good, stories, sum_up
from tests.chaos.trials import Outcome

_STORIES = 20


def draw_kinds(seed: int, fault: str, trials: int) -> list[FaultKind]:
    """Return so many kinds: always the same, or all in turn, in an order drawn from the seed each time round."""
    if fault != "all":
        return [FAULTS[fault]] * trials
    random = Random(f"kinds:{seed}")
    kinds: list[FaultKind] = []
    while len(kinds) < trials:
        kinds += random.sample(list(FAULTS.values()), len(FAULTS))
    return kinds[:trials]


def figures(seed: int, outcome: Outcome, tally: Tally, seconds: float) -> dict[str, Any]:
    """Return what the trials came to, as JSON can hold it."""
    return {
        "seed": seed,
        "trials": dict(sorted(tally.trials.items())),
        "void": {code: count for code, count in sorted(tally.void.items()) if count},
        "settled_after_s": {
            code: [round(min(times), 1), round(max(times), 1)]
            for code, times in sorted(tally.settle_times.items())
        },
        **sum_up([outcome], seconds),
    }


def main() -> None:
    """Run trials from the command line; exit status 0 only if nothing was violated and not all were void."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=read_count, default=len(FAULTS), metavar="N")
    parser.add_argument("--fault", choices=["all", *FAULTS], default="all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=read_rate, default=20.0, help="submissions a second")
    parser.add_argument("--keep", type=Path, help="a folder to work in and keep")
    options = parser.parse_args()
    if not options.trials:
        parser.error("no trials: nothing would be proved")
    kinds = draw_kinds(options.seed, options.fault, options.trials)
    for kind in dict.fromkeys(kinds):
        print(f"{kind.code}: {kind.what}", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mainspring-chaos-") as temporary:
        folder = options.keep or Path(temporary)
        outcome, tally = asyncio.run(run_trials(kinds, folder, seed=options.seed, rate=options.rate))
    for story in stories([outcome])[:_STORIES]:
        print(story)
    print(json.dumps(figures(options.seed, outcome, tally, time.monotonic() - began)))
    is_void = any(tally.void[code] == tally.trials[code] for code in tally.void)
    if is_void:
        print("void: a fault's trials made the store refuse nothing")
    sys.exit(0 if is_good([outcome]) and not is_void else 1)


if __name__ == "__main__":
    main()
