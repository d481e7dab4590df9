"""Blackouts by the command line and the SDK, against a real server with a worker: docs/howto/blackouts.md, done."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainspring import App
from tests.processes.processes import run, server

APP = """
from mainspring import App

app = App()


@app.job(queue="billing")
def bill(order: str) -> str:
    return order
"""
PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "blackouts.md").read_text()
ALWAYS = {"rules": [{"from": "2020-01-01", "to": "2090-01-01"}]}
NEVER = {"rules": [{"from": "2020-01-01", "to": "2020-01-02"}]}


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "billing.py").write_text(APP)
    with server("billing:app", "--data", tmp_path / "data", cwd=tmp_path) as (_, address):
        yield address


async def test_runs_wait_while_the_calendar_holds_and_start_when_it_does_not(url: str) -> None:
    app = App(url)
    try:
        await app.client.put_calendar("month-end", ALWAYS)
        set_now = await app.client.put_queue_blackouts("billing", [{"calendar": "month-end"}])
        assert [(one.calendar, one.version, one.is_on) for one in set_now.items] == [("month-end", 1, True)]
        [handle] = await app.submit("bill", [{"order": "o-17"}])
        assert (await handle.why()).code == "blackout"
        await app.client.put_calendar("month-end", NEVER)
        assert (await handle.wait(timeout=20)).result == "o-17"
    finally:
        app.close()


def test_every_command_of_the_page_does_what_it_says(url: str, tmp_path: Path) -> None:
    [rules] = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "month-end.json").write_text(rules)
    for name, tenant in (("nights", "default"), ("month-end", "acme")):
        put = run(
            *("calendar", "put", name, "--file", "month-end.json", "--tenant", tenant),
            *("--server", url),
            cwd=tmp_path,
        )
        assert put.returncode == 0, put.stderr
    lines = [line.removeprefix("$ ") for line in PAGE.splitlines()]
    commands = [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("mainspring ")]
    commands = [command for command in commands if command[0] != "run"]
    assert len(commands) == 7
    shown = ""
    for command in commands:
        done = run(*command, "--server", url, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        shown += done.stdout
    for line in re.findall(r"^queue billing .*$", PAGE, re.MULTILINE):
        assert line in shown
    left = run("blackouts", "--json", "--server", url, cwd=tmp_path)
    assert [(one["scope"], one["calendar"]) for one in json.loads(left.stdout)] == [
        ("all", "month-end@1"),
        ("all", "nights"),
        ("tenant", "month-end"),
    ]
    table = run("tenant", "show", "acme", "--server", url, cwd=tmp_path)
    assert "month-end (version 1)" in table.stdout
