"""Pauses by the command line and the SDK, against a real server with a worker: docs/howto/pause-queues.md, done."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mainspring import App
from tests.processes.processes import run, server

APP = """
from mainspring import App

app = App()


@app.job(queue="partner")
def call(order: str) -> str:
    return order
"""
PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "pause-queues.md").read_text()


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "calling.py").write_text(APP)
    with server("calling:app", "--data", tmp_path / "data", cwd=tmp_path) as (_, address):
        yield address


async def test_runs_of_a_paused_queue_wait_for_its_resume(url: str) -> None:
    app = App(url)
    try:
        paused = await app.client.pause_queue("partner", {"note": "upgrade"})
        assert [(pause.name, pause.note) for pause in paused.items] == [("partner", "upgrade")]
        [handle] = await app.submit("call", [{"order": "o-17"}])
        assert (await handle.why()).code == "paused"
        assert (await app.client.resume_queue("partner")).items == []
        assert (await handle.wait(timeout=20)).result == "o-17"
    finally:
        app.close()


def test_every_command_of_the_page_does_what_it_says(url: str, tmp_path: Path) -> None:
    text = PAGE.replace("2026-11-24", "2040-11-24")
    lines = [line.removeprefix("$ ") for line in text.splitlines()]
    commands = [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("mainspring ")]
    commands = [command for command in commands if command[0] != "run"]
    assert len(commands) == 8
    for command in commands:
        done = run(*command, "--server", url, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    left = run("pause", "--json", "--server", url, cwd=tmp_path)
    assert [pause["name"] for pause in json.loads(left.stdout)["items"]] == ["partner"]
    refused = run("pause", "--note", "oops", "--server", url, cwd=tmp_path)
    assert "need --all" in refused.stderr
    wrong = run("queue", "pause", "partner", "--until", "2020-01-01T00:00:00Z", "--server", url, cwd=tmp_path)
    assert "until: must lie in the future" in wrong.stderr


async def test_the_program_of_the_page_pauses_and_resumes(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    names: dict[str, Any] = {}
    exec(compile(found[1].replace("2026-", "2040-"), "pause-queues.md", "exec"), names)
    app = App(url)
    try:
        await names["upgrade"](app)
        assert (await app.client.list_pauses()).items == []
    finally:
        app.close()
    assert capsys.readouterr().out.startswith("queue partner 2040-")
