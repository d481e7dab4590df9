"""Kill, restart, stop, let go on, and judge: see README.md."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.chaos.kills import WORKERS, run_kills
from tests.chaos.plan import Plan, make_plan
from tests.chaos.report import figures, is_good, stories, why_void
from tests.chaos.trials import LEASE, Outcome
from tests.chaos.zombies import WORKERS as STOPPED
from tests.chaos.zombies import run_zombies

_STORIES = 20


def draw_plan(seed: int, *, kills: int, zombies: int, is_sweep: bool = False) -> Plan:
    """Draw the plan of a campaign."""
    return make_plan(
        seed, kills=kills, zombies=zombies, workers=WORKERS, stopped=STOPPED, lease=LEASE, is_sweep=is_sweep
    )


async def run_campaign(
    plan: Plan, folder: Path, *, rate: float = 20.0, calm: float = 3.0
) -> tuple[list[Outcome], dict[str, Any]]:
    """Carry a plan out, kills and zombies on products of their own; return what came of it and the figures."""
    began = time.monotonic()
    outcomes = []
    if plan.kills:
        outcomes.append(await run_kills(plan, folder / "kills", rate=rate, calm=calm))
    if plan.zombies:
        outcomes.append(await run_zombies(plan, folder / "zombies", rate=rate / 2))
    return outcomes, figures(plan, outcomes, time.monotonic() - began)


def read_count(text: str) -> int:
    """Read how often harm is to be done."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 on")
    return int(text)


def read_rate(text: str) -> float:
    """Read how many submissions a second there are to be."""
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return rate


def main() -> None:
    """Run a campaign from the command line; exit status 0 only if nothing was violated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=read_count, default=50, metavar="N")
    parser.add_argument("--zombies", type=read_count, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=read_rate, default=20.0, help="submissions a second")
    parser.add_argument(
        "--sweep", action="store_true", help="a failpoint for every kill, not every other one"
    )
    parser.add_argument("--plan", action="store_true", help="print what would be done, and do nothing")
    parser.add_argument("--keep", type=Path, help="a folder to work in and keep")
    options = parser.parse_args()
    if not options.kills + options.zombies:
        parser.error("no kills and no zombies: nothing would be proved")
    plan = draw_plan(options.seed, kills=options.kills, zombies=options.zombies, is_sweep=options.sweep)
    print("\n".join(plan.lines()), flush=True)
    if options.plan:
        return
    with tempfile.TemporaryDirectory(prefix="mainspring-chaos-") as temporary:
        folder = options.keep or Path(temporary)
        outcomes, result = asyncio.run(run_campaign(plan, folder, rate=options.rate))
    for story in stories(outcomes)[:_STORIES]:
        print(story)
    void = why_void(result)
    if void is not None:
        print(void)
    print(json.dumps(result))
    sys.exit(0 if is_good(outcomes) and void is None else 1)


if __name__ == "__main__":
    main()
