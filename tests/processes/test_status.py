"""What an operator looks at: `status`, `workers`, `run show` and `run logs` on a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from mainspring import App
from mainspring.sdk.runs import RunHandle
from tests.processes.processes import run, server

_APP = """
from mainspring import App

app = App()


@app.job(retry={"max_retries": 1, "delay": "0.01s"})
def flaky(x: int) -> int:
    print("x is", x)
    if x:
        raise ValueError(f"{x} is not zero")
    return x
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("status")
    (folder / "app.py").write_text(_APP)
    with server("app:app", "--data", "data", cwd=folder) as (_, address):
        yield address


@pytest.fixture(scope="module")
def ended(url: str) -> dict[int, str]:
    """The ids of a run that succeeded (0) and of one that failed (1)."""
    app = App(url)
    handles = app.submit_sync("flaky", [{"x": 0}, {"x": 1}])
    assert [handle.wait_sync(30).status for handle in handles] == ["SUCCEEDED", "FAILED"]
    app.close()
    return {number: handle.id for number, handle in enumerate(handles)}


def test_status_shows_the_cluster_and_is_well(url: str, ended: dict[int, str]) -> None:
    done = run("status", "--server", url)
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 succeeded, 1 failed" in done.stdout
    assert "1 active, 0 paused" in done.stdout
    assert "0 of 100 slots busy" in done.stdout
    found = json.loads(run("status", "--json", "--server", url).stdout)
    assert (found["attention"], found["runs"]["FAILED"], len(found["servers"])) == ([], 1, 1)


def test_status_says_what_is_paused(url: str) -> None:
    run("queue", "pause", "mail", "--note", "the relay moves", "--server", url)
    assert "queue mail: the relay moves" in run("status", "--server", url).stdout
    run("queue", "resume", "mail", "--server", url)


def test_workers_are_listed_with_what_they_serve(url: str) -> None:
    done = run("workers", "--server", url)
    heading, line = done.stdout.splitlines()
    assert heading.split()[:4] == ["WORKER", "HOST", "PID", "BUSY"]
    assert "0/100" in line
    assert "1 functions, http" in line
    [found] = json.loads(run("workers", "--json", "--server", url).stdout)["items"]
    assert (found["held"], found["slots"]) == (0, 100)


def test_a_first_try_success_shows_its_worker_and_host(url: str, ended: dict[int, str]) -> None:
    shown = run("run", "show", ended[0], "--server", url).stdout
    [worker] = json.loads(run("workers", "--json", "--server", url).stdout)["items"]
    assert f"{worker['name']} on {worker['host']}" in shown
    [row] = [line.split() for line in shown.splitlines() if line.startswith("1  ")]
    assert row[1:3] == ["succeeded", worker["name"]]


def test_a_failed_run_shows_each_attempt_and_the_whole_error(url: str, ended: dict[int, str]) -> None:
    shown = run("run", "show", ended[1], "--server", url).stdout
    rows = [line.split()[:2] for line in shown.splitlines() if line[:2] in {"1 ", "2 "}]
    assert rows == [["1", "failed"], ["2", "failed"]]
    assert "Traceback (most recent call last):" in shown
    assert "ValueError: 1 is not zero" in shown


def test_logs_are_those_of_each_attempt(url: str, ended: dict[int, str]) -> None:
    done = run("run", "logs", ended[1], "--server", url)
    assert done.stdout.count("ValueError: 1 is not zero") == 2
    assert done.stderr.splitlines() == ["--- attempt 1: failed", "--- attempt 2: failed"]
    [one] = json.loads(run("run", "logs", ended[1], "--attempt", "2", "--json", "--server", url).stdout)
    assert (one["attempt"], one["outcome"]) == (2, "failed")
    assert one["output"].endswith("ValueError: 1 is not zero\n")


def test_logs_of_an_attempt_that_there_is_not(url: str, ended: dict[int, str]) -> None:
    done = run("run", "logs", ended[0], "--attempt", "7", "--server", url)
    assert done.returncode == 2
    assert done.stderr == f"error: attempt: no attempt 7 of {ended[0]} has ended\n"


def test_times_are_those_of_the_terminal_and_utc_if_asked(url: str, ended: dict[int, str]) -> None:
    local = run("run", "show", ended[0], "--server", url, TZ="Asia/Tokyo").stdout
    assert "+09:00" in local
    assert "+00:00" not in local
    assert "+09:00" not in run("run", "show", ended[0], "--utc", "--server", url, TZ="Asia/Tokyo").stdout


def test_a_failed_run_is_run_again_once(url: str, ended: dict[int, str]) -> None:
    done = run("run", "retry", ended[1], ended[0], "--payload", '{"x": 0}', "--server", url)
    assert done.returncode == 2
    assert f"{ended[0]} is SUCCEEDED; only FAILED and CANCELLED runs are redriven" in done.stderr
    first, _, again = done.stdout.strip().rpartition(" ")
    assert first == f"{ended[1]}: runs again as"
    repeated = run("run", "retry", ended[1], "--payload", '{"x": 0}', "--json", "--server", url)
    assert json.loads(repeated.stdout) == [{"run_id": ended[1], "retried_as": again, "is_new": False}]
    app = App(url)
    assert RunHandle(app, again).wait_sync(30).status == "SUCCEEDED"
    app.close()
