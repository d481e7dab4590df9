"""What real processes say of themselves: a server in `/health`, a worker in its log when it stops."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

from tests.processes.processes import await_that, run, running

APP = """
from mainspring import App

app = App()


@app.job()
def add(x: int, y: int) -> int:
    return x + y
"""


def figures_at(url: str) -> dict[str, float]:
    with urllib.request.urlopen(f"{url}/health", timeout=10) as answer:
        body: Any = json.load(answer)
    figures: dict[str, float] = body["figures"]
    return figures


def test_a_server_and_a_worker_tell_what_they_have_done(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP)
    with running("server", "--store", "memory://", "--port", 0, cwd=tmp_path) as server:
        url = server.wait_for("listening on ")
        with running("worker", "shop:app", "--server", url, cwd=tmp_path) as worker:
            worker.wait_for("ready")
            await_that("the worker asks for work", lambda: figures_at(url)["claims_waiting"] == 1)
            done = run(
                "job", "run", "add", "--payload", '{"x": 1, "y": 2}', "--wait", 20, "--server", url, cwd=tmp_path
            )  # fmt: skip
            assert done.returncode == 0
            assert worker.stop() == 0
        figures = figures_at(url)
        assert figures["group_commit_items_sum.report"] == 1
        assert figures["shards_owned"] == 256
        assert server.stop() == 0
    (line,) = [
        line for line in (tmp_path / "stderr.log").read_text().splitlines() if "worker_stopped" in line
    ]
    assert "worker_reports_total.applied=1" in line
    assert "worker_slots=100" in line
    assert "stale" not in line
