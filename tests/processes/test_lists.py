"""Lists and counts of the command line and of the SDK, on a real server; and the commands that the page shows."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from mainspring import App
from mainspring.sdk.client import AsyncClient
from tests.processes.processes import run, server

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text()
COMMANDS = re.findall(r"^mainspring (run (?:list|count).*)$", PAGE, re.MULTILINE)
APP = """
from mainspring import App, FailRun

app = App()


@app.job(queue="mail")
def nightly(x: int) -> int:
    if x % 2:
        raise FailRun(f"ConnectionError: {x}")
    return x
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server whose job failed in three of six runs."""
    folder = tmp_path_factory.mktemp("lists")
    (folder / "app.py").write_text(APP)
    with server("app:app", "--data", "data", cwd=folder) as (_, address):
        app = App(address)
        for number, handle in enumerate(app.submit_sync("nightly", [{"x": each} for each in range(6)])):
            assert handle.wait_sync(30).status == ("FAILED" if number % 2 else "SUCCEEDED")
        app.close()
        yield address


@pytest.mark.parametrize("line", [*COMMANDS, "run count", "run count --json"])
def test_commands_of_the_page_are_carried_out(url: str, line: str) -> None:
    done = run(*shlex.split(line), "--server", url)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr


def test_filters_of_the_command_line(url: str) -> None:
    def listed(*arguments: object) -> list[int]:
        done = run("run", "list", "--json", *arguments, "--server", url)
        assert done.returncode == 0, done.stderr
        return [each["payload"]["x"] for each in json.loads(done.stdout)["items"]]

    assert len(COMMANDS) == 3
    assert listed() == [5, 4, 3, 2, 1, 0]
    assert listed("--state", "failed", "--since", "2h", "--queue", "mail", "--kind", "manual") == [5, 3, 1]
    assert listed("--state", "FAILED", "--error", "ConnectionError: 3") == [3]
    assert listed("--job", "nightly", "--limit", 2) == [5, 4]
    assert listed("--until", "2h") == listed("--kind", "scheduled") == listed("--queue", "none") == []
    done = run("run", "list", "--state", "FAILED", "--limit", 2, "--server", url)
    assert done.stdout.count("ConnectionError: ") == done.stdout.count("nightly") == 2
    before = done.stderr.removeprefix("for older ones, add --before ").strip()
    assert listed("--state", "FAILED", "--before", before) == [1]
    counted = run("run", "count", "--server", url)
    assert re.search(r"^FAILED +3$", counted.stdout, re.MULTILINE)
    assert re.search(r"^counted +now$", counted.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--state", "odd"), "state: must be one of PENDING, "),
        (("--kind", "odd"), "kind: must be one of scheduled, "),
        (("--since", "soon"), "since: 'soon' is not an instant; write it like "),
        (("--error", "x"), "error: is only for runs that FAILED; add --state FAILED"),
        (("--before", "x"), "before: "),
        (("--job", "nobody"), "no job 'nobody'"),
    ],
)
def test_a_wrong_filter_is_named(url: str, arguments: tuple[str, ...], said: str) -> None:
    done = run("run", "list", *arguments, "--server", url)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {said}")


async def test_lists_of_the_sdk(url: str) -> None:
    async with AsyncClient(url) as client:
        briefs = [run async for run in client.briefs(state="FAILED", since=timedelta(hours=2))]
        assert [(run.job, run.error) for run in briefs] == [
            ("nightly", f"ConnectionError: {x}") for x in (5, 3, 1)
        ]
        assert [run.payload["x"] async for run in client.runs(queue="mail")] == [5, 4, 3, 2, 1, 0]
        assert [job.name async for job in client.jobs()] == ["nightly"]
        assert len([worker async for worker in client.workers()]) == 1
        counts = await client.count_runs()
        assert (counts.FAILED, counts.SUCCEEDED, counts.age_ms) == (3, 3, 0)


def test_the_same_without_a_loop(url: str) -> None:
    app = App(url)
    assert [run.payload["x"] for run in app.sync.runs(state="succeeded")] == [4, 2, 0]
    assert app.sync.count_runs().FAILED == 3
    app.close()
