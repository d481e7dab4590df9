"""The workers of the page on how to write one: they are those of the page, and do their work on a real server."""

from __future__ import annotations

import re
import shlex
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes.processes import running, server
from tests.processes.written_workers import (
    PAGE,
    ROOT,
    WORKERS,
    Submitted,
    Written,
    make_job,
    sessions,
    written_worker,
)
from tests.support.asking import PATIENCE, ask, wait_until

pytestmark = [pytest.mark.timeout(4 * PATIENCE), pytest.mark.slow]
ONCE = {"retry": {"max_retries": 0}}


@pytest.fixture(params=WORKERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with server("--data", tmp_path / "data", "--slots", 0, "--beat-period", 3, cwd=tmp_path) as (_, address):
        yield address


@pytest.fixture
def worker(kind: str, address: str, tmp_path: Path) -> Iterator[Written]:
    with written_worker(kind, address, tmp_path) as worker:
        wait_until(lambda: sessions(address))
        yield worker


@pytest.mark.parametrize(("name", "language"), [("worker.py", "python"), ("worker.sh", "sh")])
def test_page_shows_the_worker_as_it_is(name: str, language: str) -> None:
    assert f"```{language}\n{(ROOT / 'examples' / name).read_text()}```\n" in PAGE


def test_worker_in_python_has_sixty_lines() -> None:
    lines = (ROOT / "examples" / "worker.py").read_text().splitlines()
    assert len([line for line in lines if line.strip()]) <= 60


def test_commands_of_the_page_start_what_the_tests_start() -> None:
    blocks = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    commands = [shlex.split(line, comments=True) for block in blocks for line in block.splitlines() if line]
    starts = [words for words in commands if words[0] != "mainspring"]
    assert starts == [
        ["python3", "examples/worker.py", "127.0.0.1:8620"],
        ["examples/worker.sh", "127.0.0.1:8620", "functions"],
    ]


def test_success_keeps_payload_and_result_as_they_are(worker: Written, address: str) -> None:
    job = make_job(address, "add", **ONCE)
    odd = [{"text": "ä\u2028\U0001f642\"'\\$(id)\n", "none": None, "deep": [[[]]]}, 0.5, -3]
    done = Submitted(address, job, {"x": odd, "y": [True]}).wait_for("SUCCEEDED")
    assert done["result"] == [*odd, True]
    assert [attempt["outcome"] for attempt in done["attempts"]] == ["succeeded"]
    assert Submitted(address, job, {"x": 2, "y": 3}).wait_for("SUCCEEDED")["result"] == 5


def test_failure_is_tried_again_and_says_why(worker: Written, address: str, kind: str) -> None:
    retry = {"max_retries": 1, "backoff": "fixed", "delay_seconds": 0}
    job = make_job(address, "add", retry=retry)
    done = Submitted(address, job, {"x": 1, "y": []}).wait_for("FAILED")
    assert [attempt["outcome"] for attempt in done["attempts"]] == ["failed", "failed"]
    assert done["error"] == "exit status 5" if kind == "shell" else done["error"].startswith("TypeError")
    assert Submitted(address, job, {"x": 2, "y": 3}).wait_for("SUCCEEDED")["result"] == 5


def test_result_may_be_as_long_as_the_server_takes(worker: Written, address: str) -> None:
    job = make_job(address, "add", **ONCE)
    done = Submitted(address, job, {"x": "x" * 40_000, "y": "\u2028" * 8_000}).wait_for("SUCCEEDED")
    assert len(done["result"]) == 48_000


def test_cancel_stops_the_function(worker: Written, address: str) -> None:
    job = make_job(address, "nap", **ONCE)
    run = Submitted(address, job, {"seconds": 3600})
    run.wait_for("RUNNING")
    ask(address, "POST", f"runs/{run.id}/cancel")
    assert run.wait_for("CANCELLED")["attempts"][-1]["outcome"] == "cancelled"


def test_time_limit_is_kept_by_the_worker(worker: Written, address: str) -> None:
    job = make_job(address, "nap", timeout="300ms", **ONCE)
    done = Submitted(address, job, {"seconds": 3600}).wait_for("FAILED")
    assert done["attempts"][0]["outcome"] == "timed_out"
    assert done["error"] == "took too long"  # the worker's words, not the server's


def test_drain_leaves_and_takes_nothing_more(worker: Written, address: str, tmp_path: Path) -> None:
    job = make_job(address, "add", **ONCE)
    assert worker.drain() == 0
    assert sessions(address) == []
    run = Submitted(address, job, {"x": 1, "y": 2})
    assert run.look()["status"] == "PENDING"
    assert worker.log.read_bytes() == b""
    assert list(tmp_path.glob("tmp.*")) == []


def test_session_that_was_lost_is_replaced_and_its_run_carried_out_again(
    worker: Written, address: str
) -> None:
    (old,) = sessions(address)
    nap, add = make_job(address, "nap"), make_job(address, "add")
    run = Submitted(address, nap, {"seconds": 1})
    run.wait_for("RUNNING")
    worker.send_to_all(signal.SIGSTOP)
    wait_until(lambda: sessions(address) == [])
    run.wait_for("PENDING")
    worker.send_to_all(signal.SIGCONT)
    assert run.wait_for("SUCCEEDED")["crashes"] == 1
    assert Submitted(address, add, {"x": 1, "y": 2}).wait_for("SUCCEEDED")["result"] == 3
    (new,) = sessions(address)
    assert new != old


def test_server_that_is_killed_and_started_again_loses_nothing(kind: str, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    start = ("up", "--data", tmp_path / "data", "--slots", 0, "--beat-period", 3, "--port", port)
    with running(*start, cwd=tmp_path) as first:
        address = first.wait_for("listening on ")
        with written_worker(kind, address, tmp_path) as worker:
            wait_until(lambda: sessions(address))
            nap, add = make_job(address, "nap", **ONCE), make_job(address, "add", **ONCE)
            run = Submitted(address, nap, {"seconds": 1})
            run.wait_for("RUNNING")
            first.stop(signal.SIGKILL)
            with running(*start, cwd=tmp_path) as second:
                assert second.wait_for("listening on ") == address
                done = run.wait_for("SUCCEEDED")
                assert (done["attempt"], done["crashes"]) == (1, 0)
                assert Submitted(address, add, {"x": 1, "y": 2}).wait_for("SUCCEEDED")["result"] == 3
                assert worker.drain() == 0
