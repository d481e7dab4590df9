"""A job with a maximum of fires: it is finished after them, also for an app that starts again."""

import json
import signal
from pathlib import Path

import httpx

from tests.processes.processes import await_that, run, server

CODE = """
from mainspring import App
app = App()
@app.job(every="1s", max_fires=2)
def knock(): print("knock")
@app.job(every="1s")
def tick(): print("tick")
"""


def fires(url: str, name: str) -> int:
    jobs = {job["name"]: job["job_id"] for job in httpx.get(f"{url}/api/v1/jobs").json()["items"]}
    query = {"job_id": jobs[name], "state": "SUCCEEDED", "limit": 100}
    return len(httpx.get(f"{url}/api/v1/runs", params=query).json()["items"])


def test_job_is_finished_after_so_many_fires(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(CODE)
    with server("shop:app", cwd=tmp_path) as (process, url):
        await_that("both fires", lambda: fires(url, "knock") == 2)
        process.stop(signal.SIGKILL)
    with server("shop:app", cwd=tmp_path) as (process, url):  # its code defines the job again
        ticks = fires(url, "tick")
        await_that("fires of another job", lambda: fires(url, "tick") >= ticks + 3)
        assert fires(url, "knock") == 2
        listed = run("job", "list", "--server", url).stdout.splitlines()
        [line] = [line for line in listed if line.startswith("knock ")]
        assert "every 1 s, 2 times" in line
        assert line.endswith("finished")
        shown = run("job", "show", "knock", "--server", url).stdout
        assert [
            line.split() for line in shown.splitlines() if line.startswith(("next_fire_time ", "fires_left "))
        ] == [
            ["next_fire_time", "finished"],
            ["fires_left", "0"],
        ]
        told = run("ledger", "knock", "--json", "--server", url)
        assert told.returncode == 0, told.stdout + told.stderr
        assert json.loads(told.stdout)["missing"] == []
        none = run("job", "fires", "knock", "--server", url)
        assert "it does not fire any more" in none.stdout + none.stderr
        added = run(
            *(
                "job",
                "add",
                "later",
                "--every",
                "1h",
                "--max-fires",
                5,
                "--function",
                "knock",
                "--server",
                url,
            )
        )
        assert added.returncode == 0, added.stderr
        assert added.stdout.rstrip().endswith(", 5 times")
        assert "max_fires = 5" in run("export", "later", "--server", url).stdout
        process.stop()
