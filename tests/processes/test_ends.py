"""A job after the end runs once at a time: through retries, and through the death of its server during a run."""

import signal
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx

from tests.processes.processes import await_that, run, server

CODE = """
import time
from pathlib import Path
from mainspring import App
app = App()

@app.job(after_end="1s", retry={"max_retries": 1, "backoff": "fixed", "delay": "1s", "jitter": 0})
def sync():
    with open("log", "a") as log:
        log.write("begun\\n")
    while Path("hold").exists():
        time.sleep(0.02)
    if Path("fail").exists():
        Path("fail").unlink()
        raise ValueError("once")
"""


def runs(url: str) -> list[dict[str, Any]]:
    """All runs, the oldest first."""
    found = httpx.get(f"{url}/api/v1/runs").json()["items"]
    assert {one["kind"] for one in found} <= {"scheduled"}
    return sorted(found, key=lambda one: one["fire_time"])


def ended(url: str, number: int) -> list[dict[str, Any]]:
    """Wait until so many runs have succeeded, and return them."""
    await_that("runs end", lambda: sum(one["status"] == "SUCCEEDED" for one in runs(url)) >= number)
    return [one for one in runs(url) if one["status"] == "SUCCEEDED"]


def begun(folder: Path) -> int:
    log = folder / "log"
    return len(log.read_text().splitlines()) if log.exists() else 0


def test_next_fire_comes_once_after_the_end(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(CODE)
    (tmp_path / "hold").touch()
    with server("shop:app", cwd=tmp_path) as (process, url):
        await_that("the first run begins", lambda: begun(tmp_path) == 1)
        [first] = runs(url)
        told = run("job", "fires", "sync", "--server", url)
        assert told.stdout == f"next: 1s after the end of {first['run_id']}, which is RUNNING\n", told.stderr
        process.stop(signal.SIGKILL)
    with server("shop:app", cwd=tmp_path) as (process, url):
        await_that("its run begins again", lambda: begun(tmp_path) == 2)
        assert [one["run_id"] for one in runs(url)] == [first["run_id"]]
        (tmp_path / "fail").touch()
        (tmp_path / "hold").unlink()
        several = ended(url, 3)
        assert several[0]["run_id"] == first["run_id"]
        assert several[0]["attempt"] == 2  # the failed one, and its retry
        for before, after in pairwise(several):
            end = datetime.fromisoformat(before["finished_at"])
            assert datetime.fromisoformat(after["fire_time"]) == end + timedelta(seconds=1)
        ledger = run("ledger", "sync", "--server", url)
        assert ledger.returncode == 0, ledger.stdout + ledger.stderr
        process.stop()


def test_job_is_added_and_edited_on_the_command_line(tmp_path: Path) -> None:
    with server(cwd=tmp_path) as (process, url):
        added = run(
            *("job", "add", "poll", "--after-end", "10m", "--starts-at", "2199-01-01T00:00:00Z"),
            *("--callback-url", "https://example.com/", "--server", url),
        )
        assert added.returncode == 0, added.stderr
        assert "10m after the end of the run before" in added.stdout
        shown = run("job", "show", "poll", "--server", url)
        assert '"delay_seconds": 600' in shown.stdout
        edited = run("job", "edit", "poll", "--after-end", "5m", "--server", url)
        assert edited.returncode == 0, edited.stderr
        refused = run("job", "edit", "poll", "--after-end", "0.1s", "--server", url)
        assert (refused.returncode, "after_end" in refused.stderr) == (2, True), refused.stderr
        told = run("job", "fires", "poll", "--server", url)
        assert told.stdout.splitlines()[1].startswith("2199-01-01 00:00:00+00:00"), told.stdout
        process.stop()
