"""Caps by the command line and the SDK, against a real server and its worker: docs/howto/cap-what-runs.md, done."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainspring import App, InvalidInput
from tests.processes.processes import run, server

APP = """
import asyncio

from mainspring import App

app = App()
now = most = 0


@app.job(queue="mail", retry={"max_retries": 0})
async def send() -> int:
    global now, most
    now += 1
    most = max(most, now)
    await asyncio.sleep(0.02)
    now -= 1
    return most
"""
HOWTO = Path(__file__).parents[2] / "docs" / "howto"
PAGE = (HOWTO / "cap-what-runs.md").read_text()
LIMITS = (HOWTO / "limit-runs.md").read_text()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("caps")
    (folder / "sending.py").write_text(APP)
    with server("sending:app", cwd=folder) as (_, address):
        yield address


def test_the_commands_of_the_page_set_and_unset_caps(url: str, tmp_path: Path) -> None:
    blocks = [block.splitlines() for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)]
    for line in blocks[0]:
        done = run(*shlex.split(line)[1:], "--server", url, cwd=tmp_path)
        assert done.returncode == 0, (line, done.stderr)
    listed = run("label", "list", "--server", url, cwd=tmp_path)
    assert [line.split() for line in listed.stdout.splitlines()] == [
        ["LABEL", "RUNNING"],
        ["gpu", "0", "of", "4"],
    ]
    assert ["mail", "fair", "300", "s", "0.1", "0", "of", "40"] in [
        line.split() for line in run("queue", "list", "--server", url, cwd=tmp_path).stdout.splitlines()
    ]
    shown = run("tenant", "show", "acme", "--json", "--server", url, cwd=tmp_path)
    assert (json.loads(shown.stdout)["max_running"], json.loads(shown.stdout)["running"]) == (200, 0)
    for line in blocks[1]:
        done = run(*shlex.split(line)[1:], "--server", url, cwd=tmp_path)
        assert done.returncode == 0, (line, done.stderr)
    for noun, name in (("queue", "mail"), ("tenant", "acme"), ("label", "gpu")):
        shown = run(noun, "show", name, "--json", "--server", url, cwd=tmp_path)
        assert json.loads(shown.stdout)["max_running"] is None
    refused = run("label", "set", "gpu", "--max-running", "0", "--server", url, cwd=tmp_path)
    assert (refused.returncode, "between 1 and" in refused.stderr) == (2, True)


async def test_no_more_run_at_once_than_the_cap_says(url: str) -> None:
    app = App(url)
    try:
        assert (await app.client.put_queue("mail", {"max_running": 3})).max_running == 3
        handles = await app.submit("send", [{} for _ in range(40)])
        results = [(await handle.wait(timeout=60)).result for handle in handles]
        assert max(results) == 3
        assert (await app.client.get_queue("mail")).running == 0
        put = await app.client.put_label("gpu", {"max_running": 4})
        assert put in (await app.client.list_labels()).items
        await app.client.delete_label("gpu")
        assert (await app.client.get_label("gpu")).max_running is None
        with pytest.raises(InvalidInput):
            await app.client.put_label("gpu", {"max_running": -1})
    finally:
        app.close()


def test_limits_of_the_cluster_are_set_by_the_commands_of_the_page(url: str, tmp_path: Path) -> None:
    lines = [line for line in LIMITS.splitlines() if line.startswith("mainspring") and "--cluster" in line]
    assert len(lines) == 2
    for line in lines:
        done = run(*shlex.split(line)[1:], "--server", url, cwd=tmp_path)
        assert done.returncode == 0, (line, done.stderr)
    listed = run("limit", "list", "--cluster", "--json", "--server", url, cwd=tmp_path)
    assert [limit["name"] for limit in json.loads(listed.stdout)["items"]] == ["partner"]
    assert json.loads(run("limit", "list", "--json", "--server", url, cwd=tmp_path).stdout)["items"] == []
    gone = run("limit", "rm", "partner", "--cluster", "--server", url, cwd=tmp_path)
    assert gone.returncode == 0
