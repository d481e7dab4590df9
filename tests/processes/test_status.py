"""What an operator looks at: `status`, `workers`, `run show` and `run logs` on a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from mainspring import App
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
    assert done.stderr == f"error: attempt: no attempt 7 of {ended[0]} has begun\n"


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
    waited = run("run", "retry", ended[1], "--payload", '{"x": 0}', "--wait", "30", "--server", url)
    assert (waited.returncode, waited.stderr) == (0, "")
    assert waited.stdout == f"{ended[1]}: was run again before as {again}\n{again}  SUCCEEDED\n"


def test_who_waits_for_a_run_hears_why_it_failed(url: str) -> None:
    done = run("job", "run", "flaky", "--payload", '{"x": 7}', "--wait", "30", "--server", url)
    run_id, status = done.stdout.split()
    assert (done.returncode, status) == (3, "FAILED")
    more = f"for all that is known of it: mainspring run show {run_id}"
    assert done.stderr.splitlines() == ["error: ValueError: 7 is not zero", more]

    again = run("run", "retry", run_id, "--wait", "30", "--server", url)
    assert again.returncode == 3
    first, second = again.stdout.splitlines()
    new = second.split()[0]
    assert (first, second) == (f"{run_id}: runs again as {new}", f"{new}  FAILED")
    more = f"for all that is known of it: mainspring run show {new}"
    assert again.stderr.splitlines() == ["error: ValueError: 7 is not zero", more]

    told = run("run", "retry", new, "--wait", "30", "--json", "--server", url)
    assert told.returncode == 3
    [one] = json.loads(told.stdout)
    assert (one["run_id"], one["is_new"], one["status"]) == (new, True, "FAILED")
    assert one["error"].endswith("ValueError: 7 is not zero")


def test_a_wait_that_is_over_says_so_with_its_own_exit_code(url: str) -> None:
    later = run("job", "run", "flaky", "--payload", '{"x": 0}', "--delay", "1h", "--server", url)
    run_id = later.stdout.strip()
    assert run("run", "cancel", run_id, "--server", url).returncode == 0
    run("queue", "pause", "default", "--server", url)
    try:
        done = run("run", "retry", run_id, "--wait", "0", "--json", "--server", url)
    finally:
        run("queue", "resume", "default", "--server", url)
    [one] = json.loads(done.stdout)
    assert (done.returncode, one["status"], one["error"]) == (4, None, None)
    assert done.stderr == f"error: {one['retried_as']} has not ended after 0 s; it goes on\n"


def test_refused_retries_count_more_than_what_became_of_the_others(url: str, ended: dict[int, str]) -> None:
    failed = run("job", "run", "flaky", "--payload", '{"x": 5}', "--wait", "30", "--server", url)
    run_id = failed.stdout.split()[0]
    other = run("job", "run", "flaky", "--payload", '{"x": 6}', "--wait", "30", "--server", url)
    other_id = other.stdout.split()[0]
    done = run("run", "retry", run_id, ended[0], other_id, "--wait", "30", "--server", url)
    assert done.returncode == 2
    new = [line.split()[0] for line in done.stdout.splitlines() if line.endswith("  FAILED")]
    assert done.stderr.splitlines()[1:] == [
        f"error: {new[0]}: ValueError: 5 is not zero",
        f"error: {new[1]}: ValueError: 6 is not zero",
        f"for all that is known of it: mainspring run show {new[0]}",
    ]


def test_lists_of_runs_name_their_jobs(url: str, ended: dict[int, str]) -> None:
    listed = json.loads(run("run", "list", "--json", "--server", url).stdout)["items"]
    assert {(item["job"], item["job_id"][:4]) for item in listed} == {("flaky", "job_")}
    rows = run("run", "list", "--server", url).stdout.splitlines()[1:]
    assert {row.split()[1] for row in rows} == {"flaky"}
