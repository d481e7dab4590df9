"""A job at start runs once each time the server starts: the first time, too, and also after it was killed."""

import signal
from pathlib import Path

import httpx

from tests.processes.processes import run, server

CODE = """
from mainspring import App
app = App()
@app.job(schedule="@reboot")
def warm_up(): print("warm")
"""


def fires(url: str, expected: int) -> list[str]:
    """Wait until so many runs have ended, and return when they fired, the newest first."""
    while True:
        runs = httpx.get(f"{url}/api/v1/runs", params={"state": "SUCCEEDED"}).json()["items"]
        if len(runs) >= expected:
            assert {one["kind"] for one in runs} == {"scheduled"}
            return [one["fire_time"] for one in runs]


def test_job_at_start_runs_once_for_each_start(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(CODE)
    with server("shop:app", cwd=tmp_path) as (process, url):
        assert len(fires(url, 1)) == 1  # the job is new
        added = run("job", "add", "late", "--schedule", "@reboot", "--function", "warm_up", "--server", url)
        assert added.returncode == 0, added.stderr
        assert "next fire: -; once at each start of the scheduler" in added.stdout
        process.stop()
    with server("shop:app", cwd=tmp_path) as (process, url):
        assert len(set(fires(url, 3))) == 2
        process.stop(signal.SIGKILL)
    with server("shop:app", cwd=tmp_path) as (process, url):
        assert len(set(fires(url, 5))) == 3
        told = run("ledger", "warm_up", "--server", url)
        assert told.returncode == 0, told.stdout + told.stderr
        process.stop()
