"""`mainspring worker --processes N`, with real processes."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mainspring.cli.calling import call
from mainspring.cli.main import run_command
from tests.processes.processes import Running, await_that, run, running

if TYPE_CHECKING:
    from mainspring.sdk.client import AsyncClient

APP = """
import asyncio, pathlib
from mainspring import App

app = App()


@app.job(name="slow")
async def slow(folder: str) -> None:
    pathlib.Path(folder, "began").touch()
    while not pathlib.Path(folder, "go-on").exists():
        await asyncio.sleep(0.05)
    pathlib.Path(folder, "ended").touch()
"""
pytestmark = pytest.mark.timeout(600)  # many processes start, on a host that may be busy


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(APP)
    return tmp_path


@contextlib.contextmanager
def two_workers(folder: Path, beat_period: float = 300) -> Iterator[tuple[Running, str]]:
    """Two processes and a server, which forgets silent ones not before the test is over."""
    options = ("--store", "memory://", "--port", 0, "--beat-period", beat_period)
    with running("server", *options, cwd=folder) as server:
        url = server.wait_for("listening on ")
        arguments = ("worker", "shop:app", "--server", url, "--name", "w", "--processes", 2, "--drain", 60)
        with running(*arguments, cwd=folder) as parent:
            parent.wait_for("ready")
            yield parent, url
        assert server.stop() == 0
    assert "Traceback" not in (folder / "stderr.log").read_text()


def workers(url: str) -> dict[int, str]:
    """Return the names of live workers by process."""
    return {worker.pid: worker.name for worker in call(url, lambda client: client.list_workers()).items}


def is_gone(pid: int) -> bool:
    """Whether a process has ended, be it that nobody has buried it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def begin(url: str, folder: Path) -> str:
    """Have the slow job begun."""

    async def submit(client: AsyncClient) -> str:
        (job,) = (await client.list_jobs(name="slow")).items
        return (await client.submit_run(job.job_id, {"payload": [str(folder)]})).run_id

    run_id = call(url, submit)
    await_that("the job does not begin", (folder / "began").exists)
    return run_id


def test_one_that_is_killed_comes_back_and_all_end_together(folder: Path) -> None:
    with two_workers(folder) as (parent, url):
        before = workers(url)
        assert sorted(before.values()) == ["w-1", "w-2"]
        assert parent.process.pid not in before
        victim = min(before)
        os.kill(victim, signal.SIGKILL)
        await_that("nobody comes back", lambda: len(workers(url)) == 3)
        (fresh,) = workers(url).keys() - before.keys()
        assert workers(url)[fresh] == before[victim]
        assert parent.stop() == 0
        assert workers(url).keys() == {victim}  # nobody has missed it yet; the others took their leave
        assert all(is_gone(pid) for pid in (*before, fresh))
        assert parent.lines == ["ready\n"]
        assert parent.process.stdout is not None
        assert parent.process.stdout.read() == "stopping\n"


def test_a_parent_that_is_killed_leaves_nobody_behind_and_nothing_undone(folder: Path) -> None:
    with two_workers(folder) as (parent, url):
        pids = list(workers(url))
        run_id = begin(url, folder)
        parent.process.kill()
        await_that("both stay", lambda: len(workers(url)) == 1)  # the idle one leaves at once
        (folder / "go-on").touch()
        await_that("one stays", lambda: all(map(is_gone, pids)))
        assert workers(url) == {}
        assert call(url, lambda client: client.get_run(run_id)).status == "SUCCEEDED"


def test_a_stop_waits_for_what_is_under_way_and_a_second_signal_does_not(folder: Path) -> None:
    with two_workers(folder) as (parent, url):
        pids = list(workers(url))
        begin(url, folder)
        parent.process.send_signal(signal.SIGTERM)
        parent.wait_for("stopping")
        await_that("both stay", lambda: len(workers(url)) == 1)
        assert parent.process.poll() is None
        assert parent.stop() == 130
        await_that("one stays", lambda: all(map(is_gone, pids)))
        assert not (folder / "ended").exists()


def test_signals_to_all_of_the_group_count_once(folder: Path) -> None:
    with two_workers(folder) as (parent, url):
        pids = list(workers(url))
        begin(url, folder)
        for pid in (parent.process.pid, *pids):  # as a terminal or a service manager does
            os.kill(pid, signal.SIGTERM)
        await_that("both stay", lambda: len(workers(url)) == 1)
        (folder / "go-on").touch()
        assert parent.process.wait(60) == 0
        assert (folder / "ended").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("absent:app",), 2, "MODULE:APP: there is no module 'absent'"),
        (("--server", "nonsense"), 2, "server: must be an address like http://127.0.0.1:8620"),
        (("--store", "postgresql://nobody:secret@127.0.0.1:9/none"), 1, "PostgreSQL did not answer"),
    ],
)
def test_what_is_refused_is_said_once(folder: Path, arguments: tuple[str, ...], code: int, said: str) -> None:
    done = run("worker", "--processes", 3, *arguments, cwd=folder)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(f"error: {said}")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("count", ["0", "-1", "10001"])
def test_a_number_of_processes_that_cannot_be(count: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["worker", "--processes", count]) == 2
    assert capsys.readouterr().err == f"error: processes: {count} is not between 1 and 10000\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--server", "http://a", "--store", "postgresql://b"), "store: works without a server"),
        (("--server", "http://a", "--beat-period", "1"), "beat_period: is set by the server"),
        (("--store", "postgresql://b", "--beat-period", "nan"), "beat_period: nan is not a number"),
    ],
)
def test_options_that_do_not_go_together(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["worker", *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"error: {said}")
