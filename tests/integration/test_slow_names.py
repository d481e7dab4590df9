"""The system's resolver, a DNS server that is silent for 50 hosts, and callbacks to one that it knows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


def test_silent_dns_server_delays_no_callback_to_another_host() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.slow_names"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    if "skipped" in told:
        pytest.skip(f"no network of its own can be made: {told['skipped']}")
    assert told["ends"] == ["Success"] * 3
    assert told["seconds"] < 10  # less than one caller waits for a name, with a start of 50 threads before
