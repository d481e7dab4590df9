"""Limits by the command line and the SDK, against a real server: docs/howto/limit-runs.md, done."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainspring import App, InvalidInput, Limit
from tests.processes.processes import run, server

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "limit-runs.md").read_text()
APP = """
import asyncio
import time

from mainspring import App, Limit

app = App()


@app.job(concurrency=Limit(key="$.customer", limit=2))
async def sync(customer: str, number: int = 0) -> list:
    begun = time.monotonic()
    await asyncio.sleep(0.02)
    return [customer, begun, time.monotonic()]


@app.job(concurrency=Limit(rate="20/s", burst=2))
async def call() -> float:
    return time.monotonic()
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("limits")
    (folder / "syncing.py").write_text(APP)
    with server("syncing:app", "--data", str(folder / "data"), cwd=folder) as (_, address):
        yield address


def client_of(url: str) -> tuple[App, object, object]:
    app = App(url)

    @app.job(concurrency=Limit(key="$.customer", limit=2))
    async def sync(customer: str, number: int = 0) -> list[object]:
        raise AssertionError("the server carries it out")

    @app.job(concurrency=Limit(rate="20/s", burst=2))
    async def call() -> float:
        raise AssertionError("the server carries it out")

    return app, sync, call


async def test_no_customer_has_more_than_two_at_a_time(url: str) -> None:
    app, sync, _ = client_of(url)
    try:
        handles = await asyncio.gather(*(sync.enqueue(name, 1) for name in "aaaaaaabbb"))  # type: ignore[attr-defined]
        results = [(await handle.wait(timeout=30)).result for handle in handles]
    finally:
        app.close()
    assert Counter(customer for customer, _, _ in results) == {"a": 7, "b": 3}
    for name in "ab":
        steps = sorted(
            step
            for customer, begun, ended in results
            if customer == name
            for step in ((begun, 1), (ended, -1))
        )
        running = [sum(change for _, change in steps[: place + 1]) for place in range(len(steps))]
        assert max(running) <= 2


async def test_no_more_start_than_the_rate_allows(url: str) -> None:
    app, _, call = client_of(url)
    try:
        handles = await asyncio.gather(*(call.enqueue() for _ in range(8)))  # type: ignore[attr-defined]
        starts = sorted([(await handle.wait(timeout=30)).result for handle in handles])
    finally:
        app.close()
    # Between the server's decision and the first act of a run lies some time, so an early window may look fuller.
    assert starts[-1] - starts[0] >= (8 - 2 - 1) / 20


async def test_a_submission_without_its_key_is_refused(url: str) -> None:
    app = App(url)
    try:
        [job] = (await app.client.list_jobs(name="sync")).items
        with pytest.raises(InvalidInput, match=r"concurrency\[0\].key needs it"):
            await app.submit(job.name, [{"shop": "a"}])
    finally:
        app.close()


def test_every_command_of_the_page_does_what_it_says(url: str, tmp_path: Path) -> None:
    commands = [line.split()[1:] for line in PAGE.splitlines() if line.startswith("mainspring ")]
    assert len(commands) == 9
    for command in commands:
        done = run(*command, "--server", url, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    shown = run("limit", "show", "crm", "--json", "--server", url, cwd=tmp_path)
    assert json.loads(shown.stdout) == {
        "name": "crm",
        "max_running": 5,
        "rate": "10/s",
        "burst": None,
        "hold": "attempt",
    }
    listed = run("limit", "list", "--server", url, cwd=tmp_path)
    assert listed.stdout.splitlines()[0].split() == ["LIMIT", "MAX", "RUNNING", "RATE", "BURST", "HOLD"]
    assert "no run stands under it" in run("limit", "keys", "crm", "--server", url, cwd=tmp_path).stderr
    assert run("limit", "rm", "crm", "--server", url, cwd=tmp_path).stdout == "deleted crm\n"
    assert run("limit", "rm", "crm", "--server", url, cwd=tmp_path).returncode == 2


def test_every_definition_of_the_page_is_taken(url: str, tmp_path: Path) -> None:
    for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL):
        body = {**json.loads(text), "name": "of-the-page", "callback_url": "https://example.com/"}
        arguments = ["--concurrency", json.dumps(body["concurrency"])]
        done = run(
            *("job", "add", body["name"], "--callback-url", body["callback_url"], *arguments),
            *("--server", url),
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stderr
        assert run("job", "rm", body["name"], "--server", url, cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("limit", "set", "crm"), "max_running"),
        (("limit", "set", "crm", "--max-running", "0"), "max_running"),
        (("limit", "set", "crm", "--rate", "5"), "rate"),
        (("limit", "set", "crm", "--max-running", "1", "--burst", "2"), "burst"),
        (("limit", "set", "a b", "--max-running", "1"), "limit"),
        (("job", "add", "x", "--callback-url", "https://example.com/", "--concurrency", "0"), "concurrency"),
    ],
)
def test_a_wrong_value_is_refused_by_name(
    url: str, tmp_path: Path, arguments: tuple[str, ...], field: str
) -> None:
    done = run(*arguments, "--server", url, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {field}: ")
    assert "Traceback" not in done.stderr
