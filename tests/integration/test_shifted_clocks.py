"""Servers and workers on hosts whose clocks are an hour off: nothing may follow from it (design 5).

The processes are real and their wall clocks are shifted by libfaketime; the database's clock is this machine's, which
the tests share.
"""

import json
import time
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.processes.processes import running, server
from tests.support.faketime import shifted

HOUR = 3600.0
PATIENCE = 60.0
ANY_CLOCK = ("--clock-limit", 3 * HOUR)
"""Have a server schedule whatever its host's clock says; by default it leaves that to others."""
SLACK = timedelta(seconds=1)
"""Clocks of this process and of the store are the same; a sample is off by half a round trip at most."""
APP = """
import time
from mainspring import App

app = App()


@app.job(name="tick", every="1s")
async def tick() -> float:
    return time.time()


@app.job(name="once")
async def once() -> float:
    return time.time()
"""

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(180)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(APP)
    return tmp_path


def call(url: str, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{url}{path}", data=data, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)


def await_that(find: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := find()):
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.1)
    return found


def job_id(url: str, name: str) -> str:
    jobs = call(url, "/api/v1/jobs?limit=100")["items"]
    return str(next(job["job_id"] for job in jobs if job["name"] == name))


def done_runs(url: str, name: str) -> list[Any]:
    """Return the finished runs of a job, the oldest first."""
    runs = call(url, f"/api/v1/jobs/{job_id(url, name)}/runs?limit=200")["items"]
    return [run for run in reversed(runs) if run["status"] == "SUCCEEDED"]


def submit_in(url: str, seconds: float) -> tuple[str, datetime]:
    run_at = datetime.now(UTC) + timedelta(seconds=seconds)
    body = {"run_at": run_at.isoformat()}
    return call(url, f"/api/v1/jobs/{job_id(url, 'once')}/runs", body)["run_id"], run_at


def await_end(url: str, run_id: str) -> Any:
    def find() -> Any:
        run = call(url, f"/api/v1/runs/{run_id}")
        return run if run["status"] == "SUCCEEDED" else None

    return await_that(find)


def check_times(run: Any, *, since: datetime, shift: float) -> None:
    """The store's clock is in the record, though the worker's own was off by so much; and nothing was early."""
    times = {name: datetime.fromisoformat(run[name]) for name in ("due_at", "started_at", "finished_at")}
    until = datetime.now(UTC)
    assert since - SLACK <= times["due_at"] <= times["started_at"] <= times["finished_at"] <= until + SLACK
    assert (run["attempt"], run["crashes"]) == (1, 0)
    told = datetime.fromtimestamp(run["result"], UTC) - timedelta(seconds=shift)
    assert (
        times["started_at"] - SLACK <= told <= times["finished_at"] + SLACK
    )  # so the worker's clock was off


def check_fires(runs: list[Any]) -> None:
    """One run a second, none twice and none left out."""
    instants = [datetime.fromisoformat(run["fire_time"]) for run in runs]
    first = instants[0]
    assert instants == [first + timedelta(seconds=number) for number in range(len(instants))]


@pytest.mark.slow
@pytest.mark.parametrize(("shift", "is_direct"), [(HOUR, False), (-HOUR, True)])
def test_server_and_worker_with_wrong_clocks_keep_to_the_stores(
    folder: Path, postgres_database: str, shift: float, is_direct: bool
) -> None:
    """The worker is as much off as the server, to the other side; over HTTP, and straight on the database."""
    began = datetime.now(UTC)
    store = ("--store", postgres_database)
    with (
        server("shop:app", *store, *ANY_CLOCK, "--slots", 0, cwd=folder, **shifted(shift)) as (_, url),
        running(
            *("worker", "shop:app", *(store if is_direct else ("--server", url))),
            cwd=folder,
            **shifted(-shift),
        ) as worker,
    ):
        worker.wait_for("ready")
        run_id, run_at = submit_in(url, 3)
        ticks = await_that(lambda: runs if len(runs := done_runs(url, "tick")) >= 5 else None)
        once = await_end(url, run_id)
        assert call(url, "/api/v1/workers")["items"]
    check_fires(ticks)
    assert abs(datetime.fromisoformat(once["due_at"]) - run_at) < timedelta(milliseconds=1)
    for run in [*ticks, once]:
        check_times(run, since=began, shift=-shift)


@pytest.mark.slow
def test_server_with_a_wrong_clock_schedules_nothing_by_default(folder: Path, postgres_database: str) -> None:
    """It is harmless, but a host like that is sick: it serves and says so, and leaves the fires to others."""
    store = ("--store", postgres_database)
    with (
        server("shop:app", *store, "--slots", 0, cwd=folder, **shifted(HOUR)) as (_, sick),
        server("shop:app", *store, cwd=folder) as (_, sound),
    ):
        await_that(lambda: done_runs(sick, "tick"))
        told = call(sick, "/health")["scheduler"]
        assert (told["refusal"], told["shards"]) == ("clock", 0)
        assert abs(told["clock_skew"] - HOUR) < SLACK.total_seconds()
        assert call(sound, "/health")["scheduler"]["shards"] == 256


@pytest.mark.slow
def test_take_over_between_servers_two_hours_apart_fires_nothing_twice(
    folder: Path, postgres_database: str
) -> None:
    """The first server owns all shards and is killed; the second goes on where it stopped."""
    began = datetime.now(UTC)
    store = ("--store", postgres_database, "--beat-period", 1, *ANY_CLOCK)
    with (
        server("shop:app", *store, "--slots", 0, cwd=folder, **shifted(HOUR)) as (first, _),
        server("shop:app", *store, cwd=folder, **shifted(-HOUR)) as (second, url),
    ):
        await_that(lambda: done_runs(url, "tick"))
        first.process.kill()
        killed = datetime.now(UTC)

        def has_gone_on() -> bool:
            return datetime.fromisoformat(done_runs(url, "tick")[-1]["fire_time"]) > killed + 4 * SLACK

        await_that(has_gone_on)
        run_id, _ = submit_in(url, 1)
        once = await_end(url, run_id)
        ticks = done_runs(url, "tick")
        check_ledger(url)
        assert second.stop() == 0
    assert len({run["fire_time"] for run in ticks}) == len(ticks)
    for run in [*ticks, once]:
        check_times(run, since=began, shift=-HOUR)


def check_ledger(url: str) -> None:
    ledger = call(url, f"/api/v1/jobs/{job_id(url, 'tick')}/ledger")
    assert (ledger["missing"], ledger["surplus"]) == ([], [])
    assert ledger["expected"] >= 5
