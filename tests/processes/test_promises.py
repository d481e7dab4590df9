"""docs/howto/promise-how-soon-runs-start.md and know-when-you-need-more-workers.md, done on a server with a past."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mainspring import App
from mainspring.config.settings import Settings, StoreLocation
from mainspring.core.usage import BOUNDS, Times, Usage, UsageLine, UsageStep
from mainspring.runtime import open_engine
from tests.processes.processes import run_here, server
from tests.processes.test_alerts import ask

HOWTO = Path(__file__).parents[2] / "docs" / "howto"
PROMISE = (HOWTO / "promise-how-soon-runs-start.md").read_text()
CAPACITY = (HOWTO / "know-when-you-need-more-workers.md").read_text()
APP = """
from mainspring import App

app = App()


@app.job(queue="reports", cron="0 2 * * *")
def report() -> None:
    pass
"""
HOUR = timedelta(hours=1)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def commands_of(page: str) -> list[list[str]]:
    """Return the commands that a page has in blocks."""
    found = re.findall(r"^\$ mainspring (.*)$", page, re.MULTILINE)
    return [shlex.split(text) for text in found]


async def put_on_record(folder: Path) -> None:
    """Have a day of usage: 1,000 runs an hour of 2.1 s each, one of which started late."""
    counts = [0] * (len(BOUNDS) + 1)
    counts[0], counts[BOUNDS.index(30.0)] = 999, 1
    usage = Usage(
        submitted=1000,
        started=1000,
        succeeded=995,
        failed=5,
        lags=Times(counts=tuple(counts), total=30.0),
        durations=Times(counts=tuple(counts), total=2100.0),
    )
    async with open_engine(Settings(store=StoreLocation("sqlite", str(folder)))) as engine:
        this_hour = UsageStep.HOUR.start_of(engine.clock.now())
        lines = [
            UsageLine(at=this_hour - ago * HOUR, tenant="default", queue="mail", usage=usage)
            for ago in range(1, 25)
        ]
        assert await engine.store.write_usage_hours(lines, epochs={0: engine.ownership.epochs[0]})


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "shop.py").write_text(APP)
    (tmp_path / "data").mkdir()
    asyncio.run(put_on_record(tmp_path / "data"))
    with server("shop:app", "--data", tmp_path / "data", "--slots", 8, cwd=tmp_path) as (_, url):
        ask(url, "channel", "set", "ops", "--cluster", "--webhook", "https://hooks.example.com/x")
        yield url


def carry_out(url: str, command: list[str]) -> str:
    done = run_here(*command, "--server", url)
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def heading_below(page: str, command: str) -> list[str]:
    """Return the heading of the table that a page shows below a command."""
    return page[page.index(f"$ mainspring {command}") :].splitlines()[1].split()


def test_every_command_of_the_page_on_promises(url: str) -> None:
    commands = commands_of(PROMISE)
    assert [command[:2] for command in commands] == [
        ["slo", "add"],
        ["slo", "list"],
        ["slo", "add"],
        ["slo", "show"],
        ["slo", "remove"],
        ["alert", "set"],
        ["alert", "set"],
    ]
    carry_out(url, commands[0])
    table = carry_out(url, commands[1]).splitlines()
    assert table[0].split() == heading_below(PROMISE, "slo list")
    assert re.match(r"quick-mail  mail   99\.9 % start in 5s  99\.9 %  0 % ", table[1]), table[1]
    for command in commands[2:]:
        carry_out(url, command)
    assert [one["name"] for one in ask(url, "slo", "list")["items"]] == ["quick-mail"]
    rules = {one["name"]: one for one in ask(url, "alert", "rules", "--cluster")["items"]}
    assert [rules[name]["channels"] for name in ("budget", "budget_slow")] == [["ops"], ["ops"]]
    for inline in ("usage --since 3h --by-queue", "dead groups"):
        assert f"`mainspring {inline}`" in PROMISE
        carry_out(url, inline.split())


def test_the_python_of_the_page_on_promises(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    [code] = re.findall(r"```python\n(.*?)```", PROMISE, re.DOTALL)
    body = "".join(f"    {line}\n" for line in code.splitlines())
    names: dict[str, Any] = {}
    exec(f"async def example(client):\n{body}", names)

    async def example() -> None:
        app = App(url)
        try:
            await names["example"](app.client)
        finally:
            app.close()

    asyncio.run(example())
    share, left = capsys.readouterr().out.split()
    assert float(share) == 0.999
    assert float(left) == pytest.approx(0, abs=1e-6)


def test_every_command_of_the_page_on_capacity(url: str) -> None:
    commands = commands_of(CAPACITY)
    assert [command[0] for command in commands] == ["capacity", "alert", "alert"]
    lines = carry_out(url, commands[0]).splitlines()
    assert lines[0].split() == heading_below(CAPACITY, "capacity --cluster")
    rows = {line.split()[0]: line for line in lines[1 : lines.index("")]}
    assert sorted(rows) == ["mail", "reports"]  # the latter has a schedule and no past
    assert "2.1s" in rows["mail"]
    assert "02:00" in rows["reports"]
    shown = [line.split()[0] for line in lines[lines.index("") + 1 :]]
    assert shown == ["history", "store", "disk"]
    for command in commands[1:]:
        carry_out(url, command)
    rules = {one["name"]: one for one in ask(url, "alert", "rules", "--cluster")["items"]}
    assert rules["forecast"]["channels"] == ["ops"]
    assert (rules["disk"]["channels"], rules["disk"]["threshold"]) == (["ops"], 10)


def test_the_python_of_the_page_on_capacity(url: str) -> None:
    assert 'await client.get_capacity(scope="cluster")' in CAPACITY

    async def example() -> list[str]:
        app = App(url)
        try:
            return [one.queue for one in (await app.client.get_capacity(scope="cluster")).queues]
        finally:
            app.close()

    assert asyncio.run(example()) == ["mail", "reports"]
    own = ask(url, "capacity")
    assert own["disk"] is None
    assert [one["queue"] for one in own["queues"]] == ["mail", "reports"]
