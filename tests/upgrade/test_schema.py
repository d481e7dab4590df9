"""An older program on a newer schema: it works where it was said to, is refused elsewhere, and is told why."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.postgres import temporary_database
from tests.upgrade import on_given_schema
from tests.upgrade.versions import ROOT, SUCCESSOR, Version, newest_migration

# They attack locks and sizes, take the longest, and say little of a schema.
LEFT_OUT = "not (AgreesWithMemory or LargeBatches or OppositeLockOrders or SizesAndText)"
OPEN = """
import asyncio, random, sys
from pathlib import Path
import mainspring
from mainspring.stores.postgres import PostgresStore
from mainspring.stores.sqlite import SqliteStore

async def main(place):
    is_postgres = place.startswith("postgresql")
    store = PostgresStore(place, random=random.Random(1)) if is_postgres else SqliteStore(Path(place))
    await store.open()
    await store.close()

asyncio.run(main(sys.argv[1]))
print(mainspring.__file__)
"""


def environment(version: Version, **more: str) -> dict[str, str]:
    path = {} if version.python_path is None else {"PYTHONPATH": str(version.python_path)}
    return {**os.environ, **path, **more}


def migrate(version: Version, place: str) -> None:
    """Have a version open a store, which brings its schema up to date."""
    done = subprocess.run(
        [sys.executable, "-c", OPEN, place],
        env=environment(version),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert version.python_path is None or Path(done.stdout.split()[-1]).is_relative_to(version.python_path)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where a new store is to be."""
    if request.param == "sqlite":
        yield str(tmp_path / "data" / "mainspring.db")
        return
    with temporary_database(request.getfixturevalue("postgres_server")) as dsn:
        yield dsn


def start(version: Version, place: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Start a server of a version that is expected to refuse to."""
    store = place if place.startswith("postgresql") else f"sqlite:///{Path(place).parent}"
    return subprocess.run(
        [sys.executable, "-m", "mainspring", "server", "--store", store, "--port", "0", *arguments],
        env=environment(version),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(  # one of each: a database for each of 254 tests takes its time
    ("older", "place"),
    [("baseline", "sqlite"), pytest.param("previous", "postgres", marks=pytest.mark.postgres)],
    indirect=True,
)
def test_older_program_does_all_it_promises_on_the_newer_schema(
    older: Version, successor: Version, place: str
) -> None:
    migrate(successor, place)
    given = {on_given_schema.CODE: str(older.python_path)}
    if place.startswith("postgresql"):
        server, _, name = place.rpartition("/")
        given |= {on_given_schema.SERVER: server, on_given_schema.TEMPLATE: name}
    else:
        given[on_given_schema.FILE] = place
    file = on_given_schema.__file__
    options = (
        "-p",
        "no:xdist",
        "-p",
        "no:mainspring",
        "-p",
        "no:cacheprovider",
        "-q",
        "-x",
        "-k",
        LEFT_OUT,
        "--timeout=120",
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, file],
        env=environment(older, **given),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    print(older.name, done.stdout.splitlines()[-1])


def test_older_program_is_refused_by_a_schema_that_does_not_agree_with_it(
    older: Version, breaking: Version, place: str
) -> None:
    migrate(breaking, place)
    done = start(older, place)
    assert done.returncode == 1, done.stderr
    expected = f"the store has migration {SUCCESSOR}, which works with migration {SUCCESSOR} or later"
    assert (
        f"{expected}; this program ends at {newest_migration(older):04}; upgrade the program" in done.stderr
    )
    assert "Traceback" not in done.stderr


def test_newer_program_goes_on_with_what_the_older_one_made(
    older: Version, successor: Version, place: str
) -> None:
    for version in (older, Version("under test", None), successor, Version("under test", None), older):
        migrate(version, place)


@pytest.mark.postgres
async def test_both_versions_may_start_at_once(
    baseline: Version, successor: Version, postgres_database: str
) -> None:
    starting = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", OPEN, postgres_database),
            env=environment(version),
            stdout=asyncio.subprocess.DEVNULL,
        )
        for version in (baseline, successor) * 3
    ]
    assert [await process.wait() for process in starting] == [0] * 6
