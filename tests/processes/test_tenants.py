"""Tenants by the command line and the SDK, against a real server: docs/howto/share-workers.md, done."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mainspring import App, InvalidInput
from tests.processes.processes import run, server

APP = """
from mainspring import App

app = App(tenant="acme")


@app.job()
def add(x: int) -> int:
    return x + 1
"""
PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "share-workers.md").read_text()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("tenants")
    (folder / "adding.py").write_text(APP)
    with server("adding:app", "--store", "memory://", cwd=folder) as (_, address):
        yield address


async def test_jobs_of_an_app_belong_to_its_tenant(url: str) -> None:
    app, other = App(url, tenant="acme"), App(url)
    try:
        page = await app.client.list_jobs()
        assert [job.name for job in page.items] == ["add"]
        assert (await other.client.list_jobs()).items == []
        [handle] = await app.submit("add", [{"x": 1}])
        assert (await handle.wait(timeout=20)).result == 2
    finally:
        app.close()
        other.close()


def test_the_command_line_acts_for_a_tenant(url: str, tmp_path: Path) -> None:
    listed = run("job", "list", "--tenant", "acme", "--json", "--server", url, cwd=tmp_path)
    assert [job["name"] for job in json.loads(listed.stdout)["items"]] == ["add"]
    assert "no jobs" in run("job", "list", "--server", url, cwd=tmp_path).stderr


def test_every_command_of_the_page_does_what_it_says(url: str, tmp_path: Path) -> None:
    commands = [line.split()[1:] for line in PAGE.splitlines() if line.startswith("mainspring tenant")]
    assert len(commands) == 4
    done = [run(*command, "--server", url, cwd=tmp_path) for command in commands]
    assert [one.returncode for one in done] == [0, 0, 0, 0]
    listed = run("tenant", "list", "--server", url, cwd=tmp_path)
    assert [line.split() for line in listed.stdout.splitlines()] == [
        ["TENANT", "WEIGHT", "RESERVED", "RUNNING", "MAX", "QUEUED", "MAX", "JOBS", "SUBMIT", "RATE"],
        ["acme", "7", "10"],
        ["shop", "2", "0"],
    ]
    shown = run("tenant", "show", "acme", "--json", "--server", url, cwd=tmp_path)
    assert json.loads(shown.stdout) == {
        "name": "acme",
        "weight": 7,
        "reserved": 10,
        "max_running": None,
        "running": None,
        "max_queued": None,
        "max_jobs": None,
        "submit_rate": None,
    }


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("tenant", "set", "acme", "--weight", "0"), "weight"),
        (("tenant", "set", "acme", "--reserved", "-1"), "reserved"),
        (("tenant", "set", "a b"), "tenant"),
        (("job", "list", "--tenant", "a b"), "tenant"),
    ],
)
def test_a_wrong_value_is_refused_by_name(
    url: str, tmp_path: Path, arguments: tuple[str, ...], field: str
) -> None:
    done = run(*arguments, "--server", url, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {field}: ")
    assert "Traceback" not in done.stderr


def test_an_app_refuses_what_cannot_be_a_tenant() -> None:
    with pytest.raises(InvalidInput, match="tenant"):
        App(tenant="a b")


def test_every_command_on_queues_of_the_page_does_what_it_says(url: str, tmp_path: Path) -> None:
    commands = [line.split()[1:] for line in PAGE.splitlines() if line.startswith("mainspring queue")]
    assert len(commands) == 3
    done = [run(*command, "--server", url, cwd=tmp_path) for command in commands]
    assert [one.returncode for one in done] == [0, 0, 0]
    rows = [line.split() for line in done[-1].stdout.splitlines()]
    assert rows == [
        [
            "QUEUE",
            "ORDER",
            "AGING",
            "AGING",
            "SHARE",
            "RUNNING",
            "MAX",
            "QUEUED",
            "EXPIRES",
            "AFTER",
            "PREEMPT",
            "AFTER",
        ],
        ["reports", "fair", "1800", "s", "0.25"],
        ["tickets", "fifo", "300", "s", "0.1"],
    ]
    shown = run("queue", "show", "reports", "--json", "--server", url, cwd=tmp_path)
    assert json.loads(shown.stdout) == {
        "name": "reports",
        "order": "fair",
        "aging_seconds": 1800.0,
        "aging_share": 0.25,
        "max_running": None,
        "running": None,
        "max_queued": None,
        "expires_after_seconds": None,
        "preempt_after_seconds": None,
    }
    refused = run("queue", "set", "reports", "--aging-share", "0.9", "--server", url, cwd=tmp_path)
    assert (refused.returncode, refused.stderr.startswith("error: aging_share: ")) == (2, True)


async def test_the_sdk_sets_the_order_of_a_queue(url: str) -> None:
    app = App(url)
    try:
        put = await app.client.put_queue("mail", {"order": "round_robin"})
        assert (put.name, put.order, put.aging_share) == ("mail", "round_robin", 0.1)
        assert await app.client.get_queue("mail") == put
        assert put in (await app.client.list_queues()).items
    finally:
        app.close()
