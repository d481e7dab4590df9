"""Runs one at a time, and jobs that stop, by the command line and the SDK, against a real server.

docs/howto/run-one-at-a-time.md and docs/howto/stop-a-broken-job.md, done.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from mainspring import App
from tests.processes.processes import await_that, run, server

HOWTO = Path(__file__).parents[2] / "docs" / "howto"
PAGES = {name: (HOWTO / f"{name}.md").read_text() for name in ("run-one-at-a-time", "stop-a-broken-job")}
APP = """
import asyncio
import time

from mainspring import App

app = App()


@app.job(overlap="queue_all")
async def follow() -> list:
    begun = time.monotonic()
    await asyncio.sleep(0.02)
    return [begun, time.monotonic()]


@app.job(every="1s", overlap="cancel_running")
async def newest() -> None:
    await asyncio.Event().wait()  # until it is cancelled


@app.job(every="1s", retries=0, pause_after_failures=2)
async def broken() -> None:
    raise ValueError("broken")
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("overlap")
    (folder / "following.py").write_text(APP)
    with server("following:app", "--data", str(folder / "data"), cwd=folder) as (_, address):
        yield address


async def test_runs_follow_one_another(url: str) -> None:
    app = App(url)

    @app.job(overlap="queue_all")
    async def follow() -> list[float]:
        raise AssertionError("the server carries it out")

    try:
        handles = await asyncio.gather(*(follow.enqueue() for _ in range(10)))
        spans = sorted([(await handle.wait(timeout=30)).result for handle in handles])
    finally:
        app.close()
    assert all(ended <= begun for (_, ended), (begun, _) in pairwise(spans))


def test_a_fire_cancels_the_run_before(url: str, tmp_path: Path) -> None:
    def read() -> list[dict[str, object]]:
        done = run("run", "list", "--job", "newest", "--json", "--server", url, cwd=tmp_path)
        found: list[dict[str, object]] = json.loads(done.stdout)["items"]
        return found

    await_that("two runs made way", lambda: [one["status"] for one in read()].count("CANCELLED") >= 2)
    runs = read()
    assert {one["reason"] for one in runs if one["status"] == "CANCELLED"} == {"overlap"}
    assert [one["status"] for one in runs].count("RUNNING") <= 1
    [cancelled, *_] = [one for one in runs if one["status"] == "CANCELLED"]
    why = run("run", "why", str(cancelled["run_id"]), "--server", url, cwd=tmp_path)
    assert "it made way for a later fire of its job" in why.stdout


def test_a_broken_job_stops_and_says_why(url: str, tmp_path: Path) -> None:
    def show() -> dict[str, object]:
        done = run("job", "show", "broken", "--json", "--server", url, cwd=tmp_path)
        found: dict[str, object] = json.loads(done.stdout)
        return found

    await_that("the job is paused", lambda: show()["is_paused"])
    assert show()["pause_note"] == "its last 2 runs failed"
    listed = run("job", "list", "--server", url, cwd=tmp_path).stdout
    assert "paused: its last 2 runs failed" in listed
    ledger = run("ledger", "broken", "--server", url, cwd=tmp_path)
    assert ledger.returncode == 0, ledger.stdout
    resumed = run("job", "resume", "broken", "--server", url, cwd=tmp_path)
    assert "next fire" in resumed.stdout
    await_that("it is paused again", lambda: show()["is_paused"])


@pytest.mark.parametrize("page", PAGES)
def test_every_command_and_definition_of_the_page(url: str, tmp_path: Path, page: str) -> None:
    commands = [
        line.split()[1:] for line in PAGES[page].splitlines() if line.startswith("mainspring job add")
    ]
    bodies = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", PAGES[page], re.DOTALL)]
    assert (len(commands), len(bodies)) == (1, 1)
    added = run(*commands[0], "--json", "--server", url, cwd=tmp_path)
    assert added.returncode == 0, added.stderr
    job = json.loads(added.stdout)
    options = {
        name: value for name, value in bodies[0].items() if name in {"overlap", "pause_after_failures"}
    }
    assert options
    assert {name: job[name] for name in options} == options
    assert run("job", "rm", "sync", "--server", url, cwd=tmp_path).returncode == 0
