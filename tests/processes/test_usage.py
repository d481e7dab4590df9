"""docs/howto/see-how-much-runs.md, done: what a server has counted is there after it was stopped."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mainspring import App
from tests.processes.processes import run, server

APP = """
from mainspring import App

app = App()


@app.job(queue="mail", retry={"max_retries": 0})
def send(x: int) -> int:
    if not x:
        raise ValueError("no")
    return x


@app.job(queue="reports")
def report() -> None:
    pass
"""
PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "see-how-much-runs.md").read_text()


def usage(url: str, *options: str) -> Any:
    done = run("usage", *options, "--json", "--server", url)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_page_by_the_minute_the_hour_and_the_queue(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP)
    data = ("--data", tmp_path / "data")
    with server("shop:app", *data, cwd=tmp_path) as (process, url):
        app = App(url)
        handles = app.submit_sync("send", [{"x": 1}, {"x": 2}, {"x": 0}]) + app.submit_sync("report", [{}])
        assert [handle.wait_sync(30).status for handle in handles].count("SUCCEEDED") == 3
        app.close()
        process.stop()
    with server(*data, "--slots", 0, cwd=tmp_path) as (_, url):
        found = usage(url)
        assert found["step"] == "minute"
        total = found["total"]
        assert (total["submitted"], total["started"], total["succeeded"], total["failed"]) == (4, 4, 3, 1)
        assert 0 <= total["lag"]["p50"] <= total["lag"]["p99"]
        assert total["duration"]["mean"] > 0
        assert [(queue["queue"], queue["started"]) for queue in found["queues"]] == [
            ("mail", 3),
            ("reports", 1),
        ]
        assert sum(step["started"] for step in found["steps"]) == 4

        only = usage(url, "--queue", "reports")
        assert (only["total"]["started"], only["total"]["failed"]) == (1, 0)

        words = [line.removeprefix("$ ").split() for line in PAGE.splitlines() if line.startswith("$ ")]
        assert all(each[:2] == ["mainspring", "usage"] for each in words)
        for each in words:
            done = run(*each[1:], "--server", url)
            assert done.returncode == 0, done.stderr
            heading = PAGE[PAGE.index("$ " + " ".join(each)) :].splitlines()[1].split()
            assert (
                done.stdout.splitlines()[0].split() == heading
                if done.stdout
                else "nothing happened" in done.stderr
            )

        table = run("usage", "--by-queue", "--server", url).stdout.splitlines()
        assert [line.split()[0] for line in table] == ["QUEUE", "mail", "reports", "all"]
        assert re.fullmatch(r"mail +3 +0 +3 +2 +1 +0 +\d+ms / \d+ms +\d+ms / \d+ms", table[1]), table[1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--since", "40d"), "at most 31 days"),
        (("--since", "4h", "--step", "minute"), "at most 3 hours"),
        (("--since", "yesterday"), "since"),
        (("--since", "1h", "--until", "2h"), "not before"),
        (("--step", "day"), "hour"),
    ],
)
def test_wrong_times_are_named(tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    with server("--store", "memory://", "--slots", 0, cwd=tmp_path) as (_, url):
        done = run("usage", *options, "--server", url)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
