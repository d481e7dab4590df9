"""A program that knows nothing of outlines edits a one-off job: its fire is the one of the new definition."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mainspring.config import Settings, StoreLocation
from mainspring.core.ids import JobId
from mainspring.core.model import Run
from mainspring.core.triggers import Once
from mainspring.registry import FunctionRegistry
from mainspring.runtime import make_store, open_engine
from mainspring.testing.factories import make_new_job, make_spec
from tests.support.postgres import temporary_database
from tests.upgrade.versions import ROOT, Version

EDIT = """
import asyncio, sys
from uuid import UUID
import mainspring
from mainspring.config import Settings, StoreLocation
from mainspring.runtime import open_engine

async def main(place, job):
    settings = Settings(store=StoreLocation.parse(place), slots=0)
    async with open_engine(settings, with_scheduler=False) as engine:
        await engine.client.jobs.edit("default", UUID(job), {"queue": "other"})

asyncio.run(main(*sys.argv[1:]))
print(mainspring.__file__)
"""


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where a new store is to be."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}"
        return
    with temporary_database(request.getfixturevalue("postgres_server")) as dsn:
        yield dsn


def edit_by(version: Version, place: str, job_id: JobId) -> None:
    path = {} if version.python_path is None else {"PYTHONPATH": str(version.python_path)}
    done = subprocess.run(
        [sys.executable, "-c", EDIT, place, str(job_id)],
        env=os.environ | path,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert version.python_path is None or Path(done.stdout.split()[-1]).is_relative_to(version.python_path)


async def add_and_edit(version: Version, place: str, due: datetime) -> JobId:
    """Add a job that has an outline, and have a program of that version edit it."""
    store = make_store(StoreLocation.parse(place))
    await store.open()
    new = make_new_job(make_spec(trigger=Once(due)), next_fire_at=due)
    await store.add_jobs([new], now=datetime.now(UTC))
    [clock] = await store.read_due(range(256), until=due, limit=10)
    assert clock.outline is not None
    await store.close()
    await asyncio.to_thread(edit_by, version, place, new.id)
    return new.id


async def wait_for_run(place: str, job_id: JobId) -> Run:
    """Return the run of the job's fire, by a scheduler of the code under test."""
    settings = Settings(store=StoreLocation.parse(place), slots=0)
    async with open_engine(settings, registry=FunctionRegistry()) as engine, asyncio.timeout(30):
        while not (runs := await engine.store.list_runs("default", job_id=job_id)):  # noqa: ASYNC110 - the engine makes it
            await asyncio.sleep(0.05)
    [run] = runs
    return run


async def test_fire_after_an_older_programs_edit_is_the_one_of_its_definition(
    baseline: Version, place: str
) -> None:
    due = datetime.now(UTC) + timedelta(seconds=5)
    job_id = await add_and_edit(baseline, place, due)
    run = await wait_for_run(place, job_id)
    assert (run.version, run.lane.queue, run.fire_at) == (2, "other", due)
