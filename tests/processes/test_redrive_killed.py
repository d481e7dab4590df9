"""A redrive goes on after its server was killed in the midst of it, and each dead letter runs again once."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import httpx

from mainspring import App
from tests.processes.processes import await_that, run, server

LETTERS = 300
_APP = """
from mainspring import App

app = App()


@app.job(retry={"max_retries": 0})
def charge(order: int) -> None:
    raise TimeoutError("no answer")
"""


def test_a_redrive_outlives_its_server(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(_APP)
    with server("app:app", "--data", "data", cwd=tmp_path) as (process, url):
        app = App(url)
        handles = app.submit_sync("charge", [{"order": order} for order in range(LETTERS)])
        assert {handle.wait_sync(60).status for handle in handles} == {"FAILED"}
        app.close()
        made = run("dead", "redrive", "--job", "charge", "--rate", "50", "--yes", "--json", "--server", url)
        redrive = json.loads(made.stdout)["redrive"]["redrive_id"]

        def found() -> dict[str, Any]:
            answer: dict[str, Any] = httpx.get(f"{url}/api/v1/redrives/{redrive}").json()
            return answer

        await_that("begun", lambda: found()["done"] > 0)
        process.stop(signal.SIGKILL)
    with server("app:app", "--data", "data", cwd=tmp_path) as (_, url):
        await_that("done", lambda: found()["state"] == "done")
        assert found()["done"] == found()["total"] == LETTERS
        made_runs = httpx.get(f"{url}/api/v1/runs?kind=redrive&limit=1000").json()["items"]
        settled = httpx.get(f"{url}/api/v1/dead-runs?settled=true&limit=1000").json()["items"]
        assert sorted(one["run_id"] for one in settled) == sorted(handle.id for handle in handles)
        by = [one["settled"]["redriven_as"] for one in settled]
        assert sorted(by) == sorted(one["run_id"] for one in made_runs)
