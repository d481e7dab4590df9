"""The real product end to end: the demo's verdict, and a short campaign of kills and zombies (see
tests/chaos/README.md)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.campaign import draw_plan, run_campaign
from tests.chaos.report import is_good, stories, why_void

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(150), pytest.mark.xdist_group("cluster")]


async def test_kills_break_no_promise(tmp_path: Path) -> None:
    outcomes, figures = await run_campaign(draw_plan(7, kills=3, zombies=0), tmp_path, calm=0.5)
    assert is_good(outcomes), "\n".join(stories(outcomes))
    assert figures["acknowledged"] > 0
    assert figures["fires"] > 0
    assert figures["reached"], "no failpoint was reached"


async def test_workers_that_come_back_late_change_nothing(tmp_path: Path) -> None:
    outcomes, figures = await run_campaign(draw_plan(7, kills=0, zombies=6), tmp_path)
    assert is_good(outcomes), "\n".join(stories(outcomes))
    assert why_void(figures) is None


def test_demo_ends_with_a_clean_verdict() -> None:
    demo = subprocess.run([sys.executable, "examples/demo.py"], cwd=ROOT, capture_output=True, check=False)
    assert demo.returncode == 0, demo.stdout.decode()[-3000:] + demo.stderr.decode()[-3000:]
    figures = json.loads(demo.stdout.decode().splitlines()[-1])
    assert (figures["lost"], figures["missed"], figures["duplicated"]) == (0, 0, 0)
    assert figures["runs"] > 100
