"""The real product end to end: the demo's verdict, and a short campaign of kills (see tests/chaos/README.md)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.campaign import run_campaign

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.timeout(150)
async def test_nothing_is_lost_missed_or_doubled_through_kills(tmp_path: Path) -> None:
    verdict, figures = await run_campaign(kills=3, rate=50, seed=7, folder=tmp_path)
    assert verdict.is_clean, verdict
    assert figures["integrity"] == "ok"
    assert figures["acknowledged"] > 0


@pytest.mark.slow
@pytest.mark.timeout(150)
def test_demo_ends_with_a_clean_verdict() -> None:
    demo = subprocess.run([sys.executable, "examples/demo.py"], cwd=ROOT, capture_output=True, check=False)
    assert demo.returncode == 0, demo.stdout.decode()[-3000:] + demo.stderr.decode()[-3000:]
    figures = json.loads(demo.stdout.decode().splitlines()[-1])
    assert (figures["lost"], figures["missed"], figures["duplicated"]) == (0, 0, 0)
    assert figures["runs"] > 100
