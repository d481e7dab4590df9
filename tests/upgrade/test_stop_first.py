"""Programs of the release before are running when a migration comes that they cannot work with: it is refused.

PostgreSQL only: on SQLite a second program is refused by the lock file, whatever its version.
"""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.support.postgres import call, temporary_database
from tests.upgrade.before_jobs import MENDED
from tests.upgrade.cluster import Member
from tests.upgrade.old_store import APP, Crew, Place, crew, wait_for
from tests.upgrade.versions import NEWEST, ROOT, Version, newest_migration

pytestmark = [pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(300)]
CURRENT = Version("under test", None)
BEAT = "--beat-period=1"


@pytest.fixture
def place(postgres_server: str) -> Iterator[Place]:
    """A database without any table."""
    with temporary_database(postgres_server) as dsn:
        yield Place(dsn)


@pytest.fixture
def old(place: Place, release_before: Version, tmp_path: Path) -> Iterator[Crew]:
    """A server of the release before."""
    with crew(tmp_path / "old", place, release_before) as made:
        yield made


@contextmanager
def direct_worker(old: Crew, place: Place, version: Version, name: str) -> Iterator[Member]:
    """A worker that works straight from the store."""
    options = ("--store", place.address, "--name", name, "--drain", "1", BEAT)
    worker = Member(old.folder, name=name, arguments=["worker", APP, *options])
    worker.python_path = version.python_path
    try:
        worker.start()
        yield worker
    finally:
        worker.close()


def start_new(place: Place) -> tuple[int, str]:
    """Start a server of today that is expected to refuse to; return its exit status and what it says of it."""
    done = subprocess.run(
        [sys.executable, "-m", "mainspring", "server", "--store", place.option, "--port", "0"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    [said] = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    return done.returncode, said


def newest(place: Place) -> int:
    return int(call(place.address, lambda db: db.fetchval("SELECT max(number) FROM migration")))


def log_of(member: Member) -> str:
    return Path(member.log.name).read_text()


REFUSAL = "error: migration 0006 works with no older program, and some are still running: "
REMEDY = "; stop all servers and workers, then start again"


def test_running_programs_are_named_and_go_on(place: Place, old: Crew, release_before: Version) -> None:
    with direct_worker(old, place, release_before, "direct") as worker:
        status, said = start_new(place)
        assert status == 1
        assert said.startswith(REFUSAL)
        assert said.endswith(REMEDY)
        for member in (old.server, worker):
            assert f"pid {member.pid})" in said
        assert newest(place) == newest_migration(release_before)
        run = old.api.submit(old.api.job("plain"))
        old.api.wait(run, "SUCCEEDED")


def test_one_worker_is_enough_to_be_refused(place: Place, old: Crew, release_before: Version) -> None:
    with direct_worker(old, place, release_before, "direct") as worker:
        assert old.server.stop() == 0
        host = socket.gethostname()
        assert start_new(place) == (1, f"{REFUSAL}worker direct (host {host}, pid {worker.pid}){REMEDY}")
        assert newest(place) == newest_migration(release_before)


def test_programs_that_were_stopped_are_not_waited_for(
    place: Place, old: Crew, release_before: Version, tmp_path: Path
) -> None:
    with direct_worker(old, place, release_before, "direct") as worker:
        assert worker.stop() == 0
        assert old.server.stop() == 0
    with crew(tmp_path / "new", place, CURRENT) as new:
        assert newest(place) == NEWEST
        assert "migration_watches" not in log_of(new.server)


def test_programs_that_were_killed_are_waited_for(
    place: Place, old: Crew, release_before: Version, tmp_path: Path
) -> None:
    with direct_worker(old, place, release_before, "direct") as worker:
        worker.kill()
        old.server.kill()
    with crew(tmp_path / "new", place, CURRENT) as new:
        assert newest(place) == NEWEST
        assert "migration_watches" in log_of(new.server)


def _misses_its_schema(log: str) -> bool:
    """PostgreSQL takes `run.rank`, a column that is gone, for its function of that name, if it is asked for first."""
    return "does not exist" in log or "ordered-set aggregate rank" in log


def test_programs_that_were_frozen_do_no_harm_when_they_wake(
    place: Place, old: Crew, release_before: Version, tmp_path: Path
) -> None:
    """The rule takes them for dead; then each of their writes to a run fails as a whole."""
    with direct_worker(old, place, release_before, "direct") as worker:
        fired = old.api.job("fired", every="1s")
        run = old.api.submit(old.api.job("held", function="hang"))
        old.api.wait(run, "RUNNING")
        for member in (worker, old.server):
            member.pause()
        with crew(tmp_path / "new", place, CURRENT) as new:
            for member in (worker, old.server):
                member.resume()
            (old.folder / "effects" / MENDED).touch()
            for member in (worker, old.server):
                wait_for(partial(log_of, member), _misses_its_schema)
            assert new.api.get(f"/runs/{run}")["status"] != "SUCCEEDED"
            for member in (worker, old.server):
                member.kill()
            (new.folder / "effects" / MENDED).touch()
            new.worker("new")
            new.api.wait(run, "SUCCEEDED")
            new.api.wait_for_runs(fired, state="SUCCEEDED", count=3)
            new.api.post(f"/jobs/{fired}/pause")
            ledger = new.api.get(f"/jobs/{fired}/ledger")
            assert (ledger["missing"], ledger["surplus"]) == ([], [])
