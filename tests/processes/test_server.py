"""`mainspring server`: several on one PostgreSQL, split in two, and what is refused."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mainspring.cli.calling import call
from mainspring.cli.main import run_command
from tests.processes.processes import Running, await_that, run, running

if TYPE_CHECKING:
    from mainspring.sdk.client import AsyncClient

DSN = "postgresql://nobody@127.0.0.1:9/none"
APP = """
from mainspring import App

app = App()


@app.job(name="add")
async def add(x: int, y: int) -> int:
    return x + y


@app.job(name="tick", every="1s")
async def tick() -> None: ...
"""
pytestmark = pytest.mark.timeout(600)  # many processes start, on a host that may be busy


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(APP)
    return tmp_path


@contextlib.contextmanager
def server(dsn: str, *arguments: object, cwd: Path, port: object = 0) -> Iterator[tuple[Running, str]]:
    with running(
        "server", "--store", dsn, "--port", port, "--beat-period", 1, *arguments, cwd=cwd
    ) as process:
        yield process, process.wait_for("listening on ")


def add(url: str) -> None:
    """Have a run carried out by way of the server at `url`."""

    async def submit(client: AsyncClient) -> str:
        (job,) = (await client.list_jobs(name="add")).items
        return (await client.submit_run(job.job_id, {"payload": {"x": 2, "y": 3}})).run_id

    run_id = call(url, submit)
    await_that("the run does not end", lambda: call(url, lambda client: client.get_run(run_id)).result == 5)


def ticks(url: str) -> set[str]:
    """Return the runs that the clock made and the worker carried out."""

    async def list_them(client: AsyncClient) -> set[str]:
        (job,) = (await client.list_jobs(name="tick")).items
        page = await client.list_runs(job_id=job.job_id, state="SUCCEEDED")
        return {run.run_id for run in page.items}

    return call(url, list_them)


def assert_works(url: str) -> None:
    """See a run done and the clock's fires go on."""
    add(url)
    before = ticks(url)
    await_that("no more ticks", lambda: ticks(url) - before)


@pytest.mark.postgres
def test_servers_on_one_store_stand_in_for_each_other(folder: Path, postgres_database: str) -> None:
    with contextlib.ExitStack() as stack:
        first, first_url = stack.enter_context(server(postgres_database, cwd=folder))
        second, second_url = stack.enter_context(server(postgres_database, cwd=folder))
        both = f"{first_url},{second_url}"
        worker = stack.enter_context(running("worker", "shop:app", "--server", both, cwd=folder))
        worker.wait_for("ready")
        assert_works(first_url)
        assert_works(second_url)
        first.process.kill()
        assert_works(second_url)
        port = first_url.rpartition(":")[2]
        again, _ = stack.enter_context(server(postgres_database, cwd=folder, port=port))
        second.process.kill()  # whichever of the two the worker had chosen is gone by now
        assert_works(first_url)
        assert worker.stop() == 0
        assert again.stop() == 0
    assert "Traceback" not in (folder / "stderr.log").read_text()


@pytest.mark.postgres
def test_api_and_scheduler_apart(folder: Path, postgres_database: str) -> None:
    with contextlib.ExitStack() as stack:
        api, url = stack.enter_context(server(postgres_database, "--no-scheduler", cwd=folder))
        worker = stack.enter_context(running("worker", "shop:app", "--server", url, cwd=folder))
        worker.wait_for("ready")
        add(url)
        assert ticks(url) == set()
        schedulers = [
            stack.enter_context(
                running("server", "--store", postgres_database, "--no-api", "--beat-period", 1, cwd=folder)
            )
            for _ in range(2)  # of two with a port, the second would not find it free
        ]
        for scheduler in schedulers:
            scheduler.wait_for("scheduling")
        assert_works(url)
        for process in (worker, *schedulers, api):
            assert process.stop() == 0
        for scheduler in schedulers:
            assert scheduler.lines == ["scheduling\n"]
    assert "Traceback" not in (folder / "stderr.log").read_text()


def test_a_server_stops_while_a_worker_waits_for_work(folder: Path) -> None:
    options = ("--store", "memory://", "--port", 0, "--drain", 86_400)
    with running("server", *options, cwd=folder) as process:
        url = process.wait_for("listening on ")
        with running("worker", "shop:app", "--server", url, cwd=folder) as worker:
            worker.wait_for("ready")
            assert process.stop() == 0
            assert worker.stop() == 0
    assert "Traceback" not in (folder / "stderr.log").read_text()


def test_a_server_alone_on_sqlite(folder: Path) -> None:
    with running("server", "--data", "data", "--port", 0, cwd=folder) as process:
        url = process.wait_for("listening on ")
        assert call(url, lambda client: client.list_jobs()).items == []
        second = run("server", "--data", "data", "--port", 0, cwd=folder)
        assert (second.returncode, second.stdout) == (1, "")
        assert "in use" in second.stderr
        assert process.stop() == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--store", DSN, "--no-api", "--no-scheduler"), "no_scheduler: together with no_api it leaves"),
        (("--no-api",), "no_api: a store in SQLite can have one process only"),
        (("--no-scheduler", "--data", "x"), "no_scheduler: a store in SQLite can have one"),
        (("--no-scheduler", "--store", "memory://"), "no_scheduler: a store in memory can have one"),
        (("--store", DSN, "--no-api", "--port", "8620"), "port: with --no-api nothing is served"),
        (("--store", DSN, "--no-api", "--host", "::1"), "host: with --no-api nothing is served"),
        (("--store", "mysql://x"), "store: "),
        (("--store", DSN, "--data", "x"), "store: "),
        (("--host", "0.0.0.0"), "host: 0.0.0.0 is not a loopback address"),
        (("--port", "70000"), "port: "),
        (("--beat-period", "nan"), "beat_period: nan is not a number of seconds"),
        (("--beat-period", "0"), "beat_period: "),
        (("--drain", "nan"), "drain: nan is not a number of seconds"),
        (("--callback-allow", "a:b:c"), "callback_allow: 'a:b:c' is neither"),
    ],
)
def test_what_is_refused_is_one_line(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["server", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {said}")
    assert error.count("\n") == 1


def test_a_server_has_no_worker_to_give_slots(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["server", "--slots", "1"]) == 2
    assert "No such option '--slots'" in capsys.readouterr().err
