"""docs/howto/keep-history-for-years.md, done: a server that is killed at any step loses nothing of the history."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mainspring.core.ids import RunId, format_run_id
from mainspring.stores.sqlite import SqliteStore
from mainspring.testing.conformance.archive import TODAY, end_runs
from mainspring.testing.factories import START
from tests.processes.processes import await_that, run, running

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "keep-history-for-years.md").read_text()
LINES = [shlex.split(line)[1:] for line in re.findall(r"^ *(mainspring archive .*)$", PAGE, re.MULTILINE)]
QUERIES = [line for line in LINES if line[1] == "query"]
RUNS = 30

pytestmark = pytest.mark.timeout(580)  # processes start, on a host that may be busy


def fill(folder: Path) -> list[RunId]:
    """Make a store with a day that is long over."""

    async def make() -> list[RunId]:
        store = SqliteStore(folder / "mainspring.db")
        await store.open()
        try:
            return await end_runs(store, RUNS, retried=True)
        finally:
            await store.close()

    folder.mkdir(mode=0o700)
    return sorted(asyncio.run(make()))


@pytest.fixture
def site(tmp_path: Path) -> tuple[Path, list[RunId]]:
    """A store with a day of January, and a folder for the archive, in its settings."""
    (tmp_path / "archive").mkdir()
    (tmp_path / "mainspring.toml").write_text(f'[archive]\nurl = "{tmp_path / "archive"}"\n')
    return tmp_path, fill(tmp_path / "mainspring-data")


def ask(folder: Path, sql: str) -> Any:
    done = run("archive", "query", sql, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def log_of(folder: Path) -> str:
    return (folder / "stderr.log").read_text()


def serve_until(folder: Path, event: str, *, number: signal.Signals) -> None:
    """Run a server until its log has an event once more than now, and end it."""
    (folder / "stderr.log").touch()
    before = log_of(folder).count(event)
    with running("up", "--port", 0, "--slots", 0, "--log-format", "logfmt", cwd=folder) as process:
        deadline = time.monotonic() + 240
        while log_of(folder).count(event) == before:
            assert time.monotonic() < deadline, log_of(folder)[-2000:]
            time.sleep(0.02)
        process.stop(number)


def test_a_server_that_is_killed_at_each_step_loses_nothing(site: tuple[Path, list[RunId]]) -> None:
    folder, ids = site
    for event in ("archive_part_written", "archive_part_written", "history_day_archived"):
        serve_until(folder, event, number=signal.SIGKILL)
    serve_until(folder, "history_day_dropped", number=signal.SIGTERM)
    assert "Traceback" not in log_of(folder)
    assert ask(folder, "SELECT id FROM runs ORDER BY id") == [{"id": run_id} for run_id in ids]
    assert ask(folder, "SELECT count(*) AS attempts FROM attempts") == [{"attempts": RUNS}]
    days = json.loads(run("archive", "days", "--json", cwd=folder).stdout)
    assert [(day["day"], day["runs"], day["attempts"]) for day in days] == [(str(TODAY), RUNS, RUNS)]


def test_the_page(site: tuple[Path, list[RunId]]) -> None:
    folder, ids = site
    done = run("archive", "write", str(TODAY), cwd=folder)
    assert (done.returncode, "read back" in done.stdout) == (0, True), done.stderr
    assert len(QUERIES) == 4
    for line in QUERIES:
        done = run(*line, cwd=folder)
        assert done.returncode == 0, done.stderr
        assert done.stdout
    assert "CANCELLED,30" in run(*QUERIES[1], cwd=folder).stdout
    found = run("archive", "find", format_run_id(ids[3]), "--utc", cwd=folder)
    assert re.search(r"^state +CANCELLED$", found.stdout, re.MULTILINE), found
    assert f"finished_at  {START.year}-01-05T12:00:01Z" in found.stdout
    assert "boom" in found.stdout
    begins = {line.index(line.split("  ", 1)[1].lstrip()) for line in found.stdout.splitlines() if line}
    assert begins == {len("finished_at  ")}  # what is said of it, and of its attempts, is one column
    assert f"failed on worker-1 until {START.year}-01-05T12:00:01Z: boom" in found.stdout
    assert "had 60 rows of that day already" in run("archive", "write", str(TODAY), cwd=folder).stdout
    missing = run("archive", "find", format_run_id(RunId(ids[-1] + 256)), cwd=folder)
    assert (missing.returncode, "no archived run" in missing.stderr) == (2, True), missing
    again = run("archive", "write", "2026-01-04", cwd=folder)
    assert "the history has nothing that ended on 2026-01-04" in again.stderr


def test_all_commands_of_the_page_are_run_here() -> None:
    assert {line[1] for line in LINES} == {"query", "find", "write", "end"}


def test_the_archive_is_read_by_something_else(site: tuple[Path, list[RunId]]) -> None:
    folder, _ = site
    assert run("archive", "write", str(TODAY), cwd=folder).returncode == 0
    [code] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    code = code.replace("/srv/mainspring-archive", str(folder / "archive")).replace(
        "duckdb.sql(", "print(duckdb.sql("
    )
    done = subprocess.run(
        [sys.executable, "-c", code.rstrip() + ".fetchall())"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"[({RUNS},)]\n"


def unwrapped(text: str) -> str:
    """Return what was said without blanks: a path that is long may be told in two lines."""
    return "".join(text.split())


def test_a_store_says_that_it_has_an_archive_until_that_is_ended(site: tuple[Path, list[RunId]]) -> None:
    folder, ids = site
    settings = folder / "mainspring.toml"
    with_archive = settings.read_text()
    # Before the day is in the archive as a whole: it may be by the time that a server has ended well.
    serve_until(folder, "archive_part_written", number=signal.SIGKILL)
    fill(folder / "other")
    looked = run("doctor", "--data", "other", cwd=folder)
    assert f"{folder / 'archive'}isoftheinstallation" in unwrapped(looked.stdout)
    settings.write_text("")
    serve_until(folder, "archive_not_set", number=signal.SIGTERM)
    looked = run("doctor", cwd=folder)
    assert f"servers write days of the history to {folder / 'archive'}".replace(" ", "") in unwrapped(
        looked.stdout
    )
    ended = run("archive", "end", cwd=folder)
    assert ended.stdout.startswith(f"Days of the history go to {folder / 'archive'} no more"), ended
    assert "nothing is changed" in run("archive", "end", cwd=folder).stdout
    settings.write_text(with_archive)
    serve_until(folder, "history_day_dropped", number=signal.SIGTERM)
    assert ask(folder, "SELECT count(*) AS runs FROM runs") == [{"runs": len(ids)}]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://host/x", "ftp:// is no place for an archive"),
        ("archive", "a folder begins with /"),
        ("file://archive", "must have three slashes"),
        ("s3://", "must name a bucket"),
        ("s3://key:secret@bucket/x", "holds more than bucket and prefix"),
        ("s3://bucket/a/../b", "a part of its prefix that is empty, or dots"),
        ("/srv/arch*ve", "one of * ? [ ] { }"),
    ],
)
def test_a_wrong_address_is_refused_with_what_would_be_right(url: str, said: str, tmp_path: Path) -> None:
    for command in (["archive", "days"], ["up", "--port", "0"]):
        done = run(*command, cwd=tmp_path, MAINSPRING_ARCHIVE_URL=url)
        assert done.returncode != 0
        assert "archive.url" in done.stderr
        assert said in done.stderr
        assert "secret" not in done.stderr
        assert "Traceback" not in done.stderr


def test_a_run_that_is_not_in_the_store_may_be_in_the_archive(site: tuple[Path, list[RunId]]) -> None:
    folder, ids = site
    with running("up", "--port", 0, "--slots", 0, cwd=folder) as process:
        url = process.wait_for("listening on ")
        await_that("the day is removed", lambda: "history_day_dropped" in log_of(folder))
        done = run("run", "show", format_run_id(ids[0]), "--server", url, cwd=folder)
        assert f"mainspring archive find {format_run_id(ids[0])}" in done.stderr
        listed = run("archive", "days", cwd=folder)
        assert str(TODAY) in listed.stdout
