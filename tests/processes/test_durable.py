"""docs/howto/write-a-function-that-survives.md, done: workers are killed between steps, and no kept body runs again."""

from __future__ import annotations

import contextlib
import json
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes.processes import Running, await_that, run, running

pytestmark = pytest.mark.timeout(300)
STEPS = 8
APP = """
import asyncio
from pathlib import Path

from mainspring import App, DurableContext

app = App()
HERE = Path(__file__).parent


def note(line):
    with (HERE / "ran").open("a") as file:
        file.write(f"{line}\\n")


async def body(name):
    note(name)
    return name.upper()


async def hold(number):
    note(f"hold {number}")
    while not (HERE / f"go {number}").exists():
        await asyncio.sleep(0.02)
    return number


@app.durable("order", code_version="1")
async def order(ctx: DurableContext, steps: int, nap: str = "2s") -> list[str]:
    found = []
    for number in range(steps):
        found.append(await ctx.step("body", body, f"body {number}"))
        await ctx.step("hold", hold, number)
    found += await asyncio.gather(*(ctx.step(f"last {n}", body, f"last {n}") for n in range(3)))
    await ctx.sleep(nap)
    note("awake")
    return found
"""


def ran(folder: Path) -> Counter[str]:
    """Return how often each body has begun."""
    file = folder / "ran"
    return Counter(file.read_text().splitlines()) if file.exists() else Counter()


def await_ran(folder: Path, name: str, times: int) -> None:
    """Wait until a body has begun this many times."""
    await_that(name, lambda: ran(folder)[name] == times)


@contextlib.contextmanager
def worker(folder: Path, url: str) -> Iterator[Running]:
    with running("worker", "jobs:app", "--server", url, cwd=folder) as process:
        process.wait_for("ready")
        yield process


def kill_between_steps(folder: Path, *store: object) -> None:
    """Kill the worker after each step, at the beginning of the next one, and see what the run comes to."""
    (folder / "jobs.py").write_text(APP)
    with running("up", "--port", 0, "--slots", 0, "--beat-period", "0.5s", *store, cwd=folder) as up:
        url = up.wait_for("listening on ")
        with worker(folder, url) as first:
            done = run(
                *("job", "run", "order", "--payload", json.dumps({"steps": STEPS}), "--json"),
                *("--server", url),
                cwd=folder,
            )
            run_id = json.loads(done.stdout)["run_id"]
            await_ran(folder, "hold 0", 1)
            first.stop(signal.SIGKILL)
        for number in range(1, 6):  # more crashes than make a run poison that gets no further
            with worker(folder, url) as another:
                await_ran(folder, f"hold {number - 1}", 2)
                (folder / f"go {number - 1}").touch()
                await_ran(folder, f"hold {number}", 1)
                another.stop(signal.SIGKILL)
        for number in range(STEPS):
            (folder / f"go {number}").touch()
        with worker(folder, url):
            await_that("the end", lambda: ran(folder)["awake"])
            show = run("run", "show", run_id, "--server", url, cwd=folder)
            await_that(
                "success",
                lambda: "SUCCEEDED" in run("run", "show", run_id, "--server", url, cwd=folder).stdout,
            )
        found = ran(folder)
        assert {name: count for name, count in found.items() if name.startswith("body")} == {
            f"body {number}": 1 for number in range(STEPS)
        }
        assert [found[f"last {number}"] for number in range(3)] == [1, 1, 1]
        assert [found[f"hold {number}"] for number in range(STEPS)] == [2, 2, 2, 2, 2, 2, 1, 1]
        assert found["awake"] == 1
        assert '"BODY 0"' in show.stdout, show.stdout
        assert "$sleep" in show.stdout


def test_no_kept_body_runs_again_when_workers_are_killed_on_sqlite(tmp_path: Path) -> None:
    kill_between_steps(tmp_path)


@pytest.mark.postgres
def test_no_kept_body_runs_again_when_workers_are_killed_on_postgresql(
    tmp_path: Path, postgres_database: str
) -> None:
    kill_between_steps(tmp_path, "--store", postgres_database)


def test_a_sleeping_run_outlasts_the_server_and_the_worker(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(APP)
    with running("up", "jobs:app", "--port", 0, cwd=tmp_path) as up:
        url = up.wait_for("listening on ")
        run("job", "run", "order", "--payload", '{"steps": 0, "nap": "20s"}', "--server", url, cwd=tmp_path)
        await_that("the steps", lambda: sum(ran(tmp_path).values()) == 3)
        await_that(
            "the sleep", lambda: "RETRYING" in run("run", "list", "--server", url, cwd=tmp_path).stdout
        )
        up.stop(signal.SIGKILL)
    with running("up", "jobs:app", "--port", 0, cwd=tmp_path) as up:
        up.wait_for("listening on ")
        await_that("the end", lambda: ran(tmp_path)["awake"])
    assert set(ran(tmp_path).values()) == {1}
