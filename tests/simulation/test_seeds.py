"""Seeds of the simulator: nothing may be lost, missed, doubled or stuck; the same seed is the same story."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

from mainspring.testing.simulation.plan import make_plan
from mainspring.testing.simulation.run import Result, simulate

BLOCK = 15
BLOCKS = 20
REGRESSIONS = {
    0: "a trigger edited during a pause left its fires without a record",
    227: "the reaper judged by the deadline what had ended in time, before its worker could say so after an outage",
    1069: "a worker that slept past its lease began work from an answer that lay waiting",
}
"""Seeds that found a bug once."""


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
    assert seen["fires_run"] > 100
    assert seen["effects"] > 100


@pytest.mark.parametrize("seed", REGRESSIONS, ids=str)
def test_seed_that_found_a_bug(seed: int) -> None:
    result = simulate(make_plan(seed))
    assert result.is_good, show(result)


def test_same_seed_is_the_same_story_in_another_process() -> None:
    here = [simulate(make_plan(seed)).digest for seed in (7, 8)]
    code = (
        "from mainspring.testing.simulation.plan import make_plan\n"
        "from mainspring.testing.simulation.run import simulate\n"
        "print([simulate(make_plan(seed)).digest for seed in (7, 8)])"
    )
    for hash_seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": hash_seed}
        there = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
        )
        assert there.stdout.strip() == str(here)
