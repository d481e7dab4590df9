"""Urgent work beside batch work, against real processes: docs/howto/preempt-batch-work.md, done."""

import contextlib
import json
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainspring.sdk.client import AsyncClient
from tests.processes.processes import await_that, run, running, server

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "preempt-batch-work.md").read_text()
SETTERS = re.findall(r"^mainspring ((?:queue|class) set .*)$", PAGE, re.MULTILINE)
DEAF = "trap '' TERM; echo $$ >> pids; while :; do sleep 0.1; done"
"""A command that ignores SIGTERM."""
SHORT = {"MAINSPRING_EXECUTORS_SHELL_GRACE": "1s", "MAINSPRING_WORKER_BEAT_PERIOD": "1s"}


@pytest.fixture(params=["in the server", "over HTTP"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A server with one slot, in its own process or in that of a worker."""
    is_own = request.param == "in the server"
    options = ("--data", tmp_path / "data", "--allow-shell", "--slots", int(is_own))
    with server(*options, cwd=tmp_path, **SHORT) as (_, address), contextlib.ExitStack() as stack:
        if not is_own:
            worker = running(
                "worker", "--server", address, "--allow-shell", "--slots", 1, cwd=tmp_path, **SHORT
            )
            stack.enter_context(worker)
        yield address


def is_alive(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


async def test_a_command_that_ignores_sigterm_makes_room_for_urgent_work(url: str, tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    def ask(*arguments: object) -> str:
        done = run(*arguments, "--server", url, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    ask("queue", "set", "alerts", "--preempt-after", "1s")
    ask("class", "set", "night", "--tier", "LOW", "--preemptible")
    deaf = f"cd {tmp_path}; {DEAF}"
    ask("job", "add", "render", "--command", deaf, "--shell", "--queue", "films", "--priority", "night")
    ask("job", "add", "alert", "--command", '["true"]', "--queue", "alerts", "--priority", "HIGH")
    batch = ask("job", "run", "render")
    await_that("the command has begun", lambda: pids.exists() and pids.read_text().endswith("\n"))
    [first] = map(int, pids.read_text().split())
    ended = json.loads(ask("job", "run", "alert", "--wait", "60", "--json"))
    assert ended["status"] == "SUCCEEDED"
    assert not is_alive(first)
    await_that("the command has begun again", lambda: len(pids.read_text().split()) == 2)
    async with AsyncClient(url) as client:
        found = await client.get_run(batch)
        (attempt,) = found.attempts
        assert (found.status, found.attempt, found.retry_count) == ("RUNNING", 1, 0)
        assert (attempt.outcome, attempt.number) == ("preempted", 1)
        assert attempt.error == "preempted by HIGH work of queue alerts"
        await client.cancel_run(batch)
    await_that("the command is gone", lambda: not is_alive(int(pids.read_text().split()[1])))


@pytest.mark.parametrize("url", ["in the server"], indirect=True)
def test_commands_of_the_page_are_taken(url: str, tmp_path: Path) -> None:
    assert len(SETTERS) == 4
    for line in SETTERS:
        done = run(*shlex.split(line), "--server", url, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    listed = json.loads(run("class", "list", "--json", "--server", url, cwd=tmp_path).stdout)
    assert [(one["name"], one["tier"]) for one in listed["items"]] == [("night", "LOW"), ("urgent", "MEDIUM")]
    assert run("class", "rm", "night", "--server", url, cwd=tmp_path).stdout == "deleted night\n"
    missing = run("class", "show", "night", "--server", url, cwd=tmp_path)
    assert (missing.returncode, "no class 'night'" in missing.stderr) == (2, True), missing.stderr
    refused = run("class", "set", "low", "--tier", "LOW", "--server", url, cwd=tmp_path)
    assert "class: 'low' is the name of a tier" in refused.stderr
    wrong = run(
        "job", "add", "a", "--callback-url", "http://127.0.0.1:1/", "--priority", "nigth", "--server", url
    )
    assert "priority: must be one of HIGH, MEDIUM, LOW or the name of a priority class" in wrong.stderr
