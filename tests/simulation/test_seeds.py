"""Seeds of the simulator: nothing may be lost, missed, doubled or stuck; the same seed is the same story."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tools.simulator.draw import make_plan
from tools.simulator.plan import read_plan, write_plan
from tools.simulator.run import Result, simulate

BLOCK = 5
"""A seed takes one to three seconds, and the machine may be busy with other things: a block has one minute."""
BLOCKS = 60
REGRESSIONS = sorted((Path(__file__).parent / "regressions").glob("*.json"))
"""Plans that found a bug once; docs/explanation/proof.md tells their stories."""


def show(result: Result) -> str:
    return "\n".join(
        [f"seed {result.plan.seed}", *map(str, result.verdict.violations[:3]), *result.errors[:3]]
    )


@pytest.mark.parametrize("block", range(BLOCKS))
def test_seeds(block: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        result = simulate(make_plan(seed))
        assert result.is_good, show(result)
        seen.update(result.verdict.counts)
    assert seen["fires_run"] > 30
    assert seen["effects"] > 30


@pytest.mark.parametrize("block", range(8))
def test_seeds_on_sqlite(block: int) -> None:
    for seed in range(block * 3, (block + 1) * 3):
        result = simulate(make_plan(seed, store="sqlite"))
        assert result.is_good, show(result)
        counts = result.verdict.counts
        assert counts.get("transitions", 0) + counts.get("flow_starts_judged", 0) > 0, (
            "plans of workflows have those"
        )


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda path: path.stem)
def test_plan_that_found_a_bug(path: Path) -> None:
    result = simulate(read_plan(path.read_bytes()))
    assert result.is_good, show(result)


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_plan_survives_being_written_down(store: str) -> None:
    for seed in range(20):
        plan = make_plan(seed, store=store)
        assert read_plan(write_plan(plan)) == plan


def test_same_seed_is_the_same_story_in_another_process() -> None:
    here = [simulate(make_plan(7)).digest, simulate(make_plan(8, store="sqlite")).digest]
    code = (
        "from tools.simulator.draw import make_plan\n"
        "from tools.simulator.run import simulate\n"
        "print([simulate(make_plan(7)).digest, simulate(make_plan(8, store='sqlite')).digest])"
    )
    for hash_seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": hash_seed}
        there = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
        )
        assert there.stdout.strip() == str(here)
