"""The frame that the other tests stand in: the services script and the fixtures on it."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Literal

import asyncpg
import pytest

from tests.support.durations import lines_by_folder

ROOT = Path(__file__).parents[1]
SERVICES = ROOT / "scripts" / "services"
SKIPPING = """
import pytest
@pytest.mark.parametrize("n", [1, 2])
def test_needs_a_server(postgres_database, n): pass
def test_needs_nothing(): pass
"""


def environment_without(*prefixes: str) -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith(prefixes)}


LOGGING = """
import pytest, structlog
LIMIT = 480
KEPT = structlog.get_config()
def test_sets_it_anew(): structlog.reset_defaults()
def test_has_it_as_it_was(): assert structlog.get_config() == KEPT
@pytest.mark.timeout(120)
def test_of_a_limit(request): assert request.node.get_closest_marker("timeout").args == (LIMIT,)
"""


def run_in_frame(folder: Path, tests: str = SKIPPING, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_skipping.py").write_text(tests)
    inherited = environment_without("MAINSPRING_", "CI", "PYTEST")
    options = ["-p", "no:cacheprovider", "-p", "tests.conftest"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, folder / "test_skipping.py"],
        cwd=ROOT,
        env={**inherited, "MAINSPRING_TEST_POSTGRES_REASON": "it is raining", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


async def test_postgres_database_is_empty_and_own(postgres_database: str) -> None:
    connection = await asyncpg.connect(postgres_database)
    try:
        tables = await connection.fetchval("SELECT count(*) FROM pg_stat_user_tables")
        assert tables == 0
        assert await connection.fetchval("SELECT current_database()") == postgres_database.rsplit("/", 1)[1]
    finally:
        await connection.close()


@pytest.mark.parametrize(("is_ci", "limit"), [("true", 480), ("false", 120)])
def test_each_test_logs_as_the_first_did_and_the_merge_gate_is_patient(
    tmp_path: Path, is_ci: str, limit: int
) -> None:
    done = run_in_frame(tmp_path, LOGGING.replace("480", str(limit)), CI=is_ci)
    assert done.returncode == 0, done.stdout


def test_skips_are_counted_last_when_there_is_no_server(tmp_path: Path) -> None:
    done = run_in_frame(tmp_path)
    assert done.stdout.splitlines()[-1] == "1 passed, 2 skipped: no PostgreSQL: it is raining"
    assert done.returncode == 0


def test_skips_fail_the_run_on_ci(tmp_path: Path) -> None:
    done = run_in_frame(tmp_path, CI="true")
    assert "2 skipped: no PostgreSQL: it is raining" in done.stdout.splitlines()[-1]
    assert done.returncode == 1


def test_services_pass_the_status_on_and_use_a_given_server() -> None:
    done = subprocess.run(
        [SERVICES, "run", "--", "sh", "-c", "echo $MAINSPRING_TEST_POSTGRES; exit 7"],
        env={**os.environ, "MAINSPRING_TEST_POSTGRES": "postgresql://given"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (7, "postgresql://given\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_services_leave_nothing_behind_when_told_to_end(
    postgres_server: str, tmp_path: Path, number: signal.Signals
) -> None:
    mark = tmp_path / "started"
    script = f"trap 'exit 3' TERM INT; echo $MAINSPRING_TEST_POSTGRES > {mark}; while :; do sleep 0.05; done"
    running = subprocess.Popen(
        [SERVICES, "run", "--", "sh", "-c", script],
        env=environment_without("MAINSPRING_"),
        stdin=subprocess.DEVNULL,
        # Where the tests run in the background of a script, SIGINT is ignored, and a shell could not trap it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - has no threads of its own
    )
    deadline = time.monotonic() + 30
    while not (mark.exists() and mark.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    port = mark.read_text().strip().rsplit(":", 1)[1]
    server = next(line for line in command_lines() if f"port={port} " in line)
    folder = Path(server.partition("unix_socket_directories=")[2].split()[0])
    assert folder.exists()
    running.send_signal(number)
    assert running.wait(30) == 128 + number
    assert not folder.exists()
    assert server not in command_lines()


def report(nodeid: str, when: Literal["setup", "call", "teardown"], seconds: float) -> pytest.TestReport:
    place = (nodeid.partition("::")[0], 1, nodeid)
    return pytest.TestReport(nodeid, place, {}, "passed", None, when, duration=seconds)


def test_durations_are_summed_by_folder_the_longest_first() -> None:
    reports = [
        report("tests/unit/core/cron/test_a.py::test_one", "call", 1.5),
        report("tests/unit/core/test_b.py::test_two[x/y]", "call", 1.0),
        report("tests/upgrade/test_c.py::test_three", "setup", 3.0),
        report("tests/upgrade/test_c.py::test_three", "call", 0.5),
        object(),  # a warning stands among them
    ]
    head, *lines = lines_by_folder(reports)
    assert head.split() == ["seconds", "setup", "call", "teardown", "tests"]
    assert [line.split() for line in lines] == [
        ["3.5", "3.0", "0.5", "0.0", "1", "tests/upgrade"],
        ["2.5", "0.0", "2.5", "0.0", "2", "tests/unit/core"],
    ]


def command_lines() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found
