"""`mainspring dead` on a real server: groups, lists, discards, and what becomes of a retry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from mainspring import App
from tests.processes.processes import run, server

_APP = """
from mainspring import App

app = App()


@app.job(retry={"max_retries": 0})
def charge(order: int) -> int:
    if order % 2:
        raise ValueError(f"order {order} has no customer")
    raise TimeoutError("no answer within 5 s")
"""
GROUP = "ValueError: order # has no customer"


@pytest.fixture
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("dead")
    (folder / "app.py").write_text(_APP)
    with server("app:app", "--data", "data", cwd=folder) as (_, address):
        app = App(address)
        handles = app.submit_sync("charge", [{"order": number} for number in range(5)])
        assert {handle.wait_sync(30).status for handle in handles} == {"FAILED"}
        app.close()
        yield address


def listed(url: str, *options: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = json.loads(run("dead", "list", "--json", "--server", url, *options).stdout)[
        "items"
    ]
    return items


def test_what_failed_is_gone_through(url: str) -> None:
    groups = run("dead", "groups", "--server", url).stdout.splitlines()
    assert groups[0].split()[:2] == ["COUNT", "JOB"]
    assert [line.split()[:2] for line in groups[1:]] == [["3", "charge"], ["2", "charge"]]
    assert groups[2].endswith(GROUP)
    few = run("dead", "list", "--limit", "2", "--server", url)
    assert len(few.stdout.splitlines()) == 3
    assert few.stderr.startswith("for older ones, add --before run_")
    assert len(listed(url, "--group", GROUP)) == 2
    assert listed(url, "--error", "nothing of the kind") == []

    discard = ("dead", "discard", "--group", GROUP, "--because", "test orders", "--server", url)
    assert run(*discard, "--dry-run").stdout == "2 dead letters would be discarded\n"
    refused = run(*discard, text="n\n")
    assert (refused.returncode, refused.stdout) == (0, "")
    assert refused.stderr == "Discard 2 dead letters for good? [y/N]: nothing was discarded\n"
    refused = run(*discard, "--json", text="n\n")
    assert (refused.returncode, refused.stdout) == (0, "")
    assert run(*discard, text="y\n").stdout == "2 dead letters discarded\n"
    assert run(*discard, "--yes").stdout == "0 dead letters discarded\n"

    first, *others = [letter["run_id"] for letter in listed(url)]
    assert len(others) == 2
    assert run("run", "retry", first, "--wait", "30", "--server", url).returncode == 3
    settled = run("dead", "list", "--settled", "--server", url).stdout
    assert settled.count("discarded: test orders") == 2
    assert settled.count("run again as run_") == 1
    shown = run("dead", "show", first, "--server", url).stdout
    assert ": run again as run_" in shown
    # The new run has failed, too, and is a dead letter of its own.
    assert [letter["run_id"] for letter in listed(url)][1:] == others
    one = run("dead", "discard", others[0], "--because", "late", "--server", url)
    assert one.stdout == "1 dead letter discarded\n"
    again = run("run", "retry", others[0], "--server", url)
    assert (again.returncode, "was discarded at" in again.stderr, "late" in again.stderr) == (2, True, True)


def test_many_are_run_again(url: str) -> None:
    redrive = ("dead", "redrive", "--error", "has no customer", "--server", url)
    assert run(*redrive, "--dry-run").stdout.splitlines() == [
        "2 dead letters would be run again",
        "JOB     RAN BY VERSION  COUNT",
        "charge  1               2",
    ]
    refused = run(*redrive, text="n\n")
    assert (refused.returncode, refused.stdout) == (0, "")
    assert refused.stderr == "Run 2 dead letters again, 10 a second? [y/N]: nothing is run again\n"
    # With room for one run, and one there that nobody takes, no redrive gets anywhere.
    assert run("queue", "pause", "default", "--server", url).returncode == 0
    assert run("job", "run", "charge", "--payload", '{"order": 2}', "--server", url).returncode == 0
    assert run("queue", "set", "default", "--max-queued", "1", "--server", url).returncode == 0
    slow = json.loads(run(*redrive, "--yes", "--json").stdout)["redrive"]
    paused = run("redrive", "pause", slow["redrive_id"], "--server", url)
    assert paused.stdout.splitlines()[1].split() == ["state", "paused"]
    assert run("queue", "set", "default", "--server", url).returncode == 0
    assert run("queue", "resume", "default", "--server", url).returncode == 0
    made = run(*redrive, "--rate", "500", "--yes", "--wait")
    assert made.stdout.endswith(" done: 2 of 2 dead letters run again\n"), made
    listed_ones = run("redrive", "list", "--server", url).stdout.splitlines()
    assert [line.split()[1] for line in listed_ones] == ["STATE", "done", "paused"]
    assert run("redrive", "cancel", slow["redrive_id"], "--server", url).returncode == 0
    shown = json.loads(run("redrive", "show", slow["redrive_id"], "--json", "--server", url).stdout)
    assert (shown["state"], shown["filter"]["error"], shown["rate"]) == ("cancelled", "has no customer", 10)
    again = run("redrive", "resume", slow["redrive_id"], "--server", url)
    assert (again.returncode, again.stderr) == (2, "error: state: the redrive is cancelled already\n")
    settled = listed(url, "--settled", "--error", "has no customer")
    assert [one["settled"]["settlement"] for one in settled][-2:] == ["redriven"] * 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("discard", "--because", "x"), "error: run: name runs, or choose them by an option"),
        (("discard", "--error", "x"), "Missing option '--because'"),
        (("discard", "run_zz", "--because", "x"), "error: run: 'run_zz' is not an id"),
        (("list", "--job", "nothing"), "error: job: there is no job named 'nothing'"),
        (("discard", "--since", "soon", "--because", "x", "--yes"), "error: since: "),
        (("groups", "--limit", "0"), "limit"),
        (("redrive",), "error: run: name runs, or choose them by an option"),
        (("redrive", "--error", "none", "--yes"), "error: filter: means no dead letter that is open"),
        (("redrive", "--error", "no", "--rate", "0"), "error: rate: 0 is not between 1 and 1000"),
    ],
)
def test_what_cannot_be_is_refused_by_its_option(url: str, arguments: tuple[str, ...], said: str) -> None:
    done = run("dead", *arguments, "--server", url)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert len(listed(url)) == 5
