"""Caps and rates by the command line and the SDK, against a real server: docs/howto/bound-the-backlog.md, done."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainspring import App, TooMany
from tests.processes.processes import run, server

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "bound-the-backlog.md").read_text()
SETTERS = sorted(set(re.findall(r"^mainspring ((?:queue|tenant) set .*)$", PAGE, re.MULTILINE)))
APP = """
from mainspring import App

app = App()


@app.job(queue="mail")
async def mail(order: str) -> None: ...
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("intake")
    (folder / "mailing.py").write_text(APP)
    arguments = ("mailing:app", "--data", str(folder / "data"), "--slots", "0")
    with server(*arguments, cwd=folder) as (_, address):
        yield address


@pytest.mark.parametrize("command", SETTERS)
def test_commands_of_the_page_are_taken(url: str, command: str) -> None:
    noun, verb, name, *options = command.split()
    done = run(noun, verb, f"{name}-of-the-page", *options, "--json", "--server", url)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["name"] == f"{name}-of-the-page"


async def test_a_full_queue_raises_in_python_and_is_told_in_words(url: str) -> None:
    app = App(url)

    @app.job(queue="mail")
    async def mail(order: str) -> None:
        raise AssertionError("nothing carries it out")

    handles = await mail.enqueue_many([["o-1"], ["o-2"], ["o-3"]])
    assert run("queue", "set", "mail", "--max-queued", "2", "--server", url).returncode == 0

    async def submit_until_refused() -> None:
        while True:  # the server hears of the cap within a second
            handles.append(await mail.enqueue("more"))

    with pytest.raises(TooMany) as caught:
        await submit_until_refused()
    assert (caught.value.field, 1 <= caught.value.retry_after <= 60) == ("max_queued", True)
    told = run("job", "run", "mail", "--payload", '["o-4"]', "--server", url)
    assert told.returncode == 1
    assert re.fullmatch(
        r"error: (at least )?[\d,]+ runs of queue 'mail' wait, and its max_queued is 2; try again in \d+ s\n",
        told.stderr,
    )
    counted = json.loads(run("run", "count", "--json", "--server", url).stdout)
    assert counted["PENDING"] == len(handles)
    app.close()
