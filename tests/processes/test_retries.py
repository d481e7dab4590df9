"""Retries by cause and large results, against a real server with a worker: docs/howto/retry-by-cause.md, done."""

import json
import re
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mainspring import App, FailRun, ResultLeftOut, RetryRun, SnoozeRun
from mainspring.core.definition import read_definition
from mainspring.signals import RunSignal
from tests.processes.processes import run, server

APP = """
from mainspring import App

app = App()


class NoSuchOrder(LookupError):
    pass


@app.job(no_retry_on=(LookupError, "exceptions.Odd"), retries=3)
def confirm(order: int) -> None:
    raise NoSuchOrder(order)


@app.job(retry_on=LookupError, retry={"delay": 0, "max_retries": 1})
async def sync(order: int) -> None:
    raise NoSuchOrder(order)


@app.job()
async def report() -> str:
    return "x" * 70_000
"""
PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "retry-by-cause.md").read_text()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("retries")
    (folder / "orders.py").write_text(APP)
    with server("orders:app", "--data", folder / "data", "--allow-shell", cwd=folder) as (_, address):
        yield address


async def test_exceptions_decide_whether_a_run_is_tried_again(url: str) -> None:
    app = App(url)
    try:
        [once] = await app.submit("confirm", [{"order": 1}])
        ended = await once.wait(timeout=20)
        assert (ended.status, ended.reason, ended.attempt) == ("FAILED", "not_retryable", 1)
        [twice] = await app.submit("sync", [{"order": 1}])
        ended = await twice.wait(timeout=20)
        assert (ended.status, ended.reason, ended.attempt) == ("FAILED", "retries_exhausted", 2)
    finally:
        app.close()


def test_exit_status_decides_whether_a_command_is_tried_again(url: str, tmp_path: Path) -> None:
    command = ["job", "add", "picky", "--command", "exit 65", "--shell", "--no-retry-on", "exit 64-78"]
    added = run(*command, "--server", url, cwd=tmp_path)
    assert added.returncode == 0, added.stderr
    done = run("job", "run", "picky", "--wait", "20", "--json", "--server", url, cwd=tmp_path)
    ended = json.loads(done.stdout)
    assert (ended["status"], ended["reason"], ended["attempt"]) == ("FAILED", "not_retryable", 1)


def test_large_result_is_left_out_and_said_to_be(url: str, tmp_path: Path) -> None:
    done = run("job", "run", "report", "--wait", "20", "--server", url, cwd=tmp_path)
    run_id, status = done.stdout.split()
    assert (done.returncode, status) == (0, "SUCCEEDED")
    shown = run("run", "show", run_id, "--server", url, cwd=tmp_path).stdout
    assert "left out: the result is 70,002 bytes of JSON; at most 65,536 can be kept (sha256 " in shown
    shown = run("run", "show", run_id, "--json", "--server", url, cwd=tmp_path).stdout
    assert json.loads(shown)["result_left_out"]["reason"] == "too_large"


async def test_result_that_was_left_out_is_not_taken_for_none(url: str) -> None:
    app = App(url)
    try:
        [run] = await app.submit("report", [{}])
        with pytest.raises(ResultLeftOut, match="the result is 70,002 bytes") as left_out:
            await run.result(timeout=20)
        assert left_out.value.reason == "too_large"
    finally:
        app.close()


def test_commands_and_bodies_of_the_page_are_taken_and_shown_as_it_says(url: str, tmp_path: Path) -> None:
    lines = [line for line in PAGE.splitlines() if line.startswith("mainspring job add")]
    assert len(lines) == 2
    for line in lines:
        done = run(*shlex.split(line)[1:], "--update", "--server", url, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    bodies = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]
    assert len(bodies) == 2
    for body in bodies:
        read_definition(body, now=datetime(2026, 1, 1, tzinfo=UTC))
    text = json.dumps(bodies[0])
    done = run("job", "add", "--body", "-", "--update", "--server", url, cwd=tmp_path, text=text)
    assert done.returncode == 0, done.stderr
    shown = run("job", "show", "sync", "--server", url, cwd=tmp_path).stdout
    expected = PAGE.split("…\n")[1].split("\n```")[0]
    assert re.sub(" +", " ", expected) in re.sub(" +", " ", shown)
    answer = json.loads(run("job", "show", "sync", "--json", "--server", url, cwd=tmp_path).stdout)
    assert answer["retry_preview"]["waits_seconds"] == [5, 10, 20]
    assert answer["retry_preview"]["after_seconds"] == [5, 15, 35]
    assert answer["retry_preview"]["last_between_seconds"] == [28, 42]


def test_programs_of_the_page_define_what_it_says() -> None:
    first, second = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(first, "retry-by-cause.md", "exec"), names)
    exec(compile(second, "retry-by-cause.md", "exec"), names)
    for invoice, kind in ((-1, FailRun), (0, RetryRun), (1, SnoozeRun)):
        with pytest.raises(RunSignal) as raised:
            names["pay"](invoice)
        assert type(raised.value) is kind
